// The layer between two products of a warpgroup, and pipelines that ordinary copies fill, against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "common/sm90/layout.cuh"
#include "jit/sanitizer.h"
#include "tests/hopper/device.h"
#include "tests/hopper/numbers.h"

namespace quern::hopper_tests {
namespace {

// As common/sm90/accumulator.cuh documents it: the column that becomes k of an operand of 8 bits.
int column_of_k(int k) {
  const int in_step = k % 32, register_pair = in_step / 16, quad = in_step % 16 / 4, element = in_step % 4;
  return k / 32 * 32 + register_pair * 16 + element / 2 * 8 + quad * 2 + element % 2;
}

void expect_right(const std::string& type, int n, Schedule schedule) {
  SCOPED_TRACE(type + ", " + std::to_string(n) + " columns");
  const std::size_t depth = 128 / size_of(type), columns = static_cast<std::size_t>(n);
  std::vector<int> a = small_numbers(64 * depth, 3), b = small_numbers(columns * depth, 4),
                   v = small_numbers(columns * 64, 5);
  // Few and small products, which every type holds.
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 16 == 0 ? std::clamp(a[i], -1, 1) : 0;
  for (int& x : b) x = std::clamp(x, -1, 1);
  std::vector<int> stored = v;  // [column][64]
  if (size_of(type) == 1) {
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < 64; ++j)
        stored[static_cast<std::size_t>(j * n + k)] = v[static_cast<std::size_t>(column_of_k(k) * 64 + j)];
    }
  }
  Machine machine(schedule);
  const Memory device_a(encode_all(type, a)), device_b(encode_all(type, b)), device_v(encode_all(type, stored));
  const Memory rows(std::vector<float>(64 * 3, 0.0f)), kept(64 * columns * 4), e(std::size_t{64} * 64 * 4),
      turned(columns / 32 * 64 * 16 * 4 + 16);
  struct {
    const void *a, *b, *v;
    void *rows, *kept, *e, *turned;
  } params{device_a.data(), device_b.data(), device_v.data(), rows.data(), kept.data(), e.data(), turned.data()};
  const auto shared = static_cast<std::uint32_t>(8192 + n * 128 + std::max(n, 64) * 128);
  ASSERT_EQ(run(machine, "accumulator.cuh", {{"TYPE", type}, {"N", std::to_string(n)}}, {1, 1, shared}, {&params}), "");
  const std::vector<float> got_rows = rows.read<float>(), got_kept = kept.read<float>(), got_e = e.read<float>();
  int wrong = 0;
  const auto expect = [&](float is, float should, const char* what, int row, int column) {
    if (is == should || wrong++ != 0) return;
    ADD_FAILURE() << what << " at (" << row << ", " << column << "): " << is << " rather than " << should;
  };
  const std::vector<std::uint32_t> got_turned = turned.read<std::uint32_t>();
  for (std::size_t i = 0; i < columns / 32 * 64 * 16; ++i) {
    const std::size_t column = i / 1024 * 32 + i % 16 * 2, row = i / 16 % 64;
    expect(static_cast<float>(got_turned[i]), static_cast<float>(row << 8 | column), "the transposed",
           static_cast<int>(row), static_cast<int>(column));
  }
  for (int row = 0; row < 64; ++row) {
    std::vector<int> d(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t k = 0; k < depth; ++k) d[c] += a[static_cast<std::size_t>(row) * depth + k] * b[c * depth + k];
    }
    int sum = 0;
    for (const int x : d) sum += x;
    const auto at = static_cast<std::size_t>(row) * 3;
    expect(got_rows[at], static_cast<float>(*std::max_element(d.begin(), d.end())), "the maximum", row, 0);
    expect(got_rows[at + 1], static_cast<float>(sum), "the sum", row, 0);
    expect(got_rows[at + 2], 4.0f, "the threads of a row", row, 0);
    const int from = row % 7 - 2, to = row % 11 == 0 ? from - 1 : n - row % 5;
    for (int c = 0; c < n; ++c) {
      const float value = static_cast<float>(d[static_cast<std::size_t>(c)]);
      expect(got_kept[static_cast<std::size_t>(row * n + c)],
             c >= from && c < to ? value : -std::numeric_limits<float>::infinity(), "what is kept", row, c);
    }
    for (int j = 0; j < 64; ++j) {
      int of_v = 0;
      for (int c = 0; c < n; ++c) of_v += d[static_cast<std::size_t>(c)] * v[static_cast<std::size_t>(c * 64 + j)];
      expect(got_e[static_cast<std::size_t>(row * 64 + j)], static_cast<float>(of_v) * (row % 16 < 8 ? 2.0f : 0.5f),
             "the second product", row, j);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(HopperAccumulator, RowsMasksAndOperands) {
  for (const char* type : {"bf16", "f16"}) {
    for (const int n : {16, 64, 80, 128, 176}) {
      expect_right(type, n, {});
      if (!on_cuda()) expect_right(type, n, {true, static_cast<std::uint64_t>(n)});
    }
  }
  expect_right("e4m3", 128, {});
  expect_right("e5m2", 128, {});
  if (!on_cuda()) expect_right("e4m3", 128, {true, 7});
}

// The text of an error, or how many bytes are wrong; empty where all are right.
std::string run_pipeline(int bug, Schedule schedule) {
  constexpr std::size_t kSteps = 11;
  std::vector<unsigned char> from(kSteps * 128 * 16);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
  Machine machine(schedule);
  const Memory device(from), to(from.size());
  struct {
    const void* from;
    void* to;
    std::int32_t steps;
  } params{device.data(), to.data(), static_cast<std::int32_t>(kSteps)};
  std::string failure = run(machine, "pipeline.cuh", {{"BUG", std::to_string(bug)}}, {1, 1, 3 * 128 * 16}, {&params});
  if (!failure.empty()) return failure;
  constexpr int kSource[16] = {3, 2, 1, 0, 4, 5, 6, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  const std::vector<unsigned char> got = to.read<unsigned char>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    wrong += got[i] != from[i / 16 * 16 + static_cast<std::size_t>(kSource[i % 16])];
  return wrong == 0 ? std::string() : std::to_string(wrong) + " bytes are wrong";
}

TEST(HopperPipeline, CopiesArriveWhenTheyHaveLanded) {
  EXPECT_EQ(run_pipeline(0, {}), "");
  for (std::uint64_t seed = 1; seed <= 30 && !on_cuda(); ++seed) EXPECT_EQ(run_pipeline(0, {true, seed}), "") << seed;
}

// Who waits for the last copies under way is woken by them, whenever they arrive.
TEST(HopperPipeline, TheLastArrivalWakes) {
  if (on_cuda()) GTEST_SKIP() << "schedules are the host's";
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine({true, seed});
    const Memory from(std::vector<std::uint32_t>{0x1234567}), to(32 * 4);
    struct {
      const void* from;
      void* to;
    } params{from.data(), to.data()};
    ASSERT_EQ(run(machine, "last_arrival.cuh", {}, {}, {&params}), "") << "seed " << seed;
    ASSERT_EQ(to.read<std::uint32_t>(), std::vector<std::uint32_t>(32, 0x1234567)) << "seed " << seed;
  }
}

TEST(HopperPipeline, MistakesAreFoundOut) {
  if (on_cuda()) GTEST_SKIP() << "mistakes are for `host` to find";
#ifdef QUERN_BUILT_WITH_TSAN
  // Some are data races, whose report ends the process: each has one of its own.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("TSAN_OPTIONS", "halt_on_error=1", 1);
  const auto look_for = [](int bug) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      if (const std::string found = run_pipeline(bug, {true, seed}); !found.empty()) {
        std::fprintf(stderr, "found: %s\n", found.c_str());
        std::abort();
      }
    }
  };
  for (int bug = 1; bug <= 4; ++bug) EXPECT_DEATH(look_for(bug), "data race|found: ") << "mistake " << bug;
#else
  for (int bug = 1; bug <= 4; ++bug) {
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) found += !run_pipeline(bug, {true, seed}).empty();
    EXPECT_GE(found, bug == 4 ? 20 : 10) << "mistake " << bug;
  }
#endif
}

}  // namespace
}  // namespace quern::hopper_tests
