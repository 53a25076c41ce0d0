// histogram against a loop: exact counts of every dtype, rows and bins of all sizes, values at the bins' borders and
// outside; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "histogram * stage=count dtype=int32 vectors=1 shared=1",
    "histogram * stage=count dtype=f32 vectors=1 shared=1 ranges=1",
};
constexpr ThreeCalls<quern_histogram_args> kHistogram{quern_histogram, quern_histogram_workspace,
                                                      quern_histogram_prepare};

enum class Counted { i8, u8, i32, i64, f16, bf16, f32 };
constexpr const char* kNames[] = {"int8", "uint8", "int32", "int64", "f16", "bf16", "f32"};

struct HistogramCase {
  std::string name;
  Counted x = Counted::i32;
  std::int64_t rows = 2, n = 1021, bins = 40, first = 0, gap = 0;
  float low = -2.0f, high = 3.0f;
  bool clamp = false, accumulate = false, wide = false, one_value = false;
  int alignment = 0, max_sms = 0;
};

Array array_of(const HistogramCase& c) {
  const Array::Extents shape{c.rows, c.n}, strides{c.n + c.gap, 1};
  if (c.x == Counted::f16) return Array(Element::f16, shape, strides);
  if (c.x == Counted::bf16) return Array(Element::bf16, shape, strides);
  if (c.x == Counted::f32) return Array(Element::f32, shape, strides);
  if (c.x == Counted::i32 || c.x == Counted::i64)
    return Array(IntegerBits{c.x == Counted::i64 ? 64 : 32}, shape, strides);
  Array array(Element::i8, shape, strides);
  if (c.x == Counted::u8) array.box().tensor.dtype = {kDLUInt, 8, 1};
  return array;
}

class Counting {
 public:
  explicit Counting(const HistogramCase& c)
      : args(sized<quern_histogram_args>()),
        x(array_of(c)),
        counts(IntegerBits{c.wide ? 64 : 32}, {c.rows, c.bins}, {c.bins + 3, 1}),
        c_(c),
        expected_(static_cast<std::size_t>(c.rows * c.bins)) {
    Random random(c.name);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.n; ++i) set(random, r, i);
      for (std::int64_t b = 0; c.accumulate && b < c.bins; ++b) {
        counts.set_integer(b * 5, r, b);
        expected_[static_cast<std::size_t>(r * c.bins + b)] += b * 5;
      }
    }
    args.x = x.tensor(), args.counts = counts.tensor();
    args.max_sms = c.max_sms, args.alignment = c.alignment;
    if (is_float()) {
      args.low = c.low, args.high = c.high;
    } else {
      args.first = c.first;
    }
    if (c.clamp) args.flags |= QUERN_HISTOGRAM_CLAMP;
    if (c.accumulate) args.flags |= QUERN_HISTOGRAM_ACCUMULATE;
    for (Array* a : {&x, &counts}) a->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kHistogram, args));
    counts.download();
  }
  void check() const {
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t b = 0; b < c_.bins; ++b)
        wrong += counts.integer(r, b) != expected_[static_cast<std::size_t>(r * c_.bins + b)];
      if (r + 1 < c_.rows) wrong += !counts.is_untouched(r, c_.bins);
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_histogram_args args;
  Array x, counts;

 private:
  bool is_float() const { return c_.x >= Counted::f16; }
  // Sets a number and counts it. Three in four lie near the bins, among them their borders.
  void set(Random& random, std::int64_t r, std::int64_t i) {
    const std::uint64_t kind = c_.one_value ? 1 : random.below(4);
    std::int64_t bin = -1;
    if (is_float()) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      const double specials[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), -0.0, 1e-30};
      const double border = c_.low + (static_cast<double>(c_.high) - c_.low) * random.between(0, 8) / 8;
      x.set(kind == 0 ? specials[random.below(5)] : kind == 1 ? border : 2 * random.normal(), r, i);
      const auto value = static_cast<float>(x.get(r, i));
      if (std::isnan(value)) return;
      if (value >= c_.low && value <= c_.high) {
        const float scale = static_cast<float>(c_.bins) / (c_.high - c_.low);
        const float from_low = value - c_.low, place = from_low * scale;
        bin = std::min(static_cast<std::int64_t>(place), c_.bins - 1);
      } else if (c_.clamp) {
        bin = value < c_.low ? 0 : c_.bins - 1;
      }
    } else {
      const auto any = static_cast<std::int64_t>(random.next());
      std::int64_t value = kind == 0 ? any : c_.first + random.between(-3, static_cast<int>(c_.bins) + 2);
      if (c_.one_value) value = c_.first + 2;
      value = c_.x == Counted::i8    ? static_cast<std::int8_t>(value)
              : c_.x == Counted::u8  ? static_cast<std::uint8_t>(value)
              : c_.x == Counted::i32 ? static_cast<std::int32_t>(value)
                                     : value;
      x.set_integer(value, r, i);
      // Differences of any two numbers fit into 128 bits.
      const __int128 from_first = static_cast<__int128>(value) - c_.first;
      if (from_first >= 0 && from_first < c_.bins) {
        bin = static_cast<std::int64_t>(from_first);
      } else if (c_.clamp) {
        bin = from_first < 0 ? 0 : c_.bins - 1;
      }
    }
    if (bin >= 0) ++expected_[static_cast<std::size_t>(r * c_.bins + bin)];
  }

  HistogramCase c_;
  std::vector<std::int64_t> expected_;
};

