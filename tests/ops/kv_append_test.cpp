// kv_append against its formulas in fp64: places, norms, rope and quantisation in every combination; then attention
// over what was appended; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rope_oracle.h"

namespace quern::test {
namespace {

enum class By { slots, table, indices };
enum class Scale { none, tensor, head, token };

struct AppendCase {
  std::string name;
  Element element = Element::bf16;
  std::optional<Element> cache;  // else element
  std::vector<int> q_lens = {1, 4, 0, 9, 1};
  std::vector<int> lengths = {1, 33, 7, 9, 40};  // with the new tokens
  std::int64_t kv_heads = 2, heads = 6, dim = 64, dim_v = 0, page_size = 16;
  By by = By::slots;
  bool positions = true, wide = false, one_each = false, hnd = false, raw_bytes = false;
  Scale scale = Scale::none;
  bool queries = true, q_in_place = false;
  std::optional<Element> q_out;
  Scale q_scale = Scale::none;
  bool rope = true;
  quern_rope_options options{};
  bool q_norm = false, k_norm = false, norm_f32 = false;
  std::uint32_t flags = 0;
  int alignment = 0, max_sms = 0;

  std::int64_t v() const { return dim_v != 0 ? dim_v : dim; }
  Element cache_element() const { return cache.value_or(element); }
  std::int64_t batch() const { return static_cast<std::int64_t>(q_lens.size()); }
  std::int64_t tokens() const {
    return std::accumulate(q_lens.begin(), q_lens.end(), 0) + (one_each ? 0 : 2);
  }  // two belong to nobody
};

constexpr std::int64_t kPages = 16;

class Appending {
 public:
  explicit Appending(const AppendCase& c)
      : args(sized<quern_kv_append_args>()),
        options(c.options),
        c_(c),
        k(c.element, {c.tokens(), c.kv_heads, c.dim}),
        v(c.element, {c.tokens(), c.kv_heads, c.v()}),
        q(c.element, {c.tokens(), c.heads, c.dim}),
        q_out(c.q_out.value_or(c.element), {c.tokens(), c.heads, c.dim}),
        k_cache(cache_of(c.dim)),
        v_cache(cache_of(c.v())),
        k_scale(scale_of(c.scale)),
        v_scale(scale_of(c.scale)),
        q_scale(c.q_scale == Scale::token ? Array(Element::f32, {c.tokens(), c.heads})
                                          : Array(Element::f32, {c.q_scale == Scale::head ? c.heads : 1})),
        q_weight(c.norm_f32 ? Element(Element::f32) : c.element, {c.dim}),
        k_weight(c.norm_f32 ? Element(Element::f32) : c.element, {c.dim}),
        slots(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        positions(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        table(IntegerBits{32}, {c.batch(), 4}),
        indptr(IntegerBits{32}, {c.batch() + 1}),
        indices(IntegerBits{32}, {4 * c.batch()}),
        cu_q(IntegerBits{32}, {c.batch() + 1}),
        lengths(IntegerBits{32}, {c.batch()}) {
    Random random(c.name);
    options.size = sizeof(options);
    for (Array* x : {&k, &v, &q}) {
      for (std::int64_t t = 0; t < c.tokens(); ++t) {
        for (std::int64_t h = 0; h < x->extent(1); ++h) {
          const double size = std::exp(random.normal());
          for (std::int64_t d = 0; d < x->extent(2); ++d) x->set(size * random.normal(), t, h, d);
        }
      }
    }
    for (Array* x : {&q_weight, &k_weight}) {
      for (std::int64_t d = 0; d < c.dim; ++d) x->set(1.0 + 0.3 * random.normal(), d);
    }
    if (c.scale == Scale::tensor || c.scale == Scale::head) {
      for (Array* x : {&k_scale, &v_scale}) {
        for (std::int64_t h = 0; h < x->extent(0); ++h)
          x->set((0.5 + random.uniform()) * 6.0 / c.cache_element().largest(), h);
      }
    }
    if (c.q_scale == Scale::tensor || c.q_scale == Scale::head) {
      for (std::int64_t h = 0; h < q_scale.extent(0); ++h)
        q_scale.set((0.5 + random.uniform()) * 6.0 / q_out.element().largest(), h);
    }
    place_tokens(random);
    set_args();
  }

  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_kv_append_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_kv_append_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_kv_append(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  void upload() {
    for (Array* x : arrays()) x->upload();
  }

  void check() {
    const Array before(c_.q_in_place ? copy_of(q) : Array(Element::f32, {1}));
    for (Array* x : {&q, &q_out, &k_cache, &v_cache, &k_scale, &v_scale, &q_scale}) x->download();
    const Array& queries = c_.q_in_place ? before : q;
    std::vector<char> written(static_cast<std::size_t>(kPages * c_.page_size), 0);
    for (std::int64_t t = 0; t < c_.tokens(); ++t) {
      const auto token = static_cast<std::size_t>(t);
      if (page_[token] < 0) {
        for (std::int64_t h = 0; h < c_.heads && c_.queries && !c_.q_in_place; ++h)
          wrong_ += !q_out.is_untouched(t, h, 0);
        continue;
      }
      written[static_cast<std::size_t>(page_[token] * c_.page_size + place_[token])] = 1;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        check_head(prepared(k, t, h, c_.k_norm ? &k_weight : nullptr, c_.rope), k_cache, c_.scale, k_scale, h,
                   {page_[token], place_[token], h});
        check_head(prepared(v, t, h, nullptr, false), v_cache, c_.scale, v_scale, h, {page_[token], place_[token], h});
      }
      for (std::int64_t h = 0; h < c_.heads && c_.queries; ++h) {
        check_head(prepared(queries, t, h, c_.q_norm ? &q_weight : nullptr, c_.rope), c_.q_in_place ? q : q_out,
                   c_.q_scale, q_scale, h, {t, h});
      }
    }
    for (std::int64_t slot = 0; slot < kPages * c_.page_size; ++slot) {
      if (written[static_cast<std::size_t>(slot)] != 0) continue;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        for (std::int64_t d = 0; d < c_.dim; ++d)
          wrong_ += !k_cache.is_untouched(slot / c_.page_size, slot % c_.page_size, h, d);
        for (std::int64_t d = 0; d < c_.v(); ++d)
          wrong_ += !v_cache.is_untouched(slot / c_.page_size, slot % c_.page_size, h, d);
        if (c_.scale == Scale::token) wrong_ += !k_scale.is_untouched(slot / c_.page_size, slot % c_.page_size, h);
      }
    }
    EXPECT_EQ(wrong_, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_kv_append_args args;
  quern_rope_options options;

 private:
  Array cache_of(std::int64_t dim) const {
    if (!c_.hnd) return {c_.cache_element(), {kPages, c_.page_size, c_.kv_heads, dim}};
    return {c_.cache_element(),
            {kPages, c_.page_size, c_.kv_heads, dim},
            {c_.page_size * c_.kv_heads * dim, dim, c_.page_size * dim, 1}};
  }
  Array scale_of(Scale scale) const {
    if (scale == Scale::token) return {Element::f32, {kPages, c_.page_size, c_.kv_heads}};
    return {Element::f32, {scale == Scale::head ? c_.kv_heads : 1}};
  }
  std::vector<Array*> arrays() {
    return {&k,        &v,        &q,     &q_out,     &k_cache, &v_cache, &k_scale, &v_scale, &q_scale,
            &q_weight, &k_weight, &slots, &positions, &table,   &indptr,  &indices, &cu_q,    &lengths};
  }
  static Array copy_of(const Array& x) {
    Array copy(x.element(), {x.extent(0), x.extent(1), x.extent(2)});
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t h = 0; h < x.extent(1); ++h) {
        for (std::int64_t d = 0; d < x.extent(2); ++d) copy.set(x.get(t, h, d), t, h, d);
      }
    }
    return copy;
  }

  // Every sequence has pages of its own; some tokens are skipped.
  void place_tokens(Random& random) {
    std::vector<std::int64_t> free(kPages);
    std::iota(free.begin(), free.end(), 0);
    random.shuffle(free);
    std::vector<std::vector<std::int64_t>> pages(static_cast<std::size_t>(c_.batch()));
    std::int64_t listed = 0, token = 0;
    indptr.set_integer(0, 0), cu_q.set_integer(0, 0);
    for (std::int64_t s = 0; s < c_.batch(); ++s) {
      const int length = c_.lengths[static_cast<std::size_t>(s)], q_len = c_.q_lens[static_cast<std::size_t>(s)];
      lengths.set_integer(length, s);
      for (std::int64_t j = 0; j * c_.page_size < length; ++j) {
        pages[static_cast<std::size_t>(s)].push_back(free.back());
        table.set_integer(free.back(), s, j), indices.set_integer(free.back(), listed++);
        free.pop_back();
      }
      indptr.set_integer(listed, s + 1);
      for (int i = 0; i < q_len; ++i, ++token) {
        const std::int64_t position = length - q_len + i;
        const bool skipped = c_.by == By::slots ? random.below(6) == 0 : c_.positions && random.below(6) == 0;
        const std::int64_t page = pages[static_cast<std::size_t>(s)][static_cast<std::size_t>(position / c_.page_size)];
        page_.push_back(skipped ? -1 : page), place_.push_back(position % c_.page_size), position_.push_back(position);
        slots.set_integer(
            skipped ? -1 - static_cast<std::int64_t>(random.below(3)) : page * c_.page_size + position % c_.page_size,
            token);
        positions.set_integer(skipped && c_.by != By::slots ? -1 : position, token);
      }
      cu_q.set_integer(token, s + 1);
    }
    for (; token < c_.tokens(); ++token) {
      page_.push_back(-1), place_.push_back(0), position_.push_back(0);
      slots.set_integer(-1, token), positions.set_integer(3, token);
    }
  }

  void set_args() {
    args.flags = c_.flags;
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.k = k.tensor(), args.v = v.tensor(), args.k_cache = k_cache.tensor(), args.v_cache = v_cache.tensor();
    if (c_.scale != Scale::none) args.k_scale = k_scale.tensor(), args.v_scale = v_scale.tensor();
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
      args.q = q.tensor();
      if (!c_.q_in_place) args.q_out = q_out.tensor();
      if (c_.q_scale != Scale::none) args.q_scale = q_scale.tensor();
      if (c_.q_norm) args.q_weight = q_weight.tensor();
    }
    if (c_.k_norm) args.k_weight = k_weight.tensor();
    if (c_.rope) args.rope = &options;
    args.eps = 1e-5f;
    if (!c_.raw_bytes) return;
    for (Array* x : {&k_cache, &v_cache}) x->box().tensor.dtype = {kDLUInt, 8, 1};
    args.kv_type = c_.cache_element().kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2;
  }

