// pointwise against loops in fp64: every element type, functions, layouts, broadcasting, integers, places, results in
// place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <ostream>

#include "tests/ops/compiled.h"
#include "tests/ops/pointing.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "pointwise * expression=silu(tensor0)*tensor1 width=8 operand0=bf16 operand1=bf16 out=bf16",
    "pointwise * expression=tensor0*tensor1 rank=2 width=8 operand0=f16 along0=shifted operand1=bf16 out=f16",
    "pointwise * expression=tensor0*tensor1 rank=2 width=1 span=tiles operand0=f16 along0=across operand1=f32 out=f32",
    "pointwise * expression=tensor0*tensor1 rank=2 width=4 span=tiles operand0=f16 along0=across operand1=f32 out=f32",
    "pointwise * results=2 expression=sin(tensor0)+atan2(tensor1,scalar0) expression1=int8(tensor0)&index1 rank=3 "
    "width=2 operand0=f32 operand1=e4m3 along1=same out=e5m2 out1=int64 out1_along=any wide=1",
    "pointwise * expression=integer0/integer1+place rank=2 width=2 operand0=int64 operand1=bool along1=any out=f16 "
    "tail=1",
};

class PointwiseTypes : public testing::TestWithParam<Stored> {};
INSTANTIATE_TEST_SUITE_P(All, PointwiseTypes, testing::ValuesIn(kAllStored),
                         [](const testing::TestParamInfo<Stored>& test) { return std::string(name_of(test.param)); });

// Every number of the type that its bits can be, or many; and many numbers of f32 to it.
TEST_P(PointwiseTypes, AreReadAndStored) {
  Pointing read({"tensor0"});
  read.operand(GetParam(), {3, 1111});
  read.out(Stored::f32, {3, 1111});
  read.fill("read");
  ASSERT_NO_FATAL_FAILURE(read.run());
  read.check(0, [](const auto& x) { return x[0]; });

  Pointing stored_as({"tensor0*scalar0"});
  stored_as.scalars = {3.0f};
  stored_as.operand(Stored::f32, {3333});
  stored_as.out(GetParam(), {3333});
  stored_as.fill("stored");
  ASSERT_NO_FATAL_FAILURE(stored_as.run());
  stored_as.check(0, [](const auto& x) { return static_cast<double>(static_cast<float>(x[0]) * 3.0f); });
}

class PointwiseIntegers : public testing::TestWithParam<Stored> {};
INSTANTIATE_TEST_SUITE_P(All, PointwiseIntegers,
                         testing::Values(Stored::i8, Stored::u8, Stored::i16, Stored::i32, Stored::i64,
                                         Stored::boolean),
                         [](const testing::TestParamInfo<Stored>& test) { return std::string(name_of(test.param)); });
TEST_P(PointwiseIntegers, AreSaturatedWhereTheyDoNotFit) {
  Pointing p({"integer0*3-(integer1>>2|1)", "max(integer0,integer1)&~integer0<<1"});
  p.operand(GetParam(), {5, 67});
  p.operand(Stored::i64, {67});
  p.out(GetParam(), {5, 67});
  p.out(Stored::i64, {5, 67});
  p.fill("integers");
  ASSERT_NO_FATAL_FAILURE(p.run());
  each_index({5, 67}, [&](const Extents& at) {
    const std::int64_t a = p.operands[0]->get(at).whole, b = p.operands[1]->get(at).whole;
    const auto wrapped =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * 3 - static_cast<std::uint64_t>(b >> 2 | 1));
    ASSERT_EQ(p.outs[0]->get(at).whole, stored_whole(GetParam(), wrapped).whole) << a << " " << b;
    const auto shifted = static_cast<std::int64_t>(static_cast<std::uint64_t>(~a) << 1);
    ASSERT_EQ(p.outs[1]->get(at).whole, std::max(a, b) & shifted) << a << " " << b;
  });
}

