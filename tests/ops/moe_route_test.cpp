// moe_route against its definition: any numbers of experts, tokens and choices, groups, ties, NaN and infinities, ranks
// of expert parallelism; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>

#include "tests/ops/cuda.h"
#include "tests/ops/manifest.h"
#include "tests/ops/refusal.h"
#include "tests/ops/routing.h"

namespace quern::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void run_and_check(const RoutingCase& c) {
  Routing routing(c, Random("routing of " + c.text()));
  ASSERT_NO_FATAL_FAILURE(routing.run(context()));
  routing.check();
  routing.expect_counters_zero();
}

class MoeRoute : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, MoeRoute,
                         testing::Values(Element(Element::f32), Element(Element::bf16), Element(Element::f16)),
                         [](const testing::TestParamInfo<Element>& dtype) { return std::string(dtype.param.name()); });

TEST_P(MoeRoute, MatchesItsDefinition) {
  struct Extents {
    std::int64_t tokens, experts;
    int top_k, groups, top_groups;
  };
  int i = 0;
  for (const Extents& e : std::initializer_list<Extents>{
           {1, 1, 1, 0, 0},     {5, 2, 2, 0, 0},      {33, 8, 2, 0, 0},     {9, 60, 4, 0, 0},     {4, 64, 6, 8, 3},
           {7, 65, 8, 5, 2},    {3, 128, 8, 0, 0},    {6, 160, 6, 8, 3},    {3, 256, 8, 8, 4},    {12, 256, 22, 4, 2},
           {5, 300, 32, 30, 9}, {2, 512, 10, 0, 0},   {4, 384, 8, 1, 1},    {3, 777, 5, 21, 7},   {3, 1024, 32, 32, 5},
           {3, 1024, 1, 2, 1},  {128, 16, 3, 0, 0},   {129, 17, 3, 0, 0},   {140, 32, 4, 32, 10}, {131, 96, 32, 8, 8},
           {300, 7, 1, 7, 3},   {301, 130, 2, 10, 1}, {150, 1000, 4, 0, 0}, {9001, 9, 2, 0, 0}}) {
    for (const bool bias : {false, true}) {
      RoutingCase c;
      c.dtype = GetParam();
      c.tokens = e.tokens, c.experts = e.experts, c.top_k = e.top_k, c.groups = e.groups, c.top_groups = e.top_groups;
      c.bias = bias;
      c.sigmoid = i % 2 != 0;
      c.renormalize = i / 2 % 2 != 0;
      c.scale = i % 3 == 0 ? 2.5f : 0.0f;
      c.padding = i % 5 == 0 ? 3 : i % 5 == 1 ? 8 : 0;
      ++i;
      ASSERT_NO_FATAL_FAILURE(run_and_check(c));
    }
  }
}

TEST_P(MoeRoute, TakesNoTokens) {
  RoutingCase c = deepseek(0);
  c.dtype = GetParam();
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
}

