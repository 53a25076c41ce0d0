// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace quern::engine {
namespace {

constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kF32{kDLFloat, 32, 1}, kI32{kDLInt, 32, 1}, kI64{kDLInt, 64, 1},
    kE4m3{kDLFloat8_e4m3fn, 8, 1};

}  // namespace

Model::Model(quern_context* context, const quern_device_info& device, const Checkpoint& checkpoint,
             const Limits& limits)
    : context_(context),
      device_{static_cast<DLDeviceType>(device.device_type), device.device_id},
      config_(checkpoint.config()),
      limits_(limits),
      memory_(demo::memory_of(device)) {
  if (limits_.graph && device.device_type == kDLCUDA) graphs_ = std::make_unique<Graphs>();
  weights_ =
      load_weights(checkpoint, config_, *memory_, [this](const auto& values, std::int64_t rows, std::int64_t columns) {
        return place_matrix(values, rows, columns);
      });
  table_columns_ = (limits_.context + limits_.page_size - 1) / limits_.page_size;
  if (limits_.pages == 0) limits_.pages = limits_.sequences * table_columns_;
  make_room();
  make_rope_table();
  prepare();
}

// Where a checkpoint divides each frequency by a number of its own no formula says them: cosines and sines of every
// position then come from a table.
void Model::make_rope_table() {
  if (config_.rope_divisors.empty()) return;
  const std::int64_t pairs = config_.head_dim / 2;
  std::vector<float> table;
  for (std::int64_t position = 0; position < limits_.context; ++position) {
    for (const double quarter : {0.0, std::numbers::pi / 2}) {  // sin x is cos(x - pi/2)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double speed =
            std::pow(config_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(config_.head_dim));
        const double divisor = static_cast<double>(config_.rope_divisors[static_cast<std::size_t>(i)]);
        table.push_back(static_cast<float>(std::cos(static_cast<double>(position) * speed / divisor - quarter)));
      }
    }
  }
  void* device = memory_->allocate(table.size() * sizeof table[0]);
  memory_->upload(device, table.data(), table.size() * sizeof table[0]);
  rope_table_ = View(device, device_, kF32, {limits_.context, config_.head_dim});
  config_.rope.table = rope_table_;
}

View Model::bf16(void* data, std::int64_t rows, std::int64_t columns) const {
  return {data, device_, kBf16, {rows, columns}};
}
View Model::integers(std::int64_t place, std::int64_t count) const {
  return {static_cast<std::int32_t*>(inputs_->device()) + place, device_, kI32, {count}};
}
View Model::numbers(void* data, std::int64_t count) const { return {data, device_, kF32, {count}}; }

void Model::make_room() {
  const auto bytes = [](std::int64_t count, std::int64_t size) { return static_cast<std::size_t>(count * size); };
  const std::int64_t tokens = limits_.tokens, sequences = limits_.sequences;
  residual_ = memory_->allocate(bytes(tokens * config_.hidden, 2));
  normed_ = memory_->allocate(bytes(tokens * config_.hidden, 2));
  qkv_ = memory_->allocate(bytes(tokens * config_.qkv_width(), 2));
  attended_ = memory_->allocate(bytes(tokens * config_.q_width(), 2));
  gated_ = memory_->allocate(bytes(tokens * config_.intermediate, 2));
  delta_ = memory_->allocate(bytes(tokens * config_.hidden, 2));
  const std::int64_t rows = sequences * (limits_.drafts + 1);
  last_ = memory_->allocate(bytes(rows * config_.hidden, 2));
  logits_ = memory_->allocate(bytes(rows * config_.vocabulary, 4));
  if (limits_.fp8_weights) {
    const auto groups = [&](std::int64_t columns) { return (columns + 127) / 128 * ((tokens + 3) / 4 * 4); };
    const std::int64_t widest = std::max(config_.hidden, config_.q_width());
    quantised_ = memory_->allocate(bytes(tokens * widest, 1));
    scales_ = memory_->allocate(bytes(groups(widest), 4));
    gated_scales_ = memory_->allocate(bytes(groups(config_.intermediate), 4));
  }
  const std::int64_t cache = limits_.pages * limits_.page_size * config_.kv_width();
  for (const LayerWeights& weights : weights_.layers) {
    layers_.push_back({weights, memory_->allocate(bytes(cache, limits_.fp8_cache ? 1 : 2)),
                       memory_->allocate(bytes(cache, limits_.fp8_cache ? 1 : 2))});
  }
  // Each beginning at a multiple of four, as rows of tensors like to.
  std::int64_t end = 0;
  const auto place = [&](std::int64_t count) {
    const std::int64_t begin = end;
    end += (count + 3) / 4 * 4;
    return begin;
  };
  at_.tokens = place(tokens), at_.positions = place(tokens), at_.cu_q = place(sequences + 1);
  at_.lengths = place(sequences), at_.table = place(sequences * table_columns_), at_.last = place(rows);
  at_.top_k = place(sequences), at_.ids = place(sequences), at_.copies = place(2 * sequences);
  at_.rows = place(sequences), at_.drafts = place(sequences * limits_.drafts), at_.draft_counts = place(sequences);
  at_.accepted = place(sequences), at_.verified = place(rows), at_.count = end;
  inputs_ = std::make_unique<demo::Mirrored<std::int32_t>>(*memory_, static_cast<std::size_t>(at_.count));
  parameters_ = std::make_unique<demo::Mirrored<float>>(*memory_, static_cast<std::size_t>(3 * sequences));
  randomness_ = std::make_unique<demo::Mirrored<std::int64_t>>(*memory_, static_cast<std::size_t>(2 * sequences));
}

