// A warp-specialised product of matrices: right under every schedule, and every mistake planted in it found out.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "jit/sanitizer.h"
#include "tests/hopper/device.h"
#include "tests/hopper/numbers.h"

namespace quern::hopper_tests {
namespace {

struct Config {
  const char* type = "bf16";
  int tile_n = 64;
  int stages = 3;
  int consumers = 1;
  int cluster = 1;
  bool store_by_tma = false;
  int m = 150, n = 80, k = 0;  // k 0: five and a bit stages
  int bug = 0;
  bool a_mn = false, b_mn = false;  // stored [k][m], [k][n]

  std::size_t element() const { return size_of(type); }
  int depth() const { return static_cast<int>(128 / element()); }
  int inner() const { return k != 0 ? k : 5 * depth() + 32; }
  Defines defines() const {
    const auto number = [](int value) { return std::to_string(value); };
    return {{"TYPE", type},
            {"TILE_N", number(tile_n)},
            {"STAGES", number(stages)},
            {"CONSUMERS", number(consumers)},
            {"CLUSTER", number(cluster)},
            {"STORE_BY_TMA", number(store_by_tma)},
            {"A_MN", number(a_mn)},
            {"B_MN", number(b_mn)},
            {"BUG", number(bug)}};
  }
  std::uint32_t shared_bytes() const {
    const int stage = 64 * consumers * 128 + tile_n * 128;
    return static_cast<std::uint32_t>(stages * stage + (store_by_tma ? consumers * 64 * tile_n * 2 : 0));
  }
  std::string name() const {
    return std::string(type) + "_" + std::to_string(64 * consumers) + "x" + std::to_string(tile_n) + "_stages" +
           std::to_string(stages) + (cluster > 1 ? "_cluster" + std::to_string(cluster) : "") + (a_mn ? "_km" : "") +
           (b_mn ? "_kn" : "") + (store_by_tma ? "_tma" : "");
  }
};

// Round to nearest even, of what is small and whole.
float as_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

class Problem {
 public:
  explicit Problem(const Config& c) : c_(c), a_(random(c.m, 1)), b_(random(c.n, 2)), expected_(c.m * c.n) {
    const int k = c.inner();
    for (int m = 0; m < c.m; ++m) {
      for (int n = 0; n < c.n; ++n) {
        int sum = 0;
        for (int i = 0; i < k; ++i) sum += a_[m * k + i] * b_[n * k + i];
        expected_[m * c.n + n] = c.store_by_tma ? as_bf16(static_cast<float>(sum)) : static_cast<float>(sum);
      }
    }
  }

  // The text of an error, or how many results are wrong; empty where all are right.
  std::string run(Schedule schedule) const {
    Machine machine(schedule);
    const Memory a(encode_all(c_.type, stored(a_, c_.m, c_.a_mn))), b(encode_all(c_.type, stored(b_, c_.n, c_.b_mn)));
    const Memory d(expected_.size() * (c_.store_by_tma ? 2 : 4));
    const int type = c_.element() == 2 ? jit::kTensorBF16 : jit::kTensorU8;
    const auto depth = static_cast<std::uint32_t>(c_.depth());
    const auto operand = [&](const Memory& memory, int rows, int box, bool mn) {
      const auto inner = static_cast<std::uint64_t>(c_.inner()), count = static_cast<std::uint64_t>(rows);
      if (mn) return encoded(machine, dense(type, c_.element(), memory.data(), {count, inner}, {64, depth}, 3));
      return encoded(machine, dense(type, c_.element(), memory.data(), {inner, count},
                                    {depth, static_cast<std::uint32_t>(box)}, 3));
    };
    jit::TensorMap map_a = operand(a, c_.m, 64 * c_.consumers, c_.a_mn),
                   map_b = operand(b, c_.n, c_.tile_n / c_.cluster, c_.b_mn);
    jit::TensorMap map_d{};
    if (c_.store_by_tma) {
      map_d =
          encoded(machine, dense(jit::kTensorBF16, 2, d.data(),
                                 {static_cast<std::uint64_t>(c_.n), static_cast<std::uint64_t>(c_.m)}, {64, 64}, 3));
    }
    struct {
      void* d;
      int m, n, k;
    } params{d.data(), c_.m, c_.n, c_.inner()};
    const Shape shape{2, static_cast<std::uint32_t>(c_.cluster), c_.shared_bytes()};
    std::string failure =
        hopper_tests::run(machine, "gemm.cuh", c_.defines(), shape, {&params, &map_a, &map_b, &map_d});
    if (!failure.empty()) return failure;
    const std::vector<float> got = c_.store_by_tma ? widened(d.read<std::uint16_t>()) : d.read<float>();
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = got.size(); i-- > 0;) {
      if (got[i] == expected_[i]) continue;
      ++wrong;
      first = i;
    }
    if (wrong == 0) return {};
    return std::to_string(wrong) + " of " + std::to_string(got.size()) + " are wrong; at (" +
           std::to_string(first / c_.n) + ", " + std::to_string(first % c_.n) + ") " + std::to_string(got[first]) +
           " rather than " + std::to_string(expected_[first]);
  }

