// What a call costs the CPU where a tensor map must be made, since an operand lies where none has lain before.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "bindings/demo/tensor.h"
#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

using demo::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kM = 16, kN = 512, kK = 512;
constexpr std::size_t kStep = 256;  // bytes from one place of a to the next
constexpr int kQueue = 16, kRounds = 200, kCalls = kQueue * kRounds;

// A product of few rows, whose a may lie at any of kCalls + 1 places.
class Product {
 public:
  explicit Product(Gpu& gpu)
      : gpu_(gpu),
        a_(static_cast<char*>(gpu.memory().allocate(kM * kK * 2 + kCalls * kStep))),
        tensors_{{a_, gpu.where(), demo::kBf16, {kM, kK}},
                 {gpu.memory().allocate(kN * kK * 2), gpu.where(), demo::kBf16, {kN, kK}},
                 {gpu.memory().allocate(kM * kN * 2), gpu.where(), demo::kBf16, {kM, kN}}},
        arguments_(demo::sized<quern_gemm_args>()) {
    arguments_.stream = gpu.stream();
    arguments_.a = tensors_.a, arguments_.b = tensors_.b, arguments_.out = tensors_.out;
    demo::call([&](quern_error* e) {
      return quern_gemm_workspace(gpu.context(), &arguments_, &arguments_.workspace_size, e);
    });
    if (arguments_.workspace_size > 0)
      arguments_.workspace = gpu.memory().allocate(static_cast<std::size_t>(arguments_.workspace_size));
    demo::call([&](quern_error* e) { return quern_gemm_prepare(gpu.context(), &arguments_, e); });
    at(0);
    gpu.synchronise();
  }
  void at(int place) {
    const Tensor a(a_ + static_cast<std::size_t>(place) * kStep, gpu_.where(), demo::kBf16, {kM, kK});
    arguments_.a = a;
    demo::call([&](quern_error* e) { return quern_gemm(gpu_.context(), &arguments_, e); });
  }

 private:
  struct Tensors {
    Tensor a, b, out;
  };
  Gpu& gpu_;
  char* a_;
  Tensors tensors_;
  quern_gemm_args arguments_;
};

}  // namespace

Json bench_maps(Gpu& gpu) {
  if (std::string_view(gpu.device().target) != "sm_90a") {
    std::printf("\nno tensor maps: %s has none\n", gpu.device().target);
    return {};
  }
  Product product(gpu);
  std::vector<double> known, fresh;
  const auto time = [&](int place, std::vector<double>& into) {
    const Clock::time_point start = Clock::now();
    product.at(place);
    into.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  };
  // In turns, the queue kept shallow.
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kQueue; ++i) time(0, known);
    gpu.synchronise();
    for (int i = 0; i < kQueue; ++i) time(1 + round * kQueue + i, fresh);
    gpu.synchronise();
  }
  const double known_ns = median(std::move(known)), fresh_ns = median(std::move(fresh)), more = fresh_ns - known_ns;
  std::printf(
      "\nhot call, gemm bf16 %lld x %lld x %lld: CPU, queue of %d              a seen before      a at a new place\n",
      static_cast<long long>(kM), static_cast<long long>(kN), static_cast<long long>(kK), kQueue);
  std::printf("  %-54s %12.0f %16.0f   %+.0f: %s (<= 3000)\n", "ns a call, median", known_ns, fresh_ns, more,
              verdict(more <= 3000));
  std::fflush(stdout);
  return {{"known_ns", known_ns}, {"fresh_ns", fresh_ns}};
}

}  // namespace quern::bench