// One of an op's calls: readies the kernel and asks for its workspace, or launches.
template <class Args, class Launch, class Measure, class Ready>
void Model::make(Args& args, Launch launch, Measure measure, Ready ready) {
  args.size = sizeof args;
  if (limits_.batch_invariant) args.flags |= QUERN_CALL_BATCH_INVARIANT;
  if (preparing_) {
    demo::call([&](quern_error* error) { return ready(context_, &args, error); });
    std::uint64_t needed = 0;
    demo::call([&](quern_error* error) { return measure(context_, &args, &needed, error); });
    workspace_size_ = std::max(workspace_size_, needed);
    return;
  }
  if (graphs_ != nullptr) args.stream = graphs_->stream();
  args.workspace = workspace_;
  args.workspace_size = workspace_size_;
  demo::call([&](quern_error* error) { return launch(context_, &args, error); });
}
#define QUERN_MAKE(op, args) make(args, quern_##op, quern_##op##_workspace, quern_##op##_prepare)

// Every kernel that a step of any size can reach: from here on nothing compiles, allocates or waits for a lock.
void Model::prepare() {
  preparing_ = true;
  run({limits_.tokens, limits_.sequences, limits_.tokens});
  run({limits_.sequences, limits_.sequences, 1});
  if (limits_.drafts > 0) run({limits_.tokens, limits_.sequences, limits_.tokens, limits_.drafts + 1});
  copy_pages({{0, 0}});
  preparing_ = false;
  workspace_ = memory_->allocate(static_cast<std::size_t>(workspace_size_));
}

std::vector<std::vector<std::int32_t>> Model::step(const std::vector<Part>& parts) {
  Size size{0, static_cast<std::int64_t>(parts.size()), 0};
  for (const Part& part : parts) {
    const auto tokens = static_cast<std::int64_t>(part.tokens.size());
    size.tokens += tokens;
    size.most_new = std::max(size.most_new, tokens);
    if (part.drafts > 0) size.each = limits_.drafts + 1;
    if (part.drafts > limits_.drafts || part.drafts >= tokens || (part.drafts > 0 && part.sampling.temperature > 0.0f))
      throw std::runtime_error("a step has drafts that the model was not made ready for");
  }
  if (size.sequences > limits_.sequences || size.tokens > limits_.tokens)
    throw std::runtime_error("a step has more sequences or tokens than the model was made ready for");
  upload(parts, size);
  if (graphs_ != nullptr && size.most_new == 1 && size.each == 1) {
    graphs_->run(size.sequences, [&] { run(size); });
  } else {
    run(size);
  }
  rows_ = size.each == 1 ? size.sequences : 0;
  inputs_->download();
  std::vector<std::vector<std::int32_t>> next;
  for (std::int64_t i = 0; i < size.sequences; ++i) {
    const std::int32_t* host = inputs_->host.data();
    if (parts[static_cast<std::size_t>(i)].drafts == 0) {
      next.push_back({host[at_.ids + i]});
    } else {
      const std::int32_t* first = host + at_.verified + i * size.each;
      next.emplace_back(first, first + host[at_.accepted + i] + 1);
    }
  }
  return next;
}

