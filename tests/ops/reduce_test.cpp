// reduce against plain loops in fp64: every reduction, over any axes of tensors that lie in any way.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "tests/ops/compiled.h"
#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "reduce * way=rows dtype=f32 kind=argmax out=int64 kind1=logsumexp kind2=max kind3=any out3=uint8 segments=1 "
    "team=32",
    "reduce * way=rows dtype=int8 kind=dot y=1 exact=1 out=int32 team=256 at_once=2",
    "reduce * way=rows dtype=e4m3 kind=mean halves=1 before=acc*scalar0 after=sqrt(acc) team=8",
    "reduce * way=columns dtype=f16 kind=l2 kind1=argmin out1=int32 at_once=4",
    "reduce * way=join dtype=f32 kind=argmax out=int64 kind1=logsumexp",
};

constexpr int kResults = 4;

// An array of any rank: its elements lie `order` says how, the first of it innermost, `gap` elements between rows of
// the innermost dimension.
class Array {
 public:
  void set(Element element, const std::vector<std::int64_t>& shape, std::vector<int> order, std::int64_t gap,
           std::int64_t offset) {
    element_ = element, shape_ = shape, strides_.assign(shape.size(), 0);
    std::int64_t next = 1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto d = static_cast<std::size_t>(order[i]);
      strides_[d] = next;
      next = next * shape[d] + (i == 0 ? gap : 0);
    }
    offset_ = offset;
    put_.assign(static_cast<std::size_t>(next + offset + gap) * element.bytes(), 0xee);
    device_ = Buffer(put_.size(), 0xee);
    tensor = DLTensor{};
    tensor.data = device_.data(), tensor.device = dl_device(), tensor.dtype = element.type();
    tensor.ndim = static_cast<std::int32_t>(shape.size()), tensor.shape = shape_.data();
    tensor.strides = strides_.data(), tensor.byte_offset = static_cast<std::uint64_t>(offset) * element.bytes();
  }
  std::int64_t at(const std::vector<std::int64_t>& place) const {
    return offset_ + std::inner_product(place.begin(), place.end(), strides_.begin(), std::int64_t{0});
  }
  void put(const std::vector<std::int64_t>& place, double v) { element_.store(memory(put_, place), v); }
  double get(const std::vector<std::int64_t>& place) const {
    return element_.load(const_cast<Array*>(this)->memory(const_cast<Array*>(this)->put_, place));
  }
  void upload() { device_.write(put_); }

  DLTensor tensor{};
  std::vector<std::int64_t> shape_, strides_;

 private:
  unsigned char* memory(std::vector<unsigned char>& of, const std::vector<std::int64_t>& place) {
    return &of[static_cast<std::size_t>(at(place)) * element_.bytes()];
  }

  Element element_ = Element::f32;
  std::int64_t offset_ = 0;
  std::vector<unsigned char> put_;
  Buffer device_;
};

constexpr DLDataType kInt64{kDLInt, 64, 1}, kUint8{kDLUInt, 8, 1};

