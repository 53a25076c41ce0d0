// moe_combine against its formula in fp64: dtypes, tails, strides, choices that are left out, sums in place; and its
// refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "tests/ops/cuda.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {
namespace {

struct CombineCase {
  Element x = Element::bf16, out = Element::bf16;
  std::int64_t tokens = 1, top_k = 2, n = 64;
  bool weights = true, add = false, in_place = false;  // in_place: add is out
  std::int64_t padding = 0;                            // elements between the rows of x, add and out
  int alignment = 0;
  std::int64_t rows() const { return tokens * top_k + 3; }
};

// Random rows, each choice at a row of its own, some choices and rows left out. What is left out is NaN.
class Combining {
 public:
  explicit Combining(const CombineCase& c)
      : args(sized<quern_moe_combine_args>()),
        c_(c),
        pitch_(c.n + c.padding),
        x_(bytes(c.rows(), c.x), 0xff),
        add_(bytes(c.tokens, c.out), 0xff),
        positions_(static_cast<std::size_t>(c.tokens * c.top_k)),
        weights_(positions_.size()) {
    Random random("moe_combine");
    std::vector<std::int32_t> order;
    for (std::int64_t r = 0; r < c.rows(); ++r) order.push_back(static_cast<std::int32_t>(r));
    random.shuffle(order);
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      positions_[i] = order[i];
      weights_[i] = static_cast<float>(random.uniform() - 0.2);
      if (random.below(5) != 0) {
        for (std::int64_t k = 0; k < c.n; ++k) c.x.store(&x_[at(order[i], k, c.x)], random.normal());
      } else {
        // A GPU's kernel takes anything outside of the rows for none; on `host` that is an error but for -1.
        constexpr std::int32_t kOutside[] = {-1, -2, INT32_MIN, INT32_MAX, 0};
        positions_[i] = kOutside[on_cuda() ? random.below(5) : 0];
        if (positions_[i] == 0) positions_[i] = static_cast<std::int32_t>(c.rows());
        weights_[i] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      for (std::int64_t k = 0; k < c.n; ++k) c.out.store(&add_[at(t, k, c.out)], random.normal());
    }
    x_buffer_ = Buffer(x_.size()), add_buffer_ = Buffer(add_.size()), out_buffer_ = Buffer(add_.size());
    position_buffer_ = Buffer(positions_.size() * 4), weight_buffer_ = Buffer(weights_.size() * 4);
    x.set(c.x.type(), {c.rows(), c.n}, {pitch_, 1});
    positions.set(kInt32, {c.tokens, c.top_k});
    weights.set(kFloat32, {c.tokens, c.top_k});
    for (TensorBox* t : {&add, &out}) t->set(c.out.type(), {c.tokens, c.n}, {pitch_, 1});
    x.place(x_buffer_.data()), positions.place(position_buffer_.data()), weights.place(weight_buffer_.data());
    add.place(add_buffer_.data()), out.place(c.in_place ? add_buffer_.data() : out_buffer_.data());
    args.x = x.get(), args.positions = positions.get(), args.out = out.get();
    if (c.weights) args.weights = weights.get();
    if (c.add) args.add = add.get();
    args.alignment = c.alignment;
  }