// Exact ties at every step: the lower expert, the lower group.
TEST_P(MoeRoute, TiesGoToTheLowerId) {
  for (const bool bias : {false, true}) {
    RoutingCase c;
    c.dtype = GetParam();
    c.tokens = 40, c.experts = 96, c.top_k = 8, c.groups = 6, c.top_groups = 3;
    c.bias = c.sigmoid = bias;
    Routing routing(c, Random("ties"));
    Random random("levels");
    for (int t = 0; t < c.tokens; ++t) {
      for (int e = 0; e < c.experts; ++e) routing.set_logit(t, e, random.between(0, t % 5));
    }
    for (int e = 0; e < c.experts; ++e) routing.set_bias(e, 0.5 * random.between(0, 1));
    ASSERT_NO_FATAL_FAILURE(routing.run(context()));
    routing.check();
  }
  // Zeros of both signs are one number.
  RoutingCase c;
  c.dtype = GetParam();
  c.experts = 70, c.top_k = 9;
  Routing zeros(c, Random("zeros"));
  for (int e = 0; e < c.experts; ++e) zeros.set_logit(0, e, e % 2 != 0 ? 0.0 : -0.0);
  ASSERT_NO_FATAL_FAILURE(zeros.run(context()));
  zeros.check();
  EXPECT_EQ(zeros.read().ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

// Scores whose sum is so small that its reciprocal is no number: weights all the same.
TEST_P(MoeRoute, RenormalisesScoresNextToNothing) {
  RoutingCase c;
  c.dtype = GetParam();
  c.experts = 64, c.top_k = 4, c.sigmoid = c.renormalize = true;
  for (const double level : {-72.0, -86.0, -92.0}) {
    Routing routing(c, Random("scores next to nothing"));
    for (int e = 0; e < c.experts; ++e) routing.set_logit(0, e, level - e % 16);
    ASSERT_NO_FATAL_FAILURE(routing.run(context()));
    float sum = 0.0f;
    const std::vector<float> weights = routing.read().weights;
    for (int j = 0; j < c.top_k; ++j) sum += weights[static_cast<std::size_t>(j)];
    // Of numbers below 2^-126 few digits are left, or none where targets flush them.
    EXPECT_TRUE(std::fabs(sum - 1.0f) < 1e-3f || (level < -87.0 && sum == 0.0f)) << level << ": " << sum;
  }
}

TEST_P(MoeRoute, TakesNanLastAndInfinitiesWhereTheyBelong) {
  for (const int option : {0, 1, 2, 3, 4, 5}) {
    RoutingCase c;
    c.dtype = GetParam();
    c.tokens = 12, c.experts = 72, c.top_k = 10;
    c.sigmoid = option % 2 != 0;
    c.renormalize = option == 2 || option == 3;
    if (option >= 4) c.groups = 9, c.top_groups = 2, c.bias = true;
    Routing routing(c, Random("specials"));
    Random random("places of specials");
    for (int e = 0; e < c.experts; ++e) {
      if (c.bias) routing.set_bias(e, 0.0);
      routing.set_logit(0, e, kNan);
      routing.set_logit(1, e, -kInfinity);
      if (e != 50 && e != 3) routing.set_logit(2, e, kNan);
      if (e != 50 && e != 3) routing.set_logit(3, e, -kInfinity);
      if (random.below(2) == 0) routing.set_logit(4, e, kNan);
      if (random.below(2) == 0) routing.set_logit(5, e, -kInfinity);
      if (e % 24 == 5) routing.set_logit(6, e, kInfinity);
      if (e >= 8) routing.set_logit(7, e, e % 3 == 0 ? kNan : -kInfinity);
      routing.set_logit(8, e, e % 2 == 0 ? kNan : kInfinity);
      routing.set_logit(9, e, -60.0 - e);
      routing.set_logit(10, e, e == 0 ? 0.0 : -200.0 - 2 * e);
    }
    if (c.bias) {
      // Without the numbers that lie too near to each other for a sum with a bias to tell them apart.
      for (const int t : {9, 10}) {
        for (int e = 0; e < c.experts; ++e) routing.set_logit(t, e, 1.0);
      }
      routing.set_bias(7, kNan);
      routing.set_bias(9, -kInfinity);
      routing.set_bias(20, kInfinity);
    }
    ASSERT_NO_FATAL_FAILURE(routing.run(context()));
    routing.check();
  }
}

// The ranks of expert parallelism: each sorts its own experts' choices, all of them choose alike.
TEST_P(MoeRoute, SortsTheExpertsOfARank) {
  for (const std::int64_t tokens : {20, 200}) {
    RoutingCase c = deepseek(tokens);
    c.dtype = GetParam();
    c.experts = 40, c.groups = 4, c.top_groups = 3;
    std::int64_t rows = 0;
    for (const auto& [first, local] : {std::pair{0, 13}, {13, 7}, {20, 1}, {21, 0}}) {
      c.first_expert = first, c.local_experts = local;
      Routing routing(c, Random("ranks"));
      ASSERT_NO_FATAL_FAILURE(routing.run(context()));
      routing.check();
      rows += routing.read().offsets.back();
    }
    EXPECT_EQ(rows, tokens * c.top_k);
  }
}

TEST(MoeRouteOutputs, AreWrittenWhereAskedFor) {
  for (const std::int64_t tokens : {7, 150}) {
    RoutingCase c;
    c.tokens = tokens, c.experts = 20, c.top_k = 3;
    for (unsigned which = 0; which < 16; ++which) {
      Routing routing(c, Random("subsets"));
      if ((which & 1) == 0) routing.args.offsets = nullptr;
      if ((which & 2) == 0) routing.args.counts = nullptr;
      if ((which & 4) == 0) routing.args.indices = nullptr;
      if ((which & 8) == 0) routing.args.positions = nullptr;
      ASSERT_NO_FATAL_FAILURE(routing.run(context()));
      routing.check();
      if (which != 0) routing.expect_counters_zero();
    }
  }
}

TEST(MoeRouteOutputs, AreTheSameBitsOnAnyNumberOfSms) {
  for (const std::int64_t tokens : {50, 260}) {
    RoutingCase c = deepseek(tokens);
    Routing routing(c, Random("sms"));
    ASSERT_NO_FATAL_FAILURE(routing.run(context()));
    const Routed all = routing.read();
    for (const int sms : {1, 2, 3}) {
      routing.args.max_sms = sms;
      ASSERT_NO_FATAL_FAILURE(routing.run(context()));
      EXPECT_TRUE(same_bits(routing.read(), all)) << sms << " SMs";
      routing.expect_counters_zero();
    }
  }
}

TEST(MoeRouteOutputs, OfATokenDoNotDependOnTheOthers) {
  RoutingCase c = deepseek(140);
  Routing together(c, Random("batch"));
  ASSERT_NO_FATAL_FAILURE(together.run(context()));
  const Routed all = together.read();
  RoutingCase one = deepseek(1);
  Routing alone(one, Random("alone"));
  for (int e = 0; e < c.experts; ++e) alone.set_bias(e, 0.01 * e), together.set_bias(e, 0.01 * e);
  ASSERT_NO_FATAL_FAILURE(together.run(context()));
  const Routed batch = together.read();
  for (const std::int64_t t : {0, 17, 64, 139}) {
    for (int e = 0; e < c.experts; ++e) alone.set_logit(0, e, together.logit(t, e));
    ASSERT_NO_FATAL_FAILURE(alone.run(context()));
    const Routed single = alone.read();
    for (int j = 0; j < c.top_k; ++j) {
      const auto at = static_cast<std::size_t>(t * c.top_k + j);
      EXPECT_EQ(single.ids[static_cast<std::size_t>(j)], batch.ids[at]);
      EXPECT_EQ(std::memcmp(&single.weights[static_cast<std::size_t>(j)], &batch.weights[at], 4), 0);
    }
  }
  EXPECT_FALSE(same_bits(batch, all));
}

// One workspace, calls of all sizes one after the other.
TEST(MoeRouteWorkspace, ServesSmallerCallsAfterLargerOnes) {
  Routing largest(deepseek(400), Random("largest"));
  std::uint64_t most = 0, last = 0;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_moe_route_workspace(context(), &largest.args, &most, &error), QUERN_OK) << error.text;
  Buffer workspace(most, 0);
  for (const std::int64_t tokens : {400, 3, 200, 0, 129, 128, 1, 399}) {
    Routing routing(deepseek(tokens), Random("sizes"));
    routing.upload();
    routing.poison();
    ASSERT_EQ(quern_moe_route_prepare(context(), &routing.args, &error), QUERN_OK) << error.text;
    routing.args.workspace = workspace.data(), routing.args.workspace_size = most;
    ASSERT_NO_FATAL_FAILURE(routing.call(context()));
    synchronize();
    routing.check();
  }
  for (std::int64_t tokens = 0; tokens < 700; tokens += 13) {
    Routing routing(deepseek(0), Random("none"));
    for (TensorBox* t : {&routing.logits, &routing.weights, &routing.ids, &routing.positions}) t->shape[0] = tokens;
    routing.indices.shape[0] = tokens * 8;
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_moe_route_workspace(context(), &routing.args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_GE(bytes, last);
    last = bytes;
  }
}

TEST(MoeRoutePrepare, ReadiesEverySmallerCall) {
  const Context fresh = make_context([](quern_context_options& o) { o.flags |= QUERN_CONTEXT_NO_CACHE; });
  Routing largest(deepseek(200), Random("largest"));
  ASSERT_NO_FATAL_FAILURE(largest.run(fresh.get()));
  const std::vector<std::string> ready = manifest_of(fresh.get());
  EXPECT_EQ(ready.size(), 2u);
  for (const std::int64_t tokens : {0, 1, 128, 150}) {
    RoutingCase c = deepseek(tokens);
    c.sigmoid = c.renormalize = c.bias = tokens % 2 != 0;
    c.groups = c.top_groups = 0;
    c.top_k = 5;
    c.experts = 200;
    Routing routing(c, Random("smaller"));
    Buffer workspace(largest.args.workspace_size, 0);
    routing.upload();
    routing.poison();
    routing.args.workspace = workspace.data(), routing.args.workspace_size = workspace.size();
    ASSERT_NO_FATAL_FAILURE(routing.call(fresh.get()));
    synchronize();
    routing.check();
  }
  EXPECT_EQ(manifest_of(fresh.get()), ready);
}

TEST(MoeRouteWarm, NamesWhatAModelNeeds) {
  auto model = sized<quern_model>();
  model.hidden_size = 7168, model.heads = 128, model.kv_heads = 128, model.head_dim = 128;
  const auto named = [&](const char* op) {
    std::vector<std::string> lines;
    for (const std::string& line : listed_by_warm(context(), model)) {
      if (line.starts_with(op)) lines.push_back(line);
    }
    return lines;
  };
  EXPECT_TRUE(named("moe_").empty());
  model.experts = 256, model.experts_per_token = 8, model.expert_intermediate_size = 2048;
  EXPECT_EQ(named("moe_route ").size(), 3u);
  EXPECT_EQ(named("moe_combine ").size(), 1u);
  Routing routing(deepseek(200), Random("warm"));
  const Context fresh = make_context();
  ASSERT_NO_FATAL_FAILURE(routing.run(fresh.get()));
  const std::vector<std::string> lines = named("moe_route ");
  for (const std::string& line : manifest_of(fresh.get()))
    EXPECT_EQ(std::count(lines.begin(), lines.end(), line), 1) << line;
}

TEST(MoeRouteScheduling, unfairOrdersGiveTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  RoutingCase wide = deepseek(6);
  wide.experts = 777, wide.groups = 7, wide.top_k = 32;
  for (const RoutingCase& c : {deepseek(3), deepseek(37), deepseek(133), wide}) {
    Routing routing(c, Random("unfair"));
    ASSERT_NO_FATAL_FAILURE(routing.run(context()));
    routing.check();
    const Routed fair = routing.read();
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 8 + seed;
      });
      ASSERT_NO_FATAL_FAILURE(routing.run(unfair.get()));
      ASSERT_TRUE(same_bits(routing.read(), fair)) << c.text() << ", host_seed " << run_seed() * 8 + seed;
      routing.expect_counters_zero();
    }
  }
}

