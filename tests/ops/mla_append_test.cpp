// mla_append against its formulas in fp64: places, the norm, rope and every kind of cache; then MLA decode over what
// was appended; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rope_oracle.h"

namespace quern::test {
namespace {

enum class By { slots, table, indices };
enum class Cache { plain, tensor, token, rows656 };
enum class Norm { none, element, f32 };

struct LatentCase {
  std::string name;
  Element element = Element::bf16;
  Cache cache = Cache::plain;
  std::vector<int> q_lens = {1, 4, 0, 9, 1};
  std::vector<int> lengths = {1, 33, 7, 9, 40};  // with the new tokens
  std::int64_t heads = 6, d_latent = 128, d_rope = 64, page_size = 16;
  By by = By::slots;
  bool positions = true, wide = false, one_each = false, raw_bytes = false;
  bool apart = false;      // k_rope beside kv
  bool two_pools = false;  // cache_rope beside cache
  Norm norm = Norm::element;
  bool rope = true;
  quern_rope_options options{};
  bool queries = true, q_in_place = false;
  bool results = false, in_place = false;  // kv_out; over kv
  std::uint32_t flags = 0;
  int alignment = 0, max_sms = 0;

  bool codes() const { return cache != Cache::plain; }
  Element stored() const { return codes() ? Element(Element::e4m3) : element; }
  std::int64_t batch() const { return static_cast<std::int64_t>(q_lens.size()); }
  std::int64_t tokens() const {
    return std::accumulate(q_lens.begin(), q_lens.end(), 0) + (one_each ? 0 : 2);
  }  // two belong to nobody
  std::int64_t columns() const { return d_latent + d_rope; }
};

constexpr std::int64_t kPages = 16;

class Appending {
 public:
  explicit Appending(const LatentCase& c)
      : args(sized<quern_mla_append_args>()),
        options(c.options),
        c_(c),
        kv(c.element, {c.tokens(), c.apart ? c.d_latent : c.columns()}),
        k_rope(c.element, {c.tokens(), std::max<std::int64_t>(c.d_rope, 1)}),
        q(c.element, {c.tokens(), c.heads, std::max<std::int64_t>(c.d_rope, 1)}),
        q_out(c.element, {c.tokens(), c.heads, std::max<std::int64_t>(c.d_rope, 1)}),
        kv_out(c.element, {c.tokens(), kv.extent(1)}),
        k_rope_out(c.element, {c.tokens(), k_rope.extent(1)}),
        cache(c.stored(), {kPages, c.page_size,
                           c.cache == Cache::rows656 ? 656
                           : c.two_pools             ? c.d_latent
                                                     : c.columns()}),
        cache_rope(c.stored(), {kPages, c.page_size, std::max<std::int64_t>(c.d_rope, 1)}),
        scale(c.cache == Cache::token ? Array(Element::f32, {kPages, c.page_size}) : Array(Element::f32, {1})),
        weight(c.norm == Norm::f32 ? Element(Element::f32) : c.element, {c.d_latent}),
        slots(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        positions(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        table(IntegerBits{32}, {c.batch(), 4}),
        indptr(IntegerBits{32}, {c.batch() + 1}),
        indices(IntegerBits{32}, {4 * c.batch()}),
        cu_q(IntegerBits{32}, {c.batch() + 1}),
        lengths(IntegerBits{32}, {c.batch()}),
        status(IntegerBits{32}, {1}) {
    Random random(c.name);
    options.size = sizeof(options);
    for (std::int64_t t = 0; t < c.tokens(); ++t) {
      const double size = std::exp(random.normal());
      for (std::int64_t d = 0; d < c.columns(); ++d) {
        const double x = size * random.normal();
        if (c.apart && d >= c.d_latent) {
          k_rope.set(x, t, d - c.d_latent);
        } else {
          kv.set(x, t, d);
        }
      }
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t d = 0; d < c.d_rope; ++d) q.set(random.normal(), t, h, d);
      }
    }
    for (std::int64_t d = 0; d < c.d_latent; ++d) weight.set(1.0 + 0.3 * random.normal(), d);
    if (c.cache == Cache::tensor) scale.set((0.5 + random.uniform()) / 60.0, 0);
    status.set_integer(0, 0);
    place_tokens(random);
    set_args();
  }

