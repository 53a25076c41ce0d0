// Sequences of random lengths in a paged pool, and rotary positions, as several ops' trials need them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sources/verify/trial.h"

namespace quern::ops::verify {

// Each has `queries` queries and some keys more; pages of the pool are anybody's, in any order.
struct Sequences {
  // page_size 0: one behind the other, without pages.
  Sequences(Trial& trial, std::int64_t batch, std::int64_t queries, std::int64_t page_size, std::int64_t spread);

  std::int64_t batch, queries, page_size, columns = 0, pages = 0, most = 0;
  std::vector<std::int64_t> lengths, cu_q{0}, cu_kv{0}, table;
  std::int64_t total_q() const { return batch * queries; }
  std::int64_t total_kv() const { return cu_kv.back(); }
  // The row of the pool, or of the keys one behind the other, that key j of sequence b lies in.
  std::int64_t row(std::int64_t b, std::int64_t j) const {
    if (page_size == 0) return cu_kv[static_cast<std::size_t>(b)] + j;
    return table[static_cast<std::size_t>(b * columns + j / page_size)] * page_size + j % page_size;
  }
};

// A different place of the pool for each token, or -1 for one that is skipped.
std::vector<std::int64_t> random_slots(Trial& trial, std::int64_t tokens, std::int64_t places);

// How a head's first dimensions turn by its token's position: by theta = 10000, or as a table says.
struct Turning {
  std::int64_t rotary = 0;
  bool interleaved = false;
  const Field* table = nullptr;  // [positions, rotary]: cosines, then sines

  // Numbers from..from + rotary of a row.
  void apply(double* from, std::int64_t position) const;
};
// The turning that these constants ask for (rotary_dim, interleaved, table), and the options that ask for it; null
// where nothing turns. Positions are below 1000.
const quern_rope_options* turning_of(const Given& given, std::int64_t rotary, Trial& trial, Turning* turning);

// The code's scale: the largest finite magnitude over the dtype's largest number, as the appends find it.
double found_scale(double largest, Dtype code);
double largest_of(Dtype code);

}  // namespace quern::ops::verify
