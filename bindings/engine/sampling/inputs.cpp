// The part of a step's arrays that says how tokens are chosen.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/inputs.h"

#include <algorithm>

#include "bindings/engine/sampling/numbers.h"

namespace quern::engine {

void Inputs::fill_sampling(const Part& part, std::int64_t sequence, std::int64_t length, std::int32_t* biases) const {
  host<std::int64_t>(seeds_)[sequence] = static_cast<std::int64_t>(part.sampling.seed);
  host<std::int64_t>(offsets_)[sequence] = length;  // a draw of its own for each place of a text
  for (std::size_t number = 0; number < kNumbers.size(); ++number) {
    if (numbers_[number] >= 0) host<float>(numbers_[number])[sequence] = part.sampling.*kNumbers[number].from;
  }
  if ((size_.choice & kFilters) != 0) host<std::int32_t>(top_ks_)[sequence] = part.sampling.top_k;
  if ((size_.choice & kEdits) != 0) fill_edits(part, sequence, biases);
}

void Inputs::fill_edits(const Part& part, std::int64_t sequence, std::int32_t* biases) const {
  std::uint32_t *const prompt = host<std::uint32_t>(prompt_mask_) + sequence * words_, *const allowed =
                                                                                           host<std::uint32_t>(
                                                                                               allowed_) +
                                                                                           sequence * words_;
  std::fill_n(prompt, words_, 0u);
  for (const std::int32_t token : part.text.first(part.prompt)) prompt[token / 32] |= 1u << token % 32;
  if (part.allowed.empty()) {
    std::fill_n(allowed, words_, ~0u);
  } else {
    std::copy(part.allowed.begin(), part.allowed.end(), allowed);
  }
  // Another's answer may be longer than what is counted.
  const std::span<const std::int32_t> output =
      has_penalties(part.sampling) ? part.text.subspan(part.prompt) : std::span<const std::int32_t>{};
  std::copy(output.begin(), output.end(), host<std::int32_t>(output_tokens_) + sequence * outputs_);
  host<std::int32_t>(output_lengths_)[sequence] = static_cast<std::int32_t>(output.size());
  host<std::int32_t>(bias_offsets_)[sequence] = *biases;
  for (const auto& [token, value] : part.sampling.bias) {
    host<std::int32_t>(bias_ids_)[*biases] = token;
    host<float>(bias_values_)[(*biases)++] = value;
  }
  host<std::int32_t>(bias_offsets_)[sequence + 1] = *biases;
  std::int32_t* const banned = host<std::int32_t>(banned_) + sequence * kMostBanned;
  std::fill_n(banned, kMostBanned, -1);
  std::copy(part.sampling.banned.begin(), part.sampling.banned.end(), banned);
}

void Inputs::describe(Chooser* chooser) const {
  quern_sample_args& args = chooser->args;
  args = quern_sample_args{};
  const std::int64_t n = size_.sequences;
  const auto give = [&](View& slot, const DLTensor* quern_sample_args::* to, std::int64_t place, DLDataType dtype,
                        std::initializer_list<std::int64_t> shape) {
    if (place < 0) return;
    slot = place < ids_ ? view(place, dtype, shape) : result(place, dtype, shape);
    args.*to = slot;
  };
  using Args = quern_sample_args;
  Chooser& c = *chooser;
  give(c.ids, &Args::ids, ids_, kI32, {n});
  if (size_.each > 1) give(c.rows, &Args::rows, rows_, kI32, {n});
  give(c.seeds, &Args::seeds, seeds_, kI64, {n});
  give(c.offsets, &Args::offsets, offsets_, kI64, {n});
  give(c.top_ks, &Args::top_ks, top_ks_, kI32, {n});
  for (std::size_t i = 0; i < kNumbers.size(); ++i) give(c.numbers[i], kNumbers[i].to, numbers_[i], kF32, {n});
  give(c.prompt_mask, &Args::prompt_mask, prompt_mask_, kI32, {n, words_});
  give(c.allowed, &Args::allowed, allowed_, kI32, {n, words_});
  give(c.output_tokens, &Args::output_tokens, output_tokens_, kI32, {n, outputs_});
  give(c.output_lengths, &Args::output_lengths, output_lengths_, kI32, {n});
  give(c.bias_offsets, &Args::bias_offsets, bias_offsets_, kI32, {n + 1});
  give(c.bias_ids, &Args::bias_ids, bias_ids_, kI32, {n * kMostBiases});
  give(c.bias_values, &Args::bias_values, bias_values_, kF32, {n * kMostBiases});
  give(c.banned, &Args::banned, banned_, kI32, {n, kMostBanned});
  if ((size_.choice & kEdits) != 0) args.max_bias = kMostBiases;
  give(c.logprobs, &Args::logprobs, logprobs_, kF32, {n});
  give(c.top_ids, &Args::top_ids, top_ids_, kI32, {n, kMostTop});
  give(c.top_logprobs, &Args::top_logprobs, top_logprobs_, kF32, {n, kMostTop});
}

}  // namespace quern::engine
