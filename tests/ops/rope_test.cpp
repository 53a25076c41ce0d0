// rope against its formulas in fp64: every scaling, layout, dtype and table; far positions, strides, in place; and its
// refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rope_oracle.h"

namespace quern::test {
namespace {

struct RopeCase {
  std::string name;
  Element element = Element::bf16;
  std::int64_t tokens = 9, heads = 6, kv_heads = 2, dim = 64;
  quern_rope_options options{};
  std::optional<Element> table;
  bool in_place = false, keys = true, wide = false;  // wide: positions of 64 bits
  std::int64_t padding = 0;                          // elements between heads
  int alignment = 0;
  std::int64_t furthest = 131071;  // position
};

class Turning {
 public:
  explicit Turning(const RopeCase& c)
      : args(sized<quern_rope_args>()),
        options(c.options),
        c_(c),
        q(c.element, {c.tokens, c.heads, c.dim}, strides(c.heads)),
        k(c.element, {c.tokens, c.kv_heads, c.dim}, strides(c.kv_heads)),
        q_out(c.element, {c.tokens, c.heads, c.dim}, strides(c.heads)),
        k_out(c.element, {c.tokens, c.kv_heads, c.dim}, strides(c.kv_heads)),
        positions(IntegerBits{c.wide ? 64 : 32}, {c.tokens}),
        table(c.table.value_or(Element(Element::f32)), {c.furthest < 1000 ? c.furthest + 1 : 1, rotary()}) {
    Random random(c.name);
    options.size = sizeof(options);
    for (Array* x : {&q, &k}) {
      for (std::int64_t t = 0; t < c.tokens; ++t) {
        for (std::int64_t h = 0; h < x->extent(1); ++h) {
          for (std::int64_t d = 0; d < c.dim; ++d) x->set(random.normal(), t, h, d);
        }
      }
    }
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      const auto place = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(c.furthest + 1)));
      positions.set_integer(t == 0 ? 0 : t == 1 ? c.furthest : place, t);
    }
    args.q = q.tensor(), args.positions = positions.tensor(), args.rope = &options;
    if (c.keys) args.k = k.tensor();
    if (!c.in_place) {
      args.q_out = q_out.tensor();
      if (c.keys) args.k_out = k_out.tensor();
    }
    args.alignment = c.alignment;
    if (!c.table) return;
    for (std::int64_t p = 0; p <= c.furthest; ++p) {
      for (int i = 0; i < rotary() / 2; ++i) {
        const auto angle = static_cast<double>(static_cast<long double>(p) * rope_frequency(options, rotary(), i));
        table.set(std::cos(angle), p, i);
        table.set(std::sin(angle), p, rotary() / 2 + i);
      }
    }
    options.table = table.tensor();
  }

  int rotary() const { return c_.options.rotary_dim != 0 ? c_.options.rotary_dim : static_cast<int>(c_.dim); }

  void run() {
    for (Array* x : {&q, &k, &q_out, &k_out, &positions, &table}) x->upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_rope_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_rope_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_rope(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  void check() {
    check(q, q_out);
    if (c_.keys) check(k, k_out);
  }

 private:
  Array::Extents strides(std::int64_t heads) const {
    const std::int64_t head = c_.dim + c_.padding;
    return {heads * head + 2 * c_.padding, head, 1};
  }

  void check(Array& x, Array& out) {
    Array& result = c_.in_place ? x : out;
    std::vector<double> before;
    for (std::int64_t t = 0; t < c_.tokens; ++t) {
      for (std::int64_t h = 0; h < x.extent(1); ++h) {
        for (std::int64_t d = 0; d < c_.dim; ++d) before.push_back(x.get(t, h, d));
      }
    }
    const std::vector<unsigned char> memory = result.memory();
    result.download();
    const double rounding = c_.element.roundoff() * 1.01, table_rounding = c_.table ? c_.table->roundoff() : 0.0;
    std::int64_t wrong = 0;
    auto from = before.begin();
    for (std::int64_t t = 0; t < c_.tokens; ++t) {
      for (std::int64_t h = 0; h < x.extent(1); ++h, from += c_.dim) {
        std::vector<double> exact(from, from + c_.dim);
        std::vector<double> head = exact;
        rope_exactly(options, positions.integer(t), exact);
        for (int d = 0; d < static_cast<int>(c_.dim); ++d) {
          const auto i = static_cast<std::size_t>(d);
          if (d >= rotary()) {
            wrong += result.get(t, h, d) != head[i];
            continue;
          }
          // Its pair's length is what sines, cosines and products are rounded by.
          const int half = rotary() / 2;
          const int other = (options.flags & QUERN_ROPE_INTERLEAVED) != 0 ? (d ^ 1) : d < half ? d + half : d - half;
          const double length = std::fabs(head[i]) + std::fabs(head[static_cast<std::size_t>(other)]);
          const double allowed = rounding * std::fabs(exact[i]) +
                                 length * (4e-7 * rope_attention_factor(options) + 2.0 * table_rounding) + 1e-30;
          wrong += !(std::fabs(result.get(t, h, d) - exact[i]) <= allowed);
        }
      }
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
    // Nothing between the heads was written.
    std::int64_t touched = 0;
    for (std::int64_t t = 0; t < c_.tokens; ++t) {
      for (std::int64_t h = 0; h < x.extent(1); ++h) {
        for (std::int64_t d = c_.dim; d < c_.dim + c_.padding && (t + 1 < c_.tokens || h + 1 < x.extent(1)); ++d)
          touched += !result.is_untouched(t, h, d);
      }
    }
    EXPECT_EQ(touched, 0);
  }

 public:
  quern_rope_args args;
  quern_rope_options options;

 private:
  RopeCase c_;

 public:
  Array q, k, q_out, k_out, positions, table;
};

std::vector<RopeCase> rope_cases() {
  std::vector<RopeCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(RopeCase&)>& change) {
    RopeCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const bool interleaved : {false, true}) {
    const std::string layout = interleaved ? "interleaved" : "neox";
    const auto flags = [=](RopeCase& c) { c.options.flags |= interleaved ? QUERN_ROPE_INTERLEAVED : 0; };
    for (const Element element : {Element(Element::f16), Element(Element::f32)}) {
      add(layout + "_" + element.name(), [&](RopeCase& c) { flags(c), c.element = element; });
    }
    for (const int dim : {8, 24, 128}) {
      add(layout + "_dim_" + std::to_string(dim), [&](RopeCase& c) { flags(c), c.dim = dim; });
    }
    for (const auto& [dim, rotary] : {std::pair{80, 20}, {64, 2}, {128, 48}, {72, 64}, {576, 64}}) {
      add(layout + "_partial_" + std::to_string(rotary) + "_of_" + std::to_string(dim),
          [&, dim = dim, rotary = rotary](RopeCase& c) { flags(c), c.dim = dim, c.options.rotary_dim = rotary; });
    }
    add(layout + "_linear",
        [&](RopeCase& c) { flags(c), c.options.scaling = QUERN_ROPE_LINEAR, c.options.factor = 8.0; });
    add(layout + "_ntk", [&](RopeCase& c) { flags(c), c.options.scaling = QUERN_ROPE_NTK, c.options.factor = 4.0; });
    add(layout + "_table_f32", [&](RopeCase& c) { flags(c), c.table = Element::f32, c.furthest = 500; });
    add(layout + "_table_bf16",
        [&](RopeCase& c) { flags(c), c.table = Element::bf16, c.furthest = 500, c.options.rotary_dim = 48; });
    add(layout + "_alignment_4", [&](RopeCase& c) { flags(c), c.alignment = 4, c.padding = 2; });
    add(layout + "_alignment_4_f32",
        [&](RopeCase& c) { flags(c), c.alignment = 4, c.padding = 1, c.element = Element::f32; });
  }
  add("table_f16", [](RopeCase& c) { c.table = Element::f16, c.furthest = 100, c.element = Element::f16; });
  add("yarn", [](RopeCase& c) {
    c.options.scaling = QUERN_ROPE_YARN, c.options.factor = 40.0, c.options.original_positions = 4096, c.dim = 128;
  });
  add("yarn_gpt_oss", [](RopeCase& c) {
    c.options.scaling = QUERN_ROPE_YARN, c.options.factor = 32.0, c.options.original_positions = 4096,
    c.options.theta = 150000.0;
    c.options.flags = QUERN_ROPE_EXACT_RAMP;
  });
  add("yarn_attention_factor", [](RopeCase& c) {
    c.options.scaling = QUERN_ROPE_YARN, c.options.factor = 4.0, c.options.original_positions = 32768,
    c.options.attention_factor = 0.75;
    c.options.beta_fast = 16.0, c.options.beta_slow = 2.0;
  });
  add("llama3", [](RopeCase& c) {
    c.options.scaling = QUERN_ROPE_LLAMA3, c.options.factor = 8.0, c.options.original_positions = 8192,
    c.options.theta = 500000.0, c.dim = 128;
  });
  add("llama3_factors", [](RopeCase& c) {
    c.options.scaling = QUERN_ROPE_LLAMA3, c.options.factor = 32.0, c.options.original_positions = 8192,
    c.options.low_freq_factor = 2.0;
    c.options.high_freq_factor = 6.0;
  });
  add("theta", [](RopeCase& c) { c.options.theta = 1e6, c.furthest = 1 << 20; });
  add("far", [](RopeCase& c) { c.furthest = INT32_MAX, c.element = Element::f32; });
  add("wide_positions", [](RopeCase& c) { c.wide = true; });
  add("in_place", [](RopeCase& c) { c.in_place = true, c.padding = 8; });
  add("queries_alone", [](RopeCase& c) { c.keys = false; });
  add("strides", [](RopeCase& c) { c.padding = 16; });
  add("many_tokens", [](RopeCase& c) { c.tokens = 700, c.heads = 5, c.kv_heads = 1, c.dim = 32; });
  add("no_tokens", [](RopeCase& c) { c.tokens = 0; });
  return cases;
}

class Rope : public testing::TestWithParam<RopeCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, Rope, testing::ValuesIn(rope_cases()),
                         [](const testing::TestParamInfo<RopeCase>& test) { return test.param.name; });