// Division and shifts are defined for every pair of integers.
TEST(Pointwise, DividesAndShiftsEveryInteger) {
  const std::vector<std::int64_t> values = {0,  1,  -1, 2,   -2,  3,         -7,        63,
                                            64, 65, 70, -64, 100, INT64_MAX, INT64_MIN, INT64_MIN + 1};
  const auto n = static_cast<std::int64_t>(values.size());
  Pointing p({"integer0/integer1", "integer0%integer1", "integer0<<integer1", "integer0>>integer1"});
  Field& a = p.operand(Stored::i64, {n, 1});
  Field& b = p.operand(Stored::i64, {n});
  for (int i = 0; i < 4; ++i) p.out(Stored::i64, {n, n});
  for (std::int64_t i = 0; i < n; ++i) {
    a.set({0, values[static_cast<std::size_t>(i)]}, {i, 0});
    b.set({0, values[static_cast<std::size_t>(i)]}, {0, i});
  }
  ASSERT_NO_FATAL_FAILURE(p.run());
  each_index({n, n}, [&](const Extents& at) {
    const std::int64_t x = a.get(at).whole, y = b.get(at).whole;
    const bool wraps = y == -1;
    const auto negative = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
    const bool by = y >= 0 && y < 64;
    EXPECT_EQ(p.outs[0]->get(at).whole, y == 0 ? 0 : wraps ? negative : x / y) << x << " " << y;
    EXPECT_EQ(p.outs[1]->get(at).whole, y == 0 ? x : wraps ? 0 : x % y) << x << " " << y;
    EXPECT_EQ(p.outs[2]->get(at).whole, by ? static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << y) : 0);
    EXPECT_EQ(p.outs[3]->get(at).whole, by ? x >> y : x < 0 ? -1 : 0) << x << " " << y;
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Known {
  const char* text;
  double ulp;
  std::function<double(double)> exact;
};
const Known kKnown[] = {
    {"relu(tensor0)", 0, [](double x) { return x < 0 ? 0 : x; }},
    {"gelu(tensor0)", 5,
     [](double x) { return std::isinf(x) ? std::max(x, 0.0) : x / 2 * std::erfc(-x / std::sqrt(2.0)); }},
    {"tensor0*clamp(tensor0+3,0,6)/6", 4,
     [](double x) {
       return std::isinf(x) && x < 0 ? std::nan("") : x * std::clamp<double>(static_cast<float>(x + 3), 0, 6) / 6;
     }},
    {"select(tensor0>=-0.5&&tensor0<=0.5,0,tensor0)", 0, [](double x) { return std::abs(x) <= 0.5 ? 0 : x; }},
    {"select(tensor0>0,tensor0,expm1(min(tensor0,0)))", 5, [](double x) { return x > 0 ? x : std::expm1(x); }},
    {"max(tensor0,0)+log1p(exp(-abs(tensor0)))", 6,
     [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) + (std::isnan(x) ? x : 0); }},
    {"sigmoid(tensor0)", 5, sigmoid},
    {"round(tensor0)-floor(tensor0)", 0,
     [](double x) { return static_cast<float>(std::nearbyint(x)) - static_cast<float>(std::floor(x)); }},
    {"sin(tensor0)", 4, [](double x) { return std::sin(x); }},
    {"cos(tensor0)", 4, [](double x) { return std::cos(x); }},
    {"exp2(tensor0)", 4, [](double x) { return std::exp2(x); }},
    {"log2(abs(tensor0))", 4, [](double x) { return std::log2(std::abs(x)); }},
};

// Of numbers of every size, NaN, infinity and denormals; of lengths on both sides of a vector's.
TEST(Pointwise, ComputesWhatItsFunctionsAre) {
  for (std::size_t first = 0; first < std::size(kKnown); first += 4) {
    for (const std::int64_t n : {0, 1, 7, 33, 4099}) {
      Pointing p({kKnown[first].text, kKnown[first + 1].text, kKnown[first + 2].text, kKnown[first + 3].text});
      p.operand(Stored::f32, {n});
      constexpr Stored kOuts[] = {Stored::f32, Stored::f16, Stored::f32, Stored::bf16};
      for (const Stored type : kOuts) p.out(type, {n});
      p.fill("functions" + std::to_string(first + static_cast<std::size_t>(n)));
      ASSERT_NO_FATAL_FAILURE(p.run());
      for (std::size_t i = 0; i < 4; ++i)
        p.check(i, [&](const auto& x) { return kKnown[first + i].exact(x[0]); }, kKnown[first + i].ulp);
    }
  }
}

// Activations whose results have 16 bits take shorter ways: of every f16, and of the largest numbers.
TEST(Pointwise, ActivationsOf16BitsAreRightToTheirRounding) {
  for (const Stored type : {Stored::bf16, Stored::f16}) {
    Pointing p({"silu(tensor0)", "sigmoid(tensor0)", "gelu(tensor0)", "gelu_tanh(tensor0)"});
    p.operand(type, {4, 16384});
    for (int i = 0; i < 4; ++i) p.out(type, {4, 16384});
    p.fill("activations");
    ASSERT_NO_FATAL_FAILURE(p.run());
    const auto product = [](double x, double y) { return std::isinf(x) && y == 0 ? 0.0 : x * y; };
    const double kUlp = 160;  // of f32: 2^-15.7; and of 2^-126, as results below 2^-119 may be 0
    p.check(0, [&](const auto& x) { return product(x[0], sigmoid(x[0])); }, kUlp);
    p.check(1, [&](const auto& x) { return sigmoid(x[0]); }, kUlp);
    p.check(2, [&](const auto& x) { return product(x[0], 0.5 * std::erfc(-x[0] / std::sqrt(2.0))); }, kUlp);
    p.check(
        3,
        [&](const auto& x) {
          return product(x[0], sigmoid(2 * std::sqrt(2 / M_PI) * (x[0] + 0.044715 * x[0] * x[0] * x[0])));
        },
        kUlp);
  }
}

// Any layouts of any shapes, each operand stretched where it is 1 or missing.
TEST(Pointwise, TakesAnyLayout) {
  const Extents extents = {1, 2, 3, 7, 8, 16, 33};
  for (std::uint64_t round = 0; round < 16; ++round) {
    SCOPED_TRACE(round);
    Random random("layout" + std::to_string(round));
    Extents shape(random.below(7));
    for (std::int64_t& extent : shape) extent = count_of(shape) > 3000 ? 1 : extents[random.below(extents.size())];
    while (count_of(shape) > 20000) shape.pop_back();
    const bool whole = round % 4 == 3;
    Pointing p({whole ? "number(place*2+index0)+tensor1" : "max(tensor0,tensor1)"});
    for (int i = 0; i < 2; ++i) {
      Extents own = shape;
      for (std::int64_t& extent : own) extent = random.below(4) == 0 ? 1 : extent;
      if (random.below(4) == 0 && !own.empty()) own.erase(own.begin());
      const Extents strides = random.below(3) == 0 ? Extents{} : any_strides(random, own);
      p.operand(i == 0 ? Stored::f16 : Stored::f32, own, strides, random.below(3) == 0 ? 4 : 0);
    }
    p.out(Stored::f32, shape, random.below(3) == 0 ? Extents{} : any_strides(random, shape),
          random.below(3) == 0 ? 8 : 0);
    p.args.alignment = 1;
    p.fill("layout values" + std::to_string(round));
    const Context unfair = unfair_context(round);
    ASSERT_NO_FATAL_FAILURE(p.run(round % 3 == 0 ? unfair.get() : context()));
    std::int64_t place = 0;
    const auto most = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
    if (!whole) {
      p.check(0, [&](const auto& x) { return most(x[0], x[1]); });
      continue;
    }
    each_index(shape, [&](const Extents& at) {
      const auto sum =
          static_cast<float>(place * 2 + (at.empty() ? 0 : at[0])) + static_cast<float>(p.operands[1]->number(at));
      ASSERT_TRUE(p.outs[0]->get(at) == (Held{static_cast<double>(sum), 0})) << place;
      ++place;
    });
    EXPECT_TRUE(p.outs[0]->is_clean_outside());
  }
}

// Operands that lie along different dimensions are taken by tiles of both.
TEST(Pointwise, TakesWhatIsTransposedByTiles) {
  for (const Extents& shape :
       {Extents{64, 96}, Extents{3, 48, 32}, Extents{16, 5, 80}, Extents{33, 70}, Extents{2, 3}}) {
    SCOPED_TRACE(count_of(shape));
    Pointing p({"tensor0-tensor1*2"});
    p.operand(Stored::f32, shape);
    Extents turned(shape.size());
    std::int64_t step = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) turned[d] = step, step *= shape[d];
    p.operand(Stored::bf16, shape, turned);
    p.out(Stored::f32, shape);
    p.fill("tiles");
    ASSERT_NO_FATAL_FAILURE(p.run());
    p.check(0, [](const auto& x) { return static_cast<double>(static_cast<float>(x[0] - x[1] * 2)); });
  }
}