  // A head before it is stored, in fp64.
  std::vector<double> prepared(const Array& from, std::int64_t token, std::int64_t head, const Array* weight,
                               bool turns) const {
    std::vector<double> x;
    double squares = 0.0;
    for (std::int64_t d = 0; d < from.extent(2); ++d) {
      x.push_back(from.get(token, head, d));
      squares += x.back() * x.back();
    }
    if (weight != nullptr) {
      const double plus = (c_.flags & QUERN_KV_APPEND_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0;
      const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
      for (std::size_t d = 0; d < x.size(); ++d) x[d] *= inverse * (weight->get(static_cast<std::int64_t>(d)) + plus);
    }
    if (turns) rope_exactly(options, position_[static_cast<std::size_t>(token)], x);
    return x;
  }

  void check_head(const std::vector<double>& exact, const Array& stored, Scale kind, const Array& scales,
                  std::int64_t head, const std::vector<std::int64_t>& at) {
    const auto value = [&](std::int64_t d) {
      return at.size() == 3 ? stored.get(at[0], at[1], at[2], d) : stored.get(at[0], at[1], d);
    };
    double largest = 0.0, scale = 1.0;
    for (const double x : exact) largest = std::max(largest, std::fabs(x));
    const Element element = stored.element();
    if (kind == Scale::token) {
      scale = at.size() == 3 ? scales.get(at[0], at[1], at[2]) : scales.get(at[0], at[1]);
      const double wanted = largest > 0.0 ? largest / element.largest() : 1.0;
      wrong_ += !(std::fabs(scale - wanted) <= 2e-6 * wanted);
    } else if (kind != Scale::none) {
      scale = scales.get(kind == Scale::head ? head : 0);
    }
    // What f32 arithmetic may be off by.
    const double slack = 2e-6 * largest;
    for (std::size_t d = 0; d < exact.size(); ++d) {
      const double given = value(static_cast<std::int64_t>(d)) * scale;
      if (element.bytes() > 1) {
        wrong_ += !(std::fabs(given - exact[d]) <= element.roundoff() * std::fabs(exact[d]) * 1.01 + slack + 1e-30);
        continue;
      }
      // A code whose number is the nearest, or was within what f32 cannot tell apart.
      const double near[] = {element.rounded((exact[d] - slack) / scale) * scale,
                             element.rounded((exact[d] + slack) / scale) * scale};
      wrong_ += !(given >= near[0] - 1e-12 && given <= near[1] + 1e-12);
    }
  }

  AppendCase c_;
  std::vector<std::int64_t> page_, place_, position_;
  std::int64_t wrong_ = 0;

 public:
  Array k, v, q, q_out, k_cache, v_cache, k_scale, v_scale, q_scale, q_weight, k_weight, slots, positions, table,
      indptr, indices, cu_q, lengths;
};

std::vector<AppendCase> append_cases() {
  std::vector<AppendCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(AppendCase&)>& change) {
    AppendCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  add("plain", [](AppendCase& c) { c.queries = c.rope = false; });
  add("plain_f32", [](AppendCase& c) { c.queries = c.rope = false, c.element = Element::f32; });
  add("rope", [](AppendCase& c) { c.queries = false; });
  add("queries", [](AppendCase&) {});
  add("queries_in_place", [](AppendCase& c) { c.q_in_place = true; });
  add("table", [](AppendCase& c) { c.by = By::table; });
  add("table_lengths", [](AppendCase& c) { c.by = By::table, c.positions = false; });
  add("indices", [](AppendCase& c) { c.by = By::indices; });
  add("indices_lengths", [](AppendCase& c) { c.by = By::indices, c.positions = false; });
  add("one_each",
      [](AppendCase& c) { c.by = By::table, c.positions = false, c.one_each = true, c.q_lens = {1, 1, 1, 1, 1}; });
  add("wide", [](AppendCase& c) { c.wide = true; });
  add("hnd", [](AppendCase& c) { c.hnd = true; });
  add("page_5", [](AppendCase& c) { c.page_size = 5, c.lengths = {1, 16, 7, 9, 20}, c.by = By::table; });
  add("page_1", [](AppendCase& c) { c.page_size = 1, c.q_lens = {1, 2, 1}, c.lengths = {1, 4, 3}; });
  add("norms", [](AppendCase& c) { c.q_norm = c.k_norm = true; });
  add("norm_of_keys_f32", [](AppendCase& c) { c.k_norm = c.norm_f32 = true, c.queries = false; });
  add("norms_plus_one",
      [](AppendCase& c) { c.q_norm = c.k_norm = true, c.flags = QUERN_KV_APPEND_WEIGHT_PLUS_ONE, c.rope = false; });
  for (const Element cache : {Element(Element::e4m3), Element(Element::e5m2), Element(Element::i8)}) {
    const std::string name = cache.name();
    add(name + "_tensor", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::tensor, c.hnd = true; });
    add(name + "_head", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::head; });
    add(name + "_token", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::token; });
    add(name + "_token_norms",
        [&](AppendCase& c) { c.cache = cache, c.scale = Scale::token, c.q_norm = c.k_norm = true, c.dim = 128; });
  }
  add("raw_bytes", [](AppendCase& c) { c.cache = Element::e5m2, c.raw_bytes = true, c.scale = Scale::tensor; });
  add("q_e4m3_token", [](AppendCase& c) {
    c.q_out = Element::e4m3, c.q_scale = Scale::token, c.cache = Element::e4m3, c.scale = Scale::token;
  });
  add("q_e4m3_head", [](AppendCase& c) { c.q_out = Element::e4m3, c.q_scale = Scale::head; });
  add("q_e5m2_tensor", [](AppendCase& c) {
    c.q_out = Element::e5m2, c.q_scale = Scale::tensor, c.cache = Element::i8, c.scale = Scale::token;
  });
  add("interleaved",
      [](AppendCase& c) { c.options.flags = QUERN_ROPE_INTERLEAVED, c.cache = Element::i8, c.scale = Scale::token; });
  add("partial", [](AppendCase& c) { c.options.rotary_dim = 24, c.dim = 80, c.k_norm = c.q_norm = true; });
  add("yarn", [](AppendCase& c) {
    c.options.scaling = QUERN_ROPE_YARN, c.options.factor = 8.0, c.options.original_positions = 16;
  });
  add("dims_192_128", [](AppendCase& c) { c.dim = 192, c.dim_v = 128, c.page_size = 8, c.lengths = {1, 8, 7, 9, 16}; });
  add("dims_24_256", [](AppendCase& c) {
    c.dim = 24, c.dim_v = 256, c.cache = Element::e4m3, c.scale = Scale::token, c.page_size = 8,
    c.lengths = {1, 8, 7, 9, 16};
  });
  add("dim_512", [](AppendCase& c) {
    c.dim = 512, c.options.rotary_dim = 64, c.k_norm = true, c.page_size = 8, c.lengths = {1, 8, 7, 9, 16};
  });
  add("dim_8", [](AppendCase& c) { c.dim = 8, c.scale = Scale::token, c.cache = Element::e4m3; });
  add("alignment_4", [](AppendCase& c) { c.alignment = 4, c.cache = Element::i8, c.scale = Scale::token; });
  add("few_sms", [](AppendCase& c) { c.max_sms = 1, c.q_lens = {30, 40, 10}, c.lengths = {31, 64, 20}; });
  add("no_tokens", [](AppendCase& c) { c.q_lens = {}, c.lengths = {}, c.one_each = true; });
  return cases;
}

