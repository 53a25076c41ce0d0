// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/ceiling.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/cli/bench/ceiling_kernels.h"
#include "bindings/cli/bench/contents.h"
#include "bindings/cli/failure.h"

namespace quern::cli {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 30;
constexpr double kLaunchMicroseconds = 5000;  // long enough for the clock to settle where it stays

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

quern_kernel* prepare(const Context& context, const char* entry, const std::string& text, unsigned shared_bytes) {
  auto source = sized<quern_source>();
  source.name = "ceiling.cu";
  source.text = text.c_str();
  auto desc = sized<quern_kernel_desc>();
  desc.entry = entry;
  desc.source = &source;
  desc.max_shared_bytes = shared_bytes;
  quern_kernel* kernel = nullptr;
  auto error = sized<quern_error>();
  check(quern_kernel_prepare(context.get(), &desc, &kernel, &error), error);
  return kernel;
}

void launch(const Context& context, const quern_kernel* kernel, unsigned blocks, unsigned shared_bytes, void* stream,
            std::vector<void*> arguments) {
  auto given = sized<quern_launch>();
  given.stream = stream;
  given.grid_x = blocks;
  given.block_x = kCeilingThreads;
  given.shared_bytes = shared_bytes;
  given.args = arguments.data();
  given.arg_count = arguments.size();
  auto error = sized<quern_error>();
  check(quern_kernel_launch(context.get(), kernel, &given, &error), error);
}

}  // namespace

const Ceiling& Ceilings::memory() {
  Ceiling& ceiling = known_["memory"];
  if (ceiling.per_second != 0) return ceiling;
  const std::shared_ptr<void> from = machine_.allocate(kBytes), to = machine_.allocate(kBytes);
  ProblemTensor numbers{};
  numbers.type = {kDLBfloat, 16, 1};
  numbers.shape = {static_cast<std::int64_t>(kBytes / 2)};
  fill(machine_, from.get(), kBytes, numbers, 1);
  fill(machine_, to.get(), kBytes, numbers, 2);
  struct Way {
    const char* entry;
    const char* how;
    double bytes;
  };
  for (const Way& way : {Way{"copy_memory", "a copy", 2.0 * kBytes}, Way{"sum_memory", "a sum", 1.0 * kBytes}}) {
    const quern_kernel* kernel = prepare(context_, way.entry, kMemoryKernels, 0);
    void *source = from.get(), *destination = to.get();
    std::size_t count = kBytes / 16;
    for (const unsigned blocks : {4U, 8U, 16U, 32U}) {
      const auto run = [&] {
        // In turns, so that nothing of what is read is left in the L2 from the run before, and nothing has to be
        // written back as after a flush.
        std::swap(source, destination);
        launch(context_, kernel, blocks * device_.sm_count, 0, machine_.stream(), {&source, &destination, &count});
      };
      run();
      const double rate = way.bytes / median(machine_.time_runs(run, 9, false)) * 1e6;
      if (rate > ceiling.per_second) ceiling = {std::string(way.how) + " of 1 GiB", rate};
    }
  }
  return ceiling;
}

const Ceiling& Ceilings::products(const std::string& type) {
  Ceiling& ceiling = known_[type];
  if (ceiling.per_second != 0) return ceiling;
  const ProductKernel kernel = product_kernel(type, device_.target);
  const quern_kernel* handle = prepare(context_, "multiply", kernel.source, kernel.shared_bytes);
  constexpr std::size_t kData = std::size_t{65536} * 16;
  const unsigned blocks = kernel.blocks_per_sm * device_.sm_count;
  const std::shared_ptr<void> data = machine_.allocate(kData),
                              out = machine_.allocate(std::size_t{blocks} * kCeilingThreads * 4);
  ProblemTensor numbers{};
  numbers.type = {kDLBfloat, 16, 1};
  if (type == "f16") numbers.type = {kDLFloat, 16, 1};
  if (type == "e4m3") numbers.type = {kDLFloat8_e4m3fn, 8, 1};
  if (type == "e5m2") numbers.type = {kDLFloat8_e5m2, 8, 1};
  numbers.shape = {static_cast<std::int64_t>(kData * 8 / numbers.type.bits)};
  fill(machine_, data.get(), kData, numbers, 1);
  void *source = data.get(), *sums = out.get();
  int steps = 200;
  const auto run = [&] {
    launch(context_, handle, blocks, kernel.shared_bytes, machine_.stream(), {&source, &sums, &steps});
  };
  run();
  steps =
      static_cast<int>(std::clamp(steps * kLaunchMicroseconds / median(machine_.time_runs(run, 3, false)), 200.0, 1e7));
  const double microseconds = median(machine_.time_runs(run, 7, false));
  ceiling = {kernel.how + ' ' + type, kernel.operations_per_step * steps * blocks / microseconds * 1e6};
  return ceiling;
}

}  // namespace quern::cli
