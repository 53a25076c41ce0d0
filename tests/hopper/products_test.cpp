// wgmma against plain loops: every shape, type, swizzle, majorness, and A out of registers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/hopper/device.h"
#include "tests/hopper/numbers.h"

namespace quern::hopper_tests {
namespace {

constexpr int kFormK = 0, kFormMn = 1, kFormRegisters = 2;
constexpr std::uint32_t kSharedBytes = 16384 + 32768;

struct Product {
  std::string type_a, type_b;
  int form_a, form_b;
  int first, step, count;  // n
  Defines defines() const {
    const auto number = [](int value) { return std::to_string(value); };
    return {{"TYPE_A", type_a},         {"TYPE_B", type_b},         {"A_FORM", number(form_a)},
            {"B_FORM", number(form_b)}, {"N_FIRST", number(first)}, {"N_STEP", number(step)},
            {"N_COUNT", number(count)}};
  }
};

void expect_right(const Product& product, int n, int swizzle, Schedule schedule) {
  const std::size_t depth = 128 / size_of(product.type_a);
  const std::vector<int> a = small_numbers(64 * depth, 1), b = small_numbers(static_cast<std::size_t>(n) * depth, 2);
  Machine machine(schedule);
  const Memory device_a(encode_all(product.type_a, a)), device_b(encode_all(product.type_b, b));
  const Memory d(std::size_t{64} * static_cast<std::size_t>(n) * 4);
  struct {
    const void *a, *b;
    void* d;
    int n, swizzle;
  } params{device_a.data(), device_b.data(), d.data(), n, swizzle};
  const std::string what = product.type_a + " x " + product.type_b + ", forms " + std::to_string(product.form_a) +
                           " and " + std::to_string(product.form_b) + ", n " + std::to_string(n) + ", swizzle " +
                           std::to_string(swizzle) + ", seed " + std::to_string(schedule.seed);
  ASSERT_EQ(run(machine, "products.cuh", product.defines(), {1, 1, kSharedBytes}, {&params}), "") << what;
  const std::vector<float> got = d.read<float>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(n), column = i % static_cast<std::size_t>(n);
    int sum = 0;
    for (std::size_t k = 0; k < depth; ++k) sum += a[row * depth + k] * b[column * depth + k];
    if (got[i] == static_cast<float>(sum)) continue;
    if (wrong++ == 0) {
      ADD_FAILURE() << what << ": at (" << row << ", " << column << ") " << got[i] << " rather than " << sum;
    }
  }
  EXPECT_EQ(wrong, 0u) << what;
}

class HopperProducts : public testing::TestWithParam<std::string> {};

TEST_P(HopperProducts, EveryN) {
  for (int first = 8; first <= 32; first += 8) {
    const Product product{GetParam(), GetParam(), kFormK, kFormK, first, 32, 8};
    for (int n = first; n <= 256; n += 32) expect_right(product, n, 3, {true, static_cast<std::uint64_t>(n)});
  }
}
INSTANTIATE_TEST_SUITE_P(Types, HopperProducts, testing::Values("bf16", "e4m3"),
                         [](const testing::TestParamInfo<std::string>& type) { return type.param; });

// In each form with each swizzle, for an n within one span of the narrowest and one beyond the widest.
void every_swizzle(const std::string& type_a, const std::string& type_b, int form_a, int form_b) {
  const Product product{type_a, type_b, form_a, form_b, 8, 96, 2};
  for (const int n : {8, 104}) {
    for (int swizzle = 0; swizzle <= 3; ++swizzle) {
      expect_right(product, n, swizzle, {});
      if (!on_cuda()) expect_right(product, n, swizzle, {true, 7});
    }
  }
}

TEST(HopperProductForms, KMajorTimesKMajor) { every_swizzle("bf16", "bf16", kFormK, kFormK); }
TEST(HopperProductForms, KMajorTimesNMajor) { every_swizzle("bf16", "bf16", kFormK, kFormMn); }
TEST(HopperProductForms, MMajorTimesKMajor) { every_swizzle("bf16", "bf16", kFormMn, kFormK); }
TEST(HopperProductForms, MMajorTimesNMajor) { every_swizzle("bf16", "bf16", kFormMn, kFormMn); }
TEST(HopperProductForms, RegistersTimesKMajor) { every_swizzle("bf16", "bf16", kFormRegisters, kFormK); }
TEST(HopperProductForms, RegistersTimesNMajor) { every_swizzle("bf16", "bf16", kFormRegisters, kFormMn); }
TEST(HopperProductForms, F16) {
  every_swizzle("f16", "f16", kFormK, kFormK);
  every_swizzle("f16", "f16", kFormRegisters, kFormMn);
}
TEST(HopperProductForms, EightBits) {
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) every_swizzle(a, b, kFormK, kFormK);
    every_swizzle(a, "e4m3", kFormRegisters, kFormK);
  }
}

}  // namespace
}  // namespace quern::hopper_tests
