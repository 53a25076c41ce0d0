// A model's weights out of nothing: what a step takes does not depend on what they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/engine/weights/weights.h"

namespace quern::bench {

// Uniform within +-0.05, repeating every 2^22 numbers and beginning at another place for each matrix.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::size_t most) : values_(most + kPeriod) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> number(-0.05f, 0.05f);
    for (std::size_t i = 0; i < std::min(kPeriod, values_.size()); ++i) values_[i] = engine::bf16_of(number(random));
    for (std::size_t done = kPeriod; done < values_.size(); done += kPeriod)
      std::copy_n(values_.begin(), std::min(kPeriod, values_.size() - done),
                  values_.begin() + static_cast<std::ptrdiff_t>(done));
  }
  std::span<const std::uint16_t> take(std::size_t count) {
    offset_ = (offset_ * 5 + 12345) % kPeriod;
    return std::span(values_).subspan(offset_, count);
  }

 private:
  static constexpr std::size_t kPeriod = std::size_t{1} << 22;
  std::vector<std::uint16_t> values_;
  std::size_t offset_ = 1;
};

inline engine::Weights random_weights(const engine::Config& config, engine::Placer placer) {
  const std::int64_t most = std::max(
      {config.vocabulary * config.hidden, 2 * config.intermediate * config.hidden, config.qkv_width() * config.hidden});
  RandomNumbers numbers(static_cast<std::size_t>(most));
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return placer.matrix(numbers.take(static_cast<std::size_t>(rows * columns)), rows, columns);
  };
  const auto ones = [&](std::int64_t count) {
    return placer.plain(std::vector<std::uint16_t>(static_cast<std::size_t>(count), engine::bf16_of(1.0f)));
  };
  engine::Weights weights;
  weights.embedding = placer.plain(numbers.take(static_cast<std::size_t>(config.vocabulary * config.hidden)));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    engine::LayerWeights& layer = weights.layers.emplace_back();
    layer.attention_norm = ones(config.hidden), layer.mlp_norm = ones(config.hidden);
    layer.qkv = matrix(config.qkv_width(), config.hidden);
    if (config.qkv_bias) layer.qkv_bias = placer.plain(numbers.take(static_cast<std::size_t>(config.qkv_width())));
    if (config.qk_norm) layer.q_norm = ones(config.head_dim), layer.k_norm = ones(config.head_dim);
    layer.output = matrix(config.hidden, config.q_width());
    layer.gate_up = matrix(2 * config.intermediate, config.hidden);
    layer.down = matrix(config.hidden, config.intermediate);
  }
  weights.norm = ones(config.hidden);
  if (config.tied && !placer.fp8()) {
    weights.logits.data = weights.embedding;
  } else {
    weights.logits = matrix(config.vocabulary, config.hidden);
  }
  weights.memory = placer.take();
  return weights;
}

}  // namespace quern::bench
