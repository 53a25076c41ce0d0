// sort against std::stable_sort: the very places, keys to the bit; NaN, zeros of both signs, ties, segments of all
// sizes; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "sort * stage=row keys=f32 value_bytes=4 most=512",
    "sort * stage=scan",
    "sort * stage=scatter keys=uint32 value_bytes=4",
};
constexpr ThreeCalls<quern_sort_args> kSort{quern_sort, quern_sort_workspace, quern_sort_prepare};

enum class Keys { f32, f16, bf16, i32, u32, i64 };
constexpr const char* kKeyNames[] = {"f32", "f16", "bf16", "int32", "uint32", "int64"};

struct SortCase {
  std::string name;
  Keys keys = Keys::f32;
  std::int64_t rows = 1, n = 33;
  std::vector<std::int64_t> segments;  // ragged: their lengths, from place `begin` on
  std::int64_t begin = 0, max_segment = 0;
  int value_bytes = 0;  // 0: where keys were, in int32; -1: no values at all; 9: where keys were, in int64
  bool descending = false, in_place = false, keys_out = true;
  std::int64_t gap = 0;  // elements between rows
  std::int32_t max_sms = 0;
};

Array array_of(Keys keys, std::int64_t rows, std::int64_t n, std::int64_t gap) {
  const Array::Extents shape{rows, n}, strides{n + gap, 1};
  if (keys == Keys::f32) return Array(Element::f32, shape, strides);
  if (keys == Keys::f16) return Array(Element::f16, shape, strides);
  if (keys == Keys::bf16) return Array(Element::bf16, shape, strides);
  Array array(IntegerBits{keys == Keys::i64 ? 64 : 32}, shape, strides);
  if (keys == Keys::u32) array.box().tensor.dtype = {kDLUInt, 32, 1};
  return array;
}
// Whatever the values mean, they are bytes.
Array values_of(int bytes, std::int64_t rows, std::int64_t n, std::int64_t gap) {
  const Array::Extents shape{rows, n}, strides{n + gap, 1};
  if (bytes == 1) return Array(Element::e4m3, shape, strides);
  if (bytes == 2) return Array(Element::bf16, shape, strides);
  return Array(IntegerBits{bytes >= 8 ? 64 : 32}, shape, strides);
}

