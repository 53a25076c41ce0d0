// What only a GPU can show: captured graphs, streams side by side, programmatic launches, memory beyond 4 GiB.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/cuda.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/ops/attention_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  }
};

bool same_bits(const AttentionOutput& a, const AttentionOutput& b) {
  return a.out == b.out && a.lse.size() == b.lse.size() &&
         std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * 4) == 0;
}

// One graph, captured at the maxima, launched with other lengths, numbers and pages each round: right, and to the bit
// what a call gives.
void replay(const AttentionCase& most, const std::vector<std::vector<Lengths>>& rounds) {
  AttentionProblem problem(most, Random(most.name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  const Stream stream;
  const Graph graph(stream, [&] { problem.call(context(), stream.get()); });
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    SCOPED_TRACE(most.name + ", round " + std::to_string(round));
    problem.fill(rounds[round], Random(run_seed() + round));
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    problem.check();
    problem.expect_counters_zero();
    const AttentionOutput captured = problem.output();
    problem.poison_outputs();
    synchronize();
    problem.call(context(), stream.get());
    stream.synchronize();
    EXPECT_TRUE(same_bits(captured, problem.output())) << "a call gives other bits than the graph";
  }
}

// From nothing to the maximum, in steps; then rows leave and come back.
std::vector<std::vector<Lengths>> rounds_of(const AttentionCase& most, bool vary_queries) {
  Random random("rounds of " + most.name);
  std::vector<std::vector<Lengths>> rounds;
  for (int step = 0; step <= 8; ++step) {
    std::vector<Lengths> lengths;
    for (const Lengths& s : most.sequences) lengths.push_back({vary_queries ? s.q * step / 8 : s.q, s.kv * step / 8});
    rounds.push_back(lengths);
  }
  for (int i = 0; i < 12; ++i) {
    std::vector<Lengths> lengths;
    for (const Lengths& s : most.sequences) {
      const bool left = random.below(3) == 0;
      const int q = vary_queries ? (left ? 0 : random.between(0, s.q)) : s.q;
      lengths.push_back({q, left ? 0 : random.between(std::min(q, s.kv), s.kv)});
    }
    rounds.push_back(lengths);
  }
  rounds.push_back(most.sequences);
  return rounds;
}

TEST_F(OnCuda, OneGraphServesDecodeOfAnyLengths) {
  AttentionCase c;
  c.name = "graph of decode";
  c.dim_k = 128;
  c.kv_heads = 4;
  c.group = 4;
  c.one_query = true;
  c.sequences = decode_of({3000, 17, 800, 1, 64, 5000, 257, 16});
  c.max_kv_len = 131072;
  replay(c, rounds_of(c, false));
}

TEST_F(OnCuda, OneGraphServesSpeculationOfAnyLengths) {
  AttentionCase c;
  c.name = "graph of speculation";
  c.causal = true;
  c.sequences = {{8, 3000}, {3, 17}, {5, 800}, {1, 1}, {8, 64}, {2, 257}};
  c.max_q_len = 8;
  c.max_kv_len = 50000;
  c.sinks = true;
  replay(c, rounds_of(c, true));
}

TEST_F(OnCuda, OneGraphServesPrefillOfAnyLengths) {
  AttentionCase c;
  c.name = "graph of prefill";
  c.causal = true;
  c.dim_k = 128;
  c.sequences = {{300, 900}, {64, 64}, {1, 2000}, {128, 1500}};
  c.spare_rows = 13;
  replay(c, rounds_of(c, true));
}

TEST_F(OnCuda, OneGraphServesInvariantCallsOfAnyLengths) {
  AttentionCase c;
  c.name = "graph of invariant calls";
  c.causal = true;
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  c.sequences = {{100, 900}, {4, 64}, {1, 3000}, {20, 600}};
  replay(c, rounds_of(c, true));
}

TEST_F(OnCuda, AMissUnderCaptureIsRefusedAndTheCaptureGoesOn) {
  const Context fresh = make_context([](quern_context_options& o) { o.flags |= QUERN_CONTEXT_NO_CACHE; });
  AttentionCase c;
  c.sequences = decode_of({40, 3});
  AttentionProblem problem(c, Random("capture"));
  ASSERT_NO_FATAL_FAILURE(problem.make_workspace(fresh.get()));
  const AttentionOutput before = problem.output();
  const Stream stream;
  problem.args().stream = stream.get();
  {
    const Graph empty(stream, [&] {
      expect_refused(
          {"captur", "prepare"}, [&](quern_error* e) { return quern_attention(fresh.get(), &problem.args(), e); },
          QUERN_CAPTURING);
    });
    empty.launch(stream);
    stream.synchronize();
  }
  EXPECT_TRUE(same_bits(problem.output(), before));
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_attention_prepare(fresh.get(), &problem.args(), &error), QUERN_OK) << error.text;
  const Graph graph(stream, [&] { problem.call(fresh.get(), stream.get()); });
  graph.launch(stream);
  stream.synchronize();
  problem.check();
}

