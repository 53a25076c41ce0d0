// A hot call of quern_attention through the C ABI: everything that quern does, in front of a libcuda that does nothing.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "bindings/demo/call.h"
#include "bindings/demo/tensor.h"
#include "tests/bench/counts.h"
#include "tests/bench/folder.h"
#include "tests/bench/host/children.h"
#include "tests/bench/system_calls.h"
#include "tests/drivers/fake/cuda.h"

namespace quern::bench {
namespace {

using demo::Tensor;

constexpr int kMarkedCalls = 1000;

// As a serving thread has it: the context of its device is current.
void make_current() {
  void* const library = dlopen((std::string(QUERN_BENCH_FAKE_CUDA) + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  using SetCurrent = void(jit::cuda::Context);
  reinterpret_cast<SetCurrent*>(dlsym(library, "fake_cuda_set_current"))(jit::cuda::fake::context_of(0));
}

demo::Context make_context(const std::string& cache) {
  make_current();
  const char* const fake = QUERN_BENCH_FAKE_CUDA;
  auto options = demo::sized<quern_context_options>();
  options.device_type = kDLCUDA;
  options.cache_path = cache.c_str();
  options.search_dirs = &fake;
  options.search_dir_count = 1;
  return demo::make_context(options);
}

// Decode of one sequence of at most 1024 keys, 32 query and 4 KV heads of 128, pages of 16. Nobody reads the memory.
class Decode {
 public:
  Decode() : args(demo::sized<quern_attention_args>()) {
    args.flags = QUERN_ATTENTION_CAUSAL;
    args.stream = jit::cuda::fake::stream_of(0);
    args.workspace = memory(0);
    args.workspace_size = std::uint64_t{1} << 30;
    args.q = q_;
    args.k = k_;
    args.v = v_;
    args.out = out_;
    args.lse = lse_;
    args.lengths = lengths_;
    args.page_table = page_table_;
    args.max_kv_len = 1024;
  }
  void prepare(quern_context* context) const {
    demo::call([&](quern_error* error) { return quern_attention_prepare(context, &args, error); });
  }

  quern_attention_args args;

 private:
  static void* memory(std::uintptr_t number) {
    return reinterpret_cast<void*>((number + 1) << 32);  // NOLINT(performance-no-int-to-ptr)
  }
  static constexpr DLDevice kDevice{kDLCUDA, 0};

  Tensor q_{memory(1), kDevice, demo::kBf16, {1, 32, 128}};
  Tensor k_{memory(2), kDevice, demo::kBf16, {64, 16, 4, 128}};
  Tensor v_{memory(3), kDevice, demo::kBf16, {64, 16, 4, 128}};
  Tensor out_{memory(4), kDevice, demo::kBf16, {1, 32, 128}};
  Tensor lse_{memory(5), kDevice, demo::kF32, {1, 32}};
  Tensor lengths_{memory(6), kDevice, demo::kI32, {1}};
  Tensor page_table_{memory(7), kDevice, demo::kI32, {1, 64}};
};

void attention_call(benchmark::State& state) {
  const Folder folder;
  const Counts before_context = counts();
  const demo::Context context = make_context(folder.path() + "/cache");
  const Decode decode;
  decode.prepare(context.get());
  const Counts set_up = counts() - before_context;
  if (set_up.allocations == 0 || set_up.locks == 0) throw std::runtime_error("allocations and locks are not counted");

  std::int32_t failed = 0;
  while (state.KeepRunning()) failed |= quern_attention(context.get(), &decode.args, nullptr);
  const Counts before = counts();
  for (int i = 0; i < kMarkedCalls; ++i) failed |= quern_attention(context.get(), &decode.args, nullptr);
  const Counts during = counts() - before;
  if (failed != 0) state.SkipWithError("a call failed");
  state.counters["allocations"] = static_cast<double>(during.allocations) / kMarkedCalls;
  state.counters["locks"] = static_cast<double>(during.locks) / kMarkedCalls;
  state.counters["system_calls"] = [&] {
    const SystemCalls traced =
        count_system_calls({own_path(), std::string(kCallChild), folder.path() + "/cache"}, /*seconds=*/60);
    if (!traced.failure.empty()) throw std::runtime_error("counting system calls: " + traced.failure);
    return static_cast<double>(traced.count[1]) / kMarkedCalls;
  }();
}
BENCHMARK(attention_call);

// A new context on a cache that has the kernel: what a restarted process pays, but for the driver's own work.
void attention_context_and_cached_kernel(benchmark::State& state) {
  const Folder folder;
  const Decode decode;
  {
    const demo::Context context = make_context(folder.path() + "/cache");
    decode.prepare(context.get());
  }
  while (state.KeepRunning()) {
    const demo::Context context = make_context(folder.path() + "/cache");
    decode.prepare(context.get());
    if (demo::stats_of(context.get()).compiled != 0) state.SkipWithError("the kernel was not in the cache");
  }
}
BENCHMARK(attention_context_and_cached_kernel)->Unit(benchmark::kMicrosecond);

}  // namespace

void call_marked(const std::string& cache) {
  const demo::Context context = make_context(cache);
  const Decode decode;
  decode.prepare(context.get());
  std::int32_t failed = 0;
  mark_region(1);
  for (int i = 0; i < kMarkedCalls; ++i) failed |= quern_attention(context.get(), &decode.args, nullptr);
  mark_region(0);
  prove_counting();
  if (failed != 0) throw std::runtime_error("a call failed");
}

}  // namespace quern::bench