 private:
  std::vector<int> random(int rows, unsigned stream) const {
    return small_numbers(static_cast<std::size_t>(rows) * static_cast<std::size_t>(c_.inner()), stream);
  }
  // As memory has it: rows of k, or k of rows.
  std::vector<int> stored(const std::vector<int>& values, int rows, bool mn) const {
    if (!mn) return values;
    const auto count = static_cast<std::size_t>(rows), inner = static_cast<std::size_t>(c_.inner());
    std::vector<int> turned(values.size());
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t i = 0; i < inner; ++i) turned[i * count + row] = values[row * inner + i];
    }
    return turned;
  }
  static std::vector<float> widened(const std::vector<std::uint16_t>& codes) {
    std::vector<float> values(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(codes[i]) << 16;
      std::memcpy(&values[i], &bits, 4);
    }
    return values;
  }

  Config c_;
  std::vector<int> a_, b_;
  std::vector<float> expected_;
};

#ifdef QUERN_BUILT_WITH_TSAN
constexpr std::uint64_t kSeeds = 3;  // making the fibers known to it costs a second
#else
constexpr std::uint64_t kSeeds = 40;
#endif

class HopperGemm : public testing::TestWithParam<Config> {};

TEST_P(HopperGemm, IsRightUnderEverySchedule) {
  const Problem problem(GetParam());
  EXPECT_EQ(problem.run({}), "");
  if (on_cuda()) return;  // which has one schedule, its own
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) ASSERT_EQ(problem.run({true, seed}), "") << "seed " << seed;
}

const Config kConfigs[] = {
    {},
    {.type = "e4m3"},
    {.type = "f16", .tile_n = 24, .n = 52},
    {.type = "e5m2", .tile_n = 136, .stages = 2},
    {.tile_n = 64, .stages = 2, .consumers = 2},
    {.type = "e4m3", .tile_n = 128, .stages = 4, .consumers = 2, .m = 300, .n = 272},
    {.tile_n = 64, .consumers = 1, .cluster = 2, .m = 200},
    {.type = "e4m3", .tile_n = 64, .consumers = 2, .cluster = 2, .m = 300},
    {.tile_n = 64, .stages = 2, .store_by_tma = true},
    {.type = "e4m3",
     .tile_n = 128,
     .stages = 3,
     .consumers = 2,
     .cluster = 2,
     .store_by_tma = true,
     .m = 300,
     .n = 200},
    {.m = 152, .n = 80, .b_mn = true},
    {.type = "f16", .tile_n = 192, .stages = 2, .consumers = 2, .m = 200, .n = 328, .b_mn = true},
    {.consumers = 2, .m = 200, .a_mn = true},
    {.tile_n = 128, .consumers = 2, .m = 200, .n = 264, .k = 77, .a_mn = true, .b_mn = true},
    {.tile_n = 128, .consumers = 2, .cluster = 2, .m = 304, .n = 200, .b_mn = true},
    {.type = "f16",
     .tile_n = 128,
     .consumers = 2,
     .cluster = 2,
     .store_by_tma = true,
     .m = 304,
     .n = 200,
     .a_mn = true,
     .b_mn = true},
};
INSTANTIATE_TEST_SUITE_P(Configs, HopperGemm, testing::ValuesIn(kConfigs),
                         [](const testing::TestParamInfo<Config>& config) { return config.param.name(); });

