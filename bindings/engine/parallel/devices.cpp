// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/parallel/devices.h"

#include <algorithm>
#include <charconv>

#include "bindings/engine/model.h"

namespace quern::engine {
namespace {

// The first GPU, or the CPU.
demo::Context any_context(quern_context_options options) {
  options.device_type = kDLCUDA;
  auto error = demo::sized<quern_error>();
  quern_context* context = nullptr;
  if (quern_context_create(&options, &context, &error) == QUERN_OK) return demo::Context(context);
  if (error.status != QUERN_NOT_FOUND) throw std::runtime_error(error.text);
  options.device_type = kDLCPU;
  return demo::make_context(options);
}

demo::Context context_of(const std::string& name, quern_context_options options) {
  const std::string cuda = "cuda:";
  const char *const end = name.data() + name.size(), *stopped = end;
  options.device_type = name == "host" ? kDLCPU : kDLCUDA;
  if (name.starts_with(cuda)) stopped = std::from_chars(name.data() + cuda.size(), end, options.device_id).ptr;
  if ((name != "host" && name != "cuda" && !name.starts_with(cuda)) || name == cuda || stopped != end)
    throw DeviceName("the device is " + name + "; allowed: cuda, cuda:N, host");
  return demo::make_context(options);
}

}  // namespace

Devices::Devices(const std::string& names, quern_context_options options, Sums sums) {
  for (std::size_t at = 0; !names.empty() && at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    contexts_.push_back(context_of(names.substr(at, end - at), options));
    at = end + 1;
  }
  if (contexts_.empty()) contexts_.push_back(any_context(options));
  std::vector<int> ordinals;
  for (const demo::Context& context : contexts_) {
    quern_device_info& info = infos_.emplace_back(demo::sized<quern_device_info>());
    demo::call([&](quern_error* error) { return quern_device(context.get(), &info, error); });
    ordinals.push_back(info.device_id);
    if (contexts_.size() > 1 && info.device_type != kDLCUDA)
      throw DeviceName("several devices are " + names + "; allowed: cuda:N, cuda:M, ...");
  }
  if (contexts_.size() == 1) return;
  communicators_ = open_nccl(ordinals);
  if (sums == Sums::nccl) return;
  std::vector<PeerEnd> ends;
  for (std::size_t i = 0; i < contexts_.size(); ++i)
    ends.push_back({contexts_[i].get(), infos_[i], std::move(communicators_[i])});
  communicators_ = open_peers(std::move(ends));
}

std::unique_ptr<Steps> Devices::make_model(const Checkpoint& checkpoint, const Limits& limits) const {
  if (communicators_.empty()) return std::make_unique<Model>(contexts_[0].get(), infos_[0], checkpoint, limits);
  return std::make_unique<Ranks>(ranks(), checkpoint, limits);
}

std::vector<Rank> Devices::ranks() const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < contexts_.size(); ++i)
    ranks.push_back({contexts_[i].get(), infos_[i], communicators_.empty() ? nullptr : communicators_[i].get()});
  return ranks;
}

std::uint64_t Devices::compiled() const {
  std::uint64_t all = 0;
  for (const demo::Context& context : contexts_) all += demo::stats_of(context.get()).compiled;
  return all;
}

}  // namespace quern::engine
