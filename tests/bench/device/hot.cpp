// What a hot call costs the CPU above a bare cuLaunchKernel of the same kernel with the same, prepared arguments.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "tests/bench/counts.h"
#include "tests/bench/device/sections.h"
#include "tests/bench/system_calls.h"

namespace quern::bench {
namespace {

constexpr int kQueue = 16;  // launches before the stream is waited for: the queue stays shallow
constexpr int kRounds = 300;
constexpr int kCountedRounds = 16;

using Clock = std::chrono::steady_clock;

// The call, and the launch that it makes, taken from a captured graph: the same function, grid and parameters.
class Pair {
 public:
  explicit Pair(Gpu& gpu)
      : gpu_(gpu),
        pools_(gpu, std::size_t{1} << 20, std::size_t{1} << 20, 1),
        problem_(gpu, pools_, Shape{1, 32, 4, 1, 1024, 128, 16}, 1) {
    problem_.check();
    graph_ = std::make_unique<Graph>(gpu.cuda(), gpu.stream(), [&] { problem_.enqueue(); });
    launch_ = graph_->only_kernel();
    for (int i = 0; i < kQueue; ++i) failed_ |= bare() | call();
    gpu.synchronise();
  }
  int bare() {
    return gpu_.cuda().launch_kernel(launch_.function, launch_.grid_x, launch_.grid_y, launch_.grid_z, launch_.block_x,
                                     launch_.block_y, launch_.block_z, launch_.shared_bytes, gpu_.stream(),
                                     launch_.parameters, nullptr);
  }
  int call() { return problem_.call(); }

  // Calls `work` kQueue times, `each` around every one of them, and waits.
  template <class Work, class Each>
  void round(Work&& work, Each&& each) {
    for (int i = 0; i < kQueue; ++i) each([&] { failed_ |= work(); });
    gpu_.synchronise();
  }
  void finish() const {
    if (failed_ != 0) throw std::runtime_error("a hot call failed with " + std::to_string(failed_));
  }

 private:
  Gpu& gpu_;
  const Pools pools_;
  const Problem problem_;
  std::unique_ptr<Graph> graph_;
  KernelNode launch_{};
  int failed_ = 0;
};

struct Times {
  std::vector<double> nanoseconds;
  template <class Work>
  void operator()(Work&& work) {
    const Clock::time_point start = Clock::now();
    work();
    nanoseconds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
};

struct Counted {
  Counts sum;
  template <class Work>
  void operator()(Work&& work) {
    const Counts before = counts();
    work();
    const Counts made = counts() - before;
    sum.allocations += made.allocations;
    sum.locks += made.locks;
  }
};

struct Marked {
  int region;
  template <class Work>
  void operator()(Work&& work) const {
    mark_region(region);
    work();
    mark_region(0);
  }
};

}  // namespace

void marked_calls(const std::string& cache) {
  prove_counting();
  Gpu gpu(cache);
  Pair pair(gpu);
  for (int i = 0; i < kCountedRounds; ++i) {
    pair.round([&] { return pair.bare(); }, Marked{1});
    pair.round([&] { return pair.call(); }, Marked{2});
  }
  pair.finish();
}

Json bench_hot(Gpu& gpu, const std::string& own_path, const std::string& cache) {
  Pair pair(gpu);
  Times bare_times, call_times;
  for (int i = 0; i < kRounds; ++i) {
    pair.round([&] { return pair.bare(); }, bare_times);
    pair.round([&] { return pair.call(); }, call_times);
  }
  Counted bare_counts, call_counts;
  for (int i = 0; i < kCountedRounds; ++i) {
    pair.round([&] { return pair.bare(); }, bare_counts);
    pair.round([&] { return pair.call(); }, call_counts);
  }
  pair.finish();
  const SystemCalls traced = count_system_calls({own_path, std::string(kMarkedChild), cache}, /*seconds=*/40);

  const double bare = median(std::move(bare_times.nanoseconds)), call = median(std::move(call_times.nanoseconds));
  constexpr double kCounted = kQueue * kCountedRounds;
  const auto each = [](std::uint64_t number) { return static_cast<double>(number) / kCounted; };
  std::printf("\nhot call, b1 32/4 1024 page 16: CPU, queue of %d               bare launch   quern_attention\n",
              kQueue);
  std::printf("  %-54s %12.0f %16.0f   %+.0f: %s (<= 500)\n", "ns a call, median", bare, call, call - bare,
              verdict(call - bare <= 500));
  std::printf("  %-54s %12.2f %16.2f\n", "allocations a call", each(bare_counts.sum.allocations),
              each(call_counts.sum.allocations));
  std::printf("  %-54s %12.2f %16.2f\n", "locks a call", each(bare_counts.sum.locks), each(call_counts.sum.locks));
  if (traced.failure.empty()) {
    std::printf("  %-54s %12.2f %16.2f\n", "system calls a call", each(traced.count[1]), each(traced.count[2]));
  } else {
    std::printf("  system calls: not counted, %s\n", traced.failure.c_str());
  }
  std::fflush(stdout);
  Json result = {{"bare_ns", bare},
                 {"call_ns", call},
                 {"bare_allocations", each(bare_counts.sum.allocations)},
                 {"call_allocations", each(call_counts.sum.allocations)},
                 {"bare_locks", each(bare_counts.sum.locks)},
                 {"call_locks", each(call_counts.sum.locks)}};
  if (traced.failure.empty()) {
    result["bare_system_calls"] = each(traced.count[1]);
    result["call_system_calls"] = each(traced.count[2]);
  } else {
    result["system_calls_failure"] = traced.failure;
  }
  return result;
}

}  // namespace quern::bench