  void run() {
    for (Array* x : arrays()) x->upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_mla_append_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_mla_append_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_mla_append(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  void check() {
    // What was given, before what may have been written over it is fetched.
    std::vector<std::vector<double>> exact;
    for (std::int64_t t = 0; t < c_.tokens(); ++t) exact.push_back(prepared(t));
    std::vector<std::vector<double>> queries;
    for (std::int64_t t = 0; t < c_.tokens() && c_.queries; ++t) {
      for (std::int64_t h = 0; h < c_.heads; ++h) queries.push_back(prepared_query(t, h));
    }
    for (Array* x : {&kv, &k_rope, &kv_out, &k_rope_out, &q, &q_out, &cache, &cache_rope, &scale, &status})
      x->download();
    std::vector<char> written(static_cast<std::size_t>(kPages * c_.page_size), 0);
    for (std::int64_t t = 0; t < c_.tokens(); ++t) {
      const auto token = static_cast<std::size_t>(t);
      if (page_[token] < 0) {
        for (std::int64_t h = 0; h < c_.heads && c_.queries && !c_.q_in_place; ++h)
          wrong_ += !q_out.is_untouched(t, h, 0);
        wrong_ += c_.results && !c_.in_place && !kv_out.is_untouched(t, 0);
        continue;
      }
      written[static_cast<std::size_t>(page_[token] * c_.page_size + place_[token])] = 1;
      check_stored(exact[token], page_[token], place_[token]);
      if (c_.results) check_result(exact[token], t);
      for (std::int64_t h = 0; h < c_.heads && c_.queries; ++h) {
        const std::vector<double>& wanted = queries[static_cast<std::size_t>(t * c_.heads + h)];
        for (std::int64_t d = 0; d < c_.d_rope; ++d)
          expect_rounded(wanted[static_cast<std::size_t>(d)], (c_.q_in_place ? q : q_out).get(t, h, d), c_.element,
                         8e-6);
      }
    }
    for (std::int64_t slot = 0; slot < kPages * c_.page_size; ++slot) {
      if (written[static_cast<std::size_t>(slot)] != 0) continue;
      const std::int64_t page = slot / c_.page_size, place = slot % c_.page_size;
      for (std::int64_t d = 0; d < cache.extent(2); ++d) wrong_ += !cache.is_untouched(page, place, d);
      for (std::int64_t d = 0; d < cache_rope.extent(2); ++d) wrong_ += !cache_rope.is_untouched(page, place, d);
      if (c_.cache == Cache::token) wrong_ += !scale.is_untouched(page, place);
    }
    EXPECT_EQ(status.integer(0), 0);
    EXPECT_EQ(wrong_, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  // As the cache has it after a download.
  double number_at(std::int64_t page, std::int64_t place, std::int64_t d) const {
    if (c_.cache == Cache::rows656) {
      if (d >= 512) return Element(Element::bf16).load(row656(page, place) + 528 + 2 * (d - 512));
      return cache.get(page, place, d) * scale_of(page, place, d);
    }
    const bool in_rope = c_.two_pools && d >= c_.d_latent;
    return (in_rope ? cache_rope.get(page, place, d - c_.d_latent) : cache.get(page, place, d)) *
           scale_of(page, place, d);
  }

  quern_mla_append_args args;
  quern_rope_options options;

 private:
  std::vector<Array*> arrays() {
    return {&kv,     &k_rope, &q,         &q_out, &kv_out, &k_rope_out, &cache, &cache_rope, &scale,
            &weight, &slots,  &positions, &table, &indptr, &indices,    &cu_q,  &lengths,    &status};
  }
  const unsigned char* row656(std::int64_t page, std::int64_t place) const {
    return &cache.memory()[static_cast<std::size_t>((page * c_.page_size + place) * 656)];
  }
  double scale_of(std::int64_t page, std::int64_t place, std::int64_t d) const {
    if (c_.cache == Cache::plain) return 1.0;
    if (c_.cache == Cache::tensor) return scale.get(0);
    if (c_.cache == Cache::token) return scale.get(page, place);
    return Element(Element::f32).load(row656(page, place) + 512 + 4 * (d / 128));
  }

  // Every sequence has pages of its own; some tokens are skipped.
  void place_tokens(Random& random) {
    std::vector<std::int64_t> free(kPages);
    std::iota(free.begin(), free.end(), 0);
    random.shuffle(free);
    std::int64_t listed = 0, token = 0;
    indptr.set_integer(0, 0), cu_q.set_integer(0, 0);
    for (std::int64_t s = 0; s < c_.batch(); ++s) {
      const int length = c_.lengths[static_cast<std::size_t>(s)], q_len = c_.q_lens[static_cast<std::size_t>(s)];
      std::vector<std::int64_t> pages;
      lengths.set_integer(length, s);
      for (std::int64_t j = 0; j * c_.page_size < length; ++j) {
        pages.push_back(free.back());
        table.set_integer(free.back(), s, j), indices.set_integer(free.back(), listed++);
        free.pop_back();
      }
      indptr.set_integer(listed, s + 1);
      for (int i = 0; i < q_len; ++i, ++token) {
        const std::int64_t position = length - q_len + i;
        const bool skipped = c_.by == By::slots ? random.below(6) == 0 : c_.positions && random.below(6) == 0;
        const std::int64_t page = pages[static_cast<std::size_t>(position / c_.page_size)];
        page_.push_back(skipped ? -1 : page), place_.push_back(position % c_.page_size), position_.push_back(position);
        slots.set_integer(
            skipped ? -1 - static_cast<std::int64_t>(random.below(3)) : page * c_.page_size + position % c_.page_size,
            token);
        positions.set_integer(skipped && c_.by != By::slots ? -1 : position, token);
      }
      cu_q.set_integer(token, s + 1);
    }
    for (; listed < indices.extent(0); ++listed) indices.set_integer(0x7ffffff0, listed);
    for (; token < c_.tokens(); ++token) {
      page_.push_back(-1), place_.push_back(0), position_.push_back(0);
      slots.set_integer(-1, token), positions.set_integer(3, token);
    }
  }

  void set_args() {
    args.flags = c_.flags;
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.kv = kv.tensor(), args.cache = cache.tensor();
    if (c_.apart) {
      args.k_rope = k_rope.tensor();
    } else {
      args.d_rope = static_cast<std::int32_t>(c_.d_rope);
    }
    if (c_.two_pools) args.cache_rope = cache_rope.tensor();
    if (c_.cache == Cache::tensor || c_.cache == Cache::token) args.cache_scale = scale.tensor();
    if (c_.cache == Cache::rows656) args.cache_type = QUERN_MLA_CACHE_ROWS_656;
    if (c_.raw_bytes && c_.cache != Cache::rows656) args.cache_type = QUERN_MLA_CACHE_E4M3;
    if (c_.raw_bytes || c_.cache == Cache::rows656) {
      for (Array* x : {&cache, &cache_rope}) x->box().tensor.dtype = {kDLUInt, 8, 1};
    }
    if (c_.by == By::slots) {
      args.slots = slots.tensor();
    } else {
      if (!c_.one_each) args.cu_q = cu_q.tensor();
      if (!c_.positions) args.lengths = lengths.tensor();
      if (c_.by == By::table) args.page_table = table.tensor();
      if (c_.by == By::indices) args.page_indptr = indptr.tensor(), args.page_indices = indices.tensor();
    }
    if (c_.positions) args.positions = positions.tensor();
    if (c_.queries) {
      args.q_rope = q.tensor();
      if (!c_.q_in_place) args.q_rope_out = q_out.tensor();
    }
    if (c_.results) {
      args.kv_out = c_.in_place ? kv.tensor() : kv_out.tensor();
      if (c_.apart) args.k_rope_out = c_.in_place ? k_rope.tensor() : k_rope_out.tensor();
    }
    if (c_.norm != Norm::none) args.weight = weight.tensor();
    if (c_.rope) args.rope = &options;
    args.status = status.tensor();
    args.eps = 1e-5f;
  }

  double given(std::int64_t t, std::int64_t d) const {
    return c_.apart && d >= c_.d_latent ? k_rope.get(t, d - c_.d_latent) : kv.get(t, d);
  }
  // A token before it is stored, in fp64.
  std::vector<double> prepared(std::int64_t t) const {
    std::vector<double> x, turned;
    double squares = 0.0;
    for (std::int64_t d = 0; d < c_.d_latent; ++d) {
      x.push_back(given(t, d));
      squares += x.back() * x.back();
    }
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    for (std::int64_t d = 0; d < c_.d_latent && c_.norm != Norm::none; ++d)
      x[static_cast<std::size_t>(d)] *= inverse * weight.get(d);
    for (std::int64_t d = c_.d_latent; d < c_.columns(); ++d) turned.push_back(given(t, d));
    if (c_.rope) rope_exactly(options, position_[static_cast<std::size_t>(t)], turned);
    x.insert(x.end(), turned.begin(), turned.end());
    return x;
  }
  std::vector<double> prepared_query(std::int64_t t, std::int64_t h) const {
    std::vector<double> x;
    for (std::int64_t d = 0; d < c_.d_rope; ++d) x.push_back(q.get(t, h, d));
    rope_exactly(options, position_[static_cast<std::size_t>(t)], x);
    return x;
  }

  void expect_rounded(double exact, double given, Element element, double slack) {
    wrong_ += !(std::fabs(given - exact) <= element.roundoff() * std::fabs(exact) * 1.01 + slack + 1e-30);
  }
  static double largest_of(const std::vector<double>& x, std::int64_t first, std::int64_t count) {
    double largest = 0.0;
    for (std::int64_t d = first; d < first + count; ++d)
      largest = std::max(largest, std::fabs(x[static_cast<std::size_t>(d)]));
    return largest;
  }

  void check_stored(const std::vector<double>& exact, std::int64_t page, std::int64_t place) {
    // Numbers that share a scale: all, or 128; what f32 arithmetic may be off by goes by the largest of the part.
    const std::int64_t group = c_.cache == Cache::rows656 ? 128 : c_.columns();
    for (std::int64_t first = 0; first < c_.columns(); first += group) {
      const std::int64_t count = std::min(group, c_.columns() - first);
      const double largest = largest_of(exact, first, count), slack = 4e-6 * largest;
      const bool coded = c_.codes() && !(c_.cache == Cache::rows656 && first >= 512);
      const double by = coded ? scale_of(page, place, first) : 1.0;
      if (coded && c_.cache != Cache::tensor) {
        const double wanted = largest > 0.0 ? largest / 448.0 : 1.0;
        if ((c_.flags & QUERN_MLA_APPEND_POWER_OF_TWO) != 0) {
          wrong_ +=
              std::ldexp(1.0, std::ilogb(by)) != by || !(by >= wanted * (1 - 4e-6) && by < 2 * wanted * (1 + 4e-6));
        } else {
          wrong_ += !(std::fabs(by - wanted) <= 4e-6 * wanted);
        }
      }
      for (std::int64_t d = first; d < first + count; ++d) {
        const double x = exact[static_cast<std::size_t>(d)], is = number_at(page, place, d);
        if (!coded) {
          expect_rounded(x, is, c_.cache == Cache::rows656 ? Element(Element::bf16) : c_.element, slack);
          continue;
        }
        // A code whose number is the nearest, or was within what f32 cannot tell apart.
        const Element e4m3(Element::e4m3);
        const double low = e4m3.rounded((x - slack) / by) * by, high = e4m3.rounded((x + slack) / by) * by;
        wrong_ += !(is >= low - 1e-12 && is <= high + 1e-12);
      }
    }
  }
  void check_result(const std::vector<double>& exact, std::int64_t t) {
    const Array& latent = c_.in_place ? kv : kv_out;
    const Array& rope = c_.in_place ? k_rope : k_rope_out;
    const double slack = 4e-6 * largest_of(exact, 0, c_.columns());
    for (std::int64_t d = 0; d < c_.columns(); ++d) {
      const bool beside = c_.apart && d >= c_.d_latent;
      expect_rounded(exact[static_cast<std::size_t>(d)], beside ? rope.get(t, d - c_.d_latent) : latent.get(t, d),
                     c_.element, slack);
    }
  }

  LatentCase c_;
  std::vector<std::int64_t> page_, place_, position_;
  std::int64_t wrong_ = 0;

 public:
  Array kv, k_rope, q, q_out, kv_out, k_rope_out, cache, cache_rope, scale, weight, slots, positions, table, indptr,
      indices, cu_q, lengths, status;
};

std::vector<LatentCase> latent_cases() {
  std::vector<LatentCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(LatentCase&)>& change) {
    LatentCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  const auto full = [](LatentCase& c) {
    c.d_latent = 512, c.options.flags = QUERN_ROPE_INTERLEAVED, c.options.scaling = QUERN_ROPE_YARN;
    c.options.factor = 40.0, c.options.original_positions = 4096;
  };
  add("deepseek", [&](LatentCase& c) { full(c), c.heads = 128; });
  add("deepseek_e4m3_tensor", [&](LatentCase& c) { full(c), c.cache = Cache::tensor, c.queries = false; });
  add("deepseek_e4m3_token", [&](LatentCase& c) { full(c), c.cache = Cache::token; });
  add("deepseek_rows656", [&](LatentCase& c) { full(c), c.cache = Cache::rows656; });
  add("rows656_power_of_two", [&](LatentCase& c) {
    full(c), c.cache = Cache::rows656, c.flags = QUERN_MLA_APPEND_POWER_OF_TWO, c.queries = false;
  });
  add("rows656_f16_alignment_4", [&](LatentCase& c) {
    full(c), c.cache = Cache::rows656, c.element = Element::f16, c.alignment = 4, c.norm = Norm::f32;
  });
  add("rows656_alignment_8", [&](LatentCase& c) { full(c), c.cache = Cache::rows656, c.alignment = 8; });
  add("plain", [](LatentCase& c) { c.norm = Norm::none, c.rope = c.queries = false; });
  add("neox", [](LatentCase&) {});
  add("norm_f32", [](LatentCase& c) { c.norm = Norm::f32, c.apart = true; });
  add("apart", [](LatentCase& c) { c.apart = true, c.two_pools = true; });
  add("two_pools_token", [](LatentCase& c) { c.two_pools = true, c.cache = Cache::token; });
  add("token_power_of_two",
      [](LatentCase& c) { c.cache = Cache::token, c.flags = QUERN_MLA_APPEND_POWER_OF_TWO, c.raw_bytes = true; });
  add("results", [](LatentCase& c) { c.results = true, c.cache = Cache::token; });
  add("results_apart", [](LatentCase& c) { c.results = c.apart = true; });
  add("results_in_place", [](LatentCase& c) { c.results = c.apart = c.in_place = true; });
  add("queries_in_place", [](LatentCase& c) { c.q_in_place = true; });
  add("table", [](LatentCase& c) { c.by = By::table; });
  add("table_lengths", [](LatentCase& c) { c.by = By::table, c.positions = false; });
  add("indices", [](LatentCase& c) { c.by = By::indices; });
  add("indices_lengths", [](LatentCase& c) { c.by = By::indices, c.positions = false; });
  add("one_each",
      [](LatentCase& c) { c.by = By::table, c.positions = false, c.one_each = true, c.q_lens = {1, 1, 1, 1, 1}; });
  add("wide", [](LatentCase& c) { c.wide = true; });
  add("page_5", [](LatentCase& c) { c.page_size = 5, c.lengths = {1, 16, 7, 9, 20}, c.by = By::table; });
  add("page_1", [](LatentCase& c) { c.page_size = 1, c.q_lens = {1, 2, 1}, c.lengths = {1, 4, 3}; });
  add("partial", [](LatentCase& c) { c.options.rotary_dim = 24; });
  add("latent_256_rope_32", [](LatentCase& c) { c.d_latent = 256, c.d_rope = 32, c.cache = Cache::token; });
  add("latent_48_rope_16", [](LatentCase& c) { c.d_latent = 48, c.d_rope = 16, c.cache = Cache::tensor; });
  add("latent_400_rope_128", [](LatentCase& c) { c.d_latent = 400, c.d_rope = 128, c.element = Element::f16; });
  add("latent_alone", [](LatentCase& c) { c.d_rope = 0, c.rope = c.queries = false, c.cache = Cache::token; });
  add("alignment_4", [](LatentCase& c) { c.alignment = 4, c.cache = Cache::token, c.norm = Norm::f32; });
  add("few_sms", [](LatentCase& c) { c.max_sms = 1, c.q_lens = {30, 40, 10}, c.lengths = {31, 64, 20}; });
  add("no_tokens", [](LatentCase& c) { c.q_lens = {}, c.lengths = {}, c.one_each = true; });
  return cases;
}

class MlaAppend : public testing::TestWithParam<LatentCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, MlaAppend, testing::ValuesIn(latent_cases()),
                         [](const testing::TestParamInfo<LatentCase>& test) { return test.param.name; });

TEST_P(MlaAppend, MatchesItsFormula) {
  Appending appending(GetParam());
  ASSERT_NO_FATAL_FAILURE(appending.run());
  appending.check();
}

// Cosines and sines from a table, which has a row for each position.
TEST(MlaAppendTable, TurnsAsTheTableSays) {
  LatentCase c;
  c.name = "cosines";
  Array cosines(Element::f32, {40, c.d_rope});
  for (std::int64_t position = 0; position < 40; ++position) {
    for (std::int64_t pair = 0; pair < c.d_rope / 2; ++pair) {
      const auto angle =
          static_cast<double>(position * rope_frequency(c.options, static_cast<int>(c.d_rope), static_cast<int>(pair)));
      cosines.set(std::cos(angle), position, pair), cosines.set(std::sin(angle), position, c.d_rope / 2 + pair);
    }
  }
  cosines.upload();
  Appending by_table(c), computed(c);
  by_table.options.table = cosines.tensor();
  ASSERT_NO_FATAL_FAILURE(by_table.run());
  ASSERT_NO_FATAL_FAILURE(computed.run());
  for (Appending* a : {&by_table, &computed}) a->q_out.download(), a->cache.download();
  for (std::int64_t t = 0; t < c.tokens(); ++t) {
    if (by_table.slots.integer(t) < 0) continue;
    for (std::int64_t d = 0; d < c.d_rope; ++d)
      ASSERT_NEAR(by_table.q_out.get(t, 0, d), computed.q_out.get(t, 0, d), 0.04) << t;
  }
}

// NaN stays, infinities become the largest number and do not count in a scale; a token of zeros has scale 1.
TEST(MlaAppendNumbers, NanAndInfinity) {
  LatentCase c;
  c.name = "numbers";
  c.cache = Cache::token, c.norm = Norm::none, c.rope = c.queries = false;
  c.q_lens = {1, 1}, c.lengths = {1, 1}, c.by = By::table, c.positions = false, c.one_each = true;
  Appending a(c);
  a.kv.set(std::numeric_limits<double>::quiet_NaN(), 0, 3);
  a.kv.set(std::numeric_limits<double>::infinity(), 0, 4);
  a.kv.set(-std::numeric_limits<double>::infinity(), 0, 150);
  for (std::int64_t d = 0; d < c.columns(); ++d) a.kv.set(0.0, 1, d);
  ASSERT_NO_FATAL_FAILURE(a.run());
  a.cache.download(), a.scale.download();
  const std::int64_t page = a.table.integer(0, 0), zeros = a.table.integer(1, 0);
  EXPECT_TRUE(std::isnan(a.cache.get(page, 0, 3)));
  EXPECT_EQ(a.cache.get(page, 0, 4), 448.0);
  EXPECT_EQ(a.cache.get(page, 0, 150), -448.0);
  EXPECT_LT(a.scale.get(page, 0) * 448.0, 200.0);
  EXPECT_EQ(a.scale.get(zeros, 0), 1.0);
  EXPECT_EQ(a.cache.get(zeros, 0, 7), 0.0);
}

// A token's bits are its own, whatever else is in the batch.
TEST(MlaAppendInvariance, ARowAlone) {
  LatentCase all;
  all.name = "invariance";
  all.cache = Cache::token, all.by = By::table, all.positions = false, all.q_lens = {9}, all.lengths = {9};
  Appending many(all);
  ASSERT_NO_FATAL_FAILURE(many.run());
  many.cache.download(), many.scale.download();
  for (const std::int64_t t : {0, 5}) {
    LatentCase one = all;
    one.q_lens = {1}, one.lengths = {static_cast<int>(t) + 1}, one.one_each = true;
    Appending alone(one);
    for (std::int64_t d = 0; d < one.columns(); ++d) alone.kv.set(many.kv.get(t, d), 0, d);
    for (std::int64_t d = 0; d < one.d_latent; ++d) alone.weight.set(many.weight.get(d), d);
    ASSERT_NO_FATAL_FAILURE(alone.run());
    alone.cache.download(), alone.scale.download();
    const std::int64_t here = alone.table.integer(0, 0), there = many.table.integer(0, 0);
    EXPECT_EQ(alone.scale.get(here, t), many.scale.get(there, t));
    for (std::int64_t d = 0; d < one.columns(); ++d)
      ASSERT_EQ(alone.cache.get(here, t, d), many.cache.get(there, t, d)) << d;
  }
}

// MLA decode over what was appended against decode of plain tensors that hold the same numbers, token after token.
class MlaAppendThenDecode : public testing::TestWithParam<Cache> {};
INSTANTIATE_TEST_SUITE_P(Caches, MlaAppendThenDecode,
                         testing::Values(Cache::plain, Cache::tensor, Cache::token, Cache::rows656));
TEST_P(MlaAppendThenDecode, EqualsDecodeOfPlainTensors) {
  LatentCase c;
  c.name = "then_decode";
  c.cache = GetParam();
  c.d_latent = 512, c.heads = 16, c.by = By::table, c.positions = false, c.results = true;
  c.q_lens = {33, 20}, c.lengths = {33, 20}, c.options.flags = QUERN_ROPE_INTERLEAVED;
  Appending appended(c);
  ASSERT_NO_FATAL_FAILURE(appended.run());
  appended.kv_out.download(), appended.q_out.download(), appended.cache.download(), appended.scale.download();

  // The same pages, filled with the numbers that were to be stored, or that the codes stand for.
  Array plain(c.element, {kPages, c.page_size, c.columns()}), q(c.element, {2, c.heads, c.d_latent});
  Array q_rope(c.element, {2, c.heads, c.d_rope}), one(c.element, {2, c.heads, c.d_latent}),
      two(c.element, {2, c.heads, c.d_latent});
  Random random("then_decode queries");
  for (std::int64_t s = 0, first = 0; s < c.batch(); ++s) {
    const std::int64_t length = appended.lengths.integer(s);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t page = appended.table.integer(s, j / c.page_size), place = j % c.page_size;
      for (std::int64_t d = 0; d < c.columns(); ++d) {
        plain.set(c.codes() ? appended.number_at(page, place, d) : appended.kv_out.get(first + j, d), page, place, d);
      }
    }
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t d = 0; d < c.d_latent; ++d) q.set(random.normal(), s, h, d);
      for (std::int64_t d = 0; d < c.d_rope; ++d) q_rope.set(appended.q_out.get(first + length - 1, h, d), s, h, d);
    }
    first += length;
  }
  for (Array* x : {&plain, &q, &q_rope}) x->upload();
  const auto decode = [&](const DLTensor* cache, const DLTensor* scale, std::int32_t type, Array& out) {
    auto args = sized<quern_mla_decode_args>();
    auto error = sized<quern_error>();
    args.q = q.tensor(), args.q_rope = q_rope.tensor(), args.out = out.tensor();
    args.cache = cache, args.cache_scale = scale, args.cache_type = type;
    args.lengths = appended.lengths.tensor(), args.page_table = appended.table.tensor();
    args.max_kv_len = 4 * static_cast<std::int32_t>(c.page_size);
    args.scale = 1.0f / 13.8564064605510183f;
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_mla_decode_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer workspace(bytes, 0);
    args.workspace = workspace.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_mla_decode(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download();
  };
  ASSERT_NO_FATAL_FAILURE(decode(appended.args.cache, appended.args.cache_scale, appended.args.cache_type, one));
  ASSERT_NO_FATAL_FAILURE(decode(plain.tensor(), nullptr, 0, two));
  double sum = 0.0, difference = 0.0, largest = 0.0;
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t d = 0; d < c.d_latent; ++d) {
        const double x = one.get(s, h, d), y = two.get(s, h, d);
        if (!c.codes()) {
          ASSERT_EQ(x, y) << s << " " << h << " " << d;
        }
        sum += y * y, difference += (x - y) * (x - y), largest = std::fmax(largest, std::fabs(x - y));
      }
    }
  }
  if (!c.codes()) return;
  // Codes times scales are rounded where tensor cores take them: each number is off by up to 2^-9 of itself, a score of
  // rope columns that are ten times as large as queries by some hundredths, a result with its weights. As a whole that
  // is 0.4 % of the results, in single ones a few times as much.
  const double size = std::sqrt(sum), count = 2.0 * static_cast<double>(c.heads * c.d_latent);
  EXPECT_LE(std::sqrt(difference), 0.01 * size);
  EXPECT_LE(largest, 0.25 * size / std::sqrt(count));
}

