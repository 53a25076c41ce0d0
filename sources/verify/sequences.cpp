// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/sequences.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace quern::ops::verify {

Sequences::Sequences(Trial& trial, std::int64_t count, std::int64_t queries_each, std::int64_t page,
                     std::int64_t spread)
    : batch(count), queries(queries_each), page_size(page) {
  for (std::int64_t b = 0; b < batch; ++b) {
    lengths.push_back(queries + trial.below(spread));
    cu_q.push_back(cu_q.back() + queries), cu_kv.push_back(cu_kv.back() + lengths.back());
  }
  most = *std::max_element(lengths.begin(), lengths.end());
  if (page_size == 0) return;
  columns = (most + page_size - 1) / page_size, pages = batch * columns;
  table.resize(static_cast<std::size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), trial.random());
}

std::vector<std::int64_t> random_slots(Trial& trial, std::int64_t tokens, std::int64_t places) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(places));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), trial.random());
  all.resize(static_cast<std::size_t>(tokens));
  all[static_cast<std::size_t>(trial.below(tokens))] = -1;
  return all;
}

void Turning::apply(double* from, std::int64_t position) const {
  for (std::int64_t pair = 0; pair < rotary / 2; ++pair) {
    double& a = from[interleaved ? 2 * pair : pair];
    double& b = from[interleaved ? 2 * pair + 1 : pair + rotary / 2];
    const double angle = static_cast<double>(position) *
                         std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(rotary));
    const double cosine = table != nullptr ? table->get(position * rotary + pair) : std::cos(angle);
    const double sine = table != nullptr ? table->get(position * rotary + rotary / 2 + pair) : std::sin(angle);
    const double turned = a * cosine - b * sine;
    b = b * cosine + a * sine, a = turned;
  }
}

const quern_rope_options* turning_of(const Given& given, std::int64_t rotary, Trial& trial, Turning* turning) {
  if (rotary == 0) return nullptr;
  turning->rotary = rotary, turning->interleaved = given.flag("interleaved");
  auto& options = trial.keep(quern_rope_options{});
  options.size = sizeof(options), options.rotary_dim = static_cast<std::int32_t>(rotary);
  if (turning->interleaved) options.flags |= QUERN_ROPE_INTERLEAVED;
  if (const Dtype table = given.dtype("table"); table != Dtype::other) {
    turning->table = &trial.uniform(table, {1000, rotary}, -1, 1);
    options.table = turning->table->tensor();
  }
  return &options;
}

double largest_of(Dtype code) { return code == Dtype::e4m3 ? 448 : code == Dtype::e5m2 ? 57344 : 127; }

double found_scale(double largest, Dtype code) {
  return largest == 0 ? 1 : std::max(largest / largest_of(code), 0x1p-126);
}

}  // namespace quern::ops::verify
