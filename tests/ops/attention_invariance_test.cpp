// What must not change a result by a bit: another run, larger maxima, and for batch-invariant calls the company.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "tests/ops/attention_problem.h"

namespace quern::test {
namespace {

using Bits = std::vector<std::uint32_t>;

AttentionCase of_sequences(AttentionCase c, const std::vector<Lengths>& all, const std::vector<int>& chosen) {
  c.numbers = chosen;
  c.sequences.clear();
  for (const int i : chosen) c.sequences.push_back(all[static_cast<std::size_t>(i)]);
  return c;
}

// The bits of every sequence of a case.
std::vector<Bits> bits_of(const AttentionCase& c, bool check = false) {
  AttentionProblem problem(c, Random("numbers"));
  problem.run(context());
  if (check) problem.check();
  const AttentionOutput output = problem.output();
  std::vector<Bits> bits;
  for (int i = 0; i < c.batch(); ++i) bits.push_back(problem.bits_of(output, i));
  return bits;
}

// That the chosen sequences, in this order and no others, have the bits that they have in `whole`.
void expect_same_in(const AttentionCase& c, const std::vector<Lengths>& all, const std::vector<int>& chosen,
                    const std::vector<Bits>& whole) {
  const std::vector<Bits> bits = bits_of(of_sequences(c, all, chosen));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(bits[i], whole[static_cast<std::size_t>(chosen[i])])
        << "sequence " << chosen[i] << " of " << c.name << " in a batch of " << chosen.size()
        << "; QUERN_TEST_SEED=" << run_seed();
  }
}

std::vector<int> numbers_to(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void expect_invariant(AttentionCase c, const std::vector<Lengths>& all) {
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  const int count = static_cast<int>(all.size());
  const std::vector<Bits> whole = bits_of(of_sequences(c, all, numbers_to(count)), true);
  for (int i = 0; i < count; ++i) expect_same_in(c, all, {i}, whole);
  for (int batch = 2; batch < count; ++batch) expect_same_in(c, all, numbers_to(batch), whole);
  Random random(c.name);
  for (int round = 0; round < 3; ++round) {
    std::vector<int> order = numbers_to(count);
    random.shuffle(order);
    expect_same_in(c, all, order, whole);
  }
}

const std::vector<Lengths> kMixed = {{1, 40},  {3, 900}, {1, 1},  {30, 30}, {1, 1300}, {0, 12},
                                     {5, 500}, {1, 0},   {2, 17}, {1, 256}, {1, 257},  {17, 290},
                                     {4, 3},   {1, 64},  {9, 65}, {1, 600}, {70, 77}};

AttentionCase named(const char* name) {
  AttentionCase c;
  c.name = name;
  c.causal = true;
  return c;
}

TEST(AttentionInvariance, ARowIsTheSameInEveryBatch) { expect_invariant(named("mixed"), kMixed); }

TEST(AttentionInvariance, ADecodedRowIsTheSameInEveryBatch) {
  AttentionCase c = named("decode");
  c.one_query = true;
  c.group = 4;
  c.format = Format::f16;
  expect_invariant(c, decode_of({1, 700, 33, 0, 256, 257, 1025, 16, 511, 512, 90, 2, 3000, 128, 129, 60, 61}));
}

TEST(AttentionInvariance, ARowIsTheSameInEveryBatchWithEverythingOn) {
  AttentionCase c = named("everything");
  c.group = 3;
  c.alibi = true;
  c.sinks = true;
  c.cap = 5.0f;
  c.left = 300;
  c.page_size = 3;
  c.dim_k = 40;
  c.dim_v = 24;
  expect_invariant(c, {{1, 40}, {3, 900}, {30, 30}, {1, 1300}, {0, 12}, {5, 500}, {1, 0}, {2, 700}});
}

TEST(AttentionInvariance, ARowIsTheSameInEveryBatchWithWideHeads) {
  AttentionCase c = named("wide");
  c.dim_k = 512;
  c.kv_heads = 1;
  expect_invariant(c, {{1, 40}, {3, 700}, {0, 12}, {40, 50}, {1, 257}});
}

// Decoded alone without cu_q, or with it beside others; with other bounds; on fewer SMs; with other pages.
TEST(AttentionInvariance, NothingElseOfACallChangesARow) {
  AttentionCase c = named("others");
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  c.sequences = decode_of({700, 40, 257});
  const std::vector<Bits> with_cu_q = bits_of(c, true);
  AttentionCase other = c;
  other.one_query = true;
  EXPECT_EQ(bits_of(other), with_cu_q);
  other = c;
  other.max_q_len = 50;
  other.max_kv_len = 100000;
  other.spare_rows = 60;
  EXPECT_EQ(bits_of(other), with_cu_q);
  other = c;
  other.max_sms = 1;
  EXPECT_EQ(bits_of(other), with_cu_q);
  other = c;
  other.layout = Layout::hnd;
  other.indptr = true;
  EXPECT_EQ(bits_of(other), with_cu_q);
}

// The limits of what an invariant call takes: 4096 KV heads over the batch.
TEST(AttentionInvariance, TakesALargeBatchAndRefusesOneTooLarge) {
  AttentionCase c = named("large batch");
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  c.one_query = true;
  c.dim_k = 8;
  c.kv_heads = 16;
  c.group = 1;
  c.sequences = decode_of(256, 2);
  bits_of(c, true);
  c.sequences = decode_of(257, 2);
  AttentionTensors tensors(c, 1);
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  EXPECT_EQ(quern_attention_workspace(context(), &tensors.args, &bytes, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("batch"), std::string::npos) << error.text;
}

std::vector<AttentionCase> kinds() {
  AttentionCase decode = named("decode, split");
  decode.one_query = true;
  decode.sequences = decode_of({2000, 3, 0, 700});
  AttentionCase speculative = named("speculative, split");
  speculative.max_q_len = 12;
  speculative.sequences = {{12, 1500}, {1, 40}, {7, 7}};
  AttentionCase prefill = named("prefill");
  prefill.sequences = {{150, 150}, {64, 700}, {1, 300}};
  return {decode, speculative, prefill};
}

TEST(AttentionDeterminism, ASecondRunGivesTheSameBits) {
  for (const AttentionCase& c : kinds()) {
    AttentionProblem problem(c, Random("numbers"));
    problem.run(context());
    const AttentionOutput first = problem.output();
    for (int round = 0; round < 5; ++round) {
      problem.poison_outputs();
      problem.call(context());
      const AttentionOutput again = problem.output();
      for (int i = 0; i < c.batch(); ++i) EXPECT_EQ(problem.bits_of(again, i), problem.bits_of(first, i)) << c.name;
    }
    problem.expect_counters_zero();
  }
}

// The bound on the keys only bounds: a graph captured with a larger one gives the same bits.
TEST(AttentionDeterminism, ALargerBoundOnTheKeysGivesTheSameBits) {
  for (AttentionCase c : kinds()) {
    const std::vector<Bits> bits = bits_of(c);
    c.max_kv_len = 131072;
    EXPECT_EQ(bits_of(c), bits) << c.name;
  }
}

// One workspace serves calls of different shapes one after the other.
TEST(AttentionDeterminism, AWorkspaceServesOtherCallsInBetween) {
  std::vector<std::unique_ptr<AttentionProblem>> problems;
  std::uint64_t most = 0;
  for (const AttentionCase& c : kinds()) {
    problems.push_back(std::make_unique<AttentionProblem>(c, Random(c.name)));
    problems.back()->run(context());
    most = std::max(most, problems.back()->args().workspace_size);
  }
  Buffer shared(most, 0);
  for (int round = 0; round < 2; ++round) {
    for (const auto& problem : problems) {
      problem->args().workspace = shared.data();
      problem->args().workspace_size = most;
      problem->poison_outputs();
      problem->call(context());
      problem->check();
    }
  }
}

}  // namespace
}  // namespace quern::test
