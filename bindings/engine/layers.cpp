// A layer: normalise, attend, normalise, the gated products.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bindings/engine/model.h"

namespace quern::engine {

// [rows, ceil(columns/128)], the rows of a group one behind the other: so products read them fastest.
View Model::scales(void* data, std::int64_t rows, std::int64_t columns) const {
  return {data, device_, kF32, {rows, (columns + 127) / 128}, {1, (rows + 3) / 4 * 4}};
}

// Whether attention's results come as the output projection multiplies them: in steps of single tokens, which take its
// kernels for few rows. With batch_invariant the bits would depend on what else a step computes.
bool Model::attends_in_codes() const {
  return limits_.fp8_weights && size_.most_new == 1 && !limits_.batch_invariant && config_.head_dim % 128 == 0 &&
         config_.head_dim <= 256;
}

void Model::run_layer(std::size_t index) {
  const LayerWeights& weights = weights_.layers[index];
  const std::int64_t tokens = size_.tokens;
  if (index == 0) normalise(true, weights.attention_norm, limits_.fp8_weights);
  auto bias = demo::sized<quern_epilogue>(), output_bias = bias;
  const View bias_of(weights.qkv_bias, device_, kBf16, {config_.qkv_width()}),
      output_bias_of(weights.output_bias, device_, kBf16, {config_.hidden});
  bias.bias = bias_of, output_bias.bias = output_bias_of;
  multiply(normed_, tokens, config_.hidden, weights.qkv, config_.qkv_width(), bf16(qkv_, tokens, config_.qkv_width()),
           weights.qkv_bias != nullptr ? &bias : nullptr);
  attend(weights, caches_[index], config_.windows.empty() ? 0 : config_.windows[index]);
  if (limits_.fp8_weights && !attends_in_codes()) quantise(attended_, tokens, config_.q_width());
  multiply(attended_, tokens, config_.q_width(), weights.output, config_.hidden, bf16(delta_, tokens, config_.hidden),
           weights.output_bias != nullptr ? &output_bias : nullptr);
  add_half(weights.attention_post_norm, weights.mlp_norm, limits_.fp8_weights);
  multiply_gated(weights);
}

// What a layer's half gives is added to the residual, which is normalised for what follows: by `next`.
void Model::add_half(void* post_norm, void* next, bool quantised) {
  // Summed there and in many rows the residual's bits differ: its sum is rounded before it is added or it is not.
  if (communicator_ != nullptr && calls_.launches() && post_norm == nullptr && !quantised && !limits_.batch_invariant &&
      communicator_->add_and_normalise({delta_, residual_, next, normed_, size_.tokens, config_.hidden, config_.eps},
                                       stream_->handle()))
    return;
  add_ranks();
  normalise_delta(post_norm);
  normalise(false, next, quantised);
}

// What the devices give of a layer's half, each by its heads or columns.
void Model::add_ranks() {
  if (communicator_ == nullptr || !calls_.launches()) return;
  if (!communicator_->all_reduce(delta_, size_.tokens * config_.hidden, stream_->handle())) calls_.after_copies();
}

// What a layer's half gives, in its place, where the model has a norm for it.
void Model::normalise_delta(void* weight) {
  if (weight == nullptr) return;
  const View delta = bf16(delta_, size_.tokens, config_.hidden), by(weight, device_, kBf16, {config_.hidden});
  quern_rmsnorm_args args{};
  args.flags = QUERN_RMSNORM_CONSTANT_WEIGHT;
  if (config_.norm_plus_one) args.flags |= QUERN_RMSNORM_WEIGHT_PLUS_ONE;
  args.x = delta, args.weight = by, args.out = delta;
  args.eps = config_.eps;
  QUERN_MAKE(calls_, rmsnorm, args);
}

// residual += delta, but before the first layer, and normed = rmsnorm(residual); or quantised, with FP8 weights.
void Model::normalise(bool first, void* weight, bool quantised) {
  const View residual = bf16(residual_, size_.tokens, config_.hidden),
             delta = bf16(delta_, size_.tokens, config_.hidden), by(weight, device_, kBf16, {config_.hidden});
  const auto fill = [&](auto& args) {
    args.x = first ? residual : delta;
    if (!first) args.residual = residual, args.residual_out = residual;
    args.weight = by;
    args.eps = config_.eps;
  };
  if (quantised) {
    quern_quantize_args args{};
    fill(args);
    if (config_.norm_plus_one) args.flags |= QUERN_QUANTIZE_WEIGHT_PLUS_ONE;
    const View out(codes_.data, device_, kE4m3, {size_.tokens, config_.hidden}),
        scale = scales(codes_.scales, size_.tokens, config_.hidden);
    args.out = out, args.scale = scale;
    args.front = QUERN_FRONT_RMSNORM;
    args.scale_kind = QUERN_SCALE_GROUP;
    QUERN_MAKE(calls_, quantize, args);
    return;
  }
  quern_rmsnorm_args args{};
  fill(args);
  args.flags = QUERN_RMSNORM_CONSTANT_WEIGHT;
  if (config_.norm_plus_one) args.flags |= QUERN_RMSNORM_WEIGHT_PLUS_ONE;
  const View normed = bf16(normed_, size_.tokens, config_.hidden);
  args.out = normed;
  QUERN_MAKE(calls_, rmsnorm, args);
}

void Model::quantise(void* from, std::int64_t rows, std::int64_t columns) {
  quern_quantize_args args{};
  const View x = bf16(from, rows, columns), out(codes_.data, device_, kE4m3, {rows, columns}),
             scale = scales(codes_.scales, rows, columns);
  args.x = x, args.out = out, args.scale = scale;
  args.scale_kind = QUERN_SCALE_GROUP;
  QUERN_MAKE(calls_, quantize, args);
}

// With FP8 weights `from` has been quantised.
void Model::multiply(void* from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out, const View& to,
                     const quern_epilogue* epilogue) {
  if (by.scales != nullptr) return multiply_fp8(codes_, rows, in, by, out, to, epilogue);
  quern_gemm_args args{};
  const View a = bf16(from, rows, in), b = bf16(by.data, out, in);
  args.flags = QUERN_GEMM_CONSTANT_B;
  args.a = a, args.b = b, args.out = to;
  args.epilogue = epilogue;
  QUERN_MAKE(calls_, gemm, args);
}

void Model::multiply_fp8(const Codes& from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out,
                         const View& to, const quern_epilogue* epilogue) {
  quern_fp8_gemm_args args{};
  const View a(from.data, device_, kE4m3, {rows, in}), b(by.data, device_, kE4m3, {out, in}),
      scale_a = scales(from.scales, rows, in), scale_b(by.scales, device_, kF32, {(out + 127) / 128, (in + 127) / 128});
  args.flags = QUERN_GEMM_CONSTANT_B;
  args.a = a, args.b = b, args.scale_a = scale_a, args.scale_b = scale_b, args.out = to;
  args.epilogue = epilogue;
  QUERN_MAKE(calls_, fp8_gemm, args);
}

// delta = down (activation(gate) * up). The gated product of few rows quantises what it stores; of more, whose kernels
// do not, a launch of its own does.
void Model::multiply_gated(const LayerWeights& weights) {
  constexpr std::int64_t kFewRows = 64;
  const std::int64_t tokens = size_.tokens, between = config_.intermediate;
  auto gate = demo::sized<quern_epilogue>();
  gate.flags = QUERN_EPILOGUE_GATE;
  gate.activation = config_.activation;
  const bool in_codes = limits_.fp8_weights && !limits_.batch_invariant, prepares = !calls_.launches();
  if (in_codes && (tokens <= kFewRows || prepares)) {
    const std::int64_t rows = std::min(tokens, kFewRows);
    const View out(gated_codes_.data, device_, kE4m3, {rows, between}),
        out_scale = scales(gated_codes_.scales, rows, between);
    auto coded = gate;
    coded.out_scale = out_scale;
    multiply(normed_, rows, config_.hidden, weights.gate_up, 2 * between, out, &coded);
    if (!prepares)
      return multiply_fp8(gated_codes_, tokens, between, weights.down, config_.hidden,
                          bf16(delta_, tokens, config_.hidden), nullptr);
  }
  multiply(normed_, tokens, config_.hidden, weights.gate_up, 2 * between, bf16(gated_, tokens, between), &gate);
  if (limits_.fp8_weights) quantise(gated_, tokens, between);
  multiply(gated_, tokens, between, weights.down, config_.hidden, bf16(delta_, tokens, config_.hidden), nullptr);
}

// New keys and values into the cache, turned by their positions as the queries are, in one launch; then attention.
void Model::attend(const LayerWeights& weights, const Cache& pages, std::int64_t window) {
  const std::int64_t width = config_.qkv_width(), dim = config_.head_dim;
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    return View(static_cast<std::uint16_t*>(qkv_) + first, device_, kBf16, {size_.tokens, count, dim}, {width, dim, 1});
  };
  const View q = heads(0, config_.heads), k = heads(config_.q_width(), config_.kv_heads),
             v = heads(config_.q_width() + config_.kv_width(), config_.kv_heads);
  const View keys = cache(pages.keys), values = cache(pages.values), positions = inputs_->positions(),
             slots = inputs_->slots(), cu_q = inputs_->cu_q(), lengths = inputs_->lengths(), table = inputs_->table();
  const View q_norm(weights.q_norm, device_, kBf16, {dim}), k_norm(weights.k_norm, device_, kBf16, {dim});

