// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/inputs.h"

#include <algorithm>

namespace quern::engine {

Inputs::Inputs(const Limits& limits, std::int64_t columns, DLDevice device, demo::Memory& memory, Stream& stream)
    : limits_(limits), columns_(columns), device_(device), stream_(stream) {
  lay_out({limits.tokens, limits.sequences, limits.tokens, limits.drafts + 1});
  host_data_ = stream.allocate_host(static_cast<std::size_t>(end_));
  device_data_ = memory.allocate(static_cast<std::size_t>(end_));
}

void Inputs::lay_out(const Size& size) {
  size_ = size;
  std::int64_t end = 0;
  const auto place = [&](std::int64_t count, std::int64_t bytes) {  // at multiples of 16 bytes, as rows like to lie
    const std::int64_t begin = end;
    end += (count * bytes + 15) / 16 * 16;
    return begin;
  };
  const std::int64_t n = size.sequences, rows = n * size.each;
  tokens_ = place(size.tokens, 4), positions_ = place(size.tokens, 4);
  cu_q_ = place(n + 1, 4), lengths_ = place(n, 4), table_ = place(n * columns_, 4), last_ = place(rows, 4);
  rows_ = place(n, 4), drafts_ = place(n * limits_.drafts, 4), draft_counts_ = place(n, 4);
  temperatures_ = place(n, 4), top_ks_ = place(n, 4), top_ps_ = place(n, 4), min_ps_ = place(n, 4);
  seeds_ = place(n, 8), offsets_ = place(n, 8);
  ids_ = place(n, 4), accepted_ = place(n, 4), verified_ = place(rows, 4), end_ = end;
}

void Inputs::fill(const std::vector<Part>& parts) {
  std::int32_t row = 0, i = 0;
  const auto each = static_cast<std::int32_t>(size_.each);
  host<std::int32_t>(cu_q_)[0] = 0;
  for (const Part& part : parts) {
    for (std::size_t t = 0; t < part.tokens.size(); ++t, ++row) {
      host<std::int32_t>(tokens_)[row] = part.tokens[t];
      host<std::int32_t>(positions_)[row] = static_cast<std::int32_t>(part.position + static_cast<std::int64_t>(t));
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
    host<float>(temperatures_)[i] = part.sampling.temperature;
    host<std::int32_t>(top_ks_)[i] = part.sampling.top_k;
    host<float>(top_ps_)[i] = part.sampling.top_p;
    host<float>(min_ps_)[i] = part.sampling.min_p;
    host<std::int64_t>(seeds_)[i] = static_cast<std::int64_t>(part.sampling.seed);
    host<std::int64_t>(offsets_)[i] = length;  // a draw of its own for each place of a text
    ++i;
  }
}

void Inputs::send() { stream_.copy_in(device_data_, host_data_, static_cast<std::size_t>(ids_)); }

void Inputs::receive() {
  stream_.copy_out(host<char>(ids_), static_cast<char*>(device_data_) + ids_, static_cast<std::size_t>(end_ - ids_));
}

std::vector<std::int32_t> Inputs::next(std::int64_t sequence, const Part& part) const {
  if (part.drafts == 0) return {host<std::int32_t>(ids_)[sequence]};
  const std::int32_t* const first = host<std::int32_t>(verified_) + sequence * size_.each;
  return {first, first + host<std::int32_t>(accepted_)[sequence] + 1};
}

}  // namespace quern::engine
