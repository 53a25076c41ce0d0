// What MLA decode is to give: the definition in fp64, and the plain maths in f32 whose errors bound those allowed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "tests/ops/mla_problem.h"

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every format of a cache
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double difference(double a, double b) {
  const double d = std::fabs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

const double* MlaProblem::key(int sequence, int j) const {
  return &keys_[size_of(sequence)][size_of(j) * size_of(c_.columns())];
}

struct MlaProblem::Row {
  std::vector<double> out;
  double lse = -kInfinity;
  double by_weights = 0.0, logit_size = 0.0;
};

// In T: fp64 is the definition; f32 the plain maths, in which quantised keys are what tensor cores would be given.
template <class T>
MlaProblem::Row MlaProblem::row_of(int sequence, int query, int head) const {
  const MlaLengths& length = c_.sequences[size_of(sequence)];
  const int token = q_begin(sequence) + query, position = length.kv - length.q + query;
  constexpr bool kExact = std::is_same_v<T, double>;
  int first = 0, last = length.kv - 1;
  if (c_.left) first = std::max(first, position - *c_.left);
  if (c_.right) last = std::min(last, position + *c_.right);
  if (c_.causal) last = std::min(last, position);
  std::vector<int> seen;
  if (c_.top_k > 0) {
    for (int n = 0; n < c_.top_k; ++n) {
      const int j = chosen_[size_of(token) * size_of(c_.top_k) + size_of(n)];
      if (j >= first && j <= last) seen.push_back(j);
    }
  } else {
    for (int j = first; j <= last; ++j) seen.push_back(j);
  }
  const auto columns = size_of(c_.columns()), latent = size_of(c_.d_latent);
  const double* of = &queries_[(size_of(token) * size_of(c_.heads) + size_of(head)) * columns];
  const T scale = static_cast<T>(c_.scale()), cap = static_cast<T>(c_.cap);
  const bool rounds = !kExact && c_.cache != MlaCache::plain;
  const auto number = [&](double x) { return static_cast<T>(rounds ? element_.rounded(x) : x); };
  std::vector<T> logits;
  std::vector<double> sizes;
  T max = -std::numeric_limits<T>::infinity();
  for (const int j : seen) {
    const double* k = key(sequence, j);
    T product = 0;
    double size = 0;
    for (std::size_t d = 0; d < columns; ++d) {
      const T term = static_cast<T>(of[d]) * number(k[d]);
      product += term;
      size += std::fabs(double{term});
    }
    T x = product * scale;
    if (c_.cap > 0.0f) x = cap * std::tanh(x / cap);
    logits.push_back(x);
    sizes.push_back(size * double{scale});
    max = std::max(max, x);
  }
  Row row;
  row.out.assign(latent, 0.0);
  const T sink = static_cast<T>(sinks_[size_of(head)]);
  if (c_.sinks) max = std::max(max, sink);
  if (std::isinf(max)) return row;
  T sum = c_.sinks ? std::exp(sink - max) : T(0);
  std::vector<T> sums(latent, T(0));
  std::vector<double> squares(latent), magnitudes(latent);
  for (std::size_t n = 0; n < seen.size(); ++n) {
    const T weight = std::exp(logits[n] - max);
    sum += weight;
    const double* k = key(sequence, seen[n]);
    for (std::size_t d = 0; d < latent; ++d) {
      const T term = weight * number(k[d]);
      sums[d] += term;
      magnitudes[d] += std::fabs(double{term});
      squares[d] += double{term} * double{term};
    }
    row.logit_size += double{weight} * sizes[n];
  }
  for (std::size_t d = 0; d < latent; ++d) {
    row.out[d] = double{sums[d] / sum};
    row.by_weights = std::max(row.by_weights, std::min(magnitudes[d], 3.0 * std::sqrt(squares[d])) / double{sum});
  }
  row.logit_size /= double{sum};
  row.lse = double{max + std::log(sum)};
  return row;
}

void MlaProblem::check() const {
  const MlaOutput o = output();
  double work = 0.0;
  for (const MlaLengths& s : c_.sequences)
    work += static_cast<double>(s.q) * std::max(s.kv, 1) * c_.heads * c_.columns();
  const double share = std::min(1.0, (on_cuda() ? 2e8 : 4e6) / work);
  Random random("rows of MLA");
  int wrong = 0, checked = 0;
  double worst = 0.0;
  std::ostringstream told;
  for (int s = 0; s < c_.batch(); ++s) {
    const int queries = c_.sequences[size_of(s)].q;
    for (int i = 0; i < queries; ++i) {
      for (int h = 0; h < c_.heads; ++h) {
        const bool edge = (i == 0 || i == queries - 1) && (h == 0 || h == c_.heads - 1);
        if (!edge && random.uniform() >= share) continue;
        ++checked;
        const Row exact = row_of<double>(s, i, h), plain = row_of<float>(s, i, h);
        const int token = q_begin(s) + i;
        const unsigned char* given = &o.out[at_out(token, h)];
        double off = 0.0, plain_off = 0.0, largest = 0.0;
        for (std::size_t d = 0; d < exact.out.size(); ++d) {
          off = std::max(off, difference(element_.load(given + 2 * d), exact.out[d]));
          plain_off = std::max(plain_off, difference(element_.rounded(plain.out[d]), exact.out[d]));
          largest = std::max(largest, std::fabs(exact.out[d]));
        }
        const double allowed = 2.0 * plain_off + element_.roundoff() * (largest + exact.by_weights) + 1e-7;
        double lse_off = 0.0, lse_allowed = 0.0;
        if (c_.lse) {
          const float of = o.lse[size_of(token) * size_of(c_.heads) + size_of(h)];
          if (std::isinf(exact.lse)) {
            lse_off = of == -std::numeric_limits<float>::infinity() ? 0.0 : kInfinity;
          } else {
            lse_off = difference(double{of}, exact.lse);
            // Keys rounded as they are widened make logits that differ as much.
            lse_allowed = 2.0 * difference(plain.lse, exact.lse) + 2e-6 * (1.0 + std::fabs(exact.lse)) +
                          0x1p-23 * (double{c_.cap} + exact.logit_size);
            // They round by chance, here and there: about three times the deviation of as many as a key has.
            if (c_.cache != MlaCache::plain)
              lse_allowed += 2.0 * element_.roundoff() * exact.logit_size / std::sqrt(double(c_.columns()));
            // Of sums of 8-bit products the tensor cores keep 14 bits.
            if (on_cuda() && c_.multiplies_codes()) lse_allowed += 0x1p-14 * exact.logit_size;
          }
        }
        worst = std::max(worst, off / allowed);
        if (off <= allowed && lse_off <= lse_allowed) continue;
        if (++wrong <= 4) {
          told << "sequence " << s << " (" << queries << " queries, " << c_.sequences[size_of(s)].kv << " keys), query "
               << i << ", head " << h << ": out is off by " << off << " (allowed " << allowed << "), lse by " << lse_off
               << " (allowed " << lse_allowed << ")\n";
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0) << "rows of " << checked << " are wrong; QUERN_TEST_SEED=" << run_seed() << "\n" << told.str();
  EXPECT_EQ(o.status, 0u);
  // Rows past the last sequence's are untouched.
  const auto tokens = static_cast<int>(o.lse.size() / size_of(c_.heads));
  for (int t = q_begin_.back(); t < tokens; ++t) {
    for (const unsigned char byte : bits_of(o, t)) ASSERT_EQ(byte, kPoison) << "query token " << t << " was written";
  }
}

}  // namespace quern::test
