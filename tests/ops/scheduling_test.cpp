// The `host` target's unfair scheduling and late copies, by seed: a missing wait or barrier gives other bits, or none.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/attention_fixture.h"
#include "tests/ops/attention_problem.h"

namespace quern::test {
namespace {

constexpr int kSeeds = 20;

AttentionCase common() {
  AttentionCase c;
  c.causal = true;
  return c;
}

std::vector<AttentionCase> cases() {
  CaseList list(common());
  const auto one_query = [](AttentionCase& c) { c.one_query = true; };
  list.add("unfair_decode", decode_of({75, 1, 0, 130, 16}), one_query);
  list.add("unfair_decode_split", decode_of({900, 3}), one_query);
  list.add("unfair_decode_128", decode_of({300, 40}), [](AttentionCase& c) {
    c.one_query = true;
    c.dim_k = 128;
    c.group = 4;
  });
  list.add("unfair_decode_page3", decode_of({200, 7}), [](AttentionCase& c) {
    c.one_query = true;
    c.page_size = 3;
    c.dim_k = 40;
  });
  list.add("unfair_speculative", {{8, 75}, {1, 17}, {3, 300}}, [](AttentionCase& c) {
    c.max_q_len = 8;
    c.group = 4;
  });
  // Nothing to do, and batches whose items are even: what is scheduled begins anew, and must not take what it finds.
  list.add("unfair_nothing", {{0, 0}, {0, 5}, {0, 40}}, [](AttentionCase& c) { c.max_q_len = 8, c.spare_rows = 2; });
  list.add("unfair_even", decode_of({96, 96, 96, 96}), one_query);
  list.add("unfair_prefill", {{70, 70}, {33, 97}, {1, 50}});
  list.add("unfair_prefill_split", {{64, 1000}});
  list.add("unfair_prefill_page3", {{70, 170}}, [](AttentionCase& c) {
    c.page_size = 3;
    c.dim_k = 40;
    c.alignment = 4;
  });
  list.add("unfair_prefill_page32", {{70, 170}}, [](AttentionCase& c) { c.page_size = 32; });
  list.add("unfair_prefill_ragged", {{70, 170}, {5, 5}}, [](AttentionCase& c) { c.layout = Layout::ragged; });
  list.add("unfair_prefill_256", {{70, 100}}, [](AttentionCase& c) { c.dim_k = 256; });
  // Results take more room than queries, and are staged where keys were.
  list.add("unfair_prefill_64x128", {{70, 100}, {33, 40}}, [](AttentionCase& c) { c.dim_v = 128; });
  list.add("unfair_prefill_8x256", {{70, 100}, {33, 40}}, [](AttentionCase& c) { c.dim_k = 8, c.dim_v = 256; });
  list.add("unfair_many_pieces", {{70, 170}, {150, 150}, {1, 400}, {33, 40}, {90, 90}, {64, 64}},
           [](AttentionCase& c) { c.max_sms = 1; });
  list.add("unfair_invariant", {{1, 700}, {20, 300}, {3, 3}},
           [](AttentionCase& c) { c.flags = QUERN_CALL_BATCH_INVARIANT; });
  list.add("unfair_everything_on", {{40, 75}, {1, 130}, {7, 3}}, [](AttentionCase& c) {
    c.cap = 3.0f;
    c.alibi = true;
    c.sinks = true;
    c.left = 20;
  });
  return list.cases();
}

class AttentionScheduling : public Attention {};

TEST_P(AttentionScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  AttentionProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  const AttentionOutput fair = problem.output();
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t value = run_seed() * kSeeds + static_cast<std::uint64_t>(seed);
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
    const AttentionOutput output = problem.output();
    for (int i = 0; i < GetParam().batch(); ++i) {
      ASSERT_EQ(problem.bits_of(output, i), problem.bits_of(fair, i)) << "sequence " << i << ", host_seed " << value;
    }
  }
  problem.expect_counters_zero();
}
INSTANTIATE_TEST_SUITE_P(Seeds, AttentionScheduling, testing::ValuesIn(listed(cases())), name_of_case);

}  // namespace
}  // namespace quern::test