void Model::upload(const std::vector<Part>& parts, const Size& size) {
  std::int32_t* host = inputs_->host.data();
  std::int64_t row = 0, i = 0;
  host[at_.cu_q] = 0;
  for (const Part& part : parts) {
    for (std::size_t t = 0; t < part.tokens.size(); ++t, ++row) {
      host[at_.tokens + row] = part.tokens[t];
      host[at_.positions + row] = static_cast<std::int32_t>(part.position + static_cast<std::int64_t>(t));
    }
    const std::int64_t length = part.position + static_cast<std::int64_t>(part.tokens.size());
    host[at_.cu_q + i + 1] = static_cast<std::int32_t>(row);
    host[at_.lengths + i] = static_cast<std::int32_t>(length);
    // The token before the drafts and each of these; what is not there is its last once more.
    for (std::int64_t j = 0; j < size.each; ++j)
      host[at_.last + i * size.each + j] = static_cast<std::int32_t>(row - 1 - part.drafts + std::min(j, part.drafts));
    host[at_.rows + i] = static_cast<std::int32_t>(i * size.each);
    host[at_.draft_counts + i] = static_cast<std::int32_t>(part.drafts);
    std::fill_n(host + at_.drafts + i * limits_.drafts, limits_.drafts, 0);
    std::copy(part.tokens.end() - part.drafts, part.tokens.end(), host + at_.drafts + i * limits_.drafts);
    host[at_.top_k + i] = part.sampling.top_k;
    std::copy(part.pages->begin(), part.pages->end(), host + at_.table + i * table_columns_);
    const auto place = static_cast<std::size_t>(i), all = static_cast<std::size_t>(limits_.sequences);
    parameters_->host[place] = part.sampling.temperature;
    parameters_->host[all + place] = part.sampling.top_p;
    parameters_->host[2 * all + place] = part.sampling.min_p;
    randomness_->host[place] = static_cast<std::int64_t>(part.sampling.seed);
    randomness_->host[all + place] = length;  // a draw of its own for each place of a text
    ++i;
  }
  inputs_->upload();
  parameters_->upload();
  randomness_->upload();
}

void Model::run(const Size& size) {
  quern_gather_args embed{};
  const View table = bf16(weights_.embedding, config_.vocabulary, config_.hidden),
             tokens = integers(at_.tokens, size.tokens), residual = bf16(residual_, size.tokens, config_.hidden);
  embed.table = table, embed.ids = tokens, embed.out = residual;
  QUERN_MAKE(gather, embed);
  for (std::size_t i = 0; i < layers_.size(); ++i) run_layer(size, i);
  normalise(size, false, weights_.norm, false);
  // Only the last token of each sequence says anything of the next one; with drafts, those before it too.
  const std::int64_t rows = size.sequences * size.each;
  quern_gather_args gather{};
  const View normed = bf16(normed_, size.tokens, config_.hidden), ids = integers(at_.last, rows),
             last = bf16(last_, rows, config_.hidden);
  gather.table = normed, gather.ids = ids, gather.out = last;
  QUERN_MAKE(gather, gather);
  multiply(last_, rows, config_.hidden, {weights_.logits, nullptr}, config_.vocabulary,
           View(logits_, device_, kF32, {rows, config_.vocabulary}), nullptr);
  choose(size);
  if (size.each > 1) verify(size);
}

