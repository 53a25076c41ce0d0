// Products of a mixture of experts: rows by offsets, by counts, by indices; and what is wrong on the device only.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

const Element f32 = Element::f32, bf16 = Element::bf16, e4m3 = Element::e4m3;

// Rows sorted by expert; `spare` rows of out belong to none.
GemmCase contiguous(const std::vector<int>& counts, int spare = 0) {
  GemmCase c;
  c.product = Product::contiguous;
  c.counts = counts;
  c.m = std::accumulate(counts.begin(), counts.end(), spare);
  c.n = 72;
  return c;
}
GemmCase masked(const std::vector<int>& counts, int capacity) {
  GemmCase c;
  c.product = Product::masked;
  c.counts = counts;
  c.m = capacity;
  c.n = 72;
  return c;
}

void in_blocks(GemmCase& c) { c.scale_a = c.scale_b = Scaling::blocks; }
void gathered(GemmCase& c) { c.gathered = true, c.tokens = 30; }

// By the average of rows an expert: the four tiles.
const std::vector<int> kTiny = {3, 0, 40, 17, 0}, kSmall = {60, 0, 90, 33}, kMedium = {130, 65, 77},
                       kLarge = {300, 129, 0, 250};

std::vector<GemmCase> by_offsets() {
  std::vector<GemmCase> all;
  const auto add = [&](const std::string& name, GemmCase c, const std::function<void(GemmCase&)>& change = {}) {
    c.name = "contiguous_" + name;
    if (change) change(c);
    all.push_back(std::move(c));
  };
  add("tiny", contiguous(kTiny));
  add("small", contiguous(kSmall));
  add("medium", contiguous(kMedium));
  add("large", contiguous(kLarge), [](GemmCase& c) { c.n = 264; });
  add("blocks_tiny", contiguous(kTiny), in_blocks);
  add("blocks_large", contiguous(kLarge), [](GemmCase& c) { in_blocks(c), c.n = 264, c.k = 272; });
  add("blocks_row_major", contiguous(kTiny), [](GemmCase& c) { in_blocks(c), c.scales_by_row = true; });
  // Whatever is expected: more than there is, fewer, and what experts are padded to.
  for (const int rows : {1, 40, 128, 5000}) {
    add("expected_" + std::to_string(rows), contiguous(kTiny), [&](GemmCase& c) { c.expected_rows = rows; });
    add("blocks_expected_" + std::to_string(rows), contiguous({128, 0, 0, 256, 0, 0, 0, 128}),
        [&](GemmCase& c) { in_blocks(c), c.expected_rows = rows, c.n = 264; });
  }
  add("unaligned_offsets", contiguous(kTiny, 11), [](GemmCase& c) { c.first_offset = 5; });
  add("spare_rows", contiguous(kTiny, 13));
  add("no_rows", contiguous({0, 0, 0}));
  add("no_rows_in_use", contiguous({0, 0, 0}, 9));
  add("no_experts", contiguous({}, 9));
  add("one_expert", contiguous({9}));
  add("many_experts", contiguous(std::vector<int>(300, 1)), [](GemmCase& c) { c.n = 8, c.k = 16; });
  add("most_experts", contiguous(std::vector<int>(1024, 0), 0), [](GemmCase& c) {
    c.n = 8, c.k = 16;
    for (const std::size_t e : {0, 5, 700, 1023}) c.counts[e] = 3;
    c.m = 12;
  });
  add("gathered", contiguous(kTiny), gathered);
  add("gathered_blocks", contiguous(kTiny), [](GemmCase& c) { gathered(c), in_blocks(c); });
  add("gathered_large", contiguous(kLarge), [](GemmCase& c) { gathered(c), c.n = 264; });
  add("per_tensor", contiguous(kTiny), [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor; });
  add("row_by_expert", contiguous(kTiny), [](GemmCase& c) { c.scale_b = Scaling::tensor; });
  add("padded", contiguous(kTiny, 7),
      [](GemmCase& c) { c.padding = 16, c.out_padding = 3, c.offset = 32, c.first_offset = 2; });
  add("no_columns", contiguous(kTiny), [](GemmCase& c) { c.n = 0; });
  add("one_column", contiguous(kTiny), [](GemmCase& c) { c.n = 1; });
  add("few_sms", contiguous(kTiny), [](GemmCase& c) { c.max_sms = 1; });
  add("aligned_to_4", contiguous(kTiny), [](GemmCase& c) { c.alignment = 4, c.k = 68, c.padding = 4, c.offset = 4; });
  add("gate", contiguous(kTiny), [](GemmCase& c) { c.gate = true; });
  add("gate_gathered", contiguous(kTiny), [](GemmCase& c) { c.gate = true, gathered(c); });
  add("gate_large_blocks", contiguous(kLarge), [](GemmCase& c) { c.gate = true, in_blocks(c), c.n = 544; });
  add("bias_each", contiguous(kTiny), [](GemmCase& c) { c.bias = f32, c.bias_leads = true; });
  add("bias_for_all", contiguous(kTiny), [](GemmCase& c) { c.bias = f32; });
  add("c", contiguous(kTiny, 4), [](GemmCase& c) { c.c = bf16, c.first_offset = 1; });
  add("row_operand", contiguous(kTiny, 4), [](GemmCase& c) {
    c.first_offset = 3;
    c.expression = "acc * row0 + col1";
    c.formula = [](const Terms& t) { return t.acc * t.x[0] + t.x[1]; };
    c.operands = {{EpilogueOperand::row, f32}, {EpilogueOperand::column, bf16, true}};
  });
  add("out_scale", contiguous(kTiny, 4),
      [](GemmCase& c) { c.out = e4m3, c.out_scale = true, c.n = 264, c.first_offset = 1; });
  return all;
}
QUERN_GEMM_CASES(ByOffsets, by_offsets());

