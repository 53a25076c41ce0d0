// A call of index_scores with random tensors, and its definition in fp64; unused slots of the cache hold NaN, unused
// entries of page tables lie far outside of the pool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {

struct ScoreLengths {
  std::int64_t q, kv;
};
enum class ScoreScale { none, tensor, row };

struct ScoreCase {
  std::string name;
  std::vector<ScoreLengths> sequences = {{1, 100}};
  std::int64_t heads = 64, dim = 128, page_size = 64, more_columns = 5;
  Element code = Element::e4m3;
  bool ragged = false, indptr = false, one_query = false;
  bool causal = true, leave_masked = false;
  ScoreScale q_scale = ScoreScale::row, k_scale = ScoreScale::row;
  bool heads_first = false;  // q lies in memory as [heads, tokens, d]
  bool fused_pool = false;   // a page's scales lie behind its keys
  bool raw_bytes = false;
  int alignment = 0, max_sms = 0;
  std::uint32_t flags = 0;

  std::int64_t batch() const { return static_cast<std::int64_t>(sequences.size()); }
  std::int64_t total_q() const {
    std::int64_t sum = 0;
    for (const ScoreLengths& s : sequences) sum += s.q;
    return sum;
  }
  std::int64_t max_kv() const {
    std::int64_t most = 1;
    for (const ScoreLengths& s : sequences) most = std::max(most, s.kv);
    return most;
  }
  std::int64_t max_q() const {
    std::int64_t most = 1;
    for (const ScoreLengths& s : sequences) most = std::max(most, s.q);
    return most;
  }
  std::int64_t pages_of(std::int64_t kv) const { return (kv + page_size - 1) / page_size; }
  std::int64_t pool() const {
    std::int64_t sum = 2;
    for (const ScoreLengths& s : sequences) sum += ragged ? s.kv : pages_of(s.kv);
    return sum;
  }
  std::int64_t columns() const { return max_kv() + more_columns; }
};

inline std::int64_t at_least_1(std::int64_t n) { return std::max<std::int64_t>(n, 1); }