// A matrix on the device, quantised there where that is wanted.
Matrix Model::place_matrix(const std::vector<std::uint16_t>& values, std::int64_t rows, std::int64_t columns) {
  const std::size_t bytes = values.size() * sizeof values[0];
  if (!limits_.fp8_weights) {
    Matrix placed{memory_->allocate(bytes), nullptr};
    memory_->upload(placed.data, values.data(), bytes);
    return placed;
  }
  const std::int64_t down = (rows + 127) / 128, across = (columns + 127) / 128;
  const Matrix placed{memory_->allocate(values.size()), memory_->allocate(static_cast<std::size_t>(down * across * 4))};
  const std::unique_ptr<demo::Memory> passing = [&] {  // the bf16 numbers' memory is given back
    auto device = demo::sized<quern_device_info>();
    demo::call([&](quern_error* error) { return quern_device(context_, &device, error); });
    return demo::memory_of(device);
  }();
  void* const plain = passing->allocate(bytes);
  passing->upload(plain, values.data(), bytes);
  auto args = demo::sized<quern_quantize_args>();
  const View x = bf16(plain, rows, columns), out(placed.data, device_, kE4m3, {rows, columns}),
             scale(placed.scales, device_, kF32, {down, across});
  args.x = x, args.out = out, args.scale = scale;
  args.scale_kind = QUERN_SCALE_BLOCK;
  demo::call(
      [&](quern_error* error) { return quern_quantize_workspace(context_, &args, &args.workspace_size, error); });
  if (args.workspace_size > 0) args.workspace = passing->allocate(static_cast<std::size_t>(args.workspace_size));
  demo::call([&](quern_error* error) { return quern_quantize(context_, &args, error); });
  passing->synchronise();
  return placed;
}

// [rows, ceil(columns/128)], the rows of a group one behind the other: so products read them fastest.
View Model::scales(void* data, std::int64_t rows, std::int64_t columns) const {
  return {data, device_, kF32, {rows, (columns + 127) / 128}, {1, (rows + 3) / 4 * 4}};
}

// residual += delta, but before the first layer, and normed = rmsnorm(residual); or quantised, with FP8 weights.
void Model::normalise(const Size& size, bool first, void* weight, bool quantised) {
  const View residual = bf16(residual_, size.tokens, config_.hidden), delta = bf16(delta_, size.tokens, config_.hidden);
  const View by(weight, device_, kBf16, {config_.hidden});
  const auto fill = [&](auto& args) {
    args.x = first ? residual : delta;
    if (!first) args.residual = residual, args.residual_out = residual;
    args.weight = by;
    args.eps = config_.eps;
  };
  if (quantised) {
    quern_quantize_args args{};
    fill(args);
    const View out(quantised_, device_, kE4m3, {size.tokens, config_.hidden}),
        scale = scales(scales_, size.tokens, config_.hidden);
    args.out = out, args.scale = scale;
    args.front = QUERN_FRONT_RMSNORM;
    args.scale_kind = QUERN_SCALE_GROUP;
    QUERN_MAKE(quantize, args);
    return;
  }
  quern_rmsnorm_args args{};
  fill(args);
  const View normed = bf16(normed_, size.tokens, config_.hidden);
  args.out = normed;
  QUERN_MAKE(rmsnorm, args);
}

void Model::quantise(void* from, std::int64_t rows, std::int64_t columns) {
  quern_quantize_args args{};
  const View x = bf16(from, rows, columns), out(quantised_, device_, kE4m3, {rows, columns}),
             scale = scales(scales_, rows, columns);
  args.x = x, args.out = out, args.scale = scale;
  args.scale_kind = QUERN_SCALE_GROUP;
  QUERN_MAKE(quantize, args);
}

// With FP8 weights `from` has been quantised.
void Model::multiply(void* from, std::int64_t rows, std::int64_t in, const Matrix& by, std::int64_t out, const View& to,
                     const quern_epilogue* epilogue) {
  if (by.scales != nullptr) return multiply_fp8(quantised_, scales_, rows, in, by, out, to, epilogue);
  quern_gemm_args args{};
  const View a = bf16(from, rows, in), b = bf16(by.data, out, in);
  args.a = a, args.b = b, args.out = to;
  args.epilogue = epilogue;
  QUERN_MAKE(gemm, args);
}

void Model::multiply_fp8(void* from, void* from_scales, std::int64_t rows, std::int64_t in, const Matrix& by,
                         std::int64_t out, const View& to, const quern_epilogue* epilogue) {
  quern_fp8_gemm_args args{};
  const View a(from, device_, kE4m3, {rows, in}), b(by.data, device_, kE4m3, {out, in}),
      scale_a = scales(from_scales, rows, in), scale_b(by.scales, device_, kF32, {(out + 127) / 128, (in + 127) / 128});
  args.a = a, args.b = b, args.scale_a = scale_a, args.scale_b = scale_b, args.out = to;
  args.epilogue = epilogue;
  QUERN_MAKE(fp8_gemm, args);
}

