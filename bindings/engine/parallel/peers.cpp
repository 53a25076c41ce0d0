// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/demo/call.h"
#include "bindings/demo/cuda_library.h"
#include "bindings/demo/memory.h"
#include "bindings/engine/parallel/communicator.h"
#include "bindings/engine/parallel/peer_kernel.h"

namespace quern::engine {
namespace {

using demo::check_cuda;

constexpr std::int64_t kMostColumns = kPeerSlot / 4;  // two bytes of four in a message of eight
constexpr std::int64_t kSumLength = 4096;             // elements of a block that only sums

// What the device-side Params of kPeerKernel are made of.
static_assert(sizeof(PeerParams) == (kMostPeers + 4) * sizeof(void*) + 16);

// Each device's room, which the others write into.
struct Rooms {
  std::vector<std::unique_ptr<demo::Memory>> memories;
  std::array<void*, kMostPeers> of{};
};

class PeerCommunicator final : public Communicator {
 public:
  PeerCommunicator(PeerEnd end, std::shared_ptr<const Rooms> rooms)
      : context_(end.context), others_(std::move(end.others)), rooms_(std::move(rooms)) {}

  std::int64_t rank() const override { return others_->rank(); }
  std::int64_t size() const override { return others_->size(); }

  const char* how() const override { return "each other's memory"; }
  void meet() override { others_->meet(); }

  bool all_reduce(void* data, std::int64_t count, void* stream) override {
    const std::int64_t blocks = (count + kSumLength - 1) / kSumLength;
    if (sum_ == nullptr || blocks > kPeerBlocks || count % 8 != 0) return others_->all_reduce(data, count, stream);
    PeerParams params = params_of(data, count);
    launch(sum_, params, blocks, stream);
    return true;
  }

  void prepare(std::int64_t columns, bool plus_one, std::uint32_t flags) override {
    flags_ = flags;
    const std::uint32_t how = flags & QUERN_CALL_CACHED_ONLY;
    // NCCL's order of three and more need not be this one's, and the number of rows decides which of the two sums.
    const bool invariant = (flags & QUERN_CALL_BATCH_INVARIANT) != 0;
    sum_ = invariant && size() > 2 ? nullptr : ready_peer_kernel(context_, {kSumLength, size()}, how);
    if (columns % 8 != 0 || columns > kMostColumns) return;
    columns_ = columns;
    normalise_ = ready_peer_kernel(context_, {columns, size(), true, plus_one}, how);
  }

  bool add_and_normalise(const AddAndNormalise& what, void* stream) override {
    if (normalise_ == nullptr || what.columns != columns_ || what.rows > kPeerBlocks) return false;
    PeerParams params = params_of(what.delta, what.rows * what.columns);
    params.residual = what.residual, params.weight = what.weight, params.normed = what.normed, params.eps = what.eps;
    launch(normalise_, params, what.rows, stream);
    return true;
  }

 private:
  PeerParams params_of(void* delta, std::int64_t count) const {
    PeerParams params{};
    std::copy(rooms_->of.begin(), rooms_->of.end(), params.rooms);
    params.delta = delta, params.count = count, params.rank = static_cast<std::uint32_t>(rank());
    return params;
  }

  void launch(const quern_kernel* kernel, PeerParams& params, std::int64_t blocks, void* stream) const {
    auto launch = demo::sized<quern_launch>();
    launch.flags = flags_ & QUERN_CALL_PROGRAMMATIC, launch.stream = stream;
    launch.grid_x = static_cast<std::uint32_t>(blocks), launch.block_x = kPeerThreads;
    void* const arguments[] = {&params};
    launch.args = arguments, launch.arg_count = 1;
    demo::call([&](quern_error* error) { return quern_kernel_launch(context_, kernel, &launch, error); });
  }