TEST(MoeRouteOnCuda, OneGraphServesChangingLogits) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  for (const std::int64_t tokens : {1, 64, 1000}) {
    for (const std::uint32_t flags : {0u, std::uint32_t{QUERN_CALL_PROGRAMMATIC}}) {
      const RoutingCase c = deepseek(tokens);
      Routing routing(c, Random("graph"));
      routing.args.flags |= flags;
      ASSERT_NO_FATAL_FAILURE(routing.run(context()));
      const Stream stream;
      const Graph graph(stream, [&] {
        for (int i = 0; i < 3; ++i) routing.call(context(), stream.get());
      });
      for (int round = 0; round < 5; ++round) {
        for (int t = 0; t < tokens; ++t) {
          for (int e = 0; e < c.experts; ++e) routing.set_logit(t, e, 0.01 * ((t * 37 + e * 91 + round * 11) % 509));
        }
        for (int e = 0; e < c.experts; ++e) routing.set_bias(e, 0.0);
        routing.upload();
        routing.poison();
        synchronize();
        graph.launch(stream);
        stream.synchronize();
        routing.check();
        routing.expect_counters_zero();
      }
    }
  }
}

TEST(MoeRouteOnCuda, TakesAMillionTokens) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  RoutingCase c;
  c.tokens = 1 << 20, c.experts = 24, c.top_k = 3;
  c.dtype = Element::bf16;
  ASSERT_NO_FATAL_FAILURE(run_and_check(c));
}