class KvAppend : public testing::TestWithParam<AppendCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, KvAppend, testing::ValuesIn(append_cases()),
                         [](const testing::TestParamInfo<AppendCase>& test) { return test.param.name; });

TEST_P(KvAppend, MatchesItsFormula) {
  Appending appending(GetParam());
  ASSERT_NO_FATAL_FAILURE(appending.run());
  appending.check();
}

// What is no number: of int8 it becomes 0, of the others it stays; infinities become the largest number and do not
// count in a scale.
TEST(KvAppendNumbers, NanAndInfinity) {
  for (const Element cache : {Element(Element::e4m3), Element(Element::e5m2), Element(Element::i8)}) {
    AppendCase c;
    c.name = "numbers";
    c.cache = cache, c.scale = Scale::token, c.rope = c.queries = false;
    c.q_lens = {1}, c.lengths = {1}, c.by = By::table, c.positions = false, c.one_each = true;
    Appending appending(c);
    appending.v.set(std::numeric_limits<double>::quiet_NaN(), 0, 0, 3);
    appending.v.set(std::numeric_limits<double>::infinity(), 0, 0, 4);
    appending.v.set(-std::numeric_limits<double>::infinity(), 0, 0, 5);
    for (std::int64_t d = 0; d < 64; ++d) appending.v.set(0.0, 0, 1, d);
    ASSERT_NO_FATAL_FAILURE(appending.run());
    appending.v_cache.download(), appending.v_scale.download();
    const std::int64_t page = appending.table.integer(0, 0);
    const auto at = [&](std::int64_t d) { return appending.v_cache.get(page, 0, 0, d); };
    EXPECT_TRUE(cache.kind() == Element::i8 ? at(3) == 0.0 : std::isnan(at(3))) << cache.name();
    EXPECT_EQ(at(4), cache.largest()) << cache.name();
    EXPECT_EQ(at(5), -cache.largest()) << cache.name();
    EXPECT_LT(appending.v_scale.get(page, 0, 0) * cache.largest(), 50.0) << cache.name();
    EXPECT_EQ(appending.v_scale.get(page, 0, 1), 1.0) << cache.name();
    EXPECT_EQ(appending.v_cache.get(page, 0, 1, 7), 0.0) << cache.name();
  }
}

