// Mixture of experts: what routing costs at the sizes of decode and prefill, and how near to the memory's speed the
// experts' results are added up.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

#include "bindings/demo/tensor.h"
#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

using demo::Tensor;

constexpr std::int64_t kExperts = 256, kTopK = 8, kColumns = 7168;  // DeepSeek-V3
constexpr std::int64_t kMostTokens = 4096;

// Random logits routed, and random rows combined along those very choices.
class Layer {
 public:
  Layer(Gpu& gpu, std::int64_t tokens, std::uint32_t seed)
      : gpu_(gpu),
        tokens_(tokens),
        rows_(tokens * kTopK),
        logits_(gpu.memory(), count(tokens * kExperts)),
        bias_(gpu.memory(), count(kExperts)),
        weights_(gpu.memory(), count(rows_)),
        ids_(gpu.memory(), count(rows_)),
        offsets_(gpu.memory(), count(kExperts + 1)),
        indices_(gpu.memory(), count(rows_), -1),
        positions_(gpu.memory(), count(rows_)),
        x_(gpu.memory(), count(rows_ * kColumns)),
        out_(gpu.memory(), count(tokens * kColumns)),
        tensors_{{logits_.device(), gpu.where(), demo::kF32, {tokens, kExperts}},
                 {bias_.device(), gpu.where(), demo::kF32, {kExperts}},
                 {weights_.device(), gpu.where(), demo::kF32, {tokens, kTopK}},
                 {ids_.device(), gpu.where(), demo::kI32, {tokens, kTopK}},
                 {offsets_.device(), gpu.where(), demo::kI32, {kExperts + 1}},
                 {indices_.device(), gpu.where(), demo::kI32, {rows_}},
                 {positions_.device(), gpu.where(), demo::kI32, {tokens, kTopK}},
                 {x_.device(), gpu.where(), demo::kBf16, {rows_, kColumns}},
                 {out_.device(), gpu.where(), demo::kBf16, {tokens, kColumns}}},
        route_(demo::sized<quern_moe_route_args>()),
        combine_(demo::sized<quern_moe_combine_args>()) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& logit : logits_.host) logit = normal(random);
    for (float& bias : bias_.host) bias = 0.1f * normal(random);
    // The upper half of a float between -1 and 1 is a bf16.
    for (std::uint16_t& bits : x_.host) bits = static_cast<std::uint16_t>((random() & 0x807fu) | 0x3f00u);
    logits_.upload(), bias_.upload(), x_.upload();
    route_.flags = QUERN_MOE_SIGMOID | QUERN_MOE_RENORMALIZE;
    route_.stream = combine_.stream = gpu.stream();
    route_.logits = tensors_.logits, route_.bias = tensors_.bias;
    route_.weights = combine_.weights = tensors_.weights;
    route_.positions = combine_.positions = tensors_.positions;
    route_.ids = tensors_.ids, route_.offsets = tensors_.offsets, route_.indices = tensors_.indices;
    route_.top_k = kTopK, route_.groups = 8, route_.top_groups = 4, route_.scale = 2.5f;
    combine_.x = tensors_.x, combine_.out = tensors_.out;
    demo::call(
        [&](quern_error* e) { return quern_moe_route_workspace(gpu.context(), &route_, &route_.workspace_size, e); });
    route_.workspace = gpu.memory().allocate(static_cast<std::size_t>(route_.workspace_size));
    demo::call([&](quern_error* e) { return quern_moe_route_prepare(gpu.context(), &route_, e); });
    demo::call([&](quern_error* e) { return quern_moe_combine_prepare(gpu.context(), &combine_, e); });
    gpu.memory().synchronise();
  }

  void route() const {
    demo::call([&](quern_error* e) { return quern_moe_route(gpu_.context(), &route_, e); });
  }
  void combine() const {
    demo::call([&](quern_error* e) { return quern_moe_combine(gpu_.context(), &combine_, e); });
  }
  // Of the rows read and the sums written; the few bytes of positions and weights are not counted.
  double combined_bytes() const { return 2.0 * static_cast<double>((rows_ + tokens_) * kColumns); }

  // Runs both and throws std::runtime_error unless the rows are a permutation and the sums numbers that are not all
  // zero.
  void check() {
    route();
    combine();
    gpu_.synchronise();
    positions_.download(), offsets_.download(), out_.download();
    std::vector<bool> taken(count(rows_), false);
    for (const std::int32_t position : positions_.host) {
      if (position < 0 || position >= rows_ || taken[count(position)])
        throw std::runtime_error("moe_route: positions are no permutation");
      taken[count(position)] = true;
    }
    if (offsets_.host.back() != rows_) throw std::runtime_error("moe_route: the offsets do not end with the rows");
    bool all_zero = true;
    for (const std::uint16_t bits : out_.host) {
      if ((bits & 0x7f80) == 0x7f80) throw std::runtime_error("moe_combine wrote what is no number");
      all_zero &= (bits & 0x7fff) == 0;
    }
    if (all_zero) throw std::runtime_error("moe_combine wrote zeros only");
  }

 private:
  struct Tensors {
    Tensor logits, bias, weights, ids, offsets, indices, positions, x, out;
  };
  static std::size_t count(std::int64_t number) { return static_cast<std::size_t>(number); }

  Gpu& gpu_;
  std::int64_t tokens_, rows_;
  demo::Mirrored<float> logits_, bias_, weights_;
  demo::Mirrored<std::int32_t> ids_, offsets_, indices_, positions_;
  demo::Mirrored<std::uint16_t> x_, out_;
  Tensors tensors_;
  quern_moe_route_args route_;
  quern_moe_combine_args combine_;
};

}  // namespace

Json bench_moe(Gpu& gpu, std::uint32_t seed) {
  std::printf("\nexperts: 256, top 8 of 4 groups in 8, 7168 columns     us a call   us as graph     GB/s\n");
  Json rows = Json::array();
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{64}, kMostTokens}) {
    Layer layer(gpu, tokens, seed);
    layer.check();
    const double route_us = gpu.flushed_us([&] { layer.route(); }),
                 route_graph_us = gpu.graph_us([&] { layer.route(); });
    const double combine_us = gpu.flushed_us([&] { layer.combine(); }),
                 combine_graph_us = gpu.graph_us([&] { layer.combine(); });
    const double gbps = layer.combined_bytes() / combine_us / 1e3;
    const auto given = static_cast<long long>(tokens);
    std::printf("  moe_route    %5lld tokens, f32 logits %27.2f %13.2f\n", given, route_us, route_graph_us);
    std::printf("  moe_combine  %5lld tokens, bf16 %33.2f %13.2f %8.0f\n", given, combine_us, combine_graph_us, gbps);
    std::fflush(stdout);
    rows.push_back({{"tokens", tokens},
                    {"route_us", route_us},
                    {"route_graph_us", route_graph_us},
                    {"combine_us", combine_us},
                    {"combine_graph_us", combine_graph_us},
                    {"combine_gbps", gbps}});
  }
  return rows;
}

}  // namespace quern::bench