std::vector<HistogramCase> histogram_cases() {
  std::vector<HistogramCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(HistogramCase&)>& change) {
    HistogramCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (int x = 0; x < 7; ++x) {
    add(kNames[x], [&](HistogramCase& c) { c.x = static_cast<Counted>(x), c.wide = x % 2 == 0, c.clamp = x % 3 == 0; });
  }
  for (const std::int64_t n : {0, 1, 7, 33}) add("n" + std::to_string(n), [&](HistogramCase& c) { c.n = n; });
  for (const std::int64_t bins : {1, 256, 5003, 70001})
    add("bins" + std::to_string(bins), [&](HistogramCase& c) { c.bins = bins, c.wide = bins == 70001; });
  add("f32_bins70001", [](HistogramCase& c) { c.bins = 70001, c.x = Counted::f32, c.accumulate = true; });
  // More bins than one block has room for, and numbers enough: ranges of them.
  add("ranges", [](HistogramCase& c) { c.rows = 1, c.n = 150001, c.bins = 70001; });
  add("ranges_accumulated", [](HistogramCase& c) {
    c.rows = 2, c.n = 270002, c.bins = 130001, c.accumulate = c.wide = c.clamp = true, c.first = -70000;
  });
  add("ranges_f32", [](HistogramCase& c) { c.x = Counted::f32, c.n = 140003, c.bins = 60001, c.clamp = true; });
  add("ranges_far", [](HistogramCase& c) {
    c.x = Counted::i64, c.n = 131003, c.bins = 60001, c.first = std::numeric_limits<std::int64_t>::max() - 60100;
  });
  // Bins beyond the largest number of 32 bits are not the smallest ones.
  add("ranges_end", [](HistogramCase& c) { c.n = 131003, c.bins = 60001, c.first = INT32_MAX - 30000; });
  add("ranges_of_bytes", [](HistogramCase& c) { c.x = Counted::u8, c.n = 120011, c.bins = 59999, c.gap = 5; });
  add("ranges_parts", [](HistogramCase& c) { c.rows = 1, c.n = 400001, c.bins = 60001; });
  add("ranges_parts_wide", [](HistogramCase& c) { c.rows = 1, c.n = 400001, c.bins = 60001, c.wide = true; });
  add("ranges_parts_odd", [](HistogramCase& c) { c.rows = 3, c.n = 300001, c.bins = 58000, c.clamp = true; });
  add("ranges_one_value", [](HistogramCase& c) { c.n = 290009, c.bins = 60001, c.one_value = c.wide = true; });
  add("ranges_alignment_4", [](HistogramCase& c) { c.n = 150001, c.bins = 70001, c.alignment = 4, c.max_sms = 1; });
  add("parts", [](HistogramCase& c) { c.n = 40009, c.rows = 1; });
  add("parts_accumulated", [](HistogramCase& c) { c.n = 33333, c.rows = 1, c.accumulate = c.wide = c.clamp = true; });
  add("accumulated", [](HistogramCase& c) { c.accumulate = true, c.first = -7; });
  add("one_value", [](HistogramCase& c) { c.one_value = true; });
  add("far", [](HistogramCase& c) { c.x = Counted::i64, c.first = std::numeric_limits<std::int64_t>::max() - 60; });
  add("far_below", [](HistogramCase& c) {
    c.x = Counted::i64, c.clamp = true, c.first = std::numeric_limits<std::int64_t>::min() + 9;
  });
  add("gap", [](HistogramCase& c) { c.gap = 3, c.x = Counted::u8; });
  add("alignment_4", [](HistogramCase& c) { c.alignment = 4, c.x = Counted::f32, c.low = 0.0f, c.high = 1e-3f; });
  add("many_rows", [](HistogramCase& c) { c.rows = 300, c.n = 5, c.max_sms = 1; });
  add("no_rows", [](HistogramCase& c) { c.rows = 0; });
  return cases;
}