TEST(MoeRouteRefuses, EveryWrongArgument) {
  using R = Routing&;
  const std::vector<Mistake<Routing>> mistakes = {
      {"logits NULL", {"logits", "NULL"}, [](R r) { r.args.logits = nullptr; }},
      {"weights NULL", {"weights", "NULL"}, [](R r) { r.args.weights = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](R r) { r.args.ids = nullptr; }},
      {"logits' rank", {"logits", "dimensions"}, [](R r) { r.logits.tensor.ndim = 1; }},
      {"logits' dtype", {"logits", "int32"}, [](R r) { r.logits.tensor.dtype = kInt32; }},
      {"bias' dtype", {"bias", "f32"}, [](R r) { r.bias.tensor.dtype = dtype_of(Format::bf16); }},
      {"ids' dtype", {"ids", "int32"}, [](R r) { r.ids.tensor.dtype = kFloat32; }},
      {"offsets' dtype", {"offsets", "int32"}, [](R r) { r.offsets.tensor.dtype = kFloat32; }},
      {"weights' dtype", {"weights", "f32"}, [](R r) { r.weights.tensor.dtype = dtype_of(Format::f16); }},
      {"no experts", {"logits.shape[1]", "1 to 1024"}, [](R r) { r.logits.shape[1] = 0; }},
      {"too many experts", {"logits.shape[1]", "1025", "1 to 1024"}, [](R r) { r.logits.shape[1] = 1025; }},
      {"too many choices", {"logits.shape[0]", "2^30"}, [](R r) { r.logits.shape[0] = std::int64_t{1} << 30; }},
      {"bias' experts", {"bias.shape[0]", "24"}, [](R r) { r.bias.shape[0] = 23; }},
      {"weights' tokens", {"weights.shape[0]", "5"}, [](R r) { r.weights.shape[0] = 4; }},
      {"ids' choices", {"ids.shape[1]", "4"}, [](R r) { r.ids.shape[1] = 3; }},
      {"positions' choices", {"positions.shape[1]", "4"}, [](R r) { r.positions.shape[1] = 5; }},
      {"offsets' experts", {"offsets.shape[0]", "25"}, [](R r) { r.offsets.shape[0] = 24; }},
      {"counts' experts", {"counts.shape[0]", "24"}, [](R r) { r.counts.shape[0] = 25; }},
      {"indices' rows", {"indices.shape[0]", "20"}, [](R r) { r.indices.shape[0] = 19; }},
      {"logits' last stride", {"logits.strides[1]", "1"}, [](R r) { r.logits.strides[1] = 2; }},
      {"ids' last stride", {"ids.strides[1]", "1"}, [](R r) { r.ids.strides[1] = 0; }},
      {"ids over each other", {"ids.strides[0]", "over each other"}, [](R r) { r.ids.strides[0] = 0; }},
      {"weights over each other", {"weights.strides[0]", "3"}, [](R r) { r.weights.strides[0] = 3; }},
      {"positions over each other", {"positions.strides[0]", "1"}, [](R r) { r.positions.strides[0] = 1; }},
      {"another device",
       {"weights", "ROCm"},
       [](R r) { r.weights.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM); }},
      {"top_k 0", {"top_k", "1 to 12"}, [](R r) { r.args.top_k = 0; }},
      {"top_k over the groups'", {"top_k", "13", "1 to 12"}, [](R r) { r.args.top_k = 13; }},
      {"top_k over 32", {"top_k", "33", "32"}, [](R r) { r.args.top_k = 33; }},
      {"groups that do not divide", {"groups", "5", "divide"}, [](R r) { r.args.groups = 5; }},
      {"groups negative", {"groups", "-1"}, [](R r) { r.args.groups = -1; }},
      {"too many groups", {"groups", "48", "32"}, [](R r) { r.args.groups = 48; }},
      {"top_groups over groups", {"top_groups", "5"}, [](R r) { r.args.top_groups = 5; }},
      {"top_groups negative", {"top_groups", "-2"}, [](R r) { r.args.top_groups = -2; }},
      {"first_expert negative", {"first_expert", "-1"}, [](R r) { r.args.first_expert = -1; }},
      {"first_expert beyond", {"first_expert", "24"}, [](R r) { r.args.first_expert = 24; }},
      {"local_experts beyond",
       {"local_experts", "24"},
       [](R r) { r.args.first_expert = 1, r.args.local_experts = 24; }},
      {"scale infinite", {"scale", "finite"}, [](R r) { r.args.scale = std::numeric_limits<float>::infinity(); }},
      {"logits' alignment", {"logits", "data"}, [](R r) { r.logits.tensor.byte_offset = 2; }, true},
      {"ids' alignment", {"ids", "data"}, [](R r) { r.ids.tensor.byte_offset = 2; }, true},
      {"logits without data", {"logits", "NULL"}, [](R r) { r.logits.tensor.data = nullptr; }, true},
      {"positions without data", {"positions", "NULL"}, [](R r) { r.positions.tensor.data = nullptr; }, true},
      {"no workspace", {"workspace"}, [](R r) { r.args.workspace_size = 0; }, true},
      {"alignment 3", {"alignment", "3"}, [](R r) { r.args.alignment = 3; }},
      {"max_sms negative", {"max_sms", "-1"}, [](R r) { r.args.max_sms = -1; }},
      {"an unknown flag", {"flags", "quern_moe_flags"}, [](R r) { r.args.flags = QUERN_ATTENTION_WINDOW_RIGHT; }},
      {"no size", {"size"}, [](R r) { r.args.size = 0; }},
  };
  RoutingCase c;
  c.tokens = 5, c.experts = 24, c.top_k = 4, c.groups = 4, c.top_groups = 2;
  c.bias = true;
  Buffer workspace(1 << 20, 0);
  expect_all_refused(
      mistakes, ThreeCalls<quern_moe_route_args>{quern_moe_route, quern_moe_route_workspace, quern_moe_route_prepare},
      [&] {
        auto routing = std::make_unique<Routing>(c, Random("refused"));
        routing->poison();
        routing->args.workspace = workspace.data(), routing->args.workspace_size = workspace.size();
        return routing;
      },
      [](R r) { return [&r, before = r.read()] { return same_bits(r.read(), before); }; });
}

}  // namespace
}  // namespace quern::test