class Sorting {
 public:
  explicit Sorting(const SortCase& c)
      : args(sized<quern_sort_args>()),
        keys(array_of(c.keys, c.rows, c.n, c.gap)),
        keys_out(array_of(c.keys, c.rows, c.n, 2 * c.gap)),
        values(values_of(c.value_bytes, c.rows, c.n, 3 * c.gap)),
        values_out(values_of(c.value_bytes, c.rows, c.n, c.gap)),
        offsets(IntegerBits{32}, {static_cast<std::int64_t>(c.segments.size()) + 1}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.n; ++i) {
        set_key(random, r, i);
        if (c.value_bytes > 2) {
          values.set_integer(static_cast<std::int64_t>(random.next()), r, i);
        } else if (c.value_bytes > 0) {
          values.set(random.between(-16, 16), r, i);
        }
      }
    }
    args.keys = keys.tensor(), args.max_sms = c.max_sms, args.max_segment = c.max_segment;
    if (c.keys_out) args.keys_out = c.in_place ? keys.tensor() : keys_out.tensor();
    if (c.value_bytes != -1) args.values_out = c.in_place && has_values() ? values.tensor() : values_out.tensor();
    if (has_values()) args.values = values.tensor();
    if (c.descending) args.flags |= QUERN_SORT_DESCENDING;
    if (!c.segments.empty()) {
      std::int64_t at = c.begin;
      offsets.set_integer(at, 0);
      for (std::size_t s = 0; s < c.segments.size(); ++s)
        offsets.set_integer(at += c.segments[s], static_cast<std::int64_t>(s) + 1);
      args.offsets = offsets.tensor();
    }
    upload();
  }
  bool has_values() const { return c_.value_bytes > 0 && c_.value_bytes <= 8; }

  void upload() {
    for (Array* x : {&keys, &keys_out, &values, &values_out, &offsets}) x->upload();
  }
  void run(quern_context* context) {
    given_keys_ = keys.memory(), given_values_ = values.memory();
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t i = 0; i < c_.n; ++i) numbers_.push_back(number(r, i)), codes_.push_back(code(r, i));
    }
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kSort, args));
    for (Array* x : {&keys, &keys_out, &values, &values_out}) x->download();
  }

  void check() const {
    std::int64_t wrong = 0;
    if (c_.segments.empty()) {
      for (std::int64_t r = 0; r < c_.rows; ++r) wrong += wrong_in(r, 0, c_.n);
    } else {
      std::int64_t at = c_.begin;
      wrong += touched(0, at);
      for (const std::int64_t length : c_.segments) wrong += wrong_in(0, at, length), at += length;
      wrong += touched(at, c_.n);
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_sort_args args;
  Array keys, keys_out, values, values_out, offsets;

 private:
  bool is_float() const { return c_.keys <= Keys::bf16; }
  void set_key(Random& random, std::int64_t r, std::int64_t i) {
    const std::uint64_t kind = random.below(8);
    if (!is_float()) {
      // Some of few, some of any.
      const auto any = static_cast<std::int64_t>(random.next());
      keys.set_integer(kind < 3 ? random.between(-2, 2) : c_.keys == Keys::i64 ? any : any >> 32, r, i);
      return;
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double specials[] = {0.0,
                               -0.0,
                               kInfinity,
                               -kInfinity,
                               std::numeric_limits<double>::quiet_NaN(),
                               -std::numeric_limits<double>::quiet_NaN(),
                               1e-7,
                               -1e-7};
    keys.set(kind == 0 ? specials[random.below(8)] : kind < 4 ? random.between(-3, 3) : 100.0 * random.normal(), r, i);
  }
  // As they are compared: numbers in fp64, integers by themselves.
  double number(std::int64_t r, std::int64_t i) const { return is_float() ? keys.get(r, i) : 0.0; }
  std::int64_t code(std::int64_t r, std::int64_t i) const {
    if (is_float()) return 0;
    return c_.keys == Keys::u32 ? static_cast<std::uint32_t>(keys.integer(r, i)) : keys.integer(r, i);
  }
  bool before(std::int64_t a, std::int64_t b) const {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (!is_float()) return codes_[i] < codes_[j];
    // NaN is larger than all else, and equal to itself.
    return std::isnan(numbers_[j]) ? !std::isnan(numbers_[i]) : numbers_[i] < numbers_[j];
  }
  static bool same(const std::vector<unsigned char>& a, std::int64_t i, const std::vector<unsigned char>& b,
                   std::int64_t j, std::size_t bytes) {
    return std::memcmp(&a[static_cast<std::size_t>(i) * bytes], &b[static_cast<std::size_t>(j) * bytes], bytes) == 0;
  }
  std::int64_t wrong_in(std::int64_t r, std::int64_t begin, std::int64_t length) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(length));
    std::iota(order.begin(), order.end(), r * c_.n + begin);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return c_.descending ? before(b, a) : before(a, b); });
    const Array& sorted = c_.in_place ? keys : keys_out;
    const Array& moved = c_.in_place && has_values() ? values : values_out;
    const std::size_t key_bytes = c_.keys == Keys::i64 ? 8 : c_.keys == Keys::f16 || c_.keys == Keys::bf16 ? 2 : 4;
    const std::int64_t pitch = c_.n + c_.gap, out_pitch = c_.n + (c_.in_place ? 1 : 2) * c_.gap;
    const std::int64_t value_pitch = c_.n + 3 * c_.gap, moved_pitch = &moved == &values ? value_pitch : pitch;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(i)] - r * c_.n;
      if (c_.keys_out)
        wrong += !same(sorted.memory(), r * out_pitch + begin + i, given_keys_, r * pitch + from, key_bytes);
      if (has_values()) {
        wrong += !same(moved.memory(), r * moved_pitch + begin + i, given_values_, r * value_pitch + from,
                       static_cast<std::size_t>(c_.value_bytes));
      } else if (c_.value_bytes != -1) {
        wrong += values_out.integer(r, begin + i) != from - begin;
      }
    }
    return wrong;
  }
  std::int64_t touched(std::int64_t begin, std::int64_t end) const {
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!c_.in_place) count += !keys_out.is_untouched(0, i);
      if (!c_.in_place && c_.value_bytes != -1) count += !values_out.is_untouched(0, i);
    }
    return count;
  }

  SortCase c_;
  std::vector<double> numbers_;
  std::vector<std::int64_t> codes_;
  std::vector<unsigned char> given_keys_, given_values_;
};

SortCase make(const std::string& name, const std::function<void(SortCase&)>& change) {
  SortCase c;
  c.name = name;
  change(c);
  return c;
}