// Attention, attention, merge_state, each allowed to begin before the one before has ended, over and over with other
// numbers in the same places: a wait that is missing shows as the numbers of the round before.
TEST_F(OnCuda, ProgrammaticLaunchesWaitForEachOther) {
  AttentionCase c;
  c.sequences = decode_of({700, 3, 64, 2000, 0, 9});
  c.one_query = true;
  c.dim_k = 128;
  std::vector<std::unique_ptr<AttentionProblem>> problems;
  for (int i = 0; i < 4; ++i) {
    problems.push_back(std::make_unique<AttentionProblem>(c, Random(run_seed() + static_cast<std::uint64_t>(i))));
    ASSERT_NO_FATAL_FAILURE(problems.back()->run(context()));
  }
  constexpr int kRounds = 40;
  const Stream stream;
  // Problems 0 and 2 write where 0 does, 1 and 3 where 1 does.
  for (const int i : {2, 3}) {
    problems[i]->args().out = problems[i - 2]->args().out;
    problems[i]->args().lse = problems[i - 2]->args().lse;
  }
  const auto bytes = problems[0]->output().out.size() * 2;
  std::vector<Buffer> results[2];
  for (const std::uint32_t flags : {0u, std::uint32_t{QUERN_CALL_PROGRAMMATIC}}) {
    std::vector<Buffer>& merged = results[flags != 0];
    for (int round = 0; round < kRounds; ++round) merged.emplace_back(bytes);
    synchronize();
    for (int round = 0; round < kRounds; ++round) {
      AttentionProblem &a = *problems[round % 2 * 2], &b = *problems[round % 2 * 2 + 1];
      a.args().flags = b.args().flags = flags;
      ASSERT_NO_FATAL_FAILURE(a.call(context(), stream.get()));
      ASSERT_NO_FATAL_FAILURE(b.call(context(), stream.get()));
      TensorBox out;
      out.set(dtype_of(c.format), {c.total_q(), c.heads(), c.v()});
      out.place(merged[static_cast<std::size_t>(round)].data());
      auto args = sized<quern_merge_state_args>();
      args.flags = flags;
      args.stream = stream.get();
      args.out_a = a.args().out, args.lse_a = a.args().lse;
      args.out_b = b.args().out, args.lse_b = b.args().lse;
      args.out = out.get();
      auto error = sized<quern_error>();
      ASSERT_EQ(quern_merge_state(context(), &args, &error), QUERN_OK) << error.text;
      if (flags == 0) stream.synchronize();
    }
    stream.synchronize();
  }
  for (std::size_t round = 0; round < kRounds; ++round)
    EXPECT_EQ(results[0][round].read(), results[1][round].read()) << "round " << round;
  EXPECT_NE(results[0][0].read(), results[0][1].read());
}

TEST_F(OnCuda, TwoStreamsWithTwoWorkspacesRunSideBySide) {
  AttentionCase decode;
  decode.sequences = decode_of({6000, 3, 64, 2000, 0, 900});
  decode.one_query = true;
  decode.dim_k = 128;
  AttentionCase prefill;
  prefill.sequences = {{200, 700}, {64, 1900}, {1, 40}};
  prefill.causal = true;
  AttentionProblem a(decode, Random("stream a")), b(prefill, Random("stream b"));
  ASSERT_NO_FATAL_FAILURE(a.run(context()));
  ASSERT_NO_FATAL_FAILURE(b.run(context()));
  const AttentionOutput alone[2] = {a.output(), b.output()};
  a.poison_outputs();
  b.poison_outputs();
  synchronize();
  const Stream streams[2];
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(a.call(context(), streams[0].get()));
    ASSERT_NO_FATAL_FAILURE(b.call(context(), streams[1].get()));
  }
  synchronize();
  EXPECT_TRUE(same_bits(a.output(), alone[0]));
  EXPECT_TRUE(same_bits(b.output(), alone[1]));
  a.expect_counters_zero();
  b.expect_counters_zero();
}

TEST_F(OnCuda, AStreamOfAnotherDeviceIsRefused) {
  int devices = 0;
  QUERN_TEST_CUDA(cuDeviceGetCount(&devices));
  if (devices < 2) GTEST_SKIP() << "only one GPU here: a stream of another cannot be had";
  AttentionCase c;
  c.sequences = decode_of({40});
  AttentionProblem problem(c, Random("foreign"));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.poison_outputs();
  const AttentionOutput before = problem.output();
  int device = 0;
  void* other = nullptr;
  QUERN_TEST_CUDA(cuDeviceGet(&device, 1));
  QUERN_TEST_CUDA(cuDevicePrimaryCtxRetain(&other, device));
  QUERN_TEST_CUDA(cuCtxSetCurrent(other));
  {
    const Stream foreign;
    QUERN_TEST_CUDA(cuCtxSetCurrent(cuda().context));
    problem.args().stream = foreign.get();
    expect_refused({"stream", "device"},
                   [&](quern_error* e) { return quern_attention(context(), &problem.args(), e); });
  }
  EXPECT_TRUE(same_bits(problem.output(), before));
}

// Keys and values in pools of more than 4 GiB each, in pages whose offsets need 33 bits even counted in elements.
TEST_F(OnCuda, PagesLieBeyond4GiB) {
  for (const bool decode : {true, false}) {
    AttentionCase c;
    c.dim_k = 128;
    c.kv_heads = 8;
    c.page_size = decode ? 16 : 8;
    c.one_query = decode;
    c.causal = true;
    if (decode) {
      c.sequences = decode_of({300, 17, 1000});
    } else {
      c.sequences = {{100, 300}, {7, 17}, {64, 1000}};
    }
    c.first_page = static_cast<int>((std::int64_t{1} << 31) / (c.page_size * c.kv_heads * c.dim_k)) + 1000;
    AttentionProblem problem(c, Random("beyond"));
    ASSERT_GT(problem.tensors().k_elements, std::int64_t{1} << 31);
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
  }
}

}  // namespace
}  // namespace quern::test
