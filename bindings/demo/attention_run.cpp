// Attention as a serving engine calls it.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/attention_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "bindings/demo/call.h"
#include "bindings/demo/tensor.h"

namespace quern::demo {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;  // bf16: what is not written shows

double from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::int64_t longest(const Activations& activations) {
  std::int64_t most = 0;
  for (const Layer& layer : activations.layers) {
    for (const Sequence& sequence : layer.sequences) most = std::max(most, sequence.tokens);
  }
  return most;
}

// NaN counts as as far off as can be.
void raise(double& largest, double error) {
  if (!(error <= largest)) largest = std::isnan(error) ? std::numeric_limits<double>::max() : error;
}

}  // namespace

// One call's arguments. Without a cache the tensors have no data and the extents are maxima, as prepare wants them.
struct AttentionRun::Call {
  Call(const AttentionRun& run, const PagedCache* cache, std::int64_t rows, bool one_query_each)
      : device{run.device_.device_type, run.device_.device_id},
        batch(static_cast<std::int64_t>(run.batch_)),
        q(cache ? run.q_.device() : nullptr, device, kBf16, {rows, shape(run).heads, shape(run).dim}),
        k(cache ? cache->keys() : nullptr, device, kBf16,
          {cache ? cache->pages() : 1, PagedCache::kPageSize, shape(run).kv_heads, shape(run).dim}),
        v(cache ? cache->values() : nullptr, device, kBf16,
          {cache ? cache->pages() : 1, PagedCache::kPageSize, shape(run).kv_heads, shape(run).dim}),
        out(cache ? run.out_.device() : nullptr, device, kBf16, {rows, shape(run).heads, shape(run).dim}),
        lse(cache ? run.lse_.device() : nullptr, device, kF32, {rows, shape(run).heads}),
        lengths(cache ? run.lengths_.device() : nullptr, device, kI32, {batch}),
        cu_q(cache ? run.cu_q_.device() : nullptr, device, kI32, {batch + 1}),
        page_table(cache ? cache->page_table() : nullptr, device, kI32, {batch, cache ? cache->max_pages() : 1}),
        args(sized<quern_attention_args>()) {
    args.flags = QUERN_ATTENTION_CAUSAL;
    args.workspace = run.workspace_;
    args.workspace_size = run.workspace_size_;
    args.q = q;
    args.k = k;
    args.v = v;
    args.out = out;
    args.lse = lse;
    args.lengths = lengths;
    args.cu_q = one_query_each ? nullptr : static_cast<const DLTensor*>(cu_q);
    args.page_table = page_table;
    args.max_q_len = one_query_each ? 1 : static_cast<std::int32_t>(kChunk);
    args.max_kv_len = static_cast<std::int32_t>(run.max_tokens_);
    args.scale = shape(run).scale;
  }
  static const Activations& shape(const AttentionRun& run) { return run.activations_; }

  DLDevice device;
  std::int64_t batch;
  Tensor q, k, v, out, lse, lengths, cu_q, page_table;
  quern_attention_args args;
};

AttentionRun::AttentionRun(quern_context* context, const quern_device_info& device, const Activations& activations)
    : context_(context),
      device_(device),
      activations_(activations),
      batch_(activations.layers.at(0).sequences.size()),
      max_tokens_(longest(activations)),
      memory_(memory_of(device)),
      q_(*memory_, batch_ * static_cast<std::size_t>(kChunk * activations.heads * activations.dim)),
      out_(*memory_, q_.host.size()),
      lse_(*memory_, batch_ * static_cast<std::size_t>(kChunk * activations.heads)),
      lengths_(*memory_, batch_),
      cu_q_(*memory_, batch_ + 1) {}

void AttentionRun::prepare() {
  const Call maxima(*this, nullptr, static_cast<std::int64_t>(batch_) * kChunk, false);
  call([&](quern_error* error) { return quern_attention_prepare(context_, &maxima.args, error); });
  call([&](quern_error* error) { return quern_attention_workspace(context_, &maxima.args, &workspace_size_, error); });
  workspace_ = memory_->allocate(static_cast<std::size_t>(workspace_size_));
}

void AttentionRun::serve(const Layer& layer, unsigned seed) {
  PagedCache cache(*memory_, activations_, layer, seed);
  std::vector<Span> spans(batch_, Span{0, 0});
  for (bool more = true; more;) {
    more = false;
    for (std::size_t s = 0; s < batch_; ++s) {
      const std::int64_t prompt = layer.sequences[s].tokens - kDecodeSteps;
      spans[s] = {spans[s].to, std::min(spans[s].to + kChunk, prompt)};
      more |= spans[s].to < prompt;
    }
    step(layer, cache, spans, prefill_);
  }
  for (std::int64_t i = 0; i < kDecodeSteps; ++i) {
    for (Span& span : spans) span = {span.to, span.to + 1};
    step(layer, cache, spans, decode_);
  }
}

void AttentionRun::step(const Layer& layer, PagedCache& cache, const std::vector<Span>& spans, Phase& phase) {
  const std::int64_t row = activations_.heads * activations_.dim;
  std::int64_t rows = 0;
  for (std::size_t s = 0; s < batch_; ++s) {
    const auto [from, to] = spans[s];
    cache.write(s, from, to);
    std::copy(layer.sequences[s].q.begin() + from * row, layer.sequences[s].q.begin() + to * row,
              q_.host.begin() + rows * row);
    rows += to - from;
    cu_q_.host[s + 1] = static_cast<std::int32_t>(rows);
    lengths_.host[s] = static_cast<std::int32_t>(to);
  }
  std::fill(out_.host.begin(), out_.host.end(), kNan);
  std::fill(lse_.host.begin(), lse_.host.end(), std::numeric_limits<float>::quiet_NaN());
  cache.upload();
  q_.upload();
  cu_q_.upload();
  lengths_.upload();
  out_.upload();
  lse_.upload();

  const Call one(*this, &cache, rows, &phase == &decode_);
  memory_->synchronise();
  const auto start = std::chrono::steady_clock::now();
  call([&](quern_error* error) { return quern_attention(context_, &one.args, error); });
  memory_->synchronise();
  phase.milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  phase.calls++;
  phase.tokens += rows;

  out_.download();
  lse_.download();
  std::int64_t at = 0;
  for (std::size_t s = 0; s < batch_; ++s) {
    compare(layer.sequences[s], spans[s], at, phase);
    at += spans[s].to - spans[s].from;
  }
}

void AttentionRun::compare(const Sequence& truth, const Span& span, std::int64_t row, Phase& phase) const {
  const std::int64_t heads = activations_.heads, width = heads * activations_.dim;
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  for (std::int64_t t = span.from; t < span.to; ++t, ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      raise(phase.out_error, std::abs(from_bf16(out_.host[at(row * width + i)]) - truth.out[at(t * width + i)]));
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      raise(phase.lse_error, std::abs(double{lse_.host[at(row * heads + h)]} - truth.lse[at(t * heads + h)]));
    }
  }
}

}  // namespace quern::demo