  void upload() {
    x_buffer_.write(x_), add_buffer_.write(add_), position_buffer_.write(positions_), weight_buffer_.write(weights_);
    out_buffer_.fill(0xff);
  }
  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t needed = 5;
    ASSERT_EQ(quern_moe_combine_workspace(context(), &args, &needed, &error), QUERN_OK) << error.text;
    ASSERT_EQ(needed, 0u);
    ASSERT_EQ(quern_moe_combine_prepare(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    call();
    synchronize();
  }
  void call(void* stream = nullptr) {
    auto error = sized<quern_error>();
    quern_moe_combine_args now = args;
    now.flags |= QUERN_CALL_CACHED_ONLY;
    now.stream = stream;
    ASSERT_EQ(quern_moe_combine(context(), &now, &error), QUERN_OK) << error.text;
  }

  std::vector<unsigned char> read() const { return (c_.in_place ? add_buffer_ : out_buffer_).read(); }
  // The positions as they are from now on, for a next upload.
  void rotate_positions() {
    for (std::int32_t& p : positions_) {
      if (p >= 0 && p < c_.rows()) p = static_cast<std::int32_t>((p + 1) % c_.rows());
    }
    // Which rows hold numbers has changed: all do.
    Random random("rows of all");
    for (std::int64_t r = 0; r < c_.rows(); ++r) {
      for (std::int64_t k = 0; k < c_.n; ++k) c_.x.store(&x_[at(r, k, c_.x)], random.normal());
    }
  }

  void check() const {
    const std::vector<unsigned char> given = read();
    std::int64_t wrong = 0;
    for (std::int64_t t = 0; t < c_.tokens; ++t) {
      for (std::int64_t k = 0; k < c_.n; ++k) {
        double exact = 0.0, size = 0.0;
        for (std::int64_t j = 0; j < c_.top_k; ++j) {
          const auto choice = static_cast<std::size_t>(t * c_.top_k + j);
          const std::int32_t row = positions_[choice];
          if (row < 0 || row >= c_.rows()) continue;
          const double term = (c_.weights ? double{weights_[choice]} : 1.0) * c_.x.load(&x_[at(row, k, c_.x)]);
          exact += term, size += std::fabs(term);
        }
        if (c_.add)
          exact += c_.out.load(&add_[at(t, k, c_.out)]), size += std::fabs(c_.out.load(&add_[at(t, k, c_.out)]));
        const double is = c_.out.load(&given[at(t, k, c_.out)]);
        const double rounding = 0x1p-24 * static_cast<double>(c_.top_k + 1) * size;
        wrong += !(std::fabs(is - exact) <= c_.out.roundoff() * std::fabs(exact) * 1.01 + rounding + 1e-7);
      }
      for (std::size_t i = at(t, c_.n, c_.out); i < at(t + 1, 0, c_.out); ++i)
        ASSERT_EQ(given[i], 0xff) << "behind row " << t;
    }
    EXPECT_EQ(wrong, 0) << c_.x.name() << " to " << c_.out.name() << " " << c_.tokens << "x" << c_.n << " top "
                        << c_.top_k << ", padding " << c_.padding << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_moe_combine_args args;
  TensorBox x, positions, weights, add, out;

 private:
  std::size_t bytes(std::int64_t rows, Element of) const {
    return static_cast<std::size_t>(rows * pitch_) * of.bytes();
  }
  std::size_t at(std::int64_t row, std::int64_t column, Element of) const {
    return static_cast<std::size_t>(row * pitch_ + column) * of.bytes();
  }

  CombineCase c_;
  std::int64_t pitch_;
  std::vector<unsigned char> x_, add_;
  std::vector<std::int32_t> positions_;
  std::vector<float> weights_;
  Buffer x_buffer_, add_buffer_, out_buffer_, position_buffer_, weight_buffer_;
};

void run_and_check(const CombineCase& c) {
  Combining combining(c);
  ASSERT_NO_FATAL_FAILURE(combining.run());
  combining.check();
}

class MoeCombine : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, MoeCombine,
                         testing::Values(Element(Element::f16), Element(Element::bf16), Element(Element::f32)),
                         [](const testing::TestParamInfo<Element>& dtype) { return std::string(dtype.param.name()); });

TEST_P(MoeCombine, MatchesItsFormula) {
  struct Extents {
    std::int64_t tokens, top_k, n;
  };
  int i = 0;
  for (const Extents& e : std::initializer_list<Extents>{{1, 1, 8},
                                                         {3, 2, 512},
                                                         {5, 8, 1024},
                                                         {2, 6, 2048},
                                                         {33, 4, 72},
                                                         {7, 3, 520},
                                                         {300, 5, 16},
                                                         {2, 32, 136},
                                                         {3, 40, 24},
                                                         {4, 70, 1032}}) {
    for (const Element out : {GetParam(), Element(Element::f32), Element(Element::bf16)}) {
      CombineCase c;
      c.x = GetParam(), c.out = out;
      c.tokens = e.tokens, c.top_k = e.top_k, c.n = e.n;
      c.weights = i % 4 != 0;
      c.add = i % 2 != 0;
      c.in_place = i % 4 == 1;
      c.padding = i % 3 == 0 ? 16 : 0;
      ++i;
      ASSERT_NO_FATAL_FAILURE(run_and_check(c));
    }
  }
}

// Every number of columns in the last eight, with rows that are aligned to less.
TEST_P(MoeCombine, TakesAnyNumberOfColumns) {
  for (std::int64_t n = 1; n <= 20; ++n) {
    for (const int alignment : {16, 8, 4}) {
      CombineCase c;
      c.x = c.out = GetParam();
      c.tokens = 5, c.top_k = 3, c.n = n + (n % 3 == 0 ? 512 : 0);
      c.add = n % 2 != 0;
      c.alignment = alignment;
      const auto unit = alignment / static_cast<std::int64_t>(c.x.bytes());
      c.padding = (unit - c.n % unit) % unit;
      ASSERT_NO_FATAL_FAILURE(run_and_check(c));
    }
  }
}

TEST_P(MoeCombine, TakesNothing) {
  CombineCase c;
  c.x = c.out = GetParam();
  c.tokens = 0;
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
  c.tokens = 3, c.n = 0;
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
  c.n = 40, c.top_k = 0;
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
  c.add = true;
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
}

TEST_P(MoeCombine, GivesTheSameBitsOnAnyNumberOfSms) {
  CombineCase c;
  c.x = c.out = GetParam();
  c.tokens = 150, c.top_k = 4, c.n = 1040;
  Combining combining(c);
  ASSERT_NO_FATAL_FAILURE(combining.run());
  const std::vector<unsigned char> all = combining.read();
  combining.args.max_sms = 1;
  combining.args.flags = QUERN_CALL_BATCH_INVARIANT;
  ASSERT_NO_FATAL_FAILURE(combining.run());
  combining.check();
  EXPECT_EQ(combining.read(), all);
}

TEST(MoeCombineOnCuda, OneGraphServesChangingPositions) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  for (const std::uint32_t flags : {0u, std::uint32_t{QUERN_CALL_PROGRAMMATIC}}) {
    CombineCase c;
    c.tokens = 64, c.top_k = 8, c.n = 7168;
    Combining combining(c);
    combining.args.flags = flags;
    ASSERT_NO_FATAL_FAILURE(combining.run());
    const Stream stream;
    const Graph graph(stream, [&] {
      for (int i = 0; i < 3; ++i) combining.call(stream.get());
    });
    for (int round = 0; round < 4; ++round) {
      combining.rotate_positions();
      combining.upload();
      synchronize();
      graph.launch(stream);
      stream.synchronize();
      combining.check();
    }
  }
}

TEST(MoeCombineRefuses, EveryWrongArgument) {
  using C = Combining&;
  const std::vector<Mistake<Combining>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](C c) { c.args.x = nullptr; }},
      {"positions NULL", {"positions", "NULL"}, [](C c) { c.args.positions = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](C c) { c.args.out = nullptr; }},
      {"x's rank", {"x", "dimensions"}, [](C c) { c.x.tensor.ndim = 3; }},
      {"x's dtype", {"x", "int32"}, [](C c) { c.x.tensor.dtype = kInt32; }},
      {"out's dtype", {"out", "e4m3"}, [](C c) { c.out.tensor.dtype = Element(Element::e4m3).type(); }},
      {"add's dtype", {"add", "bf16"}, [](C c) { c.add.tensor.dtype = kFloat32; }},
      {"positions' dtype", {"positions", "int32"}, [](C c) { c.positions.tensor.dtype = kFloat32; }},
      {"weights' dtype", {"weights", "f32"}, [](C c) { c.weights.tensor.dtype = dtype_of(Format::bf16); }},
      {"x's columns", {"x.shape[1]", "64"}, [](C c) { c.x.shape[1] = 56; }},
      {"too many columns", {"out.shape[1]", "2^30"}, [](C c) { c.out.shape[1] = (std::int64_t{1} << 30) + 1; }},
      {"positions' tokens", {"positions.shape[0]", "4"}, [](C c) { c.positions.shape[0] = 5; }},
      {"weights' tokens", {"weights.shape[0]", "4"}, [](C c) { c.weights.shape[0] = 3; }},
      {"weights' choices", {"weights.shape[1]", "2"}, [](C c) { c.weights.shape[1] = 1; }},
      {"add's tokens", {"add.shape[0]", "4"}, [](C c) { c.add.shape[0] = 3; }},
      {"add's columns", {"add.shape[1]", "64"}, [](C c) { c.add.shape[1] = 72; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](C c) { c.x.strides[1] = 2; }},
      {"out's rows over each other", {"out.strides[0]", "0"}, [](C c) { c.out.strides[0] = 0; }},
      {"add is out with other rows",
       {"add.strides[0]", "out"},
       [](C c) { c.add.tensor.data = c.out.tensor.data, c.add.strides[0] = c.out.strides[0] + 8; },
       true},
      {"out's row alignment", {"out", "stride"}, [](C c) { c.out.strides[0] += 4; }},
      {"x's alignment", {"x", "data"}, [](C c) { c.x.tensor.byte_offset = 8; }, true},
      {"positions' alignment", {"positions", "data"}, [](C c) { c.positions.tensor.byte_offset = 2; }, true},
      {"out without data", {"out", "NULL"}, [](C c) { c.out.tensor.data = nullptr; }, true},
      {"another device",
       {"x", "ROCm"},
       [](C c) { c.x.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM); }},
      {"alignment 2", {"alignment", "2"}, [](C c) { c.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](C c) { c.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](C c) { c.args.flags = QUERN_MOE_SIGMOID; }},
      {"no size", {"size"}, [](C c) { c.args.size = 0; }},
  };
  CombineCase given;
  given.tokens = 4, given.add = true, given.padding = 8;
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_moe_combine_args>{quern_moe_combine, quern_moe_combine_workspace, quern_moe_combine_prepare},
      [&] {
        auto combining = std::make_unique<Combining>(given);
        combining->upload();
        return combining;
      },
      [](C c) { return [&c, before = c.read()] { return c.read() == before; }; });
}

}  // namespace
}  // namespace quern::test
