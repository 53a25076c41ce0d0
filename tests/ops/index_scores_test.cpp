// index_scores against its definition in fp64: heads, dims, lengths, pages and rows, scales and masks; unused slots of
// the cache hold NaN, unused entries of page tables lie far outside of the pool.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/cuda.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

struct Lengths {
  std::int64_t q, kv;
};
enum class Scale { none, tensor, row };

struct ScoreCase {
  std::string name;
  std::vector<Lengths> sequences = {{1, 100}};
  std::int64_t heads = 64, dim = 128, page_size = 64, more_columns = 5;
  Element code = Element::e4m3;
  bool ragged = false, indptr = false, one_query = false;
  bool causal = true, leave_masked = false;
  Scale q_scale = Scale::row, k_scale = Scale::row;
  bool heads_first = false;  // q lies in memory as [heads, tokens, d]
  bool fused_pool = false;   // a page's scales lie behind its keys
  bool raw_bytes = false;
  int alignment = 0, max_sms = 0;
  std::uint32_t flags = 0;

  std::int64_t batch() const { return static_cast<std::int64_t>(sequences.size()); }
  std::int64_t total_q() const {
    std::int64_t sum = 0;
    for (const Lengths& s : sequences) sum += s.q;
    return sum;
  }
  std::int64_t max_kv() const {
    std::int64_t most = 1;
    for (const Lengths& s : sequences) most = std::max(most, s.kv);
    return most;
  }
  std::int64_t max_q() const {
    std::int64_t most = 1;
    for (const Lengths& s : sequences) most = std::max(most, s.q);
    return most;
  }
  std::int64_t pages_of(std::int64_t kv) const { return (kv + page_size - 1) / page_size; }
  std::int64_t pool() const {
    std::int64_t sum = 2;
    for (const Lengths& s : sequences) sum += ragged ? s.kv : pages_of(s.kv);
    return sum;
  }
  std::int64_t columns() const { return max_kv() + more_columns; }
};

std::int64_t at_least_1(std::int64_t n) { return std::max<std::int64_t>(n, 1); }