void Model::run_layer(const Size& size, std::size_t index) {
  const Layer& layer = layers_[index];
  const std::int64_t tokens = size.tokens;
  normalise(size, index == 0, layer.weights.attention_norm, limits_.fp8_weights);
  auto bias = demo::sized<quern_epilogue>();
  const View bias_of(layer.weights.qkv_bias, device_, kBf16, {config_.qkv_width()});
  bias.bias = bias_of;
  multiply(normed_, tokens, config_.hidden, layer.weights.qkv, config_.qkv_width(),
           bf16(qkv_, tokens, config_.qkv_width()), layer.weights.qkv_bias != nullptr ? &bias : nullptr);
  attend(size, layer);
  if (limits_.fp8_weights) quantise(attended_, tokens, config_.q_width());
  multiply(attended_, tokens, config_.q_width(), layer.weights.output, config_.hidden,
           bf16(delta_, tokens, config_.hidden), nullptr);
  normalise(size, false, layer.weights.mlp_norm, limits_.fp8_weights);
  multiply_gated(size, layer.weights);
}

// delta = down (silu(gate) * up). With FP8 weights the first product quantises what it stores for the second.
void Model::multiply_gated(const Size& size, const LayerWeights& weights) {
  const std::int64_t tokens = size.tokens, between = config_.intermediate;
  auto gate = demo::sized<quern_epilogue>();
  gate.flags = QUERN_EPILOGUE_GATE;
  gate.activation = QUERN_ACTIVATION_SILU;
  const View delta = bf16(delta_, tokens, config_.hidden);
  if (!limits_.fp8_weights) {
    multiply(normed_, tokens, config_.hidden, weights.gate_up, 2 * between, bf16(gated_, tokens, between), &gate);
    return multiply(gated_, tokens, between, weights.down, config_.hidden, delta, nullptr);
  }
  const View scale = scales(gated_scales_, tokens, between), gated(gated_, device_, kE4m3, {tokens, between});
  gate.out_scale = scale;
  multiply_fp8(quantised_, scales_, tokens, config_.hidden, weights.gate_up, 2 * between, gated, &gate);
  multiply_fp8(gated_, gated_scales_, tokens, between, weights.down, config_.hidden, delta, nullptr);
}

// New keys and values into the cache, turned by their positions as the queries are, in one launch; then attention.
void Model::attend(const Size& size, const Layer& layer) {
  const std::int64_t width = config_.qkv_width(), dim = config_.head_dim;
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    return View(static_cast<std::uint16_t*>(qkv_) + first, device_, kBf16, {size.tokens, count, dim}, {width, dim, 1});
  };
  const auto cache = [&](void* data) {
    return View(data, device_, limits_.fp8_cache ? kE4m3 : kBf16,
                {limits_.pages, limits_.page_size, config_.kv_heads, dim});
  };
  const View q = heads(0, config_.heads), k = heads(config_.q_width(), config_.kv_heads),
             v = heads(config_.q_width() + config_.kv_width(), config_.kv_heads);
  const View keys = cache(layer.keys), values = cache(layer.values), positions = integers(at_.positions, size.tokens),
             cu_q = integers(at_.cu_q, size.sequences + 1), lengths = integers(at_.lengths, size.sequences);
  const View table(static_cast<std::int32_t*>(inputs_->device()) + at_.table, device_, kI32,
                   {size.sequences, table_columns_});
  const View q_norm(layer.weights.q_norm, device_, kBf16, {dim}), k_norm(layer.weights.k_norm, device_, kBf16, {dim});

  quern_kv_append_args append{};
  append.q = q, append.k = k, append.v = v, append.k_cache = keys, append.v_cache = values;
  append.page_table = table, append.cu_q = cu_q, append.positions = positions;
  append.rope = &config_.rope;
  append.eps = config_.eps;
  if (config_.qk_norm) append.q_weight = q_norm, append.k_weight = k_norm;
  QUERN_MAKE(kv_append, append);

  quern_attention_args args{};
  const View out(attended_, device_, kBf16, {size.tokens, config_.heads, dim});
  args.flags = QUERN_ATTENTION_CAUSAL;
  args.q = q, args.k = keys, args.v = values, args.out = out;
  args.page_table = table, args.lengths = lengths;
  if (size.most_new > 1) args.cu_q = cu_q;
  args.max_q_len = static_cast<std::int32_t>(size.most_new);
  args.max_kv_len = static_cast<std::int32_t>(table_columns_ * limits_.page_size);
  QUERN_MAKE(attention, args);
}

