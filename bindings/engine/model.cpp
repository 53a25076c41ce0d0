// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "bindings/engine/sampling/room.h"

namespace quern::engine {
namespace {

std::uint32_t flags_of(const Limits& limits) {
  std::uint32_t flags = 0;
  if (limits.programmatic) flags |= QUERN_CALL_PROGRAMMATIC;
  if (limits.batch_invariant) flags |= QUERN_CALL_BATCH_INVARIANT;
  if (limits.cached_only) flags |= QUERN_CALL_CACHED_ONLY;
  return flags;
}

}  // namespace

Model::Model(quern_context* context, const quern_device_info& device, const Config& config, Weights weights,
             const Limits& limits, Communicator* communicator)
    : context_(context),
      device_{static_cast<DLDeviceType>(device.device_type), device.device_id},
      config_(config),
      limits_(limits),
      weights_(std::move(weights)),
      memory_(demo::memory_of(device)),
      stream_(stream_of(device)),
      communicator_(communicator),
      calls_(context, flags_of(limits)) {
  table_columns_ = (limits_.context + limits_.page_size - 1) / limits_.page_size;
  if (limits_.pages == 0) limits_.pages = limits_.sequences * table_columns_;
  // A sequence's drafts are listed with its answer.
  const std::int64_t others = kMostBiases + kMostBanned + limits_.drafts;
  limits_.penalised =
      std::min({limits_.penalised, limits_.context, most_listed(context, device_, config_.vocabulary) - others});
  calls_.set_stream(stream_->handle());
  make_room();
  make_rope_table();
  if (config_.logit_cap > 0.0f) {
    demo::call([&](quern_error* error) {
      return quern_expression_create(context, "scalar0 * tanh(acc / scalar0)", &cap_, error);
    });
  }
  prepare();
}

Model::Model(quern_context* context, const quern_device_info& device, const Checkpoint& checkpoint,
             const Limits& limits, Communicator* communicator)
    : Model(context, device, part_of(checkpoint.config(), communicator == nullptr ? 1 : communicator->size()),
            load_weights(checkpoint, checkpoint.config(), Placer(context, device, limits.fp8_weights),
                         communicator == nullptr ? Shard{} : Shard{communicator->rank(), communicator->size()}),
            limits, communicator) {}

void Model::make_room() {
  const auto allocate = [&](std::int64_t count, std::int64_t size) {
    return memory_->allocate(static_cast<std::size_t>(count * size));
  };
  const std::int64_t tokens = limits_.tokens, rows = limits_.sequences * (limits_.drafts + 1);
  residual_ = allocate(tokens * config_.hidden, 2);
  normed_ = allocate(tokens * config_.hidden, 2);
  qkv_ = allocate(tokens * config_.qkv_width(), 2);
  attended_ = allocate(tokens * config_.q_width(), 2);
  gated_ = allocate(tokens * config_.intermediate, 2);
  delta_ = allocate(tokens * config_.hidden, 2);
  last_ = allocate(rows * config_.hidden, 2);
  logits_ = allocate(rows * config_.vocabulary, 4);
  if (limits_.fp8_weights) {
    const std::int64_t most = std::max(tokens, rows);
    const auto groups = [&](std::int64_t columns) { return (columns + 127) / 128 * ((most + 3) / 4 * 4); };
    const std::int64_t widest = std::max({config_.hidden, config_.q_width(), config_.intermediate});
    codes_ = {allocate(most * widest, 1), allocate(groups(widest), 4)};
    gated_codes_ = {gated_, allocate(groups(config_.intermediate), 4)};  // of few rows, which have no others
    queries_ = allocate(tokens * config_.q_width(), 1);
    query_scales_ = allocate(tokens * config_.heads, 4);
  }
  const std::int64_t cache = limits_.pages * limits_.page_size * config_.kv_width();
  for (std::size_t i = 0; i < weights_.layers.size(); ++i)
    caches_.push_back({allocate(cache, limits_.fp8_cache ? 1 : 2), allocate(cache, limits_.fp8_cache ? 1 : 2)});
  inputs_ = std::make_unique<Inputs>(limits_, table_columns_, config_.vocabulary, device_, *memory_, *stream_);
  const auto pairs = static_cast<std::size_t>(2 * limits_.sequences) * sizeof(std::int32_t);
  host_pairs_ = static_cast<std::int32_t*>(stream_->allocate_host(pairs));
  pairs_ = memory_->allocate(pairs);
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
View Model::cache(void* pages) const {
  return {pages,
          device_,
          limits_.fp8_cache ? kE4m3 : kBf16,
          {limits_.pages, limits_.page_size, config_.kv_heads, config_.head_dim}};
}
View Model::pairs(std::int64_t first, std::int64_t count) const {
  return {static_cast<std::int32_t*>(pairs_) + first, device_, kI32, {count}, {2}};
}

// The calls of steps of all kinds, each of the largest size.
void Model::run_all_sizes() {
  const std::int64_t tokens = limits_.tokens, sequences = limits_.sequences;
  std::vector<Size> sizes{{tokens, sequences, tokens}, {sequences, sequences, 1}};
  if (limits_.drafts > 0) sizes.push_back({tokens, sequences, tokens, limits_.drafts + 1});
  for (const Size& size : sizes) {
    size_ = size;
    inputs_->lay_out(size_);
    inputs_->send(calls_);
    run();
    for (size_.choice = 1; size_.choice < kAllChoices; ++size_.choice) {
      inputs_->lay_out(size_);
      inputs_->send(calls_);
      choose();
      if (size_.each > 1) verify();
    }
  }
  copy_pages({{0, 0}});
}

// Every kernel that a step of any size can reach: from here on nothing compiles, allocates or waits for a lock.
void Model::prepare() {
  do {
    if (limits_.cached_only) break;
    calls_.set_mode(Calls::Mode::begin);
    run_all_sizes();
    auto error = demo::sized<quern_error>();
    // What an op asks for next it asks for when it has the one before: so it is asked again every few milliseconds.
    if (calls_.pending()) quern_wait(context_, 10, &error);
  } while (calls_.pending());
  calls_.set_mode(Calls::Mode::ready);
  run_all_sizes();
  if (communicator_ != nullptr) communicator_->prepare(config_.hidden, config_.norm_plus_one, flags_of(limits_));
  calls_.set_mode(Calls::Mode::launch);
  calls_.set_workspace(memory_->allocate(static_cast<std::size_t>(calls_.workspace_size())));
}

std::vector<Next> Model::step(const std::vector<Part>& parts) {
  Size size{0, static_cast<std::int64_t>(parts.size()), 0};
  for (const Part& part : parts) {
    const auto tokens = static_cast<std::int64_t>(part.tokens.size());
    size.tokens += tokens;
    size.most_new = std::max(size.most_new, tokens);
    if (part.drafts > 0) size.each = limits_.drafts + 1;
    check_numbers(part.sampling);
    size.choice |= choice_of(part.sampling, part.allowed.empty());
    if (part.drafts > limits_.drafts || part.drafts >= tokens ||
        (part.drafts > 0 && !may_draft(part.sampling, part.allowed.empty())))
      throw std::runtime_error("a step has drafts that the model was not made ready for");
    const auto answer = static_cast<std::int64_t>(part.text.size() - part.prompt);
    if ((has_penalties(part.sampling) && answer > limits_.penalised) || part.sampling.bias.size() > kMostBiases ||
        part.sampling.banned.size() > kMostBanned || part.sampling.top_logprobs > kMostTop ||
        (!part.allowed.empty() && part.allowed.size() != static_cast<std::size_t>((config_.vocabulary + 31) / 32)))
      throw std::runtime_error("a step's part has more to choose by than a model takes");
  }
  if (size.sequences > limits_.sequences || size.tokens > limits_.tokens)
    throw std::runtime_error("a step has more sequences or tokens than the model was made ready for");
  size_ = size;
  inputs_->lay_out(size);
  inputs_->fill(parts);
  launch();
  inputs_->wait(*stream_);
  std::vector<Next> next;
  for (std::size_t i = 0; i < parts.size(); ++i) next.push_back(inputs_->next(static_cast<std::int64_t>(i), parts[i]));
  return next;
}

void Model::leave_out(const char* op) {
  calls_.leave_out(op);
  measured_++;
}

void Model::repeat(std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i) launch();
  stream_->wait();
}

void Model::launch() {
  const auto all = [&] {
    calls_.after_copies();  // of the step before, whose results the host has read
    inputs_->send(calls_);
    run();
  };
  if (!limits_.graph || size_.most_new > 1 || size_.each > 1) return all();
  // All ranks capture the same steps. None launches one while another still captures it.
  stream_->replay((kAllChoices * size_.sequences + size_.choice) * 64 + measured_, all, [this] {
    if (communicator_ != nullptr) communicator_->meet();
  });
}

void Model::run() {
  quern_gather_args embed{};
  const View table = bf16(weights_.embedding, config_.vocabulary, config_.hidden), tokens = inputs_->tokens(),
             residual = bf16(residual_, size_.tokens, config_.hidden);
  embed.table = table, embed.ids = tokens, embed.out = residual;
  embed.scale = config_.embedding_scale;
  calls_.after_copies();  // so nothing behind it begins before what was sent has come, which attention reads early
  QUERN_MAKE(calls_, gather, embed);
  // Only the last token of each sequence says anything of the next one; with drafts, those before it too.
  const std::int64_t rows = size_.sequences * size_.each;
  const bool some = rows != size_.tokens || size_.each > 1 || !calls_.launches();
  // Quantised with the norm or behind it are not the same bits, which must not depend on what else a step computes.
  const bool eights = weights_.logits.scales != nullptr, at_once = eights && !some && !limits_.batch_invariant;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    run_layer(i);
    const bool last = i + 1 == caches_.size();
    add_half(weights_.layers[i].mlp_post_norm, last ? weights_.norm : weights_.layers[i + 1].attention_norm,
             last ? at_once : limits_.fp8_weights);
  }
  void* normed = normed_;
  if (some) {
    quern_gather_args gather{};
    const View all = bf16(normed_, size_.tokens, config_.hidden), ids = inputs_->last(),
               last = bf16(last_, rows, config_.hidden);
    gather.table = all, gather.ids = ids, gather.out = last;
    QUERN_MAKE(calls_, gather, gather);
    normed = last_;
  }
  auto capped = demo::sized<quern_epilogue>();
  capped.expression = cap_, capped.scalars = &config_.logit_cap, capped.scalar_count = 1;
  if (eights && !at_once) quantise(normed, rows, config_.hidden);
  multiply(normed, rows, config_.hidden, weights_.logits, config_.vocabulary,
           View(logits_, device_, kF32, {rows, config_.vocabulary}), cap_ != nullptr ? &capped : nullptr);
  choose();
  if (size_.each > 1) verify();
}

std::vector<float> Model::logits() {
  std::vector<float> values(static_cast<std::size_t>(size_.each == 1 ? size_.sequences * config_.vocabulary : 0));
  memory_->download(values.data(), logits_, values.size() * sizeof values[0]);
  return values;
}

void Model::copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& copies) {
  const auto count = static_cast<std::int64_t>(copies.size());
  if (count > limits_.sequences)
    throw std::runtime_error("more pages are to be copied at once than there are sequences");
  for (std::size_t i = 0; i < copies.size(); ++i)
    host_pairs_[2 * i] = copies[i].first, host_pairs_[2 * i + 1] = copies[i].second;
  stream_->copy_in(pairs_, host_pairs_, 2 * copies.size() * sizeof *host_pairs_);
  calls_.after_copies();
  for (const Cache& layer : caches_) {
    const View from = pairs(0, count), to = pairs(1, count), keys = cache(layer.keys), values = cache(layer.values);
    quern_kv_copy_pages_args args{};
    args.k = keys, args.v = values, args.sources = from, args.destinations = to;
    QUERN_MAKE(calls_, kv_copy_pages, args);
    if (!calls_.launches()) return;
  }
  stream_->wait();  // the host's pairs may change again
}

}  // namespace quern::engine