std::vector<GemmCase> by_counts() {
  std::vector<GemmCase> all;
  const auto add = [&](const std::string& name, GemmCase c, const std::function<void(GemmCase&)>& change = {}) {
    c.name = "masked_" + name;
    if (change) change(c);
    all.push_back(std::move(c));
  };
  add("tiny", masked({3, 0, 16, 1}, 16));
  add("large", masked({130, 0, 70, 200}, 200), [](GemmCase& c) { c.n = 264; });
  add("blocks_tiny", masked({3, 0, 16, 1}, 16), in_blocks);
  add("blocks_small", masked({3, 0, 40, 17}, 45), [](GemmCase& c) { in_blocks(c), c.k = 272; });
  add("blocks_row_major", masked({3, 0, 16, 1}, 16), [](GemmCase& c) { in_blocks(c), c.scales_by_row = true; });
  for (const int rows : {1, 40, 300}) {
    add("expected_" + std::to_string(rows), masked({3, 0, 130, 1}, 200),
        [&](GemmCase& c) { in_blocks(c), c.expected_rows = rows; });
  }
  add("no_rows", masked({0, 0, 0}, 16));
  add("no_capacity", masked({0, 0, 0}, 0));
  add("no_experts", masked({}, 16));
  add("per_tensor", masked({3, 0, 16, 1}, 16), [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor; });
  add("padded", masked({3, 0, 16, 1}, 16), [](GemmCase& c) { c.padding = 32, c.out_padding = 5, c.offset = 16; });
  add("gate_blocks", masked({3, 0, 40, 17}, 45), [](GemmCase& c) { c.gate = true, in_blocks(c), c.n = 288; });
  add("bias_c", masked({3, 0, 16, 1}, 16), [](GemmCase& c) { c.bias = f32, c.bias_leads = true, c.c = bf16; });
  add("row_operand", masked({3, 0, 16, 1}, 16), [](GemmCase& c) {
    c.expression = "acc * row0 + col1";
    c.formula = [](const Terms& t) { return t.acc * t.x[0] + t.x[1]; };
    c.operands = {{EpilogueOperand::row, f32}, {EpilogueOperand::column, bf16, true}};
  });
  add("out_scale", masked({3, 0, 16, 1}, 16),
      [](GemmCase& c) { c.out = e4m3, c.out_scale = true, c.n = 264, c.power_of_two = true; });
  return all;
}
QUERN_GEMM_CASES(ByCounts, by_counts());

