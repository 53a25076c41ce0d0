// Quantisers: how near to the memory's speed they run on tensors far larger than the L2, and what one row costs.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/tensor.h"
#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

using demo::Tensor;

constexpr std::int64_t kRows = 16384;
constexpr std::int64_t kColumns = 7168;
constexpr double kGoalGbps = 3600, kGoalUs = 3.5;
constexpr DLDataType kE4m3{kDLFloat8_e4m3fn, 8, 1};

struct Case {
  const char* name;
  int front, kind;
  bool residual;
  bool goal;
};
const Case kCases[] = {
    {"1x128 groups", QUERN_FRONT_NONE, QUERN_SCALE_GROUP, false, true},
    {"per token", QUERN_FRONT_NONE, QUERN_SCALE_TOKEN, false, true},
    {"rmsnorm + residual, 1x128", QUERN_FRONT_RMSNORM, QUERN_SCALE_GROUP, true, true},
    {"rmsnorm + residual, token", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, true, true},
    {"silu * up, 1x128", QUERN_FRONT_SILU_MUL, QUERN_SCALE_GROUP, false, true},
    {"silu * up, per token", QUERN_FRONT_SILU_MUL, QUERN_SCALE_TOKEN, false, true},
    {"gelu * up, 1x128", QUERN_FRONT_GELU_MUL, QUERN_SCALE_GROUP, false, false},
    {"gelu_tanh * up, 1x128", QUERN_FRONT_GELU_TANH_MUL, QUERN_SCALE_GROUP, false, false},
    {"per tensor, found", QUERN_FRONT_NONE, QUERN_SCALE_TENSOR, false, false},
    {"per tensor, given", QUERN_FRONT_NONE, QUERN_SCALE_STATIC, false, false},
    {"128x128 blocks", QUERN_FRONT_NONE, QUERN_SCALE_BLOCK, false, false},
};

// Scales of groups lie as a product reads them: those of one row far apart.
struct Scales {
  Scales(void* data, DLDevice at, const Case& of, std::int64_t rows) {
    const std::int64_t groups = (kColumns + 127) / 128, blocks = (rows + 127) / 128;
    const bool matrix = of.kind == QUERN_SCALE_GROUP || of.kind == QUERN_SCALE_BLOCK;
    shape[0] = of.kind == QUERN_SCALE_BLOCK ? blocks : of.kind <= QUERN_SCALE_TENSOR ? 1 : rows;
    shape[1] = matrix ? groups : 1;
    strides[0] = of.kind == QUERN_SCALE_BLOCK ? groups : 1;
    strides[1] = of.kind == QUERN_SCALE_BLOCK ? 1 : (rows + 3) / 4 * 4;
    tensor.data = data;
    tensor.device = at;
    tensor.dtype = demo::kF32;
    tensor.ndim = matrix ? 2 : 1;
    tensor.shape = shape, tensor.strides = strides;
    // From the first to the last: those of groups leave gaps.
    count = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] + 1;
  }
  Scales(const Scales&) = delete;
  Scales& operator=(const Scales&) = delete;

  std::int64_t shape[2], strides[2], count = 0;
  DLTensor tensor{};
};

// Inputs and codes lie in the pools: x and behind it the norm's weight in k, the residual (and the sum, in its place)
// in v, codes in q, scales in out.
class Quantisation {
 public:
  Quantisation(Gpu& gpu, const Pools& pools, const Case& of, std::int64_t rows, bool programmatic)
      : gpu_(gpu),
        rows_(rows),
        product_(of.front >= QUERN_FRONT_SILU_MUL),
        case_(of),
        x_(pools.k, gpu.where(), demo::kBf16, {rows, product_ ? 2 * kColumns : kColumns}),
        residual_(pools.v, gpu.where(), demo::kBf16, {rows, kColumns}),
        out_(pools.q, gpu.where(), kE4m3, {rows, kColumns}),
        weight_(static_cast<char*>(pools.k) + kInputBytes, gpu.where(), demo::kBf16, {kColumns}),
        scales_(pools.out, gpu.where(), of, rows),
        codes_(pools.q),
        args_(demo::sized<quern_quantize_args>()) {
    args_.flags = programmatic ? QUERN_CALL_PROGRAMMATIC : 0;
    args_.stream = gpu.stream();
    args_.x = x_, args_.out = out_, args_.scale = &scales_.tensor;
    if (of.residual) args_.residual = args_.residual_out = residual_;
    if (of.front == QUERN_FRONT_RMSNORM) args_.weight = weight_, args_.eps = 1e-6f;
    args_.front = of.front, args_.scale_kind = of.kind;
    demo::call([&](quern_error* error) {
      return quern_quantize_workspace(gpu.context(), &args_, &args_.workspace_size, error);
    });
    if (args_.workspace_size != 0)
      args_.workspace = gpu.memory().allocate(static_cast<std::size_t>(args_.workspace_size));
    first_ms_ = milliseconds_of(
        [&] { demo::call([&](quern_error* error) { return quern_quantize_prepare(gpu.context(), &args_, error); }); });
    const float one = 1.0f;
    if (of.kind == QUERN_SCALE_STATIC) gpu.memory().upload(scales_.tensor.data, &one, 4);
    gpu.memory().synchronise();
  }