// What only the device can see is told in the status and skipped; on `host` it is refused by name.
TEST(MlaAppendStatus, IndexDataOutOfBounds) {
  struct Wrong {
    const char* what;
    By by;
    bool positions;
    std::int32_t bit;
    std::vector<std::string_view> words;
    std::function<void(Appending&)> make;
  };
  const std::vector<Wrong> all = {
      {"a slot beyond the pool",
       By::slots,
       true,
       QUERN_MLA_STATUS_INDEX,
       {"slots[2]", "256", "cache's places"},
       [](Appending& a) { a.slots.set_integer(kPages * 16, 2); }},
      {"a page beyond the pool",
       By::table,
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_table[1][2]", "16", "cache's pages"},
       [](Appending& a) { a.table.set_integer(kPages, 1, 2); }},
      {"a negative page",
       By::indices,
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_indices[3]", "-5", "cache's pages"},
       [](Appending& a) { a.indices.set_integer(-5, 3); }},
      {"a position beyond the table",
       By::table,
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"positions[0]", "64", "sequence 0"},
       [](Appending& a) { a.positions.set_integer(64, 0); }},
      {"a length beyond the table",
       By::table,
       false,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[4]", "sequence 4"},
       [](Appending& a) { a.lengths.set_integer(99, 4); }},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.what);
    LatentCase c;
    c.name = "status";
    c.by = wrong.by, c.positions = wrong.positions;
    Appending a(c);
    wrong.make(a);
    if (on_cuda()) {
      ASSERT_NO_FATAL_FAILURE(a.run());
      a.status.download();
      EXPECT_EQ(a.status.integer(0), wrong.bit);
      continue;
    }
    for (Array* x : {&a.slots, &a.table, &a.indices, &a.positions, &a.lengths, &a.indptr, &a.cu_q}) x->upload();
    expect_refused(wrong.words, [&](quern_error* e) { return quern_mla_append(context(), &a.args, e); });
    a.cache.download();
    EXPECT_TRUE(a.cache.is_untouched(0, 0, 0));
  }
}