// Where tokens go is data, which `host` looks at before it writes: what leads out is named.
struct Misplaced {
  By by;
  bool positions;
  std::vector<std::string_view> words;
  std::function<void(Appending&)> make;
};

TEST(KvAppendRefuses, PlacesOutsideOfTheCache) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  using A = Appending&;
  const Misplaced all[] = {
      {By::slots, true, {"slots[2]", "token 2", "is 256", "0 to 255"}, [](A a) { a.slots.set_integer(256, 2); }},
      {By::table,
       true,
       {"positions[1]", "sequence 1", "is 1000", "pages"},
       [](A a) { a.positions.set_integer(1000, 1); }},
      {By::table, false, {"lengths[1]", "sequence 1", "is 1000"}, [](A a) { a.lengths.set_integer(1000, 1); }},
      {By::table, false, {"lengths[0]", "sequence 0", "is 0"}, [](A a) { a.lengths.set_integer(0, 0); }},
      {By::table, false, {"cu_q[1]", "sequence 0", "-3"}, [](A a) { a.cu_q.set_integer(-3, 1); }},
      {By::indices, false, {"page_indptr[2]", "sequence 1", "9999"}, [](A a) { a.indptr.set_integer(9999, 2); }},
      {By::indices,
       false,
       {"page_indices[", "sequence", "is 16", "0 to 15"},
       [](A a) {
         for (std::int64_t i = 0; i < a.indices.extent(0); ++i) a.indices.set_integer(16, i);
       }},
      {By::table,
       true,
       {"page_table[", "sequence", "is -1", "0 to 15"},
       [](A a) {
         for (std::int64_t i = 0; i < a.table.extent(0); ++i) {
           for (std::int64_t j = 0; j < a.table.extent(1); ++j) a.table.set_integer(-1, i, j);
         }
       }},
  };
  for (const Misplaced& each : all) {
    SCOPED_TRACE(each.words[0]);
    AppendCase c;
    c.name = "misplaced", c.by = each.by, c.positions = each.positions;
    Appending appending(c);
    each.make(appending);
    appending.upload();
    const std::vector<unsigned char> before = appending.k_cache.memory();
    expect_refused(each.words, [&](quern_error* e) { return quern_kv_append(context(), &appending.args, e); });
    appending.k_cache.download();
    EXPECT_EQ(appending.k_cache.memory(), before);
  }
}