// Tiles of vectors, of one type and of several, more than one of them and beyond their ends.
TEST(Pointwise, TakesTilesByVectors) {
  struct Case {
    Stored across, along;
    Extents shape;
  };
  for (const Case& c : {Case{Stored::i8, Stored::f16, {72, 136}}, Case{Stored::bf16, Stored::f32, {2, 36, 68}},
                        Case{Stored::i64, Stored::i8, {34, 66}}}) {
    SCOPED_TRACE(count_of(c.shape));
    Pointing p({"tensor0-tensor1", "tensor2"});
    Extents turned = c.shape;
    std::int64_t step = 1;
    for (std::size_t d = 0; d < turned.size(); ++d) turned[d] = step, step *= c.shape[d];
    p.operand(c.across, c.shape, turned);
    p.operand(c.along, c.shape);
    p.operand(c.across, c.shape, turned);
    p.out(Stored::f32, c.shape);
    p.out(Stored::f32, c.shape);
    p.fill("tiles of vectors");
    ASSERT_NO_FATAL_FAILURE(p.run());
    p.check(0, [](const auto& x) { return static_cast<double>(static_cast<float>(x[0]) - static_cast<float>(x[1])); });
    p.check(1, [](const auto& x) { return static_cast<double>(static_cast<float>(x[2])); });
  }
}