class Scoring {
 public:
  explicit Scoring(const ScoreCase& c)
      : args(sized<quern_index_scores_args>()),
        c_(c),
        q(c.code, {c.total_q(), c.heads, c.dim},
          c.heads_first ? Array::Extents{c.dim, at_least_1(c.total_q()) * c.dim, 1} : Array::Extents{}),
        q_scale(c.q_scale == ScoreScale::row ? Array(Element::f32, {c.total_q(), c.heads}) : Array(Element::f32, {1})),
        weights(Element::f32, {c.total_q(), c.heads}),
        k(c.ragged ? Array(c.code, {c.pool(), c.dim})
                   : Array(c.code, {c.pool(), c.page_size, c.dim},
                           c.fused_pool ? Array::Extents{c.page_size * (c.dim + 16), c.dim, 1} : Array::Extents{})),
        k_scale(c.k_scale != ScoreScale::row ? Array(Element::f32, {1})
                : c.ragged                   ? Array(Element::f32, {c.pool()})
                                             : Array(Element::f32, {c.pool(), c.page_size})),
        out(Element::f32, {c.total_q(), c.columns()}),
        lengths(IntegerBits{32}, {c.batch()}),
        cu_q(IntegerBits{32}, {c.batch() + 1}),
        cu_kv(IntegerBits{32}, {c.batch() + 1}),
        table(IntegerBits{32}, {c.batch(), c.pages_of(c.max_kv()) + 1}),
        indptr(IntegerBits{32}, {c.batch() + 1}),
        indices(IntegerBits{32}, {c.pool()}),
        status(IntegerBits{32}, {1}) {
    Random random(c.name);
    for (std::int64_t t = 0; t < c.total_q(); ++t) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        weights.set(random.normal(), t, h);
        if (c.q_scale == ScoreScale::row) q_scale.set(0.01 + random.uniform(), t, h);
        for (std::int64_t d = 0; d < c.dim; ++d) q.set(random.normal(), t, h, d);
      }
    }
    if (c.q_scale == ScoreScale::tensor) q_scale.set(0.37, 0);
    if (c.k_scale == ScoreScale::tensor) k_scale.set(0.23, 0);
    place_keys(random);
    status.set_integer(0, 0);
    set_args();
  }

  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_index_scores_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_index_scores_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_index_scores(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download(), status.download();
  }
  void upload() {
    for (Array* x :
         {&q, &q_scale, &weights, &k, &k_scale, &out, &lengths, &cu_q, &cu_kv, &table, &indptr, &indices, &status})
      x->upload();
  }

  void check() {
    // In fp64, and as f32 has it, whose error says what is allowed.
    struct One {
      std::int64_t token, column;
      double exact, size;
    };
    std::vector<One> all;
    double usual = 0x1p-23;
    std::int64_t wrong = 0;
    for (std::int64_t s = 0, token = 0; s < c_.batch(); ++s) {
      const ScoreLengths& length = c_.sequences[static_cast<std::size_t>(s)];
      for (std::int64_t i = 0; i < length.q; ++i, ++token) {
        const std::int64_t seen = std::max<std::int64_t>(c_.causal ? length.kv - length.q + i + 1 : length.kv, 0);
        for (std::int64_t j = 0; j < c_.columns(); ++j) {
          const double given = out.get(token, j);
          if (j >= seen) {
            const bool masked = std::isinf(given) && given < 0.0;
            wrong += !(masked || (c_.leave_masked && out.is_untouched(token, j)));
            continue;
          }
          double exact = 0.0, size = 0.0;
          float single = 0.0f;
          const std::vector<double> key = key_of(s, j);
          const double scale = scale_of(s, j);
          for (std::int64_t h = 0; h < c_.heads; ++h) {
            double dot = 0.0, terms = 0.0;
            float rough = 0.0f;
            for (std::int64_t d = 0; d < c_.dim; ++d) {
              const double term = q.get(token, h, d) * key[static_cast<std::size_t>(d)];
              dot += term, terms += std::fabs(term), rough += static_cast<float>(term);
            }
            const double by = weight_of(token, h) * scale;
            exact += by * std::max(dot, 0.0), size += std::fabs(by) * terms;
            single += static_cast<float>(by) * std::max(rough, 0.0f);
          }
          usual = std::max(usual, std::fabs(double{single} - exact) / size);
          all.push_back({token, j, exact, size});
        }
      }
    }
    // Hopper's tensor cores keep some 14 bits of sums of 8-bit products.
    const double allowed = on_cuda() ? std::max(2.0 * usual, 0x1p-11) : 2.0 * usual;
    double worst = 0.0;
    for (const One& one : all) {
      const double off = std::fabs(out.get(one.token, one.column) - one.exact) / one.size;
      worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(worst, off);
    }
    EXPECT_LE(worst, allowed) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
    EXPECT_EQ(wrong, 0) << "columns that are not masked as they should; QUERN_TEST_SEED=" << run_seed();
    EXPECT_EQ(status.integer(0), 0);
  }

  // Fewer keys, of the same queries and places.
  void shorten(Random& random, const std::vector<ScoreLengths>& at_most) {
    for (std::size_t s = 0; s < at_most.size(); ++s) {
      c_.sequences[s].kv = random.between(0, static_cast<int>(at_most[s].kv));
      lengths.set_integer(c_.sequences[s].kv, static_cast<std::int64_t>(s));
    }
    for (std::int64_t t = 0; t < out.extent(0); ++t) {
      for (std::int64_t j = 0; j < out.extent(1); ++j) out.set(std::numeric_limits<double>::quiet_NaN(), t, j);
    }
    lengths.upload();
    out.upload();
  }

  quern_index_scores_args args;

 private:
  std::int64_t page_of(std::int64_t s, std::int64_t j) const { return table.integer(s, j / c_.page_size); }
  std::vector<double> key_of(std::int64_t s, std::int64_t j) const {
    std::vector<double> key;
    for (std::int64_t d = 0; d < c_.dim; ++d)
      key.push_back(c_.ragged ? k.get(cu_kv.integer(s) + j, d) : k.get(page_of(s, j), j % c_.page_size, d));
    return key;
  }
  double scale_of(std::int64_t s, std::int64_t j) const {
    if (c_.k_scale == ScoreScale::none) return 1.0;
    if (c_.k_scale == ScoreScale::tensor) return k_scale.get(0);
    return c_.ragged ? k_scale.get(cu_kv.integer(s) + j) : k_scale.get(page_of(s, j), j % c_.page_size);
  }
  double weight_of(std::int64_t token, std::int64_t h) const {
    const double by = c_.q_scale == ScoreScale::none     ? 1.0
                      : c_.q_scale == ScoreScale::tensor ? q_scale.get(0)
                                                         : q_scale.get(token, h);
    return weights.get(token, h) * by;
  }

  void place_keys(Random& random) {
    std::vector<std::int64_t> free(static_cast<std::size_t>(c_.pool()));
    std::iota(free.begin(), free.end(), 0);
    random.shuffle(free);
    for (std::int64_t s = 0; s < c_.batch(); ++s) {
      for (std::int64_t i = 0; i < table.extent(1); ++i) table.set_integer(0x7ffffff0, s, i);
    }
    for (std::int64_t i = 0; i < indices.extent(0); ++i) indices.set_integer(0x7ffffff0, i);
    std::int64_t token = 0, row = 0, listed = 0;
    cu_q.set_integer(0, 0), cu_kv.set_integer(0, 0), indptr.set_integer(0, 0);
    for (std::int64_t s = 0; s < c_.batch(); ++s) {
      const ScoreLengths& length = c_.sequences[static_cast<std::size_t>(s)];
      lengths.set_integer(length.kv, s);
      for (std::int64_t i = 0; i < c_.pages_of(length.kv) && !c_.ragged; ++i) {
        table.set_integer(free.back(), s, i), indices.set_integer(free.back(), listed++);
        free.pop_back();
      }
      for (std::int64_t j = 0; j < length.kv; ++j) {
        const std::int64_t page = c_.ragged ? 0 : page_of(s, j), place = j % c_.page_size;
        for (std::int64_t d = 0; d < c_.dim; ++d) {
          if (c_.ragged) {
            k.set(random.normal(), row + j, d);
          } else {
            k.set(random.normal(), page, place, d);
          }
        }
        if (c_.k_scale != ScoreScale::row) continue;
        if (c_.ragged) {
          k_scale.set(0.01 + random.uniform(), row + j);
        } else {
          k_scale.set(0.01 + random.uniform(), page, place);
        }
      }
      token += length.q, row += length.kv;
      cu_q.set_integer(token, s + 1), cu_kv.set_integer(row, s + 1), indptr.set_integer(listed, s + 1);
    }
  }

  void set_args() {
    args.flags = c_.flags | (c_.causal ? std::uint32_t{QUERN_INDEX_SCORES_CAUSAL} : 0u) |
                 (c_.leave_masked ? std::uint32_t{QUERN_INDEX_SCORES_LEAVE_MASKED} : 0u);
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.q = q.tensor(), args.weights = weights.tensor(), args.k = k.tensor(), args.out = out.tensor();
    if (c_.q_scale != ScoreScale::none) args.q_scale = q_scale.tensor();
    if (c_.k_scale != ScoreScale::none) args.k_scale = k_scale.tensor();
    args.lengths = lengths.tensor();
    if (!c_.one_query) args.cu_q = cu_q.tensor(), args.max_q_len = static_cast<std::int32_t>(c_.max_q());
    if (c_.ragged) {
      args.cu_kv = cu_kv.tensor();
    } else if (c_.indptr) {
      args.page_indptr = indptr.tensor(), args.page_indices = indices.tensor();
    } else {
      args.page_table = table.tensor();
    }
    args.status = status.tensor();
    if (!c_.raw_bytes) return;
    for (Array* x : {&q, &k}) x->box().tensor.dtype = {kDLUInt, 8, 1};
    args.q_type = c_.code.kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2;
  }

  ScoreCase c_;

 public:
  Array q, q_scale, weights, k, k_scale, out, lengths, cu_q, cu_kv, table, indptr, indices, status;
};

}  // namespace quern::test
