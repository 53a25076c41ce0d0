// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/inputs.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "bindings/engine/sampling/numbers.h"

namespace quern::engine {
namespace {

// What is sent is sent in rows of so many words, which are shared by as many threads as there are.
constexpr std::int64_t kWords = 64, kRowBytes = kWords * 4;
// What stands where a token is to be written; none is.
constexpr std::int32_t kNoToken = std::numeric_limits<std::int32_t>::min();

}  // namespace

Inputs::Inputs(const Limits& limits, std::int64_t columns, std::int64_t vocabulary, DLDevice device,
               demo::Memory& memory, Stream& stream)
    : limits_(limits),
      columns_(columns),
      vocabulary_(vocabulary),
      words_((vocabulary + 31) / 32),
      outputs_(limits.penalised),
      device_(device) {
  lay_out({limits.tokens, limits.sequences, limits.tokens, limits.drafts + 1, kAllChoices - 1});
  host_data_ = stream.allocate_host(static_cast<std::size_t>(end_));
  device_data_ = memory.allocate(static_cast<std::size_t>(ids_));
  std::vector<std::int32_t> counting(static_cast<std::size_t>(ids_ / kRowBytes));
  std::iota(counting.begin(), counting.end(), 0);
  counting_ = memory.allocate(counting.size() * sizeof counting[0]);
  memory.upload(counting_, counting.data(), counting.size() * sizeof counting[0]);
}

void Inputs::lay_out(const Size& size) {
  size_ = size;
  std::int64_t end = 0;
  const auto place = [&](std::int64_t count, std::int64_t bytes, std::int32_t choice = 0) {
    if (choice != 0 && (size.choice & choice) == 0) return std::int64_t{-1};
    const std::int64_t begin = end;
    end += (count * bytes + 15) / 16 * 16;  // rows like to lie at multiples of 16 bytes
    return begin;
  };
  const std::int64_t n = size.sequences, rows = n * size.each;
  tokens_ = place(size.tokens, 4), positions_ = place(size.tokens, 4), slots_ = place(size.tokens, 8);
  cu_q_ = place(n + 1, 4), lengths_ = place(n, 4), table_ = place(n * columns_, 4), last_ = place(rows, 4);
  rows_ = place(n, 4), drafts_ = place(n * limits_.drafts, 4), draft_counts_ = place(n, 4);
  seeds_ = place(n, 8), offsets_ = place(n, 8), top_ks_ = place(n, 4, kFilters);
  for (std::size_t i = 0; i < kNumbers.size(); ++i) numbers_[i] = place(n, 4, kNumbers[i].choice);
  prompt_mask_ = place(n * words_, 4, kEdits), allowed_ = place(n * words_, 4, kEdits);
  output_tokens_ = place(n * outputs_, 4, kEdits), output_lengths_ = place(n, 4, kEdits);
  bias_offsets_ = place(n + 1, 4, kEdits), bias_ids_ = place(n * kMostBiases, 4, kEdits);
  bias_values_ = place(n * kMostBiases, 4, kEdits), banned_ = place(n * kMostBanned, 4, kEdits);
  end = (end + kRowBytes - 1) / kRowBytes * kRowBytes;  // so far what is sent
  ids_ = place(n, 4), accepted_ = place(n, 4), verified_ = place(rows, 4), logprobs_ = place(n, 4, kLogprobs);
  top_ids_ = place(n * kMostTop, 4, kLogprobs), top_logprobs_ = place(n * kMostTop, 4, kLogprobs), end_ = end;
}

void Inputs::fill(const std::vector<Part>& parts) {
  std::int32_t row = 0, i = 0, biases = 0;
  const auto each = static_cast<std::int32_t>(size_.each);
  host<std::int32_t>(cu_q_)[0] = 0;
  for (const Part& part : parts) {
    for (std::size_t t = 0; t < part.tokens.size(); ++t, ++row) {
      const std::int64_t position = part.position + static_cast<std::int64_t>(t), page = position / limits_.page_size;
      host<std::int32_t>(tokens_)[row] = part.tokens[t];
      host<std::int32_t>(positions_)[row] = static_cast<std::int32_t>(position);
      host<std::int64_t>(slots_)[row] =
          (*part.pages)[static_cast<std::size_t>(page)] * limits_.page_size + position % limits_.page_size;
    }
    const std::int64_t length = part.position + static_cast<std::int64_t>(part.tokens.size());
    const auto drafts = static_cast<std::int32_t>(part.drafts);
    host<std::int32_t>(cu_q_)[i + 1] = row;
    host<std::int32_t>(lengths_)[i] = static_cast<std::int32_t>(length);
    std::copy(part.pages->begin(), part.pages->end(), host<std::int32_t>(table_) + i * columns_);
    // The token before the drafts and each of these; what is not there is its last once more.
    for (std::int32_t j = 0; j < each; ++j)
      host<std::int32_t>(last_)[i * each + j] = row - 1 - drafts + std::min(j, drafts);
    host<std::int32_t>(rows_)[i] = i * each;
    host<std::int32_t>(draft_counts_)[i] = drafts;
    std::int32_t* const proposed = host<std::int32_t>(drafts_) + i * limits_.drafts;
    std::fill_n(proposed, limits_.drafts, 0);
    std::copy(part.tokens.end() - part.drafts, part.tokens.end(), proposed);
    host<std::int32_t>(ids_)[i] = kNoToken;
    fill_sampling(part, i, length, &biases);
    ++i;
  }
}

void Inputs::wait(Stream& stream) const {
  if (size_.each > 1 || size_.choice != kChoosePlainly) return stream.wait();
  stream.wait_for(host<std::int32_t>(ids_), size_.sequences, kNoToken);
}

void Inputs::send(Calls& calls) const {
  const std::int64_t rows = ids_ / kRowBytes;
  const View from(host_data_, device_, kI32, {rows, kWords}), ids(counting_, device_, kI32, {rows}),
      to(device_data_, device_, kI32, {rows, kWords});
  quern_gather_args args{};
  args.table = from, args.ids = ids, args.out = to;
  QUERN_MAKE(calls, gather, args);
}

Next Inputs::next(std::int64_t sequence, const Part& part) const {
  Next next;
  if (part.drafts > 0) {
    const std::int32_t* const first = host<std::int32_t>(verified_) + sequence * size_.each;
    next.tokens.assign(first, first + host<std::int32_t>(accepted_)[sequence] + 1);
  } else {
    next.tokens = {host<std::int32_t>(ids_)[sequence]};
  }
  if (part.sampling.top_logprobs >= 0) {
    next.logprob = host<float>(logprobs_)[sequence];
    for (std::int64_t i = sequence * kMostTop; i < sequence * kMostTop + part.sampling.top_logprobs; ++i)
      next.top.emplace_back(host<std::int32_t>(top_ids_)[i], host<float>(top_logprobs_)[i]);
  }
  return next;
}

}  // namespace quern::engine