// Rows that nothing is aligned in are taken by segments.
TEST(Pointwise, TakesLongOddRows) {
  for (const Extents& shape : {Extents{3, 4001}, Extents{2, 2, 700}, Extents{5, 512}}) {
    SCOPED_TRACE(count_of(shape));
    Pointing p({"tensor0*2-tensor1"});
    Extents apart(shape.size(), 1);
    for (std::size_t d = shape.size() - 1; d-- > 0;) apart[d] = apart[d + 1] * (shape[d + 1] + 1);
    p.operand(Stored::bf16, shape, apart);
    Extents column = shape;
    column.back() = 1;
    p.operand(Stored::f32, column);
    p.out(Stored::f32, shape);
    p.fill("odd rows");
    ASSERT_NO_FATAL_FAILURE(p.run());
    p.check(0, [](const auto& x) { return static_cast<double>(static_cast<float>(x[0] * 2 - x[1])); });
  }
}

// 16-byte vectors, their tails, and what is narrower: the promise decides, and tensors that keep less are refused.
TEST(Pointwise, TakesAsMuchAtOnceAsIsPromised) {
  for (const int alignment : {16, 8, 4, 2}) {
    Pointing p({"tensor0+tensor1"});
    const std::int64_t offset = alignment == 16 ? 0 : alignment;
    p.operand(Stored::bf16, {9, 61}, {72, 1}, offset);
    p.operand(Stored::bf16, {61}, {}, offset);
    p.out(Stored::bf16, {9, 61}, {64, 1}, offset);
    p.args.alignment = alignment;
    p.fill("alignment" + std::to_string(alignment));
    ASSERT_NO_FATAL_FAILURE(p.run());
    p.check(0, [](const auto& x) { return static_cast<double>(static_cast<float>(x[0]) + static_cast<float>(x[1])); });
    if (alignment == 16) continue;
    p.args.alignment = 2 * alignment;
    expect_refused({"data", std::to_string(alignment), std::to_string(2 * alignment)},
                   [&](quern_error* e) { return quern_pointwise(context(), &p.args, e); });
  }
}

TEST(Pointwise, WritesOverItsOperands) {
  Pointing p({"tensor0-tensor1", "tensor0+tensor1"});
  Field& a = p.operand(Stored::f32, {13, 40}, {-48, 1});
  Field& b = p.operand(Stored::f32, {13, 40});
  p.fill("in place");
  a.upload(), b.upload();
  const DLTensor* given[] = {a.tensor(), b.tensor()};
  p.args.operands = given, p.args.operand_count = 2;
  p.args.out = b.tensor(), p.args.out1 = a.tensor();
  p.args.expression = expression("tensor0-tensor1"), p.args.expression1 = expression("tensor0+tensor1");
  std::vector<float> sums, differences;
  each_index({13, 40}, [&](const Extents& at) {
    sums.push_back(static_cast<float>(a.number(at)) + static_cast<float>(b.number(at)));
    differences.push_back(static_cast<float>(a.number(at)) - static_cast<float>(b.number(at)));
  });
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_pointwise(context(), &p.args, &error), QUERN_OK) << error.text;
  synchronize();
  a.download(), b.download();
  std::size_t i = 0;
  each_index({13, 40}, [&](const Extents& at) {
    ASSERT_TRUE(a.get(at) == (Held{static_cast<double>(sums[i]), 0}));
    ASSERT_TRUE(b.get(at) == (Held{static_cast<double>(differences[i]), 0}));
    ++i;
  });
  EXPECT_TRUE(a.is_clean_outside() && b.is_clean_outside());
}