struct Bug {
  const char* name;
  int number;
  Config config;
  bool race = false;  // which ThreadSanitizer sees
};
void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

class HopperBug : public testing::TestWithParam<Bug> {};

#ifdef QUERN_BUILT_WITH_TSAN
// The report ends the process, so each has one of its own.
TEST_P(HopperBug, IsReportedAsADataRace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process begun afresh: ThreadSanitizer does not survive fork
  setenv("TSAN_OPTIONS", "halt_on_error=1", 1);
  Config config = GetParam().config;
  config.bug = GetParam().number;
  const Problem problem(config);
  EXPECT_DEATH(
      {
        for (std::uint64_t seed = 0; seed < kSeeds; ++seed) problem.run({true, seed});
      },
      "data race(.|\n)*gemm.cuh");
}
#else
TEST_P(HopperBug, IsCaught) {
  if (on_cuda()) GTEST_SKIP() << "a GPU hangs, or has luck: planted mistakes are for the host target";
  Config config = GetParam().config;
  const Problem right(config);
  config.bug = GetParam().number;
  const Problem problem(config);
  std::uint64_t caught = 0;
  std::string how;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string failure = problem.run({true, seed});
    caught += !failure.empty();
    if (how.empty()) how = failure;
  }
  const std::string fair = problem.run({});
  std::printf("%s: %llu of %llu seeds; fair and eager: %s\n  %s\n", GetParam().name,
              static_cast<unsigned long long>(caught), static_cast<unsigned long long>(kSeeds),
              fair.empty() ? "missed" : "caught", how.c_str());
  // Some schedules leave no room for a mistake to show, as when the warp that everybody waits for goes first.
  EXPECT_GE(caught, kSeeds * 3 / 4);
  EXPECT_EQ(right.run({}), "");
}
#endif

const Config kTwoConsumers{.tile_n = 64, .stages = 2, .consumers = 2};
const Config kNMajor{.tile_n = 128, .n = 80, .b_mn = true};
const Bug kBugs[] = {
    {"NoFullWait", 1, {}, true},
    {"NoEmptyWait", 2, {}},
    {"StageReleasedBeforeItsProductsHaveRead", 3, {}, true},
    {"ConsumersPhaseNeverTurns", 4, {}},
    {"TooFewBytesExpected", 5, {}},
    {"TooManyBytesExpected", 6, {}},
    {"EmptyBarrierCountsOneConsumerTooFew", 7, kTwoConsumers},
    {"DescriptorWithTheWrongStride", 8, {}},
    {"NoBlockBarrierAfterInit", 9, {}},
    {"AccumulatorsReadBeforeTheWait", 10, {}, true},
    {"StagingOverwrittenWhileStored", 11, {.tile_n = 64, .stages = 2, .store_by_tma = true, .m = 300}, true},
    {"ProducersPhaseTheWrongWayRound", 12, {}},
    {"MMajorDescriptorWithTheWrongStride", 8, {.m = 152, .a_mn = true}},
    {"NMajorDescriptorWithTheWrongStride", 8, kNMajor},
    {"NMajorDescriptorWithTheWrongLeadingDistance", 13, kNMajor},
    {"MMajorTileAdvancedByTheBytesOfAKMajorOne", 14, {.m = 152, .a_mn = true}},
    {"NMajorTileAdvancedByTheBytesOfAKMajorOne", 14, kNMajor},
    {"MMajorTileTakenForAKMajorOne", 15, {.m = 152, .a_mn = true}},
    {"NMajorTileTakenForAKMajorOne", 15, kNMajor},
    {"NMajorStageReleasedBeforeItsProductsHaveRead", 3, kNMajor, true},
};
std::vector<Bug> planted() {
  std::vector<Bug> list;
  for (const Bug& bug : kBugs) {
#ifdef QUERN_BUILT_WITH_TSAN
    if (!bug.race) continue;
#endif
    list.push_back(bug);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(Planted, HopperBug, testing::ValuesIn(planted()),
                         [](const testing::TestParamInfo<Bug>& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace quern::hopper_tests