  quern_context* context_;
  std::unique_ptr<Communicator> others_;
  std::shared_ptr<const Rooms> rooms_;
  quern_kernel *sum_ = nullptr, *normalise_ = nullptr;
  std::int64_t columns_ = 0;
  std::uint32_t flags_ = 0;
};

// Lets each GPU reach every other's memory; false, and said on stderr, where one cannot.
bool reach_each_other(const std::vector<PeerEnd>& ends) {
  int (*device_get)(int*, int) = nullptr;
  int (*can_access)(int*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*enable)(void*, unsigned) = nullptr;
  demo::bind_cuda(device_get, "cuDeviceGet");
  demo::bind_cuda(can_access, "cuDeviceCanAccessPeer");
  demo::bind_cuda(retain, "cuDevicePrimaryCtxRetain");
  demo::bind_cuda(release, "cuDevicePrimaryCtxRelease_v2");
  demo::bind_cuda(set_current, "cuCtxSetCurrent");
  demo::bind_cuda(enable, "cuCtxEnablePeerAccess");
  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED (NCCL has done it), _UNSUPPORTED, and CUDA_ERROR_TOO_MANY_PEERS.
  constexpr int kAlreadyEnabled = 704, kUnsupported = 217, kTooMany = 711;
  const auto refused = [] {
    std::fputs("GPUs do not reach each other's memory: NCCL sums all rows\n", stderr);
    return false;
  };
  std::vector<int> devices;
  for (const PeerEnd& end : ends)
    check_cuda(device_get(&devices.emplace_back(), end.device.device_id), "finding the GPU");
  for (const int from : devices) {
    for (const int to : devices) {
      int reaches = 0;
      if (from != to) check_cuda(can_access(&reaches, from, to), "asking whether GPUs reach each other");
      if (from != to && reaches == 0) return refused();
    }
  }
  // The contexts of quern hold the primary ones; these here are only looked up.
  std::vector<void*> contexts;
  for (const int device : devices) {
    check_cuda(retain(&contexts.emplace_back(), device), "retaining the GPU's primary context");
    release(device);
  }
  for (void* from : contexts) {
    check_cuda(set_current(from), "making the GPU's primary context current");
    for (void* to : contexts) {
      const int code = from == to ? 0 : enable(to, 0);
      if (code == kUnsupported || code == kTooMany) return refused();
      if (code != kAlreadyEnabled) check_cuda(code, "letting a GPU reach another's memory");
    }
  }
  return true;
}

}  // namespace

quern_kernel* ready_peer_kernel(quern_context* context, const PeerKernel& which, std::uint32_t flags,
                                const char* target) {
  auto source = demo::sized<quern_source>();
  source.name = "peer_sum.cu", source.text = kPeerKernel;
  const std::array<std::pair<const char*, std::string>, 9> values{{
      {"LENGTH", std::to_string(which.length)},
      {"NORMALISE", which.normalises ? "true" : "false"},
      {"PLUS", which.plus_one ? "1.0f" : "0.0f"},
      {"RANKS", std::to_string(which.ranks)},
      {"THREADS", std::to_string(kPeerThreads)},
      {"BLOCKS", std::to_string(kPeerBlocks)},
      {"MOST_PEERS", std::to_string(kMostPeers)},
      {"SLOTS", std::to_string(peer_slots(which.ranks))},
      {"SLOT", std::to_string(kPeerSlot)},
  }};
  std::vector<quern_constant> constants;
  for (const auto& [name, value] : values) {
    quern_constant& constant = constants.emplace_back(demo::sized<quern_constant>());
    constant.name = name, constant.value = value.c_str();
  }
  auto desc = demo::sized<quern_kernel_desc>();
  desc.flags = flags, desc.entry = "peer_sum", desc.source = &source, desc.target = target;
  desc.constants = constants.data(), desc.constant_count = constants.size();
  quern_kernel* kernel = nullptr;
  demo::call([&](quern_error* error) { return quern_kernel_prepare(context, &desc, &kernel, error); });
  return kernel;
}

std::vector<std::unique_ptr<Communicator>> open_peers(std::vector<PeerEnd> ends) {
  std::vector<std::unique_ptr<Communicator>> made;
  const bool on_gpus = !ends.empty() && ends[0].device.device_type == kDLCUDA;
  if (ends.size() < 2 || ends.size() > kMostPeers || (on_gpus && !reach_each_other(ends))) {
    for (PeerEnd& end : ends) made.push_back(std::move(end.others));
    return made;
  }
  auto rooms = std::make_shared<Rooms>();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    rooms->memories.push_back(demo::memory_of(ends[i].device));
    rooms->of[i] = rooms->memories.back()->allocate(peer_room(static_cast<std::int64_t>(ends.size())));
    rooms->memories.back()->synchronise();
  }
  for (PeerEnd& end : ends) made.push_back(std::make_unique<PeerCommunicator>(std::move(end), rooms));
  return made;
}

}  // namespace quern::engine
