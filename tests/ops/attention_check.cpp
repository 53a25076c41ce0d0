// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>

namespace quern::test {
namespace {

template <class T>
AttentionRow<T> attention_row(const AttentionProblem& problem, int sequence, int query, int head) {
  const AttentionCase& c = problem.description();
  const Lengths& length = problem.sequences()[static_cast<std::size_t>(sequence)];
  const float* number = decode_table(c.format);
  const int position = length.kv - length.q + query, kv_head = head / c.group;
  int first = 0, last = length.kv - 1;
  if (c.left) first = static_cast<int>(std::max<std::int64_t>(first, std::int64_t{position} - *c.left));
  if (c.right) last = static_cast<int>(std::min<std::int64_t>(last, std::int64_t{position} + *c.right));
  if (c.causal) last = std::min(last, position);

  const T scale = static_cast<T>(c.scale_used()), cap = static_cast<T>(c.cap),
          slope = static_cast<T>(problem.slope(head));
  const std::uint16_t* q = problem.q_row(sequence, query, head);
  constexpr bool kExact = std::is_same_v<T, double>;
  std::vector<T> s;
  std::vector<double> sizes;  // of the logits
  T max = -std::numeric_limits<T>::infinity();
  for (int j = first; j <= last; ++j) {
    const std::uint16_t* k = problem.k_row(sequence, j, kv_head);
    T product = 0, size = 0;
    for (int d = 0; d < c.dim_k; ++d) {
      const T term = static_cast<T>(number[q[d]]) * static_cast<T>(number[k[d]]);
      product += term;
      if constexpr (kExact) size += std::fabs(term);
    }
    if constexpr (kExact) sizes.push_back(size * std::fabs(scale));
    T x = product * scale;
    if (c.cap > 0.0f) x = cap * std::tanh(x / cap);
    x += slope * static_cast<T>(j - position);
    s.push_back(x);
    max = std::max(max, x);
  }
  const auto columns = static_cast<std::size_t>(c.v());
  AttentionRow<T> row{std::vector<T>(columns, T(0)), -std::numeric_limits<T>::infinity()};
  if (c.sinks) max = std::max(max, static_cast<T>(problem.sink(head)));
  if (std::isinf(max)) return row;
  T sum = c.sinks ? std::exp(static_cast<T>(problem.sink(head)) - max) : T(0);
  std::vector<double> magnitudes(kExact ? columns : 0), squares(kExact ? columns : 0);  // of the terms of each column
  for (int j = first; j <= last; ++j) {
    const T weight = std::exp(s[static_cast<std::size_t>(j - first)] - max);
    sum += weight;
    const std::uint16_t* v = problem.v_row(sequence, j, kv_head);
    for (std::size_t d = 0; d < columns; ++d) {
      const T term = weight * static_cast<T>(number[v[d]]);
      row.out[d] += term;
      if constexpr (kExact) magnitudes[d] += std::fabs(term), squares[d] += term * term;
    }
    if constexpr (kExact) row.logit_size += weight * sizes[static_cast<std::size_t>(j - first)];
  }
  for (T& x : row.out) x /= sum;
  if constexpr (kExact) {
    for (std::size_t d = 0; d < columns; ++d) {
      row.by_weights = std::max(row.by_weights, std::min(magnitudes[d], 3.0 * std::sqrt(squares[d])) / sum);
    }
    row.logit_size /= sum;
  }
  row.lse = max + std::log(sum);
  return row;
}

Closeness worst;

// A row's errors: ours and those of the plain maths in f32 with its result rounded.
struct Errors {
  double out = 0.0, plain_out = 0.0, largest = 0.0, by_weights = 0.0;
  double lse = 0.0, plain_lse = 0.0, lse_size = 0.0, logit_size = 0.0;
  bool infinite = false;  // the row sees nothing