class Scoring {
 public:
  explicit Scoring(const ScoreCase& c)
      : args(sized<quern_index_scores_args>()),
        c_(c),
        q(c.code, {c.total_q(), c.heads, c.dim},
          c.heads_first ? Array::Extents{c.dim, at_least_1(c.total_q()) * c.dim, 1} : Array::Extents{}),
        q_scale(c.q_scale == Scale::row ? Array(Element::f32, {c.total_q(), c.heads}) : Array(Element::f32, {1})),
        weights(Element::f32, {c.total_q(), c.heads}),
        k(c.ragged ? Array(c.code, {c.pool(), c.dim})
                   : Array(c.code, {c.pool(), c.page_size, c.dim},
                           c.fused_pool ? Array::Extents{c.page_size * (c.dim + 16), c.dim, 1} : Array::Extents{})),
        k_scale(c.k_scale != Scale::row ? Array(Element::f32, {1})
                : c.ragged              ? Array(Element::f32, {c.pool()})
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
        if (c.q_scale == Scale::row) q_scale.set(0.01 + random.uniform(), t, h);
        for (std::int64_t d = 0; d < c.dim; ++d) q.set(random.normal(), t, h, d);
      }
    }
    if (c.q_scale == Scale::tensor) q_scale.set(0.37, 0);
    if (c.k_scale == Scale::tensor) k_scale.set(0.23, 0);
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
      const Lengths& length = c_.sequences[static_cast<std::size_t>(s)];
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
  void shorten(Random& random, const std::vector<Lengths>& at_most) {
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
    if (c_.k_scale == Scale::none) return 1.0;
    if (c_.k_scale == Scale::tensor) return k_scale.get(0);
    return c_.ragged ? k_scale.get(cu_kv.integer(s) + j) : k_scale.get(page_of(s, j), j % c_.page_size);
  }
  double weight_of(std::int64_t token, std::int64_t h) const {
    const double by = c_.q_scale == Scale::none     ? 1.0
                      : c_.q_scale == Scale::tensor ? q_scale.get(0)
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
      const Lengths& length = c_.sequences[static_cast<std::size_t>(s)];
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
        if (c_.k_scale != Scale::row) continue;
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
    if (c_.q_scale != Scale::none) args.q_scale = q_scale.tensor();
    if (c_.k_scale != Scale::none) args.k_scale = k_scale.tensor();
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

std::vector<ScoreCase> score_cases() {
  std::vector<ScoreCase> cases;
  const auto add = [&](const std::string& name, std::vector<Lengths> sequences,
                       const std::function<void(ScoreCase&)>& change = {}) {
    ScoreCase c;
    c.name = name;
    c.sequences = std::move(sequences);
    if (change) change(c);
    cases.push_back(c);
  };
  const std::vector<Lengths> edges = {{1, 0}, {1, 1}, {1, 63}, {1, 64}, {1, 65}, {1, 140}};
  const std::vector<Lengths> mixed = {{3, 70}, {0, 30}, {1, 200}, {9, 9}, {2, 1}, {4, 0}};
  add("one_query", edges, [](ScoreCase& c) { c.one_query = true; });
  add("ragged_queries", mixed);
  add("not_causal", mixed, [](ScoreCase& c) { c.causal = false; });
  add("rows", mixed, [](ScoreCase& c) { c.ragged = true; });
  add("rows_one_query", edges, [](ScoreCase& c) { c.ragged = c.one_query = true; });
  add("prefill", {{70, 70}, {33, 190}}, [](ScoreCase& c) { c.ragged = true; });
  add("prefill_pages", {{40, 300}, {21, 21}}, [](ScoreCase& c) { c.page_size = 16; });
  add("leave_masked", mixed, [](ScoreCase& c) { c.leave_masked = true, c.more_columns = 300; });
  add("many_columns", {{2, 40}, {1, 3}}, [](ScoreCase& c) { c.more_columns = 1000; });
  add("indptr", mixed, [](ScoreCase& c) { c.indptr = true; });
  for (const int page : {1, 8, 32, 80, 128})
    add("page" + std::to_string(page), {{1, 140}, {2, 20}}, [&](ScoreCase& c) { c.page_size = page; });
  for (const int heads : {1, 3, 16, 20, 32, 128})
    add("heads" + std::to_string(heads), {{2, 70}, {5, 20}}, [&](ScoreCase& c) { c.heads = heads; });
  for (const int dim : {16, 48, 64, 256})
    add("dim" + std::to_string(dim), {{2, 70}, {5, 20}}, [&](ScoreCase& c) { c.dim = dim, c.heads = 40; });
  add("no_scales", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = Scale::none; });
  add("tensor_scales", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = Scale::tensor; });
  add("tensor_scales_rows", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = Scale::tensor, c.ragged = true; });
  add("e5m2", mixed, [](ScoreCase& c) { c.code = Element::e5m2; });
  add("raw_bytes", mixed, [](ScoreCase& c) { c.raw_bytes = true; });
  add("heads_first", mixed, [](ScoreCase& c) { c.heads_first = true; });
  add("fused_pool", mixed, [](ScoreCase& c) { c.fused_pool = true; });
  add("alignment_4", mixed, [](ScoreCase& c) { c.alignment = 4; });
  add("few_sms", {{7, 300}, {1, 500}, {12, 64}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("long", {{1, 4096}, {4, 1030}}, [](ScoreCase& c) { c.heads = 64, c.max_sms = 2; });
  add("none", {{0, 30}, {0, 0}});
  return cases;
}

class IndexScores : public testing::TestWithParam<ScoreCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, IndexScores, testing::ValuesIn(score_cases()),
                         [](const testing::TestParamInfo<ScoreCase>& test) { return test.param.name; });

TEST_P(IndexScores, MatchesItsDefinition) {
  Scoring scoring(GetParam());
  ASSERT_NO_FATAL_FAILURE(scoring.run());
  scoring.check();
}