// Experts of DeepSeek-V3 and fewer, larger ones; on a host what is left of them.
std::vector<GemmCase> experts() {
  std::vector<GemmCase> all;
  Random random("rows of experts");
  const auto counts_of = [&](int experts, int about) {
    std::vector<int> counts;
    for (int e = 0; e < experts; ++e) counts.push_back(e == 1 ? 0 : about * random.between(70, 130) / 100);
    return counts;
  };
  struct Size {
    int experts, rows;
  };
  const auto add = [&](const char* kind, GemmCase c, const Size& size) {
    c.n = on_cuda() ? 4096 : 136;
    c.k = on_cuda() ? 7168 : 272;
    for (const bool blocks : {false, true}) {
      if (blocks) in_blocks(c);
      c.name = std::string(kind) + (blocks ? "_blocks_" : "_vectors_") + std::to_string(size.experts) + "x" +
               std::to_string(size.rows);
      all.push_back(c);
    }
  };
  const int part = on_cuda() ? 1 : 64;
  for (const Size& size : {Size{4, 8192}, Size{8, 4096}})
    add("experts_by_offsets", contiguous(counts_of(size.experts, size.rows / part), 19), size);
  for (const Size& size : {Size{6, 1024}, Size{32, 20}}) {
    const std::vector<int> counts = counts_of(size.experts, std::min(size.rows, 8 * size.rows / part));
    add("experts_by_counts", masked(counts, *std::max_element(counts.begin(), counts.end()) + 3), size);
  }
  return all;
}
QUERN_GEMM_CASES(Experts, experts());

// Another call with what the problem has been changed to.
void expect_status(GemmProblem& problem, std::int32_t status) {
  problem.poison_outputs();
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  synchronize();
  problem.check();
  EXPECT_EQ(problem.status(), status);
}

