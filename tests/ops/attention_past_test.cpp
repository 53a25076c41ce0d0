// QUERN_ATTENTION_CONSTANT_PAST: what lies in front of a call's tokens may be read before the launch before has ended,
// these tokens not. On `host` with a seed they are not there until then; on a GPU they change from call to call.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/ops/attention_problem.h"
#include "tests/ops/coded_attention.h"
#include "tests/ops/cuda.h"

namespace quern::test {
namespace {

Context unfair_context(std::uint64_t seed) {
  return make_context([&](quern_context_options& o) {
    o.flags |= QUERN_CONTEXT_HOST_SEED;
    o.host_seed = seed;
  });
}

// Some with few tokens in front of theirs, or none; one that ends within the first 16 keys of a block; many sequences.
std::vector<AttentionCase> cases() {
  AttentionCase base;
  base.causal = true, base.flags = QUERN_ATTENTION_CONSTANT_PAST, base.dim_k = 128, base.group = 4;
  std::vector<AttentionCase> all(5, base);
  all[0].sequences = decode_of({100, 1, 65, 200, 0, 16, 17});
  all[0].one_query = true;
  all[1].sequences = {{3, 40}, {1, 70}, {4, 4}, {2, 130}, {0, 9}};
  all[1].max_q_len = 4;
  all[2].sequences = decode_of({300, 33}), all[2].one_query = true, all[2].layout = Layout::ragged, all[2].left = 100;
  all[3].sequences = decode_of({90, 5}), all[3].one_query = true, all[3].indptr = true, all[3].page_size = 5;
  all[4].sequences = decode_of(40, 130), all[4].one_query = true, all[4].layout = Layout::hnd;
  return all;
}

TEST(AttentionPast, IsAllThatIsReadBeforeTheLaunchBeforeHasEnded) {
  if (on_cuda()) GTEST_SKIP() << "the host's executor hides what is not there yet";
  constexpr std::uint64_t kSeeds = 6, kOfAll = 2;  // other ones in each run
  for (std::uint64_t i = 1; i <= kSeeds; ++i) {
    const std::uint64_t seed = run_seed() * kSeeds + i;
    SCOPED_TRACE("host_seed " + std::to_string(seed));
    const Context unfair = unfair_context(seed);
    // One block of threads, so that no other one has waited for what is read too early; also where nothing is promised.
    for (const std::uint32_t flags : {std::uint32_t{QUERN_ATTENTION_CONSTANT_PAST}, 0u}) {
      AttentionCase alone = cases()[0];
      alone.sequences = decode_of({20, 50}), alone.kv_heads = 1, alone.max_sms = 1, alone.flags = flags;
      AttentionProblem problem(alone, Random(seed));
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
    if (i > kOfAll) continue;
    for (const AttentionCase& c : cases()) {
      AttentionProblem problem(c, Random(seed));
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
    for (const bool tokens : {false, true}) {
      CodedCase c;
      c.name = tokens ? "past_of_int8" : "past_of_e4m3";
      c.sequences = {{1, 100}, {1, 33}, {1, 1}, {1, 64}}, c.dim = 128, c.flags = QUERN_ATTENTION_CONSTANT_PAST;
      c.cache = tokens ? Element::i8 : Element::e4m3, c.scale = tokens ? CacheScale::token : CacheScale::head;
      CodedAttention problem(c);
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
  }
}

// New tokens' keys and values appended, then attention, over and over, each launch allowed to begin before the one
// before has ended: what is read too early are the tokens of the round before.
TEST(AttentionPast, NewTokensAreWaitedForOnAGpu) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  for (AttentionCase& c : cases()) {
    if (!c.one_query || c.layout == Layout::ragged) continue;
    c.lse = false;
    AttentionProblem problem(c, Random(run_seed()));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    const std::int64_t tokens = c.batch();
    constexpr int kRounds = 40, kKinds = 3;
    std::vector<TensorBox> fresh(2 * kKinds);
    std::vector<Buffer> numbers;
    Random random(run_seed());
    for (TensorBox& box : fresh) {
      box.set(dtype_of(c.format), {tokens, c.kv_heads, c.dim_k});
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(tokens * c.kv_heads * c.dim_k));
      for (std::uint16_t& each : bits) each = static_cast<std::uint16_t>(0x3f00 + random.below(0x100));  // 0.5 to 2
      numbers.emplace_back(bits.size() * 2);
      numbers.back().write(bits.data(), bits.size() * 2);
      box.place(numbers.back().data());
    }
    const Stream stream;
    const auto bytes = problem.output().out.size() * 2;
    std::vector<Buffer> results[2];
    for (const std::uint32_t flags : {0u, std::uint32_t{QUERN_CALL_PROGRAMMATIC}}) {
      std::vector<Buffer>& outs = results[flags != 0];
      for (int round = 0; round < kRounds; ++round) outs.emplace_back(bytes);
      synchronize();
      for (int round = 0; round < kRounds; ++round) {
        auto append = sized<quern_kv_append_args>();
        append.flags = flags, append.stream = stream.get();
        append.k = fresh[static_cast<std::size_t>(round % kKinds * 2)].get();
        append.v = fresh[static_cast<std::size_t>(round % kKinds * 2 + 1)].get();
        append.k_cache = problem.args().k, append.v_cache = problem.args().v;
        append.lengths = problem.args().lengths;
        append.page_table = problem.args().page_table;
        append.page_indptr = problem.args().page_indptr, append.page_indices = problem.args().page_indices;
        auto error = sized<quern_error>();
        ASSERT_EQ(quern_kv_append(context(), &append, &error), QUERN_OK) << error.text;
        problem.tensors().out.place(outs[static_cast<std::size_t>(round)].data());
        problem.args().flags = QUERN_ATTENTION_CAUSAL | QUERN_ATTENTION_CONSTANT_PAST | flags;
        ASSERT_NO_FATAL_FAILURE(problem.call(context(), stream.get()));
        if (flags == 0) stream.synchronize();
      }
      stream.synchronize();
    }
    for (std::size_t round = 0; round < kRounds; ++round)
      EXPECT_EQ(results[0][round].read(), results[1][round].read()) << "round " << round;
    EXPECT_NE(results[0][0].read(), results[0][1].read());
  }
}

}  // namespace
}  // namespace quern::test
