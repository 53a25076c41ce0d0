// rmsnorm: how near to the memory's speed it runs on tensors far larger than the L2, and what one row costs.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "bindings/demo/tensor.h"
#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

using demo::Tensor;

constexpr std::int64_t kRows = 16384;
constexpr double kGoalGbps = 4000, kGoalUs = 1.9;  // at 4096 columns

struct Case {
  const char* name;
  std::int64_t columns;
  bool residual;
  bool goal;
};
const Case kCases[] = {
    {"4096 columns", 4096, false, true},  {"4096 columns, residual, both outputs", 4096, true, true},
    {"7168 columns", 7168, false, false}, {"7168 columns, residual, both outputs", 7168, true, false},
    {"128 columns", 128, false, false},
};

// x and behind it the weight in k, the residual (and the sum, in its place) in v, the result in v behind the residual.
class Norm {
 public:
  Norm(Gpu& gpu, const Pools& pools, const Case& of, std::int64_t rows, bool programmatic)
      : gpu_(gpu),
        rows_(rows),
        case_(of),
        x_(pools.k, gpu.where(), demo::kBf16, {rows, of.columns}),
        residual_(pools.v, gpu.where(), demo::kBf16, {rows, of.columns}),
        out_(static_cast<char*>(pools.v) + kMatrixBytes, gpu.where(), demo::kBf16, {rows, of.columns}),
        weight_(static_cast<char*>(pools.k) + kMatrixBytes, gpu.where(), demo::kBf16, {of.columns}),
        result_(static_cast<char*>(pools.v) + kMatrixBytes),
        args_(demo::sized<quern_rmsnorm_args>()) {
    args_.flags = programmatic ? std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_RMSNORM_CONSTANT_WEIGHT : 0;
    args_.stream = gpu.stream();
    args_.x = x_, args_.out = out_, args_.weight = weight_, args_.eps = 1e-6f;
    if (of.residual) args_.residual = args_.residual_out = residual_;
    first_ms_ = milliseconds_of(
        [&] { demo::call([&](quern_error* error) { return quern_rmsnorm_prepare(gpu.context(), &args_, error); }); });
  }

  void enqueue() const {
    demo::call([&](quern_error* error) { return quern_rmsnorm(gpu_.context(), &args_, error); });
  }
  // Throws std::runtime_error unless what it writes are finite numbers, and not all of them zero.
  void check() const {
    std::vector<std::uint16_t> found(
        static_cast<std::size_t>(rows_ < 8 ? rows_ : 8) * static_cast<std::size_t>(case_.columns), 0x7fc0);
    gpu_.memory().upload(result_, found.data(), found.size() * 2);
    enqueue();
    gpu_.synchronise();
    gpu_.memory().download(found.data(), result_, found.size() * 2);
    std::size_t zeros = 0;
    for (const std::uint16_t bits : found) {
      if ((bits & 0x7f80) == 0x7f80) throw std::runtime_error("rmsnorm wrote what is not finite, or nothing");
      zeros += (bits & 0x7fff) == 0;
    }
    if (zeros == found.size()) throw std::runtime_error("rmsnorm wrote zeros only");
  }
  // Everything read and written once.
  double bytes() const { return static_cast<double>(rows_ * case_.columns) * (case_.residual ? 8 : 4); }
  double first_ms() const { return first_ms_; }

 private:
  static constexpr std::size_t kMatrixBytes = std::size_t{2} * kRows * 7168;
  static_assert(2 * kMatrixBytes <= kKvPool);

  Gpu& gpu_;
  const std::int64_t rows_;
  const Case case_;
  const Tensor x_, residual_, out_, weight_;
  void* const result_;
  quern_rmsnorm_args args_;
  double first_ms_ = 0;
};

}  // namespace

Json bench_rmsnorm(Gpu& gpu, const Pools& pools) {
  std::printf("\nrmsnorm, bf16, %lld rows, L2 flushed; one row as a graph\n", static_cast<long long>(kRows));
  std::printf("%-40s %11s %8s %8s %14s %14s\n", "", "prepared ms", "us", "GB/s", "one row us", "programmatic");
  Json rows = Json::array();
  for (const Case& at : kCases) {
    const Norm many(gpu, pools, at, kRows, false), one(gpu, pools, at, 1, false), chained(gpu, pools, at, 1, true);
    many.check();
    one.check();
    chained.check();
    const double us = gpu.flushed_us([&] { many.enqueue(); }), gbps = many.bytes() / us / 1000;
    const double one_us = gpu.graph_us([&] { one.enqueue(); }), chained_us = gpu.graph_us([&] { chained.enqueue(); });
    std::printf("  %-38s %11.1f %8.1f %8.0f %14.2f %14.2f", at.name, many.first_ms(), us, gbps, one_us, chained_us);
    if (at.goal) {
      std::printf("   %s (>= %.0f GB/s), %s (<= %.1f us)", verdict(gbps >= kGoalGbps), kGoalGbps,
                  verdict(one_us <= kGoalUs), kGoalUs);
    }
    std::printf("\n");
    std::fflush(stdout);
    rows.push_back({{"case", at.name},
                    {"first_ms", many.first_ms()},
                    {"rows", kRows},
                    {"columns", at.columns},
                    {"us", us},
                    {"gbps", gbps},
                    {"one_row_graph_us", one_us},
                    {"one_row_programmatic_us", chained_us}});
  }
  return rows;
}

}  // namespace quern::bench