TEST(MlaAppendRefuses, EveryWrongArgument) {
  using A = Appending&;
  const std::vector<Mistake<Appending>> mistakes = {
      {"kv NULL", {"kv", "NULL"}, [](A a) { a.args.kv = nullptr; }},
      {"cache NULL", {"cache", "NULL"}, [](A a) { a.args.cache = nullptr; }},
      {"cache_scale NULL", {"cache_scale", "NULL"}, [](A a) { a.args.cache_scale = nullptr; }},
      {"kv's dtype", {"kv", "f16", "bf16"}, [](A a) { a.kv.box().tensor.dtype = kFloat32; }},
      {"kv's rank", {"kv", "2"}, [](A a) { a.kv.box().tensor.ndim = 1; }},
      {"d_latent", {"kv.shape[1]", "100"}, [](A a) { a.kv.box().shape[1] = 100; }},
      {"k_rope's dtype", {"k_rope", "bf16"}, [](A a) { a.k_rope.box().tensor.dtype = kFloat32; }},
      {"k_rope's tokens", {"k_rope.shape[0]"}, [](A a) { a.k_rope.box().shape[0] = 3; }},
      {"k_rope's columns", {"k_rope.shape[1]", "40"}, [](A a) { a.k_rope.box().shape[1] = 40; }},
      {"d_rope beside k_rope", {"d_rope", "32"}, [](A a) { a.args.d_rope = 32; }},
      {"d_rope", {"d_rope", "24"}, [](A a) { a.args.k_rope = a.args.k_rope_out = nullptr, a.args.d_rope = 24; }},
      {"weight's length", {"weight.shape[0]", "128"}, [](A a) { a.weight.box().shape[0] = 127; }},
      {"weight's dtype", {"weight", "bf16"}, [](A a) { a.weight.box().tensor.dtype = kInt32; }},
      {"eps", {"eps"}, [](A a) { a.args.eps = -1.0f; }},
      {"cache's dtype", {"cache", "bf16"}, [](A a) { a.cache.box().tensor.dtype = dtype_of(Format::f16); }},
      {"cache_type", {"cache_type", "3"}, [](A a) { a.args.cache_type = 3; }},
      {"656-byte rows of other dims", {"ROWS_656"}, [](A a) { a.args.cache_type = QUERN_MLA_CACHE_ROWS_656; }},
      {"cache's columns", {"cache.shape[2]", "128"}, [](A a) { a.cache.box().shape[2] = 112; }},
      {"cache_rope's pages", {"cache_rope.shape[0]", "16"}, [](A a) { a.cache_rope.box().shape[0] = 15; }},
      {"cache_rope's dtype", {"cache_rope", "e4m3"}, [](A a) { a.cache_rope.box().tensor.dtype = kInt32; }},
      {"a cache over itself", {"cache.strides"}, [](A a) { a.cache.box().strides[1] = 16; }},
      {"the last stride", {"cache.strides[2]", "1"}, [](A a) { a.cache.box().strides[2] = 2; }},
      {"cache_scale's pages", {"cache_scale.shape[0]", "16"}, [](A a) { a.scale.box().shape[0] = 4; }},
      {"cache_scale's dtype", {"cache_scale", "f32"}, [](A a) { a.scale.box().tensor.dtype = kInt32; }},
      {"no place", {"slots", "page_table"}, [](A a) { a.args.slots = nullptr; }},
      {"two places", {"slots", "page_table"}, [](A a) { a.args.page_table = a.table.tensor(); }},
      {"rope without positions", {"positions", "NULL"}, [](A a) { a.args.positions = nullptr; }},
      {"slots' length", {"slots.shape[0]"}, [](A a) { a.slots.box().shape[0] = 2; }},
      {"rope's rotary_dim", {"rope.rotary_dim"}, [](A a) { a.options.rotary_dim = 66; }},
      {"q_rope without rope", {"rope", "q_rope"}, [](A a) { a.args.rope = nullptr; }},
      {"q_rope's columns", {"q_rope.shape[2]", "64"}, [](A a) { a.q.box().shape[2] = 32; }},
      {"q_rope's tokens", {"q_rope.shape[0]"}, [](A a) { a.q.box().shape[0] = 2; }},
      {"q_rope_out's heads", {"q_rope_out.shape[1]", "6"}, [](A a) { a.q_out.box().shape[1] = 5; }},
      {"q_rope_out alone", {"q_rope_out", "NULL"}, [](A a) { a.args.q_rope = nullptr; }},
      {"k_rope_out missing", {"k_rope_out", "NULL"}, [](A a) { a.args.k_rope_out = nullptr; }},
      {"k_rope_out alone", {"k_rope_out", "NULL"}, [](A a) { a.args.kv_out = nullptr; }},
      {"kv_out's columns", {"kv_out.shape[1]", "128"}, [](A a) { a.kv_out.box().shape[1] = 64; }},
      {"kv_out's dtype", {"kv_out", "bf16"}, [](A a) { a.kv_out.box().tensor.dtype = kFloat32; }},
      {"status' length", {"status.shape[0]", "1"}, [](A a) { a.status.box().shape[0] = 2; }},
      {"kv's alignment", {"kv", "stride"}, [](A a) { a.kv.box().strides[0] += 4; }},
      {"an unknown flag", {"flags"}, [](A a) { a.args.flags = QUERN_ATTENTION_WINDOW_LEFT; }},
      {"reserved", {"reserved"}, [](A a) { a.args.reserved = 1; }},
      {"without data", {"cache", "NULL"}, [](A a) { a.cache.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](A a) { a.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](A a) { a.args.max_sms = -1; }},
      {"no size", {"size"}, [](A a) { a.args.size = 0; }},
  };
  LatentCase c;
  c.name = "refusals";
  c.cache = Cache::token, c.apart = c.two_pools = c.results = true;
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_mla_append_args>{quern_mla_append, quern_mla_append_workspace, quern_mla_append_prepare},
      [&] { return std::make_unique<Appending>(c); },
      [](Appending& a) {
        return [&a] {
          a.cache.download(), a.q_out.download();
          return a.cache.is_untouched(0, 0, 0) && a.q_out.is_untouched(0, 0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
