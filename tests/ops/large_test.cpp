// Tensors of more than 2^31 elements: a place that does not fit 32 bits is one like any other. The elements repeat with
// a prime period, so that no power of two among the strides hides one that was taken for another.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/ops/pointing.h"
#include "tests/ops/random.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {
namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 9, kPeriod = 16'777'213;
constexpr DLDataType kInt8{kDLInt, 8, 1}, kInt32{kDLInt, 32, 1}, kInt64{kDLInt, 64, 1};

std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count); }

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "2^31 elements take minutes where there is no GPU";
    pattern_.resize(bytes_of(kPeriod));
    Random random("large");
    for (std::int8_t& each : pattern_) each = static_cast<std::int8_t>(random.between(-100, 100));
  }
  std::int8_t at(std::int64_t place) const { return pattern_[bytes_of(place % kPeriod)]; }
  Buffer patterned(std::int64_t count = kElements) const {
    Buffer memory(bytes_of(count));
    for (std::int64_t from = 0; from < count; from += kPeriod)
      memory.write(pattern_.data(), bytes_of(std::min(kPeriod, count - from)), bytes_of(from));
    return memory;
  }
  // Holds every byte of `memory` against expected(place).
  template <class Expected>
  static void check(const Buffer& memory, std::int64_t count, Expected expected) {
    std::vector<std::int8_t> piece(bytes_of(kPeriod));
    for (std::int64_t from = 0; from < count; from += kPeriod) {
      const std::int64_t here = std::min(kPeriod, count - from);
      memory.read(piece.data(), bytes_of(here), bytes_of(from));
      for (std::int64_t i = 0; i < here; ++i)
        ASSERT_EQ(int{piece[bytes_of(i)]}, static_cast<int>(expected(from + i))) << "element " << from + i;
    }
  }
  template <class Args>
  static void call(const ThreeCalls<Args>& op, Args args) {
    auto error = sized<quern_error>();
    std::uint64_t bytes = 0;
    ASSERT_EQ(op.workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer workspace(bytes, 0);
    args.workspace = workspace.data(), args.workspace_size = bytes;
    ASSERT_EQ(op.run(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  std::vector<std::int8_t> pattern_;
};

constexpr ThreeCalls<quern_copy_args> kCopy{quern_copy, quern_copy_workspace, quern_copy_prepare};
constexpr ThreeCalls<quern_reduce_args> kReduce{quern_reduce, quern_reduce_workspace, quern_reduce_prepare};
constexpr ThreeCalls<quern_gather_args> kGather{quern_gather, quern_gather_workspace, quern_gather_prepare};
constexpr ThreeCalls<quern_scatter_args> kScatter{quern_scatter, quern_scatter_workspace, quern_scatter_prepare};
constexpr ThreeCalls<quern_histogram_args> kHistogram{quern_histogram, quern_histogram_workspace,
                                                      quern_histogram_prepare};

TEST_F(Large, PointwiseOfOneRow) {
  const Buffer x = patterned();
  const Buffer out(bytes_of(kElements));
  TensorBox from, to;
  from.set(kInt8, {kElements}), from.place(x.data());
  to.set(kInt8, {kElements}), to.place(out.data());
  auto args = sized<quern_pointwise_args>();
  const DLTensor* const operands[] = {from.get()};
  args.operands = operands, args.operand_count = 1, args.out = to.get(), args.expression = expression("tensor0+3");
  ASSERT_NO_FATAL_FAILURE(call(kPointwise, args));
  check(out, kElements, [&](std::int64_t i) { return at(i) + 3; });
}

// A place of its own is what each element is told; in f32 above 2^24 it would be rounded.
TEST_F(Large, PointwiseByPlace) {
  const Buffer out(bytes_of(kElements));
  TensorBox to;
  to.set(kInt8, {kElements}), to.place(out.data());
  auto args = sized<quern_pointwise_args>();
  args.out = to.get(), args.expression = expression("place%127");
  ASSERT_NO_FATAL_FAILURE(call(kPointwise, args));
  check(out, kElements, [](std::int64_t i) { return i % 127; });
}

TEST_F(Large, CopyOfATransposedTensor) {
  constexpr std::int64_t kRows = 3, kColumns = kElements / kRows + 1, kAll = kRows * kColumns;
  const Buffer x = patterned(kAll);
  const Buffer out(bytes_of(kAll));
  TensorBox from, to;
  from.set(kInt8, {kColumns, kRows}, {1, kColumns}), from.place(x.data());
  to.set(kInt8, {kColumns, kRows}), to.place(out.data());
  auto args = sized<quern_copy_args>();
  const DLTensor *const inputs[] = {from.get()}, *const outputs[] = {to.get()};
  args.inputs = inputs, args.outputs = outputs, args.input_count = args.output_count = 1;
  ASSERT_NO_FATAL_FAILURE(call(kCopy, args));
  check(out, kAll, [&](std::int64_t i) { return at(i % kRows * kColumns + i / kRows); });
}

TEST_F(Large, ReductionsOfOneRow) {
  Buffer x = patterned();
  constexpr std::int64_t kLargest = kElements - 2, kSmallest = kElements - 5;
  const std::int8_t largest = 127, smallest = -128;
  x.write(&largest, 1, bytes_of(kLargest)), x.write(&smallest, 1, bytes_of(kSmallest));
  const std::int64_t of_period = std::accumulate(pattern_.begin(), pattern_.end(), std::int64_t{0});
  std::int64_t sum = of_period * (kElements / kPeriod);
  for (std::int64_t i = kElements / kPeriod * kPeriod; i < kElements; ++i) sum += at(i);
  sum += largest - at(kLargest) + smallest - at(kSmallest);

  Buffer found(24);
  TensorBox from, of_sum, of_largest, of_smallest;
  from.set(kInt8, {kElements}), from.place(x.data());
  of_sum.set(kInt32, {1}), of_sum.place(found.data());
  of_largest.set(kInt64, {1}), of_largest.place(found.data(), 8);
  of_smallest.set(kInt64, {1}), of_smallest.place(found.data(), 16);
  auto args = sized<quern_reduce_args>();
  args.x = from.get();
  args.out = of_sum.get(), args.reduction = QUERN_REDUCE_SUM;
  args.out1 = of_largest.get(), args.reduction1 = QUERN_REDUCE_ARGMAX;
  args.out2 = of_smallest.get(), args.reduction2 = QUERN_REDUCE_ARGMIN;
  ASSERT_NO_FATAL_FAILURE(call(kReduce, args));
  std::int32_t low_bits = 0;
  std::int64_t places[2] = {};
  found.read(&low_bits, 4), found.read(places, 16, 8);
  EXPECT_EQ(low_bits, static_cast<std::int32_t>(sum));
  EXPECT_EQ(places[0], kLargest);
  EXPECT_EQ(places[1], kSmallest);
}

// Rows on both sides of 2^31 bytes, each taken to the other's side.
class LargeTable : public Large {
 protected:
  static constexpr std::int64_t kWidth = 4096, kRows = kElements / kWidth + 2, kCount = 1000;

  void SetUp() override {
    Large::SetUp();
    if (!on_cuda()) return;
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < kCount; ++i) ids.push_back(kRows - 1 - i * (kRows / kCount));
    ids_memory_ = Buffer(ids.size() * 8);
    ids_memory_.write(ids);
    ids_.set(kInt64, {kCount}), ids_.place(ids_memory_.data());
    id_of_ = std::move(ids);
  }
  Buffer ids_memory_;
  TensorBox ids_;
  std::vector<std::int64_t> id_of_;
};

TEST_F(LargeTable, IsGatheredFrom) {
  const Buffer table = patterned(kRows * kWidth);
  const Buffer out(bytes_of(kCount * kWidth));
  TensorBox from, to;
  from.set(kInt8, {kRows, kWidth}), from.place(table.data());
  to.set(kInt8, {kCount, kWidth}), to.place(out.data());
  auto args = sized<quern_gather_args>();
  args.table = from.get(), args.ids = ids_.get(), args.out = to.get();
  ASSERT_NO_FATAL_FAILURE(call(kGather, args));
  check(out, kCount * kWidth, [&](std::int64_t i) { return at(id_of_[bytes_of(i / kWidth)] * kWidth + i % kWidth); });
}

TEST_F(LargeTable, IsScatteredInto) {
  const Buffer x = patterned(kCount * kWidth);
  const Buffer table(bytes_of(kRows * kWidth), 0x5a);
  TensorBox from, to;
  from.set(kInt8, {kCount, kWidth}), from.place(x.data());
  to.set(kInt8, {kRows, kWidth}), to.place(table.data());
  auto args = sized<quern_scatter_args>();
  args.x = from.get(), args.ids = ids_.get(), args.out = to.get();
  ASSERT_NO_FATAL_FAILURE(call(kScatter, args));
  std::vector<std::int64_t> from_row(bytes_of(kRows), -1);
  for (std::int64_t i = 0; i < kCount; ++i) from_row[bytes_of(id_of_[bytes_of(i)])] = i;
  check(table, kRows * kWidth, [&](std::int64_t i) {
    const std::int64_t row = from_row[bytes_of(i / kWidth)];
    return row < 0 ? std::int8_t{0x5a} : at(row * kWidth + i % kWidth);
  });
}

TEST_F(Large, HistogramOfOneRow) {
  const Buffer x = patterned();
  const Buffer counts(bytes_of(256 * 8), 0);
  TensorBox from, to;
  from.set(kInt8, {1, kElements}), from.place(x.data());
  to.set(kInt64, {1, 256}), to.place(counts.data());
  auto args = sized<quern_histogram_args>();
  args.x = from.get(), args.counts = to.get(), args.first = -128;
  ASSERT_NO_FATAL_FAILURE(call(kHistogram, args));
  std::vector<std::int64_t> expected(256, 0), got(256, 0);
  for (const std::int8_t each : pattern_) expected[bytes_of(each + 128)] += kElements / kPeriod;
  for (std::int64_t i = kElements / kPeriod * kPeriod; i < kElements; ++i) ++expected[bytes_of(at(i) + 128)];
  counts.read(got.data(), got.size() * 8);
  EXPECT_EQ(got, expected);
}

// Keys that repeat, each with its place: equal ones stay in order.
TEST_F(Large, SortOfAHundredMillionKeys) {
  constexpr std::int64_t kKeys = 100'000'000;
  std::vector<std::uint32_t> keys(bytes_of(kKeys));
  Random random("hundred million");
  for (std::uint32_t& key : keys) key = static_cast<std::uint32_t>(random.next() >> 32) & 0x0fff'ffff;
  Buffer memory(keys.size() * 4);
  memory.write(keys);
  const Buffer sorted(keys.size() * 4), places(keys.size() * 4);
  TensorBox from, to, values;
  from.set({kDLUInt, 32, 1}, {1, kKeys}), from.place(memory.data());
  to.set({kDLUInt, 32, 1}, {1, kKeys}), to.place(sorted.data());
  values.set(kInt32, {1, kKeys}), values.place(places.data());
  auto args = sized<quern_sort_args>();
  args.keys = from.get(), args.keys_out = to.get(), args.values_out = values.get();
  ASSERT_NO_FATAL_FAILURE(
      call(ThreeCalls<quern_sort_args>{quern_sort, quern_sort_workspace, quern_sort_prepare}, args));
  std::vector<std::uint32_t> got(keys.size()), at(keys.size());
  sorted.read(got.data(), got.size() * 4), places.read(at.data(), at.size() * 4);
  // What std::stable_sort would give, without its minutes: in order, ties by place, and no place twice.
  std::vector<bool> seen(keys.size(), false);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_LT(at[i], keys.size()) << i;
    ASSERT_FALSE(seen[at[i]]) << "place " << at[i] << " twice";
    seen[at[i]] = true;
    ASSERT_EQ(got[i], keys[at[i]]) << i;
    if (i == 0) continue;
    ASSERT_LE(got[i - 1], got[i]) << i;
    ASSERT_TRUE(got[i - 1] != got[i] || at[i - 1] < at[i]) << i;
  }
}

}  // namespace
}  // namespace quern::test