void Model::choose(const Size& size) {
  const std::int64_t n = size.sequences;
  auto* parameters = static_cast<float*>(parameters_->device());
  auto* randomness = static_cast<std::int64_t*>(randomness_->device());
  const View logits(logits_, device_, kF32, {n * size.each, config_.vocabulary}),
      rows = integers(at_.rows, n), ids = integers(at_.ids, n), top_k = integers(at_.top_k, n),
      temperature = numbers(parameters, n), top_p = numbers(parameters + limits_.sequences, n),
      min_p = numbers(parameters + 2 * limits_.sequences, n);
  const View seeds(randomness, device_, kI64, {n}), offsets(randomness + limits_.sequences, device_, kI64, {n});
  quern_sample_args args{};
  args.logits = logits, args.ids = ids;
  if (size.each > 1) args.rows = rows;
  args.temperatures = temperature, args.top_ks = top_k, args.top_ps = top_p, args.min_ps = min_p;
  args.seeds = seeds, args.offsets = offsets;
  QUERN_MAKE(sample, args);
}

// How many of a sequence's drafts are what the model would have said, and what it says behind the last of them.
void Model::verify(const Size& size) {
  const std::int64_t n = size.sequences, drafts = limits_.drafts;
  const auto matrix = [&](std::int64_t place, std::int64_t columns) {
    return View(static_cast<std::int32_t*>(inputs_->device()) + place, device_, kI32, {n, columns});
  };
  const View target(logits_, device_, kF32, {n, drafts + 1, config_.vocabulary});
  const View draft_ids = matrix(at_.drafts, drafts), ids = matrix(at_.verified, drafts + 1),
             lengths = integers(at_.draft_counts, n), accepted = integers(at_.accepted, n);
  quern_verify_draft_args args{};
  args.flags = QUERN_VERIFY_GREEDY;
  args.target = target, args.draft_ids = draft_ids, args.lengths = lengths;
  args.accepted = accepted, args.ids = ids;
  QUERN_MAKE(verify_draft, args);
}

std::vector<float> Model::logits() {
  std::vector<float> values(static_cast<std::size_t>(rows_ * config_.vocabulary));
  memory_->download(values.data(), logits_, values.size() * sizeof values[0]);
  return values;
}

void Model::copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
  if (static_cast<std::int64_t>(pairs.size()) > limits_.sequences)
    throw std::runtime_error("more pages are to be copied at once than there are sequences");
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::int32_t* pair = inputs_->host.data() + at_.copies + 2 * static_cast<std::int64_t>(i);
    pair[0] = pairs[i].first, pair[1] = pairs[i].second;
  }
  inputs_->upload();
  const auto count = static_cast<std::int64_t>(pairs.size());
  auto* data = static_cast<std::int32_t*>(inputs_->device()) + at_.copies;
  const View from(data, device_, kI32, {count}, {2}), to(data + 1, device_, kI32, {count}, {2});
  for (const Layer& layer : layers_) {
    const auto cache = [&](void* pages) {
      return View(pages, device_, limits_.fp8_cache ? kE4m3 : kBf16,
                  {limits_.pages, limits_.page_size, config_.kv_heads, config_.head_dim});
    };
    const View keys = cache(layer.keys), values = cache(layer.values);
    quern_kv_copy_pages_args args{};
    args.k = keys, args.v = values, args.sources = from, args.destinations = to;
    QUERN_MAKE(kv_copy_pages, args);
    if (preparing_) return;
  }
}
#undef QUERN_MAKE

}  // namespace quern::engine