  double out_bound(Format format) const {
    return 2.0 * plain_out + unit_roundoff(format) * (largest + by_weights) + 1e-7;
  }
  // tanh by way of an exponential keeps its digits relative to 1, that is to the cap, not to small logits.
  double lse_bound(double cap) const {
    return 2.0 * plain_lse + 2e-6 * (1.0 + lse_size) + 0x1p-23 * (cap + logit_size);
  }
};

struct Row {
  int sequence, query, head;
};

double difference(double a, double b) {
  const double d = std::fabs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

Errors errors_of(const AttentionProblem& problem, const AttentionTensors& layout, const AttentionOutput& output,
                 const Row& row) {
  const AttentionCase& c = problem.description();
  const AttentionRow<double> exact = attention_row_exactly(problem, row.sequence, row.query, row.head);
  const AttentionRow<float> plain = attention_row_plainly(problem, row.sequence, row.query, row.head);
  const int token = problem.q_begin(row.sequence) + row.query;
  const auto at = static_cast<std::size_t>(layout.out_rows.at(token, row.head));
  Errors e;
  e.by_weights = exact.by_weights;
  e.logit_size = exact.logit_size;
  for (std::size_t d = 0; d < exact.out.size(); ++d) {
    e.out = std::max(e.out, difference(decode(output.out[at + d], c.format), exact.out[d]));
    e.plain_out =
        std::max(e.plain_out, difference(decode(encode(double{plain.out[d]}, c.format), c.format), exact.out[d]));
    e.largest = std::max(e.largest, std::fabs(exact.out[d]));
  }
  if (!c.lse) return e;
  const float lse = output.lse[static_cast<std::size_t>(layout.lse_rows.at(token, row.head))];
  e.infinite = std::isinf(exact.lse);
  if (e.infinite) {
    e.lse = lse == -std::numeric_limits<float>::infinity() ? 0.0 : std::numeric_limits<double>::infinity();
    return e;
  }
  e.lse = difference(double{lse}, exact.lse);
  e.plain_lse = difference(double{plain.lse}, exact.lse);
  e.lse_size = std::fabs(exact.lse);
  return e;
}

// All rows, or where that would take too long some of them at random: the first and the last token's always.
std::vector<Row> rows_to_check(const AttentionProblem& problem) {
  const AttentionCase& c = problem.description();
  double work = 0.0;
  for (const Lengths& s : problem.sequences())
    work += static_cast<double>(s.q) * std::max(s.kv, 1) * c.heads() * (c.dim_k + c.v());
  const double share = std::min(1.0, (on_cuda() ? 4e8 : 4e7) / work);
  Random random("rows to check");
  std::vector<Row> rows;
  for (int s = 0; s < c.batch(); ++s) {
    const int queries = problem.sequences()[static_cast<std::size_t>(s)].q;
    for (int i = 0; i < queries; ++i) {
      const bool edge = (s == 0 && i == 0) || (s == c.batch() - 1 && i == queries - 1);
      for (int h = 0; h < c.heads(); ++h) {
        if (random.uniform() < share || (edge && h % c.group == 0)) rows.push_back({s, i, h});
      }
    }
  }
  return rows;
}

std::vector<Errors> errors_of(const AttentionProblem& problem, const AttentionTensors& layout,
                              const AttentionOutput& output, const std::vector<Row>& rows) {
  std::vector<Errors> errors(rows.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) errors[i] = errors_of(problem, layout, output, rows[i]);
  };
  std::vector<std::thread> threads;
  const std::size_t count =
      on_cuda() ? std::min<std::size_t>(std::thread::hardware_concurrency(), rows.size() / 16) : 0;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

AttentionRow<double> attention_row_exactly(const AttentionProblem& problem, int sequence, int query, int head) {
  return attention_row<double>(problem, sequence, query, head);
}
AttentionRow<float> attention_row_plainly(const AttentionProblem& problem, int sequence, int query, int head) {
  return attention_row<float>(problem, sequence, query, head);
}
const Closeness& worst_closeness() { return worst; }

void AttentionProblem::check() const {
  const AttentionOutput output = this->output();
  check_untouched(output);
  const std::vector<Row> rows = rows_to_check(*this);
  const std::vector<Errors> errors = errors_of(*this, tensors_, output, rows);
  int wrong = 0;
  std::ostringstream told;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Errors& e = errors[i];
    worst.out = std::max(worst.out, e.out / e.out_bound(case_.format));
    const double lse_bound = e.infinite ? 0.0 : e.lse_bound(double{case_.cap});
    if (!e.infinite) worst.lse = std::max(worst.lse, e.lse / lse_bound);
    if (e.out <= e.out_bound(case_.format) && e.lse <= lse_bound) continue;
    if (++wrong > 4) continue;
    const Lengths& s = sequences_[static_cast<std::size_t>(rows[i].sequence)];
    told << "sequence " << rows[i].sequence << " (" << s.q << " queries, " << s.kv << " keys), query " << rows[i].query
         << ", head " << rows[i].head << ": out is off by " << e.out << " (allowed " << e.out_bound(case_.format)
         << "), lse by " << e.lse << " (allowed " << lse_bound << ")\n";
  }
  EXPECT_EQ(wrong, 0) << "rows of " << rows.size() << " are wrong; QUERN_TEST_SEED=" << run_seed() << "\n"
                      << told.str();
}

// Rows in use hold numbers everywhere; everything else holds the poison.
void AttentionProblem::check_untouched(const AttentionOutput& output) const {
  std::vector<std::uint16_t> out = output.out;
  std::vector<float> lse = output.lse;
  const float* number = decode_table(case_.format);
  std::int64_t unwritten = 0, touched = 0;
  const std::uint16_t poison16 = 0xffff;
  for (int i = 0; i < q_begin_.back(); ++i) {
    for (int h = 0; h < case_.heads(); ++h) {
      const auto at = static_cast<std::size_t>(tensors_.out_rows.at(i, h));
      for (std::size_t d = 0; d < static_cast<std::size_t>(case_.v()); ++d) {
        unwritten += !std::isfinite(number[out[at + d]]);
        out[at + d] = poison16;
      }
      float& row = lse[static_cast<std::size_t>(tensors_.lse_rows.at(i, h))];
      if (!case_.lse) continue;
      unwritten += std::isnan(row) || row == std::numeric_limits<float>::infinity();
      std::memset(&row, 0xff, sizeof(row));
    }
  }
  for (const std::uint16_t x : out) touched += x != poison16;
  for (const float& x : lse) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, 4);
    touched += bits != 0xffffffffu;
  }
  EXPECT_EQ(unwritten, 0) << "values of rows in use are not finite; QUERN_TEST_SEED=" << run_seed();
  EXPECT_EQ(touched, 0) << "values outside of the rows in use were written; QUERN_TEST_SEED=" << run_seed();
}

}  // namespace quern::test