TEST(KvAppendRefuses, EveryWrongArgument) {
  using A = Appending&;
  const std::vector<Mistake<Appending>> mistakes = {
      {"k NULL", {"k", "NULL"}, [](A a) { a.args.k = nullptr; }},
      {"v NULL", {"v", "NULL"}, [](A a) { a.args.v = nullptr; }},
      {"k_cache NULL", {"k_cache", "NULL"}, [](A a) { a.args.k_cache = nullptr; }},
      {"v_cache NULL", {"v_cache", "NULL"}, [](A a) { a.args.v_cache = nullptr; }},
      {"no place", {"slots", "page_table"}, [](A a) { a.args.slots = nullptr; }},
      {"two places", {"slots", "page_table"}, [](A a) { a.args.page_table = a.table.tensor(); }},
      {"k's dtype", {"k", "int32"}, [](A a) { a.k.box().tensor.dtype = kInt32; }},
      {"v's dtype", {"v", "bf16"}, [](A a) { a.v.box().tensor.dtype = kFloat32; }},
      {"k_cache's dtype", {"k_cache", "f16"}, [](A a) { a.k_cache.box().tensor.dtype = dtype_of(Format::f16); }},
      {"v_cache's dtype", {"v_cache", "e4m3"}, [](A a) { a.v_cache.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"bytes without a type", {"kv_type"}, [](A a) { a.k_cache.box().tensor.dtype = {kDLUInt, 8, 1}; }},
      {"another type", {"kv_type"}, [](A a) { a.args.kv_type = QUERN_FP8_E5M2; }},
      {"q_out's type", {"q_type"}, [](A a) { a.args.q_type = QUERN_FP8_E4M3; }},
      {"v's tokens", {"v.shape[0]"}, [](A a) { a.v.box().shape[0] = 3; }},
      {"v's heads", {"v.shape[1]", "2"}, [](A a) { a.v.box().shape[1] = 1; }},
      {"q's dim", {"q.shape[2]", "64"}, [](A a) { a.q.box().shape[2] = 32; }},
      {"q_out's heads", {"q_out.shape[1]", "6"}, [](A a) { a.q_out.box().shape[1] = 5; }},
      {"k_cache's heads",
       {"k_cache.shape[2]", "2"},
       [](A a) { a.k_cache.box().shape[2] = a.v_cache.box().shape[2] = 1; }},
      {"v_cache's pages", {"v_cache.shape[0]", "16"}, [](A a) { a.v_cache.box().shape[0] = 15; }},
      {"k_cache's dim", {"k_cache.shape[3]", "64"}, [](A a) { a.k_cache.box().shape[3] = 32; }},
      {"a dim of 12", {"k.shape[2]", "12", "multiples of 8"}, [](A a) { a.k.box().shape[2] = 12; }},
      {"k_scale's dtype", {"k_scale", "f32"}, [](A a) { a.k_scale.box().tensor.dtype = kInt32; }},
      {"k_scale's rank", {"k_scale", "dimensions"}, [](A a) { a.k_scale.box().tensor.ndim = 2; }},
      {"k_scale's pages", {"k_scale.shape[0]", "16"}, [](A a) { a.k_scale.box().shape[0] = 4; }},
      {"scales of two kinds", {"k_scale", "v_scale"}, [](A a) { a.args.v_scale = nullptr; }},
      {"slots' length", {"slots.shape[0]"}, [](A a) { a.slots.box().shape[0] = 2; }},
      {"slots' dtype", {"slots", "int32"}, [](A a) { a.slots.box().tensor.dtype = kFloat32; }},
      {"rope without positions", {"positions", "NULL"}, [](A a) { a.args.positions = nullptr; }},
      {"cu_q with slots", {"cu_q", "NULL"}, [](A a) { a.args.cu_q = a.cu_q.tensor(); }},
      {"lengths with slots", {"lengths", "NULL"}, [](A a) { a.args.lengths = a.lengths.tensor(); }},
      {"neither positions nor lengths",
       {"positions", "lengths"},
       [](A a) { a.args.slots = nullptr, a.args.page_table = a.table.tensor(), a.args.positions = nullptr; }},
      {"positions and lengths",
       {"lengths", "NULL"},
       [](A a) { a.args.slots = nullptr, a.args.page_table = a.table.tensor(), a.args.lengths = a.lengths.tensor(); }},
      {"page_indptr alone",
       {"page_indices", "NULL"},
       [](A a) { a.args.slots = nullptr, a.args.page_indptr = a.indptr.tensor(); }},
      {"q_out without q", {"q_out", "NULL"}, [](A a) { a.args.q = nullptr; }},
      {"q_scale of 16 bits", {"q_scale", "NULL"}, [](A a) { a.args.q_scale = a.q_scale.tensor(); }},
      {"k_weight's length",
       {"k_weight.shape[0]", "64"},
       [](A a) { a.args.k_weight = a.k_weight.tensor(), a.k_weight.box().shape[0] = 63; }},
      {"k_weight's dtype",
       {"k_weight", "bf16"},
       [](A a) { a.args.k_weight = a.k_weight.tensor(), a.k_weight.box().tensor.dtype = kInt32; }},
      {"weights of two dtypes",
       {"k_weight", "bf16"},
       [](A a) {
         a.args.q_weight = a.q_weight.tensor(), a.args.k_weight = a.k_weight.tensor(),
         a.k_weight.box().tensor.dtype = kFloat32;
       }},
      {"eps", {"eps"}, [](A a) { a.args.eps = -1.0f; }},
      {"plus one of nothing", {"WEIGHT_PLUS_ONE"}, [](A a) { a.args.flags = QUERN_KV_APPEND_WEIGHT_PLUS_ONE; }},
      {"an unknown flag", {"flags"}, [](A a) { a.args.flags = QUERN_ATTENTION_WINDOW_LEFT; }},
      {"rope's rotary_dim", {"rope.rotary_dim"}, [](A a) { a.options.rotary_dim = 65; }},
      {"a cache over itself", {"k_cache.strides"}, [](A a) { a.k_cache.box().strides[1] = 8; }},
      {"the last stride", {"v_cache.strides[3]", "1"}, [](A a) { a.v_cache.box().strides[3] = 2; }},
      {"k's alignment", {"k", "stride"}, [](A a) { a.k.box().strides[0] += 4; }},
      {"without data", {"k_cache", "NULL"}, [](A a) { a.k_cache.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](A a) { a.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](A a) { a.args.max_sms = -1; }},
      {"no size", {"size"}, [](A a) { a.args.size = 0; }},
  };
  AppendCase c;
  c.name = "refusals";
  c.cache = Element::e4m3, c.scale = Scale::token;
  expect_all_refused(
      mistakes, ThreeCalls<quern_kv_append_args>{quern_kv_append, quern_kv_append_workspace, quern_kv_append_prepare},
      [&] { return std::make_unique<Appending>(c); },
      [](Appending& a) {
        return [&a] {
          a.k_cache.download(), a.q_out.download();
          return a.k_cache.is_untouched(0, 0, 0, 0) && a.q_out.is_untouched(0, 0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