TEST_P(Rope, MatchesItsFormula) {
  Turning turning(GetParam());
  ASSERT_NO_FATAL_FAILURE(turning.run());
  turning.check();
}

TEST(RopeOptions, NullIsPlain) {
  RopeCase c;
  c.name = "null options";
  Turning turning(c);
  turning.args.rope = nullptr;
  ASSERT_NO_FATAL_FAILURE(turning.run());
  turning.check();
}

TEST(RopeTable, LeavesTokensOutsideOfIt) {
  RopeCase c;
  c.name = "outside";
  c.table = Element::f32, c.furthest = 40;
  Turning turning(c);
  turning.positions.set_integer(on_cuda() ? 41 : -7, 3);
  turning.positions.set_integer(-1, 4);
  ASSERT_NO_FATAL_FAILURE(turning.run());
  turning.positions.set_integer(0, 3);
  turning.positions.set_integer(0, 4);
  turning.check();
}

TEST(RopeRefuses, PositionsBeyondTheTable) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read positions";
  RopeCase c;
  c.name = "beyond";
  c.table = Element::f32, c.furthest = 40;
  Turning turning(c);
  turning.positions.set_integer(41, 3);
  turning.positions.upload();
  expect_refused({"positions[3]", "token 3", "is 41", "0 to 40", "rope.table"},
                 [&](quern_error* e) { return quern_rope(context(), &turning.args, e); });
}