  quern_kv_append_args append{};
  append.q = q, append.k = k, append.v = v, append.k_cache = keys, append.v_cache = values;
  // The host knows each token's place; to look it up on the device would take one load after the other.
  append.slots = slots, append.positions = positions;
  append.rope = &config_.rope;
  append.eps = config_.eps;
  if (config_.qk_norm && config_.norm_plus_one) append.flags |= QUERN_KV_APPEND_WEIGHT_PLUS_ONE;
  if (config_.qk_norm) append.q_weight = q_norm, append.k_weight = k_norm;
  // Prompts' queries in 8 bits, too, where all else that is multiplied is: tensor cores take them with the cache's.
  const bool eights = limits_.fp8_cache && limits_.fp8_weights && !limits_.batch_invariant && size_.most_new > 1;
  const View q8(queries_, device_, kE4m3, {size_.tokens, config_.heads, dim}),
      q_scale(query_scales_, device_, kF32, {size_.tokens, config_.heads});
  if (eights) append.q_out = q8, append.q_scale = q_scale;
  QUERN_MAKE(calls_, kv_append, append);

  quern_attention_args args{};
  const bool codes = attends_in_codes();
  const View out(codes ? codes_.data : attended_, device_, codes ? kE4m3 : kBf16, {size_.tokens, config_.heads, dim}),
      out_scale = scales(codes_.scales, size_.tokens, config_.q_width());
  args.flags = QUERN_ATTENTION_CAUSAL;
  // What a step was sent is there since its embedding, and earlier tokens' keys since an earlier step.
  if (!limits_.mixed_pages) args.flags |= QUERN_ATTENTION_CONSTANT_PAST;
  if (window > 0) args.flags |= QUERN_ATTENTION_WINDOW_LEFT;
  args.window_left = static_cast<std::int32_t>(std::max<std::int64_t>(window - 1, 0));
  args.scale = config_.attention_scale, args.logit_cap = config_.attention_cap;
  args.q = eights ? q8 : q, args.k = keys, args.v = values, args.out = out;
  if (eights) args.q_scale = q_scale;
  if (codes) args.out_scale = out_scale;
  args.page_table = table, args.lengths = lengths;
  if (size_.most_new > 1) args.cu_q = cu_q;
  args.max_q_len = static_cast<std::int32_t>(size_.most_new);
  args.max_kv_len = static_cast<std::int32_t>(table_columns_ * limits_.page_size);
  QUERN_MAKE(calls_, attention, args);
}

}  // namespace quern::engine
