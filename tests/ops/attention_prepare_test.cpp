// What prepare and workspace promise: no smaller call misses, and none needs a larger workspace.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/attention_problem.h"

namespace quern::test {
namespace {

std::uint64_t workspace_of(const AttentionCase& c) {
  AttentionTensors tensors(c, 1);
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  EXPECT_EQ(quern_attention_workspace(context(), &tensors.args, &bytes, &error), QUERN_OK) << error.text;
  return bytes;
}

// `batch` sequences of `q` queries, for what looks at shapes alone.
AttentionCase maxima(int batch, int total_q, int max_q, int max_kv) {
  AttentionCase c;
  c.sequences.assign(static_cast<std::size_t>(batch), Lengths{0, 1});
  c.spare_rows = total_q;
  c.max_q_len = max_q;
  c.max_kv_len = max_kv;
  return c;
}

struct Prepared {
  const char* name;
  AttentionCase most;
  std::vector<std::vector<Lengths>> smaller;
};

std::vector<Prepared> prepared() {
  const std::vector<std::vector<Lengths>> any = {
      decode_of({1}),     decode_of({40, 3, 0, 90}),  {{2, 9}, {1, 1}},   {{4, 20}},
      {{8, 8}, {1, 100}}, {{9, 30}, {2, 2}},          {{16, 16}, {0, 0}}, {{17, 60}},
      {{32, 32}},         {{33, 90}, {1, 1}, {3, 3}}, {{64, 100}},        {{100, 100}}};
  AttentionCase prefill = maxima(6, 100, 100, 128);
  prefill.causal = true;
  AttentionCase group8 = prefill;
  group8.group = 8;
  AttentionCase everything = prefill;
  everything.cap = 4.0f;
  everything.alibi = true;
  everything.sinks = true;
  everything.page_size = 3;
  AttentionCase ragged = prefill;
  ragged.layout = Layout::ragged;
  AttentionCase without_bound = prefill;  // max_q_len left to total_q
  without_bound.max_q_len = 0;
  AttentionCase invariant = prefill;
  invariant.flags = QUERN_CALL_BATCH_INVARIANT;
  AttentionCase unaligned = prefill;
  unaligned.alignment = 4;
  AttentionCase speculative = maxima(6, 40, 8, 128);
  AttentionCase wide = maxima(4, 30, 12, 128);
  wide.dim_k = 512;
  wide.kv_heads = 1;
  return {{"prefill", prefill, any},
          {"group of 8", group8, any},
          {"everything", everything, any},
          {"ragged", ragged, any},
          {"without a bound on the queries", without_bound, any},
          {"batch-invariant", invariant, any},
          {"aligned to 4", unaligned, any},
          {"speculative", speculative, {decode_of({50}), {{2, 50}}, {{8, 100}, {3, 3}}, {{5, 128}}}},
          {"wide heads", wide, {decode_of({50}), {{8, 100}, {3, 3}}, {{9, 128}}}}};
}

TEST(AttentionPrepare, NoSmallerCallMissesNorNeedsMore) {
  for (const Prepared& p : prepared()) {
    SCOPED_TRACE(p.name);
    const Context fresh = make_context([](quern_context_options& o) { o.flags |= QUERN_CONTEXT_NO_CACHE; });
    auto error = sized<quern_error>();
    AttentionTensors most(p.most, 1);
    ASSERT_EQ(quern_attention_prepare(fresh.get(), &most.args, &error), QUERN_OK) << error.text;
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_attention_workspace(fresh.get(), &most.args, &bytes, &error), QUERN_OK) << error.text;
    auto before = sized<quern_stats>(), after = sized<quern_stats>();
    ASSERT_EQ(quern_get_stats(fresh.get(), &before, nullptr), QUERN_OK);
    for (const std::vector<Lengths>& sequences : p.smaller) {
      int longest_q = 0;
      for (const Lengths& s : sequences) longest_q = std::max(longest_q, s.q);
      for (const int max_q_len : {0, longest_q, p.most.max_q_len}) {
        AttentionCase c = p.most;
        c.sequences = sequences;
        c.spare_rows = 0;
        if (max_q_len == 0 && c.used_rows() > p.most.max_q_len && p.most.max_q_len != 0) continue;
        c.max_q_len = max_q_len;
        c.flags |= QUERN_CALL_CACHED_ONLY;
        AttentionProblem problem(c, Random("smaller"));
        problem.make_workspace(fresh.get());
        EXPECT_LE(problem.args().workspace_size, bytes);
        ASSERT_NO_FATAL_FAILURE(problem.call(fresh.get()));
        problem.check();
      }
      AttentionCase one = p.most;
      one.sequences = decode_of({3, 1, 100});
      one.spare_rows = 0;
      one.max_q_len = 0;
      one.one_query = true;
      one.flags |= QUERN_CALL_CACHED_ONLY;
      AttentionProblem problem(one, Random("smaller"));
      problem.make_workspace(fresh.get());
      EXPECT_LE(problem.args().workspace_size, bytes);
      ASSERT_NO_FATAL_FAILURE(problem.call(fresh.get()));
      problem.check();
    }
    ASSERT_EQ(quern_get_stats(fresh.get(), &after, nullptr), QUERN_OK);
    EXPECT_EQ(after.compiled, before.compiled);
    EXPECT_EQ(after.kernels_loaded, before.kernels_loaded);
  }
}

TEST(AttentionPrepare, WithoutItACachedOnlyCallMisses) {
  const Context fresh = make_context([](quern_context_options& o) { o.flags |= QUERN_CONTEXT_NO_CACHE; });
  AttentionCase c;
  c.sequences = decode_of({5});
  c.flags = QUERN_CALL_CACHED_ONLY;
  AttentionProblem problem(c, Random("miss"));
  problem.make_workspace(fresh.get());
  const AttentionOutput before = problem.output();
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_attention(fresh.get(), &problem.args(), &error), QUERN_MISS) << error.text;
  EXPECT_EQ(problem.output().out, before.out);
}