// `host`: unfair scheduling and late delivery, by seed.
class IndexScoresScheduling : public testing::TestWithParam<ScoreCase> {};
std::vector<ScoreCase> unfair_cases() {
  std::vector<ScoreCase> cases;
  const auto add = [&](const char* name, std::vector<Lengths> sequences,
                       const std::function<void(ScoreCase&)>& change) {
    ScoreCase c;
    c.name = name, c.sequences = std::move(sequences);
    change(c);
    cases.push_back(c);
  };
  add("unfair_one_query", {{1, 1900}, {1, 65}, {1, 0}, {1, 128}},
      [](ScoreCase& c) { c.one_query = true, c.max_sms = 1; });
  add("unfair_two", {{2, 200}, {1, 130}, {2, 1}}, [](ScoreCase& c) { c.page_size = 16; });
  add("unfair_four", {{4, 333}, {3, 65}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("unfair_shared_keys", {{20, 1300}, {9, 70}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("unfair_rows", {{13, 200}, {1, 500}, {30, 30}}, [](ScoreCase& c) { c.ragged = true, c.max_sms = 2; });
  add("unfair_without_scales", {{5, 200}}, [](ScoreCase& c) { c.k_scale = Scale::none, c.max_sms = 1; });
  add("unfair_portable", {{4, 300}, {1, 65}}, [](ScoreCase& c) { c.heads = 32; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Seeds, IndexScoresScheduling, testing::ValuesIn(unfair_cases()),
                         [](const testing::TestParamInfo<ScoreCase>& test) { return test.param.name; });
TEST_P(IndexScoresScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  constexpr int kSeeds = 4;
  Scoring scoring(GetParam());
  ASSERT_NO_FATAL_FAILURE(scoring.run());
  scoring.check();
  const std::vector<unsigned char> fair = scoring.out.memory(), poison = std::vector<unsigned char>(fair.size(), 0xff);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t value = run_seed() * kSeeds + static_cast<std::uint64_t>(seed);
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    std::memcpy(scoring.out.box().tensor.data, poison.data(), poison.size());
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_index_scores(unfair.get(), &scoring.args, &error), QUERN_OK) << error.text;
    scoring.out.download();
    ASSERT_EQ(scoring.out.memory(), fair) << "host_seed " << value;
  }
}

TEST(IndexScoresOnCuda, OneGraphServesAnyLengths) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  for (const std::int64_t heads : {64, 32}) {
    ScoreCase c;
    c.name = "graph";
    c.heads = heads, c.sequences = {{4, 900}, {1, 300}, {20, 2000}, {1, 64}}, c.more_columns = 100;
    Scoring scoring(c);
    ASSERT_NO_FATAL_FAILURE(scoring.run());
    const Stream stream;
    auto error = sized<quern_error>();
    scoring.args.stream = stream.get();
    const Graph graph(stream,
                      [&] { ASSERT_EQ(quern_index_scores(context(), &scoring.args, &error), QUERN_OK) << error.text; });
    Random random("rounds");
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(round);
      scoring.shorten(random, c.sequences);
      synchronize();
      graph.launch(stream);
      stream.synchronize();
      scoring.out.download();
      scoring.check();
    }
  }
}

// A query's bits are its own: alone as one query of a sequence, and among others, by whichever kernel.
TEST(IndexScoresInvariance, ARowAlone) {
  ScoreCase all;
  all.name = "invariance";
  all.sequences = {{9, 150}, {3, 40}}, all.ragged = true, all.causal = false;
  Scoring many(all);
  ASSERT_NO_FATAL_FAILURE(many.run());
  ScoreCase one = all;
  one.sequences = {{1, 150}}, one.one_query = true;
  for (const std::int64_t t : {0, 5, 8}) {
    Scoring alone(one);
    for (std::int64_t h = 0; h < one.heads; ++h) {
      alone.weights.set(many.weights.get(t, h), 0, h), alone.q_scale.set(many.q_scale.get(t, h), 0, h);
      for (std::int64_t d = 0; d < one.dim; ++d) alone.q.set(many.q.get(t, h, d), 0, h, d);
    }
    for (std::int64_t j = 0; j < 150; ++j) {
      alone.k_scale.set(many.k_scale.get(j), j);
      for (std::int64_t d = 0; d < one.dim; ++d) alone.k.set(many.k.get(j, d), j, d);
    }
    ASSERT_NO_FATAL_FAILURE(alone.run());
    for (std::int64_t j = 0; j < 150; ++j) ASSERT_EQ(alone.out.get(0, j), many.out.get(t, j)) << t << " " << j;
  }
}

// What only the device can see is told in the status, and nothing is read out of bounds; on `host` it is refused.
TEST(IndexScoresStatus, IndexDataOutOfBounds) {
  struct Wrong {
    const char* what;
    bool ragged;
    std::int32_t bit;
    std::vector<std::string_view> words;
    std::function<void(Scoring&)> make;
  };
  const std::vector<Wrong> all = {
      {"a length beyond out",
       false,
       QUERN_MLA_STATUS_LENGTH | QUERN_MLA_STATUS_PAGE,  // unused entries of the table are pages of no pool
       {"lengths[1]", "500", "out's columns"},
       [](Scoring& s) { s.lengths.set_integer(500, 1); }},
      {"a negative length",
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[0]", "-3"},
       [](Scoring& s) { s.lengths.set_integer(-3, 0); }},
      {"a length beyond the rows",
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[1]", "22", "room"},
       [](Scoring& s) { s.lengths.set_integer(22, 1); }},
      {"a page beyond the pool",
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_table[0][1]", "k's pages"},
       [](Scoring& s) { s.table.set_integer(5000, 0, 1); }},
      {"queries beyond q",
       false,
       QUERN_MLA_STATUS_QUERIES,
       {"cu_q[2]", "9", "q's rows"},
       [](Scoring& s) { s.cu_q.set_integer(9, 2); }},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.what);
    ScoreCase c;
    c.name = "status";
    c.sequences = {{2, 100}, {3, 20}}, c.ragged = wrong.ragged;
    Scoring scoring(c);
    wrong.make(scoring);
    if (on_cuda()) {
      ASSERT_NO_FATAL_FAILURE(scoring.run());
      EXPECT_EQ(scoring.status.integer(0), wrong.bit);
      continue;
    }
    scoring.upload();
    expect_refused(wrong.words, [&](quern_error* e) { return quern_index_scores(context(), &scoring.args, e); });
    scoring.out.download();
    EXPECT_TRUE(scoring.out.is_untouched(0, 0));
  }
}

TEST(IndexScoresRefuses, EveryWrongArgument) {
  using S = Scoring&;
  const std::vector<Mistake<Scoring>> mistakes = {
      {"q NULL", {"q", "NULL"}, [](S s) { s.args.q = nullptr; }},
      {"weights NULL", {"weights", "NULL"}, [](S s) { s.args.weights = nullptr; }},
      {"k NULL", {"k", "NULL"}, [](S s) { s.args.k = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](S s) { s.args.out = nullptr; }},
      {"lengths NULL", {"lengths", "NULL"}, [](S s) { s.args.lengths = nullptr; }},
      {"q's dtype", {"q", "e4m3"}, [](S s) { s.q.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"bytes without a type", {"q_type"}, [](S s) { s.q.box().tensor.dtype = {kDLUInt, 8, 1}; }},
      {"k's dtype", {"k", "e4m3"}, [](S s) { s.k.box().tensor.dtype = Element(Element::e5m2).type(); }},
      {"heads", {"q.shape[1]", "129"}, [](S s) { s.q.box().shape[1] = 129; }},
      {"dim", {"q.shape[2]", "24"}, [](S s) { s.q.box().shape[2] = 24; }},
      {"too many numbers", {"16384"}, [](S s) { s.q.box().shape[1] = 80, s.q.box().shape[2] = 256; }},
      {"weights' heads", {"weights.shape[1]", "64"}, [](S s) { s.weights.box().shape[1] = 63; }},
      {"q_scale's tokens", {"q_scale.shape[0]"}, [](S s) { s.q_scale.box().shape[0] = 1; }},
      {"q_scale's dtype", {"q_scale", "f32"}, [](S s) { s.q_scale.box().tensor.dtype = kInt32; }},
      {"k's dim", {"k.shape[2]", "128"}, [](S s) { s.k.box().shape[2] = 64; }},
      {"k_scale's pages", {"k_scale.shape[0]"}, [](S s) { s.k_scale.box().shape[0] = 1; }},
      {"out's rows", {"out.shape[0]"}, [](S s) { s.out.box().shape[0] = 3; }},
      {"out's dtype", {"out", "f32"}, [](S s) { s.out.box().tensor.dtype = kInt32; }},
      {"out's last stride", {"out.strides[1]", "1"}, [](S s) { s.out.box().strides[1] = 2; }},
      {"out over itself", {"out.strides[0]"}, [](S s) { s.out.box().strides[0] = 8; }},
      {"no place of keys", {"page_table", "cu_kv"}, [](S s) { s.args.page_table = nullptr; }},
      {"two places of keys", {"page_table"}, [](S s) { s.args.page_indptr = s.indptr.tensor(); }},
      {"cu_q's length", {"cu_q.shape[0]", "3"}, [](S s) { s.cu_q.box().shape[0] = 2; }},
      {"page_table's rows", {"page_table.shape[0]", "2"}, [](S s) { s.table.box().shape[0] = 1; }},
      {"max_q_len", {"max_q_len", "-1"}, [](S s) { s.args.max_q_len = -1; }},
      {"max_q_len without cu_q", {"max_q_len", "3"}, [](S s) { s.args.cu_q = nullptr; }},
      {"status' length", {"status.shape[0]", "1"}, [](S s) { s.status.box().shape[0] = 2; }},
      {"q's alignment", {"q", "stride"}, [](S s) { s.q.box().strides[1] += 8; }},
      {"an unknown flag", {"flags"}, [](S s) { s.args.flags = 1u << 20; }},
      {"without data", {"out", "NULL"}, [](S s) { s.out.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](S s) { s.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](S s) { s.args.max_sms = -1; }},
      {"no size", {"size"}, [](S s) { s.args.size = 0; }},
  };
  ScoreCase c;
  c.name = "refusals";
  c.sequences = {{2, 70}, {3, 20}};
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_index_scores_args>{quern_index_scores, quern_index_scores_workspace, quern_index_scores_prepare},
      [&] { return std::make_unique<Scoring>(c); },
      [](Scoring& s) {
        return [&s] {
          s.out.download();
          return s.out.is_untouched(0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