  void enqueue() const {
    demo::call([&](quern_error* error) { return quern_quantize(gpu_.context(), &args_, error); });
  }
  // Throws std::runtime_error unless scales are positive numbers and codes neither NaN nor all zero.
  void check() const {
    std::vector<unsigned char> codes(65536 < rows_ * kColumns ? 65536 : static_cast<std::size_t>(rows_ * kColumns),
                                     0x7f);
    std::vector<float> scales(static_cast<std::size_t>(scales_.count), std::nanf(""));
    gpu_.memory().upload(codes_, codes.data(), codes.size());
    if (case_.kind != QUERN_SCALE_STATIC) gpu_.memory().upload(scales_.tensor.data, scales.data(), scales.size() * 4);
    enqueue();
    gpu_.synchronise();
    gpu_.memory().download(codes.data(), codes_, codes.size());
    gpu_.memory().download(scales.data(), scales_.tensor.data, scales.size() * 4);
    std::size_t zeros = 0;
    for (const unsigned char code : codes) {
      if ((code & 0x7f) == 0x7f) throw std::runtime_error("quantize wrote NaN, or nothing");
      zeros += (code & 0x7f) == 0;
    }
    if (zeros == codes.size()) throw std::runtime_error("quantize wrote zeros only");
    for (std::int64_t i = 0; i < scales_.shape[0] * scales_.shape[1]; ++i) {
      const float scale = scales[static_cast<std::size_t>(i / scales_.shape[1] * scales_.strides[0] +
                                                          i % scales_.shape[1] * scales_.strides[1])];
      if (!(scale > 0.0f && std::isfinite(scale))) throw std::runtime_error("quantize wrote a scale that is none");
    }
  }

  // Everything read and written once; a tensor's scale is found by reading x before.
  double bytes() const {
    const auto elements = static_cast<double>(rows_ * kColumns);
    const double reads = case_.kind == QUERN_SCALE_TENSOR ? 2 : 1;
    return elements * (reads * (product_ ? 4 : 2) + (case_.residual ? 4 : 0) + 1) +
           4.0 * static_cast<double>(scales_.count);
  }
  double first_ms() const { return first_ms_; }

 private:
  static constexpr std::size_t kInputBytes = std::size_t{2} * 2 * kRows * kColumns;
  static_assert(kInputBytes + 2 * kColumns <= kKvPool && kRows * kColumns <= kQueryPool);

  Gpu& gpu_;
  const std::int64_t rows_;
  const bool product_;
  const Case case_;
  const Tensor x_, residual_, out_, weight_;
  const Scales scales_;
  void* const codes_;
  quern_quantize_args args_;
  double first_ms_ = 0;
};

}  // namespace

Json bench_quantize(Gpu& gpu, const Pools& pools) {
  std::printf("\nquantise, bf16 to e4m3, n %lld       prepared  %lld rows   GB/s    1 row as graph, programmatic\n",
              static_cast<long long>(kColumns), static_cast<long long>(kRows));
  Json rows = Json::array();
  for (const Case& at : kCases) {
    const Quantisation many(gpu, pools, at, kRows, false), one(gpu, pools, at, 1, false),
        chained(gpu, pools, at, 1, true);
    many.check();
    const double us = gpu.flushed_us([&] { many.enqueue(); }), gbps = many.bytes() / us / 1e3;
    one.check();
    const double one_us = gpu.graph_us([&] { one.enqueue(); }), chained_us = gpu.graph_us([&] { chained.enqueue(); });
    std::string goal;
    if (at.goal) goal = std::string(verdict(gbps >= kGoalGbps && one_us <= kGoalUs)) + " (>= 3600 GB/s, <= 3.5 us)";
    std::printf("  %-28s %8.0f ms %8.1f us %6.0f %12.2f us %9.2f us   %s\n", at.name, many.first_ms(), us, gbps, one_us,
                chained_us, goal.c_str());
    std::fflush(stdout);
    rows.push_back({{"case", at.name},
                    {"first_ms", many.first_ms()},
                    {"rows", kRows},
                    {"columns", kColumns},
                    {"us", us},
                    {"gbps", gbps},
                    {"one_row_graph_us", one_us},
                    {"one_row_programmatic_us", chained_us}});
  }
  return rows;
}

}  // namespace quern::bench