TEST(AttentionWorkspace, GrowsWithEveryMaximum) {
  Random random("workspace");
  for (int round = 0; round < 200; ++round) {
    AttentionCase c =
        maxima(random.between(1, 300), random.between(1, 2000), random.between(1, 600), random.between(1, 9000));
    c.one_query = false;
    c.flags = random.below(3) == 0 ? QUERN_CALL_BATCH_INVARIANT : 0;
    c.group = 1 << random.between(0, 4);
    const std::uint64_t bytes = workspace_of(c);
    EXPECT_GE(bytes, 256u * 1024u);
    AttentionCase more = c;
    more.sequences.resize(c.sequences.size() + random.below(100), Lengths{0, 1});
    more.spare_rows += random.between(0, 1000);
    more.max_q_len += random.between(0, 500);
    more.max_kv_len += random.between(0, 50000);
    EXPECT_GE(workspace_of(more), bytes) << "batch " << c.batch() << " to " << more.batch() << ", total_q "
                                         << c.total_q() << " to " << more.total_q() << ", max_q_len " << c.max_q_len
                                         << " to " << more.max_q_len << ", flags " << c.flags << ", group " << c.group;
    AttentionCase fewer_sms = c;
    fewer_sms.max_sms = 1;
    EXPECT_EQ(workspace_of(fewer_sms), bytes) << "of the maxima alone";
    AttentionCase longer = c;
    longer.max_kv_len = 1000000;
    EXPECT_EQ(workspace_of(longer), bytes) << "the split is as fine however long the keys may be";
  }
}

TEST(AttentionWorkspace, StaysSmall) {
  // 72 MB a batch size is what others ask for; lengths do not matter here, and the batch only where it is invariant.
  AttentionCase c = maxima(256, 256, 1, 131072);
  c.dim_k = 128;
  c.kv_heads = 8;
  c.group = 4;
  EXPECT_LE(workspace_of(c), 8u << 20);
  c.max_q_len = 256;
  EXPECT_LE(workspace_of(c), 64u << 20);
}

}  // namespace
}  // namespace quern::test