// Each pair of key and value dtype is three kernels for rows and two for tiles: all of them for f32, int64 and f16, the
// smallest for the others.
std::vector<SortCase> row_cases() {
  std::vector<SortCase> cases;
  for (const Keys keys : {Keys::f32, Keys::f16, Keys::bf16, Keys::i32, Keys::u32, Keys::i64}) {
    const bool all = keys == Keys::f32 || keys == Keys::i64;
    for (const std::int64_t n : {0, 1, 7, 32, 33, 128, 509, 513, 4096}) {
      if (n > 512 && !all && !on_cuda()) continue;
      cases.push_back(make(kKeyNames[static_cast<int>(keys)] + std::string("_n") + std::to_string(n), [&](SortCase& c) {
        c.keys = keys, c.n = n, c.rows = n > 1000 ? 1 : 3, c.gap = n % 2 != 0 ? 3 : 0;
        c.descending = (n + static_cast<int>(keys)) % 3 == 1, c.value_bytes = keys == Keys::i64 ? 8 : 0;
      }));
    }
  }
  for (const int bytes : {1, 2, 4, 8, 9, -1}) {
    cases.push_back(make("values" + std::to_string(bytes), [&](SortCase& c) {
      c.value_bytes = bytes, c.n = 101, c.rows = 2, c.descending = bytes > 2;
      c.in_place = bytes == 4 || bytes == -1, c.keys_out = bytes != 9;
    }));
  }
  cases.push_back(make("ragged_short", [](SortCase& c) {
    c.segments = {0, 1, 7, 33, 0, 101, 2}, c.begin = 5, c.n = 160, c.max_segment = 101, c.value_bytes = 4;
  }));
  cases.push_back(make("many_rows", [](SortCase& c) { c.rows = 999, c.n = 5, c.max_sms = 1; }));
  cases.push_back(make("no_rows", [](SortCase& c) { c.rows = 0; }));
  return cases;
}