TEST(Histogram, CountsExactly) {
  for (const HistogramCase& c : histogram_cases()) {
    Counting counting(c);
    ASSERT_NO_FATAL_FAILURE(counting.run(context())) << c.name;
    counting.check();
  }
}

TEST(HistogramScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    for (const std::int64_t bins : {40, 70001, 58001}) {
      HistogramCase c;
      c.name = "unfair", c.bins = bins, c.max_sms = seed == 0 ? 1 : 0;
      if (bins == 58001) c.n = 2 * bins, c.rows = 1;  // in ranges
      Counting counting(c);
      ASSERT_NO_FATAL_FAILURE(counting.run(unfair.get()));
      counting.check();
    }
  }
}

TEST(HistogramRefuses, EveryWrongArgument) {
  using C = Counting&;
  const auto watch = [](Counting& c) {
    return [&c] {
      c.counts.download();
      return c.counts.is_untouched(0, 0) && c.counts.is_untouched(1, 39);
    };
  };
  const std::vector<Mistake<Counting>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](C c) { c.args.x = nullptr; }},
      {"counts NULL", {"counts", "NULL"}, [](C c) { c.args.counts = nullptr; }},
      {"x's dtype", {"x", "e4m3", "int8"}, [](C c) { c.x.box().tensor.dtype = {kDLFloat8_e4m3fn, 8, 1}; }},
      {"counts' dtype", {"counts", "f32", "int32"}, [](C c) { c.counts.box().tensor.dtype = kFloat32; }},
      {"x's rank", {"x", "dimensions"}, [](C c) { c.x.box().tensor.ndim = 1; }},
      {"counts' rows", {"counts.shape[0]", "2"}, [](C c) { c.counts.box().shape[0] = 1; }},
      {"no bins", {"counts.shape[1]", "1 to 2^24"}, [](C c) { c.counts.box().shape[1] = 0; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](C c) { c.x.box().strides[1] = 2; }},
      {"n", {"x.shape[1]", "2^32 - 1"}, [](C c) { c.x.box().shape[1] = std::int64_t{1} << 32; }},
      {"n of elements one by one",
       {"x.shape[1]", "2^31 - 1"},
       [](C c) { c.x.box().shape[1] = std::int64_t{1} << 31, c.args.alignment = 4; }},
      {"counts over each other", {"counts.strides[0]"}, [](C c) { c.counts.box().strides[0] = 39; }},
      {"over x", {"counts lies over x"}, [](C c) { c.counts.box().tensor.data = c.x.box().tensor.data; }, true},
      {"low of integers", {"low", "of integers"}, [](C c) { c.args.low = 1.0f; }},
      {"high of integers", {"high", "of integers"}, [](C c) { c.args.high = 1.0f; }},
      {"an unknown flag", {"flags"}, [](C c) { c.args.flags = 1u << 18; }},
      {"data's alignment", {"x", "data"}, [](C c) { c.x.box().tensor.byte_offset = 8; }, true},
      {"without data", {"x", "NULL"}, [](C c) { c.x.box().tensor.data = nullptr; }, true},
      {"max_sms negative", {"max_sms", "-1"}, [](C c) { c.args.max_sms = -1; }},
      {"no size", {"size"}, [](C c) { c.args.size = 0; }},
  };
  HistogramCase good;
  good.name = "refused";
  expect_all_refused(mistakes, kHistogram, [&] { return std::make_unique<Counting>(good); }, watch);
  const std::vector<Mistake<Counting>> of_floats = {
      {"first", {"first", "of floats"}, [](C c) { c.args.first = 1; }},
      {"low infinite", {"low", "finite"}, [](C c) { c.args.low = -std::numeric_limits<float>::infinity(); }},
      {"high at low", {"high", "above low"}, [](C c) { c.args.high = c.args.low; }},
      {"high NaN", {"high", "above low"}, [](C c) { c.args.high = std::numeric_limits<float>::quiet_NaN(); }},
      {"too wide", {"high", "2^128"}, [](C c) { c.args.low = -3e38f, c.args.high = 3e38f; }},
  };
  good.x = Counted::f32;
  expect_all_refused(of_floats, kHistogram, [&] { return std::make_unique<Counting>(good); }, watch);
}

}  // namespace
}  // namespace quern::test