// One problem after another in the same memory, as a captured call meets them.
TEST(GroupedGemm, CountsMayChangeFromCallToCall) {
  Random random("changing counts");
  for (GemmCase c : {contiguous(kTiny), masked({3, 0, 16, 1}, 16)}) {
    GemmProblem problem(c, Random("changing"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    for (int round = 0; round < 6; ++round) {
      std::vector<int> counts(c.counts.size(), 0);
      int left = c.m;
      for (int& count : counts) {
        count = round == 0 ? 0 : random.between(0, c.product == Product::masked ? c.m : left);
        left -= c.product == Product::masked ? 0 : count;
      }
      problem.set_counts(counts);
      ASSERT_NO_FATAL_FAILURE(expect_status(problem, 0));
    }
  }
}

// What the device finds: the status says so, nothing is written that should not be, and the other rows are right.
struct Fault {
  const char* what;
  std::vector<std::int32_t> given;  // offsets, or counts
  std::int32_t status;
};

// The same with so many rows more an expert that other kernels are taken; the ends of 32 bits stay where they are.
std::vector<std::int32_t> times(std::vector<std::int32_t> given, int scale) {
  for (std::int32_t& value : given) {
    if (value > -1000 && value < 1000) value *= scale;
  }
  return given;
}
constexpr int kFewAndMany[] = {1, 12};

TEST(GroupedGemm, OffsetsOutOfOrderOrBounds) {
  const std::vector<Fault> faults = {
      {"falling", {0, 10, 4, 20, 30, 40}, QUERN_GROUP_OFFSETS},
      {"falling to nothing", {0, 10, 0, 0, 0, 0}, QUERN_GROUP_OFFSETS},
      {"beginning below zero", {-5, 10, 20, 20, 30, 40}, QUERN_GROUP_OFFSETS},
      {"all below zero", {-5, -4, -3, -2, -1, -1}, QUERN_GROUP_OFFSETS},
      {"the last one beyond the rows", {0, 10, 20, 30, 40, 61}, QUERN_GROUP_CAPACITY},
      {"all beyond the rows", {100, 200, 300, 400, 500, 600}, QUERN_GROUP_CAPACITY},
      {"one far beyond the rows", {0, 10, 2000000000, 2000000001, 2000000002, 2147483647}, QUERN_GROUP_CAPACITY},
      {"one beyond, then falling", {0, 10, 2147483647, 20, 30, 40}, QUERN_GROUP_CAPACITY | QUERN_GROUP_OFFSETS},
      {"the least there is", {INT32_MIN, 10, 20, 30, 40, 60}, QUERN_GROUP_OFFSETS},
      {"everything",
       {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN},
       QUERN_GROUP_CAPACITY | QUERN_GROUP_OFFSETS},
      {"nothing", {7, 10, 20, 30, 40, 60}, 0},
  };
  for (const int scale : kFewAndMany) {
    for (const bool by_index : {false, true}) {
      GemmCase c = contiguous(times(kTiny, scale));
      if (by_index) gathered(c);
      GemmProblem problem(c, Random("faults"));
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      for (const Fault& fault : faults) {
        SCOPED_TRACE(fault.what);
        problem.set_offsets(times(fault.given, scale));
        ASSERT_NO_FATAL_FAILURE(expect_status(problem, fault.status));
      }
    }
  }
}

TEST(GroupedGemm, CountsOutOfBounds) {
  const std::vector<Fault> faults = {
      {"one beyond the capacity", {3, 17, 2, 1}, QUERN_GROUP_CAPACITY},
      {"far beyond", {3, INT32_MAX, 2, 1}, QUERN_GROUP_CAPACITY},
      {"below zero", {3, -1, 2, 1}, QUERN_GROUP_CAPACITY},
      {"the least there is", {3, INT32_MIN, 2, 1}, QUERN_GROUP_CAPACITY},
      {"nothing", {16, 16, 16, 16}, 0},
  };
  for (const int scale : kFewAndMany) {
    GemmProblem problem(masked(times({3, 0, 16, 1}, scale), 16 * scale), Random("faults"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    for (const Fault& fault : faults) {
      SCOPED_TRACE(fault.what);
      problem.set_counts(times(fault.given, scale));
      ASSERT_NO_FATAL_FAILURE(expect_status(problem, fault.status));
    }
  }
}

TEST(GroupedGemm, IndicesOutOfBounds) {
  for (const bool blocks : {false, true}) {
    GemmCase c = contiguous(kTiny, 6);
    gathered(c);
    c.first_offset = 2;
    if (blocks) in_blocks(c);
    GemmProblem problem(c, Random("faults"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    EXPECT_EQ(problem.status(), 0);
    Random random("indices");
    std::vector<std::int32_t> good(static_cast<std::size_t>(c.m));
    for (std::int32_t& index : good) index = random.between(0, c.tokens - 1);
    // Rows that no expert has may hold anything.
    good[0] = good[1] = -7;
    good.back() = INT32_MAX;
    for (const std::int32_t bad : {0, -1, c.tokens, INT32_MAX, INT32_MIN}) {
      SCOPED_TRACE(bad);
      std::vector<std::int32_t> indices = good;
      if (bad != 0) indices[2] = indices[31] = indices[61] = bad;
      problem.set_indices(indices);
      ASSERT_NO_FATAL_FAILURE(expect_status(problem, bad != 0 ? QUERN_GROUP_INDEX : 0));
    }
  }
}

// Bits are or-ed in, and nobody need want them.
TEST(GroupedGemm, StatusIsAddedToAndMayBeLeftOut) {
  GemmCase c = contiguous(kTiny);
  GemmProblem problem(c, Random("status"));
  ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
  problem.set_offsets({0, 10, 4, 20, 30, 40});
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  problem.set_offsets({0, 10, 20, 30, 40, 61});
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  synchronize();
  EXPECT_EQ(problem.status(), QUERN_GROUP_OFFSETS | QUERN_GROUP_CAPACITY);
  problem.tensors().grouped.status = nullptr;
  problem.poison_outputs();
  if (!on_cuda()) {
    // Where nobody would hear of it, `host` refuses the call.
    auto error = sized<quern_error>();
    EXPECT_EQ(problem.tensors().run(context(), &error), QUERN_INVALID);
    for (const char* word : {"offsets[5]", "expert 4", "is 61", "40 to 60"}) {
      EXPECT_NE(std::string_view(error.text).find(word), std::string_view::npos) << error.text;
    }
    return;
  }
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  synchronize();
  EXPECT_EQ(problem.status(), 0);
  problem.check();
}

}  // namespace
}  // namespace quern::test