std::vector<SortCase> tile_cases() {
  return {
      make("tiles", [](SortCase& c) { c.n = on_cuda() ? 100'000'007 : 16'411, c.descending = true; }),
      make("tiles_rows", [](SortCase& c) { c.n = 4099, c.rows = 2, c.gap = 5, c.value_bytes = 4, c.in_place = true; }),
      make("tiles_places_alone", [](SortCase& c) { c.n = 4099, c.keys_out = false; }),
      make("tiles_int64", [](SortCase& c) { c.n = 8209, c.keys = Keys::i64, c.value_bytes = 8; }),
      make("tiles_f16",
           [](SortCase& c) {
             c.n = 8209, c.keys = Keys::f16, c.value_bytes = -1, c.max_sms = 1, c.in_place = c.descending = true;
           }),
      make("ragged_long",
           [](SortCase& c) { c.segments = {0, 8192, 1, 7, 0, 8193, 33, 101, 5003}, c.begin = 9000, c.n = 30600; }),
      make("ragged_empty", [](SortCase& c) { c.segments = {0, 0}, c.n = 5000, c.begin = 4; }),
  };
}

TEST(Sort, PutsRowsInOrder) {
  for (const SortCase& c : row_cases()) {
    Sorting sorting(c);
    ASSERT_NO_FATAL_FAILURE(sorting.run(context())) << c.name;
    sorting.check();
  }
}

TEST(Sort, PutsLongSegmentsInOrder) {
  for (const SortCase& c : tile_cases()) {
    Sorting sorting(c);
    ASSERT_NO_FATAL_FAILURE(sorting.run(context())) << c.name;
    sorting.check();
  }
}

TEST(SortScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    for (const std::int64_t n : {21, 70, 900, 4099}) {
      Sorting sorting(make("unfair" + std::to_string(n), [&](SortCase& c) { c.n = n, c.max_sms = seed == 0 ? 1 : 0; }));
      ASSERT_NO_FATAL_FAILURE(sorting.run(unfair.get()));
      sorting.check();
    }
  }
}

TEST(SortRefuses, EveryWrongArgument) {
  using S = Sorting&;
  const std::vector<Mistake<Sorting>> mistakes = {
      {"keys NULL", {"keys", "NULL"}, [](S s) { s.args.keys = nullptr; }},
      {"nothing to write",
       {"keys_out", "NULL"},
       [](S s) { s.args.keys_out = s.args.values_out = s.args.values = nullptr; }},
      {"values without a place", {"values_out", "NULL"}, [](S s) { s.args.values_out = nullptr; }},
      {"keys' dtype", {"keys", "int8", "uint32"}, [](S s) { s.keys.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"keys_out's dtype", {"keys_out", "int32", "f32"}, [](S s) { s.keys_out.box().tensor.dtype = kInt32; }},
      {"values_out's dtype", {"values_out", "f32", "int32"}, [](S s) { s.values_out.box().tensor.dtype = kFloat32; }},
      {"places' dtype",
       {"values_out", "f32", "int32, int64"},
       [](S s) { s.args.values = nullptr, s.values_out.box().tensor.dtype = kFloat32; }},
      {"values of 128 bits", {"values", "64 bits"}, [](S s) { s.values.box().tensor.dtype = {kDLComplex, 128, 1}; }},
      {"keys' rank", {"keys", "dimensions"}, [](S s) { s.keys.box().tensor.ndim = 1; }},
      {"keys_out's rows", {"keys_out.shape[0]", "1"}, [](S s) { s.keys_out.box().shape[0] = 2; }},
      {"values' columns", {"values.shape[1]", "40"}, [](S s) { s.values.box().shape[1] = 39; }},
      {"keys' last stride", {"keys.strides[1]", "1"}, [](S s) { s.keys.box().strides[1] = 2; }},
      {"results over each other", {"keys_out.strides"}, [](S s) { s.keys_out.box().strides[1] = 0; }},
      {"keys_out over other keys",
       {"keys_out lies over keys"},
       [](S s) { s.keys_out.box().tensor.data = static_cast<unsigned char*>(s.keys.box().tensor.data) + 16; },
       true},
      {"values_out over keys",
       {"values_out lies over keys"},
       [](S s) { s.values_out.box().tensor.data = s.keys.box().tensor.data; },
       true},
      {"offsets' dtype", {"offsets", "int64", "int32"}, [](S s) { s.offsets.box().tensor.dtype = {kDLInt, 64, 1}; }},
      {"no offsets", {"offsets.shape[0]", "1 and more"}, [](S s) { s.offsets.box().shape[0] = 0; }},
      {"offsets with rows",
       {"keys.shape[0]", "with offsets"},
       [](S s) {
         for (Array* x : {&s.keys, &s.keys_out, &s.values, &s.values_out}) x->box().shape[0] = 0;
       }},
      {"max_segment negative", {"max_segment", "-1"}, [](S s) { s.args.max_segment = -1; }},
      {"max_segment without offsets", {"max_segment", "without offsets"}, [](S s) { s.args.offsets = nullptr; }},
      {"an unknown flag", {"flags"}, [](S s) { s.args.flags = 1u << 17; }},
      {"alignment 3", {"alignment", "3"}, [](S s) { s.args.alignment = 3; }},
      {"no size", {"size"}, [](S s) { s.args.size = 0; }},
      {"without data", {"keys", "NULL"}, [](S s) { s.keys.box().tensor.data = nullptr; }, true},
  };
  std::vector<Mistake<Sorting>> by_value = {
      {"falling offsets",
       {"offsets[2]", "segment 1"},
       [](S s) { s.offsets.set_integer(3, 2), s.offsets.upload(); },
       true},
      {"keys that there are not",
       {"offsets[3]", "40"},
       [](S s) { s.offsets.set_integer(41, 3), s.offsets.upload(); },
       true},
      {"a longer segment", {"segment 2 is 30", "max_segment"}, [](S s) { s.args.max_segment = 29; }, true},
  };
  const SortCase good =
      make("refused", [](SortCase& c) { c.n = 40, c.segments = {5, 0, 30}, c.max_segment = 30, c.value_bytes = 4; });
  const auto watch = [](Sorting& s) {
    return [&s] {
      s.keys_out.download(), s.values_out.download();
      bool same = true;
      for (int i = 0; i < 40; ++i) same = same && s.keys_out.is_untouched(0, i) && s.values_out.is_untouched(0, i);
      return same;
    };
  };
  expect_all_refused(mistakes, kSort, [&] { return std::make_unique<Sorting>(good); }, watch);
  if (!on_cuda()) expect_all_refused(by_value, kSort, [&] { return std::make_unique<Sorting>(good); }, watch);
}

// As many keys as an extent can be.
TEST(SortWorkspace, IsRightForTheLongestRow) {
  std::int64_t shape[] = {1, INT32_MAX};
  DLTensor keys{};
  keys.device = dl_device(), keys.ndim = 2, keys.dtype = {kDLInt, 32, 1}, keys.shape = shape;
  auto args = sized<quern_sort_args>();
  args.keys = &keys, args.keys_out = &keys;
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_sort_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
  EXPECT_GT(bytes, std::uint64_t{4} * INT32_MAX);
  EXPECT_LT(bytes, std::uint64_t{16} * INT32_MAX);
}

}  // namespace
}  // namespace quern::test
