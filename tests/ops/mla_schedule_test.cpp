// How MLA decode's blocks of threads share work out: by lengths that change under the same workspace, and in any order.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/mla_cases.h"

namespace quern::test {
namespace {

// The same memory and workspace for lengths that grow, shrink and vanish.
TEST(MlaLengthsChange, OneWorkspaceServesThemAll) {
  for (const int latent : {512, 32}) {
    MlaCase c;
    c.d_latent = latent;
    c.heads = 12;
    c.causal = true;
    c.sequences = {{2, 600}, {1, 300}, {3, 100}};
    MlaProblem problem(c, Random("change"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const std::vector<std::vector<MlaLengths>> others = {{{1, 1}, {1, 0}, {0, 0}},
                                                         {{0, 0}, {0, 0}, {0, 0}},
                                                         {{3, 599}, {0, 5}, {3, 64}},
                                                         {{2, 600}, {1, 300}, {3, 100}}};
    for (const auto& lengths : others) {
      problem.fill(lengths, Random("other"));
      ASSERT_NO_FATAL_FAILURE(problem.call(context()));
      problem.check();
    }
  }
}

// So do lengths that are alike, and shared out whole, and others that are not, of more sequences than a warp has lanes.
TEST(MlaLengthsChange, AlikeOrNot) {
  MlaCase c;
  c.heads = 12, c.one_query = true;
  const auto mixed = [](int each) {
    std::vector<MlaLengths> lengths;
    for (int i = 0; i < 40; ++i) lengths.push_back({1, i % 17 == 3 ? 400 : each});
    return lengths;
  };
  c.sequences = mixed(400);
  MlaProblem problem(c, Random("alike"));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  for (const int each : {5, 400, 130, 0}) {
    problem.fill(mixed(each), Random("other"));
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    problem.check();
  }
}

// `host`: unfair scheduling and late delivery, by seed.
class MlaScheduling : public testing::TestWithParam<MlaCase> {};
MlaCases unfair() {
  MlaCases list;
  list.add("unfair_rows64", {{1, 300}, {2, 65}, {1, 0}, {1, 128}}, [](MlaCase& c) { c.heads = 40, c.causal = true; });
  list.add("unfair_rows64_side_by_side", {{1, 200}, {1, 500}}, [](MlaCase& c) { c.heads = 128, c.one_query = true; });
  list.add("unfair_rows64_page16", {{1, 150}, {3, 77}},
           [](MlaCase& c) { c.heads = 20, c.page_size = 16, c.left = 90; });
  list.add("unfair_rows64_one_sm", {{1, 150}, {3, 277}, {1, 30}}, [](MlaCase& c) { c.heads = 20, c.max_sms = 1; });
  list.add("unfair_rows64_three_tiles", {{2, 150}, {1, 65}, {2, 277}},
           [](MlaCase& c) { c.heads = 70, c.page_size = 16, c.left = 200, c.causal = true; });
  list.add("unfair_gather64_plain", {{1, 300}, {2, 265}}, [](MlaCase& c) { c.heads = 70, c.top_k = 150; });
  list.add("unfair_gather64_e4m3", {{1, 300}, {2, 65}, {1, 0}}, [](MlaCase& c) {
    c.heads = 70, c.causal = true;
    c.cache = MlaCache::e4m3_token;
  });
  list.add("unfair_few16", {{1, 1300}, {2, 65}, {1, 0}}, [](MlaCase& c) {
    c.heads = 9, c.causal = true, c.max_sms = 2;
    c.cache = MlaCache::e4m3_token;
  });
  for (const int heads : {9, 40}) {
    std::vector<MlaLengths> many;
    for (int i = 0; i < 40; ++i) many.push_back({1, i % 13 == 0 ? 200 : 20});
    list.add("unfair_40_sequences_heads" + std::to_string(heads), many, [=](MlaCase& c) { c.heads = heads; });
  }
  list.add("unfair_few16_plain", {{1, 1300}, {1, 65}, {1, 0}}, [](MlaCase& c) { c.heads = 9, c.max_sms = 2; });
  list.add("unfair_few16_listed", {{1, 700}, {2, 265}}, [](MlaCase& c) {
    c.top_k = 450;
    c.cache = MlaCache::e4m3_tensor;
  });
  list.add("unfair_gather64_rows656", {{1, 300}, {2, 200}}, [](MlaCase& c) {
    c.top_k = 290, c.slots = true, c.max_sms = 2;
    c.cache = MlaCache::rows656;
  });
  // Three tiles of two queries: one block of a cluster has none, and copies for the other.
  list.add("unfair_gather64_three_tiles", {{2, 150}, {1, 65}}, [](MlaCase& c) {
    c.heads = 70, c.causal = true;
    c.cache = MlaCache::rows656;
  });
  list.add("unfair_gather64_paired", {{1, 300}, {1, 200}, {1, 3}}, [](MlaCase& c) {
    c.heads = 128, c.top_k = 290;
    c.cache = MlaCache::rows656;
  });
  list.add("unfair_gather64_without_its_pair", {{1, 200}}, [](MlaCase& c) {
    c.heads = 70, c.max_sms = 1;
    c.cache = MlaCache::rows656;
  });
  list.add("unfair_portable", {{1, 300}, {2, 65}, {1, 0}}, [](MlaCase& c) { c.heads = 40, c.d_latent = 64; });
  list.add("unfair_portable_rows656", {{1, 100}, {2, 65}},
           [](MlaCase& c) { c.cache = MlaCache::rows656, c.alignment = 4; });
  list.add("unfair_portable_listed", {{1, 300}, {2, 65}}, [](MlaCase& c) { c.top_k = 80, c.d_latent = 32; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Seeds, MlaScheduling, testing::ValuesIn(unfair().cases()), name_of_mla_case);
TEST_P(MlaScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  constexpr int kSeeds = 4;
  MlaProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  const MlaOutput fair = problem.output();
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t value = run_seed() * kSeeds + static_cast<std::uint64_t>(seed);
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
    const MlaOutput output = problem.output();
    for (int t = 0; t < GetParam().total_q(); ++t) {
      ASSERT_EQ(problem.bits_of(output, t), problem.bits_of(fair, t)) << "query token " << t << ", host_seed " << value;
    }
  }
}

}  // namespace
}  // namespace quern::test