TEST(RopeRefuses, EveryWrongArgument) {
  using T = Turning&;
  const std::vector<Mistake<Turning>> mistakes = {
      {"q NULL", {"q", "NULL"}, [](T t) { t.args.q = nullptr; }},
      {"positions NULL", {"positions", "NULL"}, [](T t) { t.args.positions = nullptr; }},
      {"q's rank", {"q", "dimensions"}, [](T t) { t.q.box().tensor.ndim = 2; }},
      {"q's dtype", {"q", "int32"}, [](T t) { t.q.box().tensor.dtype = kInt32; }},
      {"k's dtype", {"k", "bf16"}, [](T t) { t.k.box().tensor.dtype = kFloat32; }},
      {"q_out's dtype", {"q_out", "bf16"}, [](T t) { t.q_out.box().tensor.dtype = kFloat32; }},
      {"positions' dtype", {"positions", "int32"}, [](T t) { t.positions.box().tensor.dtype = kFloat32; }},
      {"k's tokens", {"k.shape[0]", "9"}, [](T t) { t.k.box().shape[0] = 8; }},
      {"k's dim", {"k.shape[2]", "64"}, [](T t) { t.k.box().shape[2] = 32; }},
      {"q_out's heads", {"q_out.shape[1]", "6"}, [](T t) { t.q_out.box().shape[1] = 5; }},
      {"positions' length", {"positions.shape[0]", "9"}, [](T t) { t.positions.box().shape[0] = 8; }},
      {"a dim of 12", {"q.shape[2]", "12", "multiples of 8"}, [](T t) { t.q.box().shape[2] = 12; }},
      {"the last stride", {"q.strides[2]", "1"}, [](T t) { t.q.box().strides[2] = 2; }},
      {"a row's alignment", {"k", "stride"}, [](T t) { t.k.box().strides[1] += 4; }},
      {"outputs over each other", {"q_out.strides"}, [](T t) { t.q_out.box().strides[1] = 8; }},
      {"k_out without k", {"k_out", "NULL"}, [](T t) { t.args.k = nullptr; }},
      {"without data", {"q", "NULL"}, [](T t) { t.q.box().tensor.data = nullptr; }, true},
      {"alignment 3", {"alignment", "3"}, [](T t) { t.args.alignment = 3; }},
      {"max_sms negative", {"max_sms", "-1"}, [](T t) { t.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](T t) { t.args.flags = QUERN_ATTENTION_CAUSAL; }},
      {"an unknown flag of rope", {"rope.flags"}, [](T t) { t.options.flags = 8; }},
      {"a scaling", {"rope.scaling", "9"}, [](T t) { t.options.scaling = 9; }},
      {"an odd rotary_dim", {"rope.rotary_dim", "7"}, [](T t) { t.options.rotary_dim = 7; }},
      {"too large a rotary_dim", {"rope.rotary_dim", "66"}, [](T t) { t.options.rotary_dim = 66; }},
      {"a theta of 1", {"rope.theta"}, [](T t) { t.options.theta = 1.0; }},
      {"a negative factor", {"rope.factor"}, [](T t) { t.options.factor = -2.0; }},
      {"YaRN without positions", {"rope.original_positions", "0"}, [](T t) { t.options.scaling = QUERN_ROPE_YARN; }},
      {"Llama 3 without positions",
       {"rope.original_positions", "0"},
       [](T t) { t.options.scaling = QUERN_ROPE_LLAMA3; }},
      {"Llama 3's factors",
       {"rope.high_freq_factor"},
       [](T t) {
         t.options.scaling = QUERN_ROPE_LLAMA3, t.options.original_positions = 5, t.options.low_freq_factor = 4.0;
       }},
      {"NTK of one pair",
       {"rope.rotary_dim", "2"},
       [](T t) { t.options.scaling = QUERN_ROPE_NTK, t.options.rotary_dim = 2; }},
      {"a scaled table",
       {"rope.scaling"},
       [](T t) { t.options.table = t.table.tensor(), t.options.scaling = QUERN_ROPE_LINEAR; }},
      {"a table's columns",
       {"rope.table.shape[1]", "64"},
       [](T t) { t.options.table = t.table.tensor(), t.table.box().shape[1] = 32; }},
      {"a table's dtype",
       {"rope.table", "int32"},
       [](T t) { t.options.table = t.table.tensor(), t.table.box().tensor.dtype = kInt32; }},
      {"options without size", {"size"}, [](T t) { t.options.size = 0; }},
      {"no size", {"size"}, [](T t) { t.args.size = 0; }},
  };
  RopeCase c;
  c.name = "refusals";
  c.furthest = 50;
  expect_all_refused(
      mistakes, ThreeCalls<quern_rope_args>{quern_rope, quern_rope_workspace, quern_rope_prepare},
      [&] { return std::make_unique<Turning>(c); },
      [](Turning& t) {
        return [&t] {
          t.q_out.download();
          return t.q_out.is_untouched(0, 0, 0) && t.q_out.is_untouched(8, 5, 63);
        };
      });
}

}  // namespace
}  // namespace quern::test