struct Case {
  std::string name;
  Element x = Element::f32;
  std::vector<std::int64_t> shape;
  std::vector<int> order;  // of x's dimensions in memory, the innermost first; empty: row-major
  std::uint32_t axes = 0;
  std::vector<int> kinds;
  std::vector<DLDataType> outs;  // f32, int64, uint8 where empty
  std::int64_t gap = 0, offset = 0;
  const char *before = nullptr, *after = nullptr;  // after: of the first
  std::uint32_t flags = 0;
  int max_sms = 0;
  bool keep = false;     // results have all dimensions
  bool y_apart = false;  // y lies in another way than x
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Problem {
 public:
  explicit Problem(const Case& c) : args(sized<quern_reduce_args>()), c_(c) {
    Random random(c.name);
    std::vector<int> order = c.order;
    for (int d = static_cast<int>(c.shape.size()) - 1; c.order.empty() && d >= 0; --d) order.push_back(d);
    x.set(c.x, c.shape, order, c.gap, c.offset);
    fill(x, random);
    reads_y_ = std::ranges::count(c.kinds, int{QUERN_REDUCE_DOT}) > 0 ||
               (c.before != nullptr && std::strstr(c.before, "tensor0") != nullptr);
    if (reads_y_) {
      if (c.y_apart) std::ranges::reverse(order);
      y.set(c.x, c.shape, order, c.gap, c.y_apart ? 1 : c.offset);
      fill(y, random);
    }
    axes_ = c.axes == 0 ? (1u << c.shape.size()) - 1 : c.axes;
    for (std::size_t d = 0; d < c.shape.size(); ++d) {
      const bool reduced = (axes_ >> d & 1) != 0;
      if (!reduced) kept_.push_back(c.shape[d]);
      if (!reduced || c.keep) out_shape_.push_back(reduced ? 1 : c.shape[d]);
    }
    count_ = std::accumulate(kept_.begin(), kept_.end(), std::int64_t{1}, std::multiplies<>());
    const DLTensor** outs[] = {&args.out, &args.out1, &args.out2, &args.out3};
    std::int32_t* reductions[] = {&args.reduction, &args.reduction1, &args.reduction2, &args.reduction3};
    for (std::size_t i = 0; i < c.kinds.size(); ++i) {
      const int kind = c.kinds[i];
      DLTensor& t = out[i];
      t.dtype = !c.outs.empty()                                              ? c.outs[i]
                : kind == QUERN_REDUCE_ARGMAX || kind == QUERN_REDUCE_ARGMIN ? kInt64
                : kind == QUERN_REDUCE_ANY || kind == QUERN_REDUCE_ALL       ? kUint8
                                                                             : kFloat32;
      memory_[i] = Buffer(static_cast<std::size_t>(count_) * t.dtype.bits / 8, 0xee);
      t.data = memory_[i].data(), t.device = dl_device();
      t.ndim = static_cast<std::int32_t>(out_shape_.size()), t.shape = out_shape_.data();
      *outs[i] = &t, *reductions[i] = kind;
    }
    args.x = &x.tensor, args.y = reads_y_ ? &y.tensor : nullptr;
    args.axes = c.axes, args.flags = c.flags, args.max_sms = c.max_sms;
  }

  void put() {
    x.upload();
    if (reads_y_) y.upload();
    for (Buffer& each : memory_) each.fill(0xee);
  }
  void formulas(quern_context* context) {
    auto error = sized<quern_error>();
    if (c_.before != nullptr) {
      ASSERT_EQ(quern_expression_create(context, c_.before, &args.before, &error), QUERN_OK) << error.text;
    }
    if (c_.after != nullptr) {
      ASSERT_EQ(quern_expression_create(context, c_.after, &args.after, &error), QUERN_OK) << error.text;
    }
    if (c_.before != nullptr || c_.after != nullptr) args.scalars = kScalars, args.scalar_count = 2;
  }
  void call(quern_context* context) {
    auto error = sized<quern_error>();
    put();
    ASSERT_EQ(quern_reduce(context, &args, &error), QUERN_OK) << error.text;
    synchronize();
  }
  void run(quern_context* context) {
    auto error = sized<quern_error>();
    std::uint64_t bytes = 1;
    ASSERT_NO_FATAL_FAILURE(formulas(context));
    ASSERT_EQ(quern_reduce_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
    workspace_ = Buffer(bytes, 0);
    args.workspace = workspace_.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_reduce_prepare(context, &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    call(context);
  }
  std::vector<unsigned char> results() const {
    std::vector<unsigned char> all;
    for (const Buffer& each : memory_) {
      const std::vector<unsigned char> bytes = each.read();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  double found(std::size_t i, std::int64_t row) const {
    const std::vector<unsigned char> bytes = memory_[i].read();
    const unsigned char* at = bytes.data() + static_cast<std::size_t>(row) * out[i].dtype.bits / 8;
    const DLDataType& t = out[i].dtype;
    if (t.code == kDLUInt) return *at;
    if (t.code == kDLInt && t.bits == 64) {
      std::int64_t value = 0;
      std::memcpy(&value, at, 8);
      return static_cast<double>(value);
    }
    if (t.code == kDLInt) {
      std::int32_t value = 0;
      std::memcpy(&value, at, 4);
      return value;
    }
    return (t.code == kDLBfloat ? Element(Element::bf16)
            : t.bits == 16      ? Element(Element::f16)
                                : Element(Element::f32))
        .load(at);
  }

  // Sums may be off by what f32 loses in as many additions as a thread and its team make; all else is exact.
  void check() const {
    for (std::int64_t row = 0; row < count_; ++row) {
      std::vector<double> v, w;
      elements(row, &v, &w);
      for (std::size_t i = 0; i < c_.kinds.size(); ++i) {
        double spread = 0;
        double exact = reduced(c_.kinds[i], v, w, &spread);
        if (i == 0 && c_.after != nullptr) exact = exact * kScalars[0] + kScalars[1];
        const double here = found(i, row);
        const DLDataType& t = out[i].dtype;
        if (t.bits == 16) spread += std::fabs(exact) * (t.code == kDLBfloat ? 0x1p-8 : 0x1p-11);
        if (std::isnan(exact) || std::isinf(exact)) {
          ASSERT_TRUE(std::isnan(exact) ? std::isnan(here) : here == exact)
              << "row " << row << " of " << i << ": " << here;
        } else {
          ASSERT_LE(std::fabs(here - exact), spread)
              << "row " << row << " of " << i << ": " << here << ", not " << exact;
        }
      }
    }
  }

  static constexpr float kScalars[2] = {0.5f, 2.0f};
  quern_reduce_args args;
  Array x, y;
  DLTensor out[kResults]{};

 private:
  void fill(Array& array, Random& random) {
    each_place(c_.shape, [&](const std::vector<std::int64_t>& at) {
      array.put(at, c_.x.kind() == Element::i8 ? std::nearbyint(40.0 * random.normal()) : random.normal());
    });
  }
  template <class F>
  static void each_place(const std::vector<std::int64_t>& shape, F&& f) {
    const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<std::int64_t> place(shape.size());
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t left = i;
      for (std::size_t d = shape.size(); d-- > 0; left /= shape[d]) place[d] = left % shape[d];
      f(place);
    }
  }
  // A row's elements in the order of the axes, behind the formula, and those of y.
  void elements(std::int64_t row, std::vector<double>* v, std::vector<double>* w) const {
    std::vector<std::int64_t> inner, fixed(c_.shape.size());
    for (std::size_t d = c_.shape.size(); d-- > 0;) {
      if ((axes_ >> d & 1) != 0) continue;
      fixed[d] = row % c_.shape[d], row /= c_.shape[d];
    }
    for (std::size_t d = 0; d < c_.shape.size(); ++d) inner.push_back((axes_ >> d & 1) != 0 ? c_.shape[d] : 1);
    each_place(inner, [&](const std::vector<std::int64_t>& at) {
      std::vector<std::int64_t> place = fixed;
      for (std::size_t d = 0; d < place.size(); ++d) place[d] += at[d];
      const double of_y = reads_y_ ? y.get(place) : 1.0;
      v->push_back(c_.before == nullptr ? x.get(place) : x.get(place) * of_y * kScalars[1]);
      w->push_back(of_y);
    });
  }
  static double reduced(int kind, const std::vector<double>& v, const std::vector<double>& w, double* spread) {
    const auto better = [&](double a, double b) {
      return (kind == QUERN_REDUCE_ARGMAX || kind == QUERN_REDUCE_MAX ? a > b : a < b) ||
             (std::isnan(a) && !std::isnan(b));
    };
    double sum = 0, terms = 0, largest = -INFINITY, powers = 0;
    std::int64_t at = -1;
    bool any = false, all = true;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double by = kind == QUERN_REDUCE_L2 ? v[i] : kind == QUERN_REDUCE_DOT ? w[i] : 1.0;
      sum += v[i] * by, terms += std::fabs(v[i] * by);
      largest = std::fmax(largest, v[i]);
      any = any || v[i] != 0, all = all && v[i] != 0;
      if (at < 0 || better(v[i], v[static_cast<std::size_t>(at)])) at = static_cast<std::int64_t>(i);
    }
    const double origin = std::isinf(largest) ? 0.0 : largest;
    for (const double each : v) powers += std::exp(each - origin);
    switch (kind) {
      case QUERN_REDUCE_SUM:
      case QUERN_REDUCE_DOT:
        *spread = 0x1p-19 * terms;
        return sum;
      case QUERN_REDUCE_MEAN:
        *spread = 0x1p-19 * terms / static_cast<double>(v.size());
        return sum / static_cast<double>(v.size());
      case QUERN_REDUCE_L2:
        *spread = 0x1p-19 * std::sqrt(sum);
        return std::sqrt(sum);
      case QUERN_REDUCE_MAX:
      case QUERN_REDUCE_MIN:
        *spread = v.empty() ? 0 : 0x1p-22 * std::fabs(v[static_cast<std::size_t>(at)]);  // of a formula
        return at >= 0 ? v[static_cast<std::size_t>(at)] : kind == QUERN_REDUCE_MAX ? -INFINITY : INFINITY;
      case QUERN_REDUCE_ARGMAX:
      case QUERN_REDUCE_ARGMIN:
        return static_cast<double>(at);
      case QUERN_REDUCE_LOGSUMEXP:
        *spread = 0x1p-19 * (1.0 + std::fabs(origin));
        return std::log(powers) + origin;
      default:
        return kind == QUERN_REDUCE_ANY ? any : all;
    }
  }

  const Case c_;
  bool reads_y_ = false;
  std::uint32_t axes_ = 0;
  std::vector<std::int64_t> kept_, out_shape_;
  std::int64_t count_ = 0;
  std::array<Buffer, kResults> memory_;
  Buffer workspace_;
};

class Reduce : public testing::TestWithParam<Case> {};
std::string name_of_case(const testing::TestParamInfo<Case>& c) { return c.param.name; }

constexpr int kSum = QUERN_REDUCE_SUM, kMean = QUERN_REDUCE_MEAN, kMax = QUERN_REDUCE_MAX, kMin = QUERN_REDUCE_MIN,
              kArgmax = QUERN_REDUCE_ARGMAX, kArgmin = QUERN_REDUCE_ARGMIN, kL2 = QUERN_REDUCE_L2,
              kDot = QUERN_REDUCE_DOT, kLogSumExp = QUERN_REDUCE_LOGSUMEXP, kAny = QUERN_REDUCE_ANY,
              kAll = QUERN_REDUCE_ALL;

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, Element x, std::vector<std::int64_t> shape, std::uint32_t axes,
                       std::vector<int> kinds) -> Case& {
    Case& c = all.emplace_back();
    c.name = name, c.x = x, c.shape = std::move(shape), c.axes = axes, c.kinds = std::move(kinds);
    return c;
  };
  // Rows of every team, and in pieces; each element type; rows that begin anywhere.
  add("one", Element::f32, {1}, 0, {kSum, kArgmax, kLogSumExp, kAny});
  add("rows_7", Element::f16, {33, 7}, 2, {kSum, kMax}).offset = 1;
  add("rows_33", Element::bf16, {7, 33}, 2, {kMean, kArgmin}).gap = 3;
  add("rows_257", Element::e4m3, {5, 257}, 2, {kSum, kL2, kMin}).gap = 1;
  add("rows_1009", Element::e5m2, {3, 1009}, 2, {kLogSumExp, kArgmax}).offset = 5;
  add("rows_5000", Element::f32, {3, 5000}, 2, {kSum, kArgmax, kLogSumExp, kMax}).max_sms = 1;
  add("pieces", Element::bf16, {2, 40009}, 2, {kSum, kArgmax, kLogSumExp, kAll}).gap = 3;
  add("all_of_it", Element::f32, {37, 1009}, 0, {kSum, kArgmin}).keep = true;
  // Of 8-bit integers sums are exact.
  Case& exact = add("int8", Element::i8, {3, 4099}, 2, {kSum, kDot, kMean, kMax});
  exact.outs = {kInt32, kInt32, kFloat32, kFloat32};
  add("int8_columns", Element::i8, {300, 40}, 1, {kSum}).outs = {kInt32};
  // Columns: neighbouring rows' elements beside each other; few of them; in pieces; apart.
  add("columns", Element::f16, {33, 264}, 1, {kSum, kArgmax});
  add("columns_odd", Element::f32, {7, 33}, 1, {kMean, kLogSumExp}).gap = 1;
  add("columns_pieces", Element::bf16, {1201, 24}, 1, {kSum, kMin});
  add("columns_three", Element::f32, {100, 3}, 1, {kSum});
  // Dimensions that do not lie in their order, that are merged, and that are not.
  add("middle", Element::f32, {3, 5, 7}, 2, {kSum, kArgmax});
  Case& outer = add("outer_two", Element::bf16, {4, 3, 40}, 3, {kSum});
  outer.gap = 4;
  Case& turned = add("turned", Element::f32, {5, 7, 3, 4}, 5, {kSum, kArgmin});
  turned.order = {1, 0, 3, 2};
  Case& segments = add("segments", Element::f16, {3, 5, 7, 33}, 10, {kSum, kArgmax, kL2});
  segments.gap = 2;
  add("six", Element::f32, {2, 3, 2, 3, 2, 5}, 42, {kSum, kAny, kAll, kMax});
  add("nothing_reduced", Element::bf16, {5, 1, 40}, 2, {kSum, kArgmax});
  // Two tensors, formulas.
  add("dot", Element::bf16, {5, 600}, 2, {kDot});
  add("dot_apart", Element::f32, {5, 600}, 2, {kDot, kSum}).y_apart = true;
  add("dot_columns", Element::f16, {40, 48}, 1, {kDot});
  add("dot_columns_apart", Element::f16, {40, 48}, 1, {kDot}).y_apart = true;
  Case& formula = add("formula", Element::f16, {5, 521}, 2, {kMean, kMax});
  formula.before = "acc * tensor0 * scalar1", formula.after = "acc * scalar0 + scalar1";
  // Other dtypes of results.
  Case& narrow = add("narrow", Element::f32, {7, 40}, 2, {kSum, kArgmax, kAny});
  narrow.outs = {dtype_of(Format::bf16), kInt32, kFloat32};
  // Of nothing.
  add("empty_rows", Element::f32, {4, 0}, 2, {kSum, kArgmax, kLogSumExp, kAll});
  add("empty_rows_max", Element::f32, {0, 4}, 1, {kMean, kMax, kMin, kAny});
  add("no_rows", Element::f32, {0, 4}, 2, {kSum});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, Reduce, testing::ValuesIn(cases()), name_of_case);

TEST_P(Reduce, IsWhatItsDefinitionSays) {
  Problem problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

Case plain(const std::string& name, std::vector<std::int64_t> shape, std::uint32_t axes, std::vector<int> kinds) {
  Case c;
  c.name = name, c.shape = std::move(shape), c.axes = axes, c.kinds = std::move(kinds);
  return c;
}

// `host` in an unfair order, by seed, and on fewer multiprocessors: the bits are the same.
TEST(ReduceScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  const std::vector<int> kinds = {kSum, kArgmax, kLogSumExp, kMax};
  Case pieces = plain("unfair", {2, 40009}, 2, kinds);
  pieces.x = Element::bf16, pieces.gap = 3;
  for (const Case& c :
       {plain("unfair_rows", {3, 5000}, 2, kinds), pieces, plain("unfair_columns", {1201, 24}, 1, {kSum, kMin})}) {
    SCOPED_TRACE(c.name);
    Problem problem(c);
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const std::vector<unsigned char> expected = problem.results();
    problem.args.max_sms = 1;
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    EXPECT_EQ(problem.results(), expected) << "max_sms 1";
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      problem.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
      EXPECT_EQ(problem.results(), expected) << "seed " << seed;
    }
  }
}

// NaN, infinities and subnormal numbers, by rows and by columns.
TEST(ReduceNumbers, AreAsTheDefinitionsHaveThem) {
  for (const bool columns : {false, true}) {
    for (const std::vector<int>& kinds :
         {std::vector<int>{kMax, kMin, kArgmax, kLogSumExp}, std::vector<int>{kSum, kArgmin, kAny, kAll}}) {
      SCOPED_TRACE(columns);
      Case c = plain("odd numbers", {8, 600}, 2, kinds);
      if (columns) c.shape = {600, 16}, c.axes = 1;
      Problem problem(c);
      const auto put = [&](std::int64_t row, std::int64_t at, double v) {
        problem.x.put(columns ? std::vector{at, row} : std::vector{row, at}, v);
      };
      put(0, 5, std::numeric_limits<double>::quiet_NaN()), put(0, 500, std::numeric_limits<double>::quiet_NaN());
      put(1, 7, std::numeric_limits<double>::infinity()), put(1, 9, 3.0e38);
      put(2, 300, -std::numeric_limits<double>::infinity());
      for (std::int64_t k = 0; k < 600; ++k) {
        put(3, k, -std::numeric_limits<double>::infinity());
        put(4, k, k == 599 ? 0x1p-140 : 0.0), put(5, k, 2.0), put(6, k, k % 2 == 0 ? -0.0 : 0.0);
      }
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      problem.check();
    }
  }
}

// Sums in f16: what a loop in f16 would make of a few ones and halves beside a large number.
TEST(ReduceHalves, RoundEveryAddition) {
  Case c = plain("halves", {1, 8}, 2, {kSum, kL2});
  c.x = Element::f16, c.flags = QUERN_REDUCE_F16_SUMS;
  Problem problem(c);
  problem.x.put({0, 0}, 2048.0);
  for (std::int64_t k = 1; k < 8; ++k) problem.x.put({0, k}, 0.5);
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  EXPECT_EQ(problem.found(0, 0), 2048.0) << "2048 + 0.5 is 2048 in f16";
  EXPECT_TRUE(std::isinf(problem.found(1, 0))) << "the square of 2048 is none";
}

TEST(ReduceRefuses, EveryWrongArgument) {
  using P = Problem&;
  static const quern_expression *row = nullptr, *gate = nullptr, *fine = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_expression_create(context(), "acc + row0", &row, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_expression_create(context(), "gate", &gate, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_expression_create(context(), "acc * scalar3", &fine, &error), QUERN_OK) << error.text;
  const std::vector<Mistake<Problem>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](P d) { d.args.x = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](P d) { d.args.out = nullptr; }},
      {"no dimension", {"x", "dimensions"}, [](P d) { d.x.tensor.ndim = 0; }},
      {"seven dimensions", {"x", "7", "dimensions"}, [](P d) { d.x.tensor.ndim = 7; }},
      {"x's dtype", {"x", "int32"}, [](P d) { d.x.tensor.dtype = kInt32; }},
      {"uint8 of no type", {"type"}, [](P d) { d.x.tensor.dtype = kUint8; }},
      {"an axis too far", {"axes", "bits 0 to 1"}, [](P d) { d.args.axes = 4; }},
      {"a reduction", {"reduction1", "11"}, [](P d) { d.args.reduction1 = 11; }},
      {"a reduction without out", {"out2", "reduction2"}, [](P d) { d.args.reduction2 = kMax; }},
      {"a formula without out", {"out2", "after2"}, [](P d) { d.args.after2 = fine; }},
      {"out's extent",
       {"out.shape[0]", "5"},
       [](P d) {
         static std::int64_t four[] = {4};
         d.out[0].shape = four;
       }},
      {"out's rank", {"out", "dimensions"}, [](P d) { d.out[0].ndim = 3; }},
      {"out's dtype", {"out", "int64"}, [](P d) { d.out[0].dtype = kInt64; }},
      {"out1's dtype", {"out1", "f32"}, [](P d) { d.out[1].dtype = kFloat32; }},
      {"out's elements over each other",
       {"out.strides[0]"},
       [](P d) {
         static std::int64_t none[] = {0};
         d.out[0].strides = none;
       }},
      {"two results in one place", {"out1 is out"}, [](P d) { d.out[1] = d.out[0], d.args.reduction1 = kMax; }, true},
      {"dot without y", {"y"}, [](P d) { d.args.reduction = kDot; }},
      {"y for nothing", {"y", "NULL"}, [](P d) { d.args.y = d.args.x; }},
      {"a row's operand", {"before", "acc+row0", "tensor0"}, [](P d) { d.args.before = row; }},
      {"a gate", {"after", "gate"}, [](P d) { d.args.after = gate; }},
      {"a formula of a place", {"after1", "places"}, [](P d) { d.args.after1 = fine; }},
      {"too few scalars", {"scalar_count", "0"}, [](P d) { d.args.before = fine; }},
      {"scalars NULL", {"scalars", "NULL"}, [](P d) { d.args.scalar_count = 1; }},
      {"nine scalars", {"scalar_count", "9"}, [](P d) { d.args.scalar_count = 9, d.args.scalars = Problem::kScalars; }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 18; }},
      {"alignment 2", {"alignment", "2"}, [](P d) { d.args.alignment = 2; }},
      {"reserved", {"reserved", "1"}, [](P d) { d.args.reserved = 1; }},
      {"x without data", {"x", "NULL"}, [](P d) { d.x.tensor.data = nullptr; }, true},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  expect_all_refused(
      mistakes, ThreeCalls<quern_reduce_args>{quern_reduce, quern_reduce_workspace, quern_reduce_prepare},
      [&] {
        auto problem = std::make_unique<Problem>(plain("refused", {5, 40}, 2, {kSum, kArgmax}));
        problem->put();
        return problem;
      },
      [](P d) {
        return [&d] { return std::ranges::all_of(d.results(), [](unsigned char byte) { return byte == 0xee; }); };
      });
}

TEST(ReduceRefuses, ASmallWorkspace) {
  Problem problem(plain("small workspace", {2, 40000}, 2, {kSum}));
  problem.put();
  expect_refused({"workspace_size"}, [&](quern_error* e) { return quern_reduce(context(), &problem.args, e); });
}

TEST(ReduceWarm, RefusesLinesThatNoCallNeeds) {
  const Context fresh = compiling_context();
  for (const char* wrong :
       {"way=rows dtype=f32 kind=none", "way=rows dtype=f32 kind=dot", "way=rows dtype=f32 kind=sum y=1",
        "way=rows dtype=f32 kind=sum exact=1", "way=rows dtype=f32 kind=argmax", "way=rows dtype=f32 kind=sum team=64",
        "way=rows dtype=f32 kind=any out=uint8 after=acc*2", "way=columns dtype=f32 kind=sum vectors=0",
        "way=rows dtype=f32 kind=sum before=gate"}) {
    const std::string line = std::string("reduce host ") + wrong;
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << line << ": " << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
