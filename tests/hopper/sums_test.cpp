// WarpgroupSums against plain loops, for every number of them: numbers for which everything is exact.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/sm90/layout.cuh"
#include "tests/hopper/device.h"
#include "tests/hopper/numbers.h"

namespace quern::hopper_tests {
namespace {

constexpr int kThreads = 128, kBoxBytes = 2048;

// Of f16 or bf16, with few enough bits; sums of i8 are stored as bf16.
float half_to_float(const std::string& type, std::uint16_t code) {
  if (type != "f16") {
    const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const int exponent = code >> 10 & 31, mantissa = code & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                        : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return code >> 15 ? -magnitude : magnitude;
}

struct Sums {
  std::string type;
  int count;

  int columns() const { return 2 * count; }
  int groups() const { return (count + 31) / 32; }
  int size_of_group(int group) const { return std::min(32, count - group * 32); }
  // What a half of a group is added times, beside once.
  float factor(int element, int row) const {
    const int group = element / 32, half = size_of_group(group) / 2, begin = group * 32;
    const int first = begin + (element - begin) / half * half;
    if (count % 32 == 24) return 0;
    return (first / 4 + row) % 2 == 0 ? 1.0f : 3.0f;
  }
};

void expect_right(const Sums& sums, Schedule schedule) {
  const int n = sums.columns();
  const std::size_t depth = 128 / size_of(sums.type);
  std::vector<int> a = small_numbers(64 * depth, 1), b = small_numbers(static_cast<std::size_t>(n) * depth, 2);
  // Few products of few bits, so that the results' types hold them; of integers large ones.
  const int one = sums.type == "i8" ? 64 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i * 16 % depth == 0 ? one * std::clamp(a[i], -1, 1) : 0;
  for (int& v : b) v = -one * std::clamp(v, -1, 1);
  std::vector<float> columns(static_cast<std::size_t>(n));
  for (int c = 0; c < n; ++c) columns[static_cast<std::size_t>(c)] = c % 3 == 0 ? 2.0f : c % 3 == 1 ? 1.0f : -0.5f;
  const auto groups = static_cast<std::size_t>(sums.groups());
  Machine machine(schedule);
  const Memory device_a(encode_all(sums.type, a)), device_b(encode_all(sums.type, b)), device_columns(columns);
  const Memory added(static_cast<std::size_t>(sums.count) * kThreads * 4), negated(groups * kThreads * 8 * 4),
      pairs(groups * kThreads * 2 * 4), boxes(groups * 4 * kBoxBytes);
  struct {
    const void *a, *b, *columns;
    void *added, *negated, *pairs, *boxes;
  } params{device_a.data(), device_b.data(), device_columns.data(), added.data(),
           negated.data(),  pairs.data(),    boxes.data()};
  const std::string what = sums.type + ", " + std::to_string(sums.count) + " of a thread";
  SCOPED_TRACE(what);
  ASSERT_EQ(run(machine, "sums.cuh", {{"TYPE", sums.type}, {"COUNT", std::to_string(sums.count)}},
                {1, 1, 8192 + 32768 + 4 * kBoxBytes}, {&params}),
            "");
  const std::vector<float> got = added.read<float>(), eights = negated.read<float>(), twos = pairs.read<float>();
  const std::vector<std::uint16_t> stored = boxes.read<std::uint16_t>();
  int wrong = 0;
  const auto expect = [&](float is, float should, const char* of, int thread, int element) {
    if (is == should) return;
    if (wrong++ == 0) {
      ADD_FAILURE() << of << ": thread " << thread << ", element " << element << ": " << is << " rather than "
                    << should;
    }
  };
  for (int t = 0; t < kThreads; ++t) {
    const auto value = [&](int element) {
      const auto row = static_cast<std::size_t>(q::wgmma_row(t, element));
      const auto column = static_cast<std::size_t>(q::wgmma_column(t, element));
      int sum = 0;
      for (std::size_t k = 0; k < depth; ++k) sum += a[row * depth + k] * b[column * depth + k];
      const int row_of_two = element >> 1 & 1;
      return static_cast<float>(row_of_two == 0 ? 2 * sum : sum) * (1 + sums.factor(element, row_of_two));
    };
    for (int i = 0; i < sums.count; ++i)
      expect(got[static_cast<std::size_t>(i * kThreads + t)], value(i), "added", t, i);
    for (int group = 0; group < sums.groups(); ++group) {
      const int size = sums.size_of_group(group);
      if (size < 16) continue;
      // Of the group once it is scaled and turned.
      const auto turned = [&](int i) {
        const int element = group * 32 + (i + 8) % size;
        const float of_column = columns[static_cast<std::size_t>(q::wgmma_column(t, element))];
        return value(element) * of_column * of_column * ((element >> 1 & 1) == 0 ? 2.0f : 0.5f);
      };
      const auto at = static_cast<std::size_t>(group * kThreads + t);
      for (int i = 0; i < 8; ++i) expect(eights[at * 8 + static_cast<std::size_t>(i)], -turned(i), "negated", t, i);
      for (int i = 0; i < 2; ++i)
        expect(twos[at * 2 + static_cast<std::size_t>(i)], turned(10 + i), "pairs", t, 10 + i);
      for (int i = 0; i < size; ++i) {
        const int row = q::wgmma_row(t, i) % 16, column = q::wgmma_column(t, i);
        const std::uint32_t place =
            q::swizzled(static_cast<std::uint32_t>(row * 128 + column * 2), q::Swizzle::bytes128);
        const std::size_t of_warp = static_cast<std::size_t>(group * 4 + t / 32) * kBoxBytes;
        expect(half_to_float(sums.type, stored[(of_warp + place) / 2]), i < 8 ? -turned(i) : turned(i), "stored", t, i);
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

class HopperSums : public testing::TestWithParam<int> {};

TEST_P(HopperSums, AreThoseOfTheProduct) {
  for (const char* type : {"bf16", "f16", "i8"}) {
    expect_right({type, GetParam()}, {});
    if (!on_cuda()) expect_right({type, GetParam()}, {true, static_cast<std::uint64_t>(GetParam())});
  }
}
INSTANTIATE_TEST_SUITE_P(Counts, HopperSums, testing::Values(8, 16, 32, 56, 64, 88, 96, 128),
                         [](const testing::TestParamInfo<int>& count) { return std::to_string(count.param); });

}  // namespace
}  // namespace quern::hopper_tests