// A loop over more tiles than there are blocks.
TEST(Pointwise, LeavesMultiprocessorsFree) {
  Pointing p({"tensor0*2"});
  p.operand(Stored::i8, {150'001});
  p.out(Stored::i16, {150'001});
  p.args.max_sms = 1;
  p.fill("free");
  ASSERT_NO_FATAL_FAILURE(p.run());
  p.check(0, [](const auto& x) { return 2 * x[0]; });
}

// Rows that are 4 GiB apart, in memory of which two pages are touched.
TEST(Pointwise, ReachesBeyond32Bits) {
  if (on_cuda()) GTEST_SKIP() << "takes memory of the host's";
  constexpr std::int64_t kApart = std::int64_t{1} << 30;
  constexpr std::size_t kBytes = (std::size_t{4} << 30) + 4096;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no room for 4 GiB of addresses";
  Pointing p({"tensor0+number(index0)"});
  Field& x = p.operand(Stored::f32, {2, 77});
  p.out(Stored::f32, {2, 77});
  p.fill("far");
  p.set();
  DLTensor far = *p.outs[0]->tensor();
  std::int64_t strides[] = {kApart, 1};
  far.data = memory, far.byte_offset = 0, far.strides = strides;
  p.args.out = &far;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_pointwise(context(), &p.args, &error), QUERN_OK) << error.text;
  const auto* to = static_cast<const float*>(memory);
  each_index({2, 77}, [&](const Extents& at) {
    const float expected = static_cast<float>(x.number(at)) + static_cast<float>(at[0]);
    const float got = to[at[0] * kApart + at[1]];
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)));
  });
  munmap(memory, kBytes);
}

// Rows that begin off every alignment, longer and shorter than a few vectors, and operands that lie across, more of
// them than change places in shared memory.
TEST(Pointwise, ReadsWhatLiesInNoVectors) {
  for (const Stored type : {Stored::f16, Stored::i8}) {
    for (const std::int64_t n : {16, 80}) {
      Pointing p({"tensor0+tensor1"});
      p.operand(type, {5, n}, {n + 3, 1});
      p.operand(type, {5, n});
      p.out(Stored::f32, {5, n});
      p.fill("apart");
      p.set();
      ASSERT_NO_FATAL_FAILURE(p.run());
      p.check(0, [](const std::vector<double>& x) { return x[0] + x[1]; }, 2);
    }
  }
  Pointing p({"tensor0+tensor1+(tensor2+tensor3)+(tensor4+tensor5)"});
  for (std::int64_t i = 0; i < 5; ++i) p.operand(Stored::i8, {37, 45}, {1, 38 + i});
  p.operand(Stored::i8, {37, 45});
  p.out(Stored::f32, {37, 45});
  p.fill("across");
  p.set();
  ASSERT_NO_FATAL_FAILURE(p.run());
  p.check(0, [](const std::vector<double>& x) { return x[0] + x[1] + (x[2] + x[3]) + (x[4] + x[5]); }, 64);
}

// One preparation serves every shorter first dimension.
TEST(Pointwise, IsPreparedForFewerRows) {
  const Context own = make_context();
  for (const Extents& strides : {Extents{48, 1}, Extents{56, 1}, Extents{1, 70}}) {
    Pointing p({"tensor0*tensor1"});
    p.operand(Stored::f16, {70, 48}, strides);
    p.operand(Stored::f16, {48});
    p.out(Stored::f16, {70, 48}, strides[1] == 1 ? strides : Extents{48, 1});
    p.fill("prepared");
    p.set(own.get());
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_pointwise_prepare(own.get(), &p.args, &error), QUERN_OK) << error.text;
    p.args.flags |= QUERN_CALL_CACHED_ONLY;
    for (std::int64_t rows = 70; rows >= 0; --rows) {
      p.operands[0]->extents()[0] = p.outs[0]->extents()[0] = rows;
      ASSERT_EQ(quern_pointwise(own.get(), &p.args, &error), QUERN_OK) << rows << ": " << error.text;
    }
  }
}

// Nor is one missing where a shorter first dimension merges with the next no more, yet holds whole vectors.
TEST(Pointwise, IsPreparedForFewerRowsOfTiles) {
  const Context own = make_context();
  Pointing p({"tensor0*2"});
  p.operand(Stored::f32, {64, 40, 100}, {100, 6400, 1});
  p.out(Stored::f32, {64, 40, 100}, {1, 64, 2560});
  p.fill("prepared tiles");
  p.set(own.get());
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_pointwise_prepare(own.get(), &p.args, &error), QUERN_OK) << error.text;
  p.args.flags |= QUERN_CALL_CACHED_ONLY;
  for (const std::int64_t rows : {64, 63, 48, 47, 33, 32, 31, 16, 1}) {
    p.operands[0]->extents()[0] = p.outs[0]->extents()[0] = rows;
    ASSERT_EQ(quern_pointwise(own.get(), &p.args, &error), QUERN_OK) << rows << ": " << error.text;
  }
}

}  // namespace
}  // namespace quern::test
