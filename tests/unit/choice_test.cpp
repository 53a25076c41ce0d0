// What a product of few rows can take on a Hopper: variants of few columns among them, and the model's choice. And the
// choice for many rows where there are tensor maps, but none of Hopper's own products.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/cost.h"
#include "sources/gemm/plan/tunings.h"

namespace quern::ops::gemm {
namespace {

double expected_microseconds(const Problem& p, const Choice& choice) {
  const Tiling tiling = fitted_to(*tiling_of(p, choice.variant), choice, row_class(sizes_of(p).rows));
  return cost_of(p, tiling, choice, sizes_of(p), all_sms(p));
}
// Of the variant's best split.
double expected_microseconds(const Problem& p, Variant variant) {
  double least = 1e30;
  for (const Choice& choice : candidates(p, sizes_of(p))) {
    if (choice.variant == variant) least = std::min(least, expected_microseconds(p, choice));
  }
  return least;
}
// What was measured to be the fastest is at most this much behind what the model takes.
constexpr double kNearly = 1.1;

// What choices are made with: nothing has been measured, and nothing is kept.
struct Untuned {
  jit::Service service{[] {
    jit::Service::Options nowhere;
    nowhere.store.no_file = true;
    return nowhere;
  }()};
  Tunings tunings{service};
  Runtime runtime{nullptr, nullptr, jit::Miss::compile, nullptr, &tunings};
};

class OnHopper : public testing::Test {
 protected:
  OnHopper() {
    device_.limits = jit::limits_of(jit::Target::parse("sm_90a"));
    device_.sm_count = 132;
  }
  // 8-bit operands with block scales, one line after the other.
  Problem problem(int m, int n, int k) const {
    Problem p{};
    p.op = tag_fp8_gemm;
    p.call.device = &device_;
    p.call.sms = 132;
    p.shape.a = p.shape.b = Dtype::e4m3;
    p.shape.scales = Scales::blocks;
    p.shape.epilogue = &expression::intern("acc");
    p.params.m = m, p.params.n = n, p.params.k = k;
    p.params.groups = 1;
    p.params.a_row = p.params.b_row = k;
    return p;
  }

 private:
  jit::DeviceInfo device_;
};
class FewRowsOnHopper : public OnHopper {};
class ManyRowsOnHopper : public OnHopper {};

TEST_F(FewRowsOnHopper, CanTakeEveryFormOfFewColumns) {
  const struct {
    int m, n, k;
  } all[] = {{16, 4096, 7168},  {64, 2112, 7168},  {64, 24576, 1536},
             {64, 7168, 16384}, {128, 4096, 7168}, {128, 7168, 16384}};
  for (const auto& each : all) {
    const Problem p = problem(each.m, each.n, each.k);
    const std::vector<Choice> choices = candidates(p, sizes_of(p));
    for (const Variant variant : kSmallM) {
      const bool there = std::find(choices.begin(), choices.end(), Choice{variant, 1, 1}) != choices.end();
      const bool is_offered = offered(p.shape, variant, p.call.device->limits).has_value();
      EXPECT_EQ(there, is_offered && (facts_of(variant).rows == 64 || each.m > 64))
          << name_of(variant) << " for " << each.m << " rows";
    }
  }
}

// What was the fastest on an H200 (tests/bench/results/2026-11-23_gemm_log.md), and what the model makes of it.
TEST_F(FewRowsOnHopper, TakesWhatWasMeasuredToBeTheFastest) {
  const struct {
    int m, n, k;
    Choice fastest;
    double microseconds;
  } all[] = {{16, 4096, 7168, {Variant::small_m_64x32, 1, 1}, 9.3},
             {64, 2112, 7168, {Variant::small_m_64x16, 1, 1}, 7.4},
             {64, 24576, 1536, {Variant::small_m_64x64, 1, 1}, 12.9},
             {64, 7168, 16384, {Variant::split_k_64x128, 2, 1}, 30.7},
             {128, 4096, 7168, {Variant::small_m_64x64, 1, 1}, 11.4},
             {128, 7168, 16384, {Variant::split_k_128x128, 2, 1}, 34.6}};
  for (const auto& each : all) {
    SCOPED_TRACE(std::to_string(each.m) + 'x' + std::to_string(each.n) + 'x' + std::to_string(each.k));
    for (const Scales scales : {Scales::blocks, Scales::vectors}) {
      Problem p = problem(each.m, each.n, each.k);
      p.shape.scales = scales;
      const Choice choice = by_model(p, sizes_of(p));
      Choice fastest = each.fastest;
      // Without block scales few tiles of many terms are divided by six: 8.2 us, where small_m took 9.7 (2026-11-24).
      if (scales == Scales::vectors && fastest.variant == Variant::small_m_64x16)
        fastest = {Variant::split_k_64x128, 6, 1};
      // Without block scales tiles of 112 columns, of which 64 are 128 blocks, in place of 56 of 128 columns.
      if (scales == Scales::vectors && fastest.variant == Variant::split_k_128x128)
        fastest.variant = Variant::split_k_128x112;
      EXPECT_LE(expected_microseconds(p, fastest), kNearly * expected_microseconds(p, choice))
          << Tunings::text_of(choice);
      EXPECT_NEAR(expected_microseconds(p, choice), each.microseconds, 0.15 * each.microseconds);
      const std::vector<Choice> choices = candidates(p, sizes_of(p));
      EXPECT_NE(std::find(choices.begin(), choices.end(), choice), choices.end()) << "tuning does not measure it";
    }
  }
}

// The same of bf16; 128 x 7168 x 16384 took 77.4 us by small_m tiles of 128 x 64, 66.4 by swap_ab, 63.2 by split_k
// ones of 128 columns, 61.4 by those of 112.
TEST_F(FewRowsOnHopper, TakesWhatWasMeasuredToBeTheFastestIn16Bits) {
  const struct {
    int m, n, k;
    Variant fastest;
  } all[] = {{16, 4096, 7168, Variant::small_m_64x32},  {64, 2112, 7168, Variant::split_k_64x128},
             {64, 24576, 1536, Variant::small_m_64x64}, {64, 7168, 16384, Variant::split_k_64x128},
             {128, 4096, 7168, Variant::small_m_64x64}, {128, 7168, 16384, Variant::split_k_128x112}};
  for (const auto& each : all) {
    Problem p = problem(each.m, each.n, each.k);
    p.op = tag_gemm;
    p.shape.scales = Scales::none, p.shape.a = p.shape.b = Dtype::bf16;
    const Choice choice = by_model(p, sizes_of(p));
    EXPECT_LE(expected_microseconds(p, each.fastest), kNearly * expected_microseconds(p, choice))
        << each.m << " x " << each.n << " x " << each.k << ": " << Tunings::text_of(choice);
  }
}

// A batch has tiles enough without split-K; and its clusters must all find room at once.
TEST_F(FewRowsOnHopper, SharesTilesOnlyWhereEveryMultiprocessorIsTheCallsAndOneProductItsOwn) {
  const auto shares = [](const Problem& p) { return is_a(Family::split_k, by_model(p, sizes_of(p)).variant); };
  Problem p = problem(64, 7168, 16384);
  EXPECT_TRUE(shares(p));
  p.call.sms = 131;
  EXPECT_FALSE(shares(p));
  p = problem(64, 7168, 16384);
  p.params.groups = 2, p.params.a_group = p.params.b_group = 1 << 24;
  EXPECT_FALSE(shares(p));
  for (const Choice& choice : candidates(p, sizes_of(p))) EXPECT_FALSE(is_a(Family::split_k, choice.variant));
  p = problem(64, 7168, 16384);
  p.shape.gate = true;
  EXPECT_FALSE(shares(p));
}

// Of few rows the model is asked once, by the class of rows, and gives a call what it would have given.
// Tiles of one cluster lie in one matrix of a batch: an odd number of them leaves one alone in each.
TEST_F(FewRowsOnHopper, PairsOfTilesLieInOneMatrix) {
  Problem p = problem(3 * 96, 256, 4096);
  p.shape.scales = Scales::vectors;
  p.params.groups = 5;
  const Choice pairs{Variant::fitted_96x128, 1, 1, 3, 2};
  const Tiling tiling = fitted_to(*tiling_of(p, pairs.variant), pairs, p.params.m);
  EXPECT_EQ(clusters_of(p, tiling, pairs, sizes_of(p)), 5 * 2 * 2);
}

TEST_F(FewRowsOnHopper, TheModelIsAskedOnce) {
  Untuned untuned;
  Tunings& tunings = untuned.tunings;
  int asked = 0;
  const auto take = [&](const Problem& p) {
    return tunings.choice_or(p, p.params.m, [&] { return ++asked, by_model(p, sizes_of(p)); });
  };
  int classes = 0;
  for (const int n : {2112, 4096}) {
    for (const int m : {1, 17, 33, 65}) {
      const Problem p = problem(m, n, 7168), alike = problem(static_cast<int>(row_class(m)), n, 7168);
      const Choice first = take(p);
      EXPECT_EQ(asked, ++classes);
      EXPECT_EQ(first, by_model(p, sizes_of(p)));
      EXPECT_EQ(take(p), first);
      EXPECT_EQ(take(alike), first);
      EXPECT_EQ(asked, classes);
    }
  }
  // Of more rows and of a batch likewise.
  Problem batched = problem(16, 4096, 7168), fewer = batched;
  batched.params.groups = 2, batched.params.a_group = batched.params.b_group = 1 << 20;
  fewer.call.sms = 100;
  for (const Problem& p : {problem(129, 4096, 7168), problem(8192, 4096, 7168), batched}) {
    const Choice first = take(p);
    EXPECT_EQ(asked, ++classes);
    EXPECT_EQ(take(p), first);
    EXPECT_EQ(asked, classes);
  }
  // Not where the call may not use every multiprocessor.
  take(fewer), take(fewer);
  EXPECT_EQ(asked, classes += 2);
}

// Whatever the place in the table that two questions share, each gets its own answer.
TEST_F(FewRowsOnHopper, EachClassOfRowsHasItsOwnAnswer) {
  Untuned untuned;
  for (int round = 0; round < 2; ++round) {
    for (int m = 1; m <= 8192; m += 61) {
      Problem p = problem(m, 4096, 7168);
      p.params.out_row = 4096, p.params.out_vectors = 1;
      EXPECT_EQ(choose(untuned.runtime, p, sizes_of(p)), by_model(p, sizes_of(p))) << m;
    }
  }
}

TEST_F(FewRowsOnHopper, TakesNoneWhereAScaleOfResultsIsOfMoreColumns) {
  Problem p = problem(16, 4096, 7168);
  p.shape.out = Dtype::e4m3, p.shape.out_scale = true;
  for (const Choice& choice : candidates(p, sizes_of(p))) EXPECT_FALSE(is_a(Family::small_m, choice.variant));
}

// What prepare readies for all rows is what calls of fewer take, whatever multiprocessors they may use.
TEST_F(FewRowsOnHopper, WhatCallsOfFewerRowsTakeIsReachable) {
  Untuned untuned;
  const Runtime& runtime = untuned.runtime;
  for (const int n : {2112, 4096, 7168, 24576}) {
    const std::vector<Variant> variants = reachable(runtime, problem(128, n, 7168));
    EXPECT_LE(variants.size(), 8u);
    for (int m = 1; m <= 128; ++m) {
      Problem p = problem(m, n, 7168);
      for (const int sms : {132, 16}) {
        p.call.sms = sms;
        const Variant variant = choose(runtime, p, sizes_of(p)).variant;
        EXPECT_NE(std::find(variants.begin(), variants.end(), variant), variants.end())
            << m << " rows: " << name_of(variant);
      }
    }
  }
}

// Of an H200's 132 multiprocessors by code for sm_90, what was measured to be the faster.
TEST(FewRowsPortable, AreSlicedWhereTilesOrTheirPartsKeepMultiprocessorsEvenlyBusy) {
  jit::DeviceInfo device;
  device.limits = jit::limits_of(jit::Target::parse("sm_90"));
  device.sm_count = 132;
  const auto problem = [&](bool wide, int n, int k) {
    Problem p{};
    p.op = wide ? tag_gemm : tag_fp8_gemm;
    p.call.device = &device;
    p.call.sms = 132;
    p.shape.a = p.shape.b = wide ? Dtype::bf16 : Dtype::e4m3;
    p.shape.scales = wide ? Scales::none : Scales::blocks;
    p.shape.epilogue = &expression::intern("acc");
    p.params.m = 16, p.params.n = n, p.params.k = k, p.params.groups = 1;
    p.params.a_row = p.params.b_row = k;
    return p;
  };
  const struct {
    bool wide;
    int n, k;
    Variant faster;
  } all[] = {{false, 7168, 16384, Variant::sliced_k}, {true, 7168, 16384, Variant::tiny},
             {false, 4096, 7168, Variant::sliced_k},  {true, 4096, 7168, Variant::sliced_k},
             {false, 2112, 7168, Variant::sliced_k},  {true, 8192, 8192, Variant::sliced_k},
             {true, 4608, 8192, Variant::tiny},       {true, 5120, 8192, Variant::tiny},
             {false, 5120, 16384, Variant::tiny},     {false, 7168, 2048, Variant::sliced_k},
             {false, 24576, 1536, Variant::tiny}};
  for (const auto& each : all) {
    SCOPED_TRACE(std::to_string(each.n) + 'x' + std::to_string(each.k) + (each.wide ? " of bf16" : ""));
    Problem p = problem(each.wide, each.n, each.k);
    EXPECT_STREQ(name_of(by_model(p, sizes_of(p)).variant), name_of(each.faster));
    // The kernel is the same for a call that may use fewer of them.
    p.call.sms = 20;
    EXPECT_STREQ(name_of(by_model(p, sizes_of(p)).variant), name_of(each.faster));
    const std::vector<Choice> choices = candidates(p, sizes_of(p));
    EXPECT_NE(std::find(choices.begin(), choices.end(), Choice{Variant::sliced_k, 1, 1}), choices.end());
    // A row's sums are added up as they are with more rows.
    p.flags = QUERN_CALL_BATCH_INVARIANT;
    EXPECT_STREQ(name_of(by_model(p, sizes_of(p)).variant), "tiny");
  }
  // Some of a batch take what neither one nor all of it does.
  Untuned untuned;
  const Runtime& runtime = untuned.runtime;
  const Problem many = problem(true, 264, 272);
  const std::vector<Variant> of_many = reachable(runtime, many);
  for (const int rows : {0, 1, 16}) {
    Problem fewer = many;
    fewer.params.m = rows;
    const Variant variant = choose(runtime, fewer, sizes_of(fewer)).variant;
    EXPECT_NE(std::find(of_many.begin(), of_many.end(), variant), of_many.end())
        << rows << " rows: " << name_of(variant);
  }
  Problem batch = problem(true, 1920, 16384);
  batch.params.groups = 6, batch.params.a_group = batch.params.b_group = 1 << 28;
  const std::vector<Variant> variants = reachable(runtime, batch);
  for (int groups = 1; groups <= 6; ++groups) {
    batch.params.groups = groups;
    const Variant variant = choose(runtime, batch, sizes_of(batch)).variant;
    EXPECT_NE(std::find(variants.begin(), variants.end(), variant), variants.end())
        << groups << ": " << name_of(variant);
  }
}

// In a model's step (tests/bench/results/2026-11-23_engine_log.md) 30.5 us where a kernel that waits took 35.6; and
// what a call with other flags readies is what this one takes.
TEST_F(FewRowsOnHopper, BehindAnotherLaunchTakesWhatCopiesWeightsEarly) {
  Problem p = problem(64, 28672, 4096);
  p.shape.gate = true;
  p.shape.epilogue = &expression::intern("silu(gate) * up");
  const std::vector<Variant> ready = reachable_by_model(p);
  p.flags = kEarlyCopies;
  const Choice choice = by_model(p, sizes_of(p));
  EXPECT_TRUE(is_a(Family::small_m, choice.variant)) << Tunings::text_of(choice);
  EXPECT_NE(std::find(ready.begin(), ready.end(), choice.variant), ready.end()) << Tunings::text_of(choice);
  EXPECT_EQ(reachable_by_model(p), ready);
}

// Of an H200 with block scales, where the overlapped epilogue was measured to pay for a stage fewer.
TEST_F(ManyRowsOnHopper, LeaveLateWhereStepsAreFewAndOutHasATensorMap) {
  Untuned untuned;
  const Runtime& runtime = untuned.runtime;
  Problem p;
  const auto of = [&](int m, int n, int k, bool described) {
    p = problem(m, n, k);
    p.params.a_row = p.params.b_row = std::max(k, 128), p.params.out_row = n;
    p.shape.out = Dtype::bf16;
    p.params.out_vectors = described;
    return choose(runtime, p, sizes_of(p)).variant;
  };
  const auto can_be = [&](Variant variant) {
    const std::vector<Variant> variants = reachable(runtime, p);
    return std::find(variants.begin(), variants.end(), variant) != variants.end();
  };
  for (const bool described : {true, false}) {
    const Variant few_k_blocks = described ? Variant::overlapped_128x256 : Variant::persistent_128x256;
    EXPECT_STREQ(name_of(of(4096, 24576, 1536, described)), name_of(few_k_blocks));
    // What is prepared serves outs of either kind.
    EXPECT_TRUE(can_be(Variant::overlapped_128x256) && can_be(Variant::persistent_128x256));
    EXPECT_STRNE(name_of(of(4096, 7168, 16384, described)), "overlapped_128x256");
    EXPECT_STRNE(name_of(of(4096, 7168, 0, described)), "overlapped_128x256");
  }
  // A choice that was measured with an out that a tensor map describes. Tuning measures it whatever the call's.
  const Choice overlapped{Variant::overlapped_128x256, 1, 1};
  for (const bool described : {true, false}) {
    of(4096, 7168, 16384, described);
    const std::vector<Choice> choices = candidates(p, sizes_of(p));
    EXPECT_NE(std::find(choices.begin(), choices.end(), overlapped), choices.end());
  }
  EXPECT_THROW(untuned.tunings.keep(p, {1, row_class(4096), overlapped}),
               Error);  // there is no file, but it is known here
  for (const bool described : {true, false}) {
    EXPECT_STREQ(name_of(of(4096, 7168, 16384, described)), described ? "overlapped_128x256" : "persistent_128x256");
    EXPECT_TRUE(can_be(Variant::overlapped_128x256) && can_be(Variant::persistent_128x256));
  }
}

// With scales of rows and columns too, up to fewer k blocks, where a block has several tiles.
TEST_F(ManyRowsOnHopper, LeaveLateWithScalesOfRowsAndColumns) {
  Untuned untuned;
  const Runtime& runtime = untuned.runtime;
  int overlapped = 0;
  for (const auto& [m, n, k] :
       {std::array{4096, 24576, 1536}, std::array{4096, 7168, 2048}, std::array{8192, 4096, 4096},
        std::array{4096, 24576, 5120}, std::array{1024, 4096, 1536}}) {
    SCOPED_TRACE(std::to_string(m) + 'x' + std::to_string(n) + 'x' + std::to_string(k));
    Problem p = problem(m, n, k);
    p.params.a_row = p.params.b_row = k, p.params.out_row = n;
    p.shape.out = Dtype::bf16, p.shape.scales = Scales::vectors, p.params.out_vectors = 1;
    const Variant described = choose(runtime, p, sizes_of(p)).variant;
    overlapped += described == Variant::overlapped_128x256;
    p.params.out_vectors = 0;
    const Variant other = choose(runtime, p, sizes_of(p)).variant;
    EXPECT_STREQ(name_of(other),
                 name_of(described == Variant::overlapped_128x256 ? Variant::persistent_128x256 : described));
    // What is prepared serves outs of either kind.
    const std::vector<Variant> variants = reachable(runtime, p);
    for (const Variant variant : {described, other})
      EXPECT_NE(std::find(variants.begin(), variants.end(), variant), variants.end()) << name_of(variant);
    const std::vector<Choice> choices = candidates(p, sizes_of(p));
    EXPECT_NE(std::find(choices.begin(), choices.end(), Choice{Variant::overlapped_128x256, 1, 1}), choices.end());
    // A row's sums are added up as they are with fewer rows.
    p.flags = QUERN_CALL_BATCH_INVARIANT;
    EXPECT_STREQ(name_of(choose(runtime, p, sizes_of(p)).variant), "persistent_128x128");
  }
  EXPECT_GT(overlapped, 0);
}

// Stages that there is room for beside what a tile's results need: turns of two k blocks want four.
TEST_F(ManyRowsOnHopper, HaveTheStagesThatTheirResultsLeaveRoomFor) {
  const auto stages_of = [&](Variant variant, const std::function<void(Shape&)>& change) {
    Problem p = problem(4096, 7168, 7168);
    p.shape.out = Dtype::bf16;
    change(p.shape);
    const std::optional<Tiling> t = tiling_of(p, variant);
    return t ? t->stages : 0;
  };
  const auto vectors = [](Shape& shape) { shape.scales = Scales::vectors; };
  const auto vectors_gate = [](Shape& shape) { shape.scales = Scales::vectors, shape.gate = true; };
  const auto vectors_out_scale = [](Shape& shape) {
    shape.scales = Scales::vectors, shape.out = Dtype::e4m3, shape.out_scale = true;
  };
  EXPECT_EQ(stages_of(Variant::persistent_128x256, [](Shape&) {}), 4);
  EXPECT_EQ(stages_of(Variant::overlapped_128x256, [](Shape&) {}), 3);
  EXPECT_EQ(stages_of(Variant::persistent_128x192, [](Shape&) {}), 5);
  EXPECT_EQ(stages_of(Variant::persistent_128x256, [](Shape& shape) { shape.gate = true; }), 4);
  EXPECT_EQ(stages_of(Variant::overlapped_128x256, [](Shape& shape) { shape.gate = true; }), 0);
  EXPECT_EQ(stages_of(Variant::overlapped_128x256, vectors), 3);
  EXPECT_EQ(stages_of(Variant::overlapped_128x256, vectors_gate), 0);
  EXPECT_EQ(stages_of(Variant::persistent_128x256, vectors), 4);
  EXPECT_EQ(stages_of(Variant::persistent_128x256, vectors_gate), 4);
  EXPECT_EQ(stages_of(Variant::persistent_128x256, vectors_out_scale), 4);
  EXPECT_EQ(stages_of(Variant::persistent_128x128, vectors_out_scale), 6);
  for (const Grouping grouping : {Grouping::contiguous, Grouping::masked}) {
    EXPECT_EQ(
        stages_of(Variant::persistent_128x256, [&](Shape& shape) { vectors_gate(shape), shape.grouping = grouping; }),
        4);
  }
}

// Of an H200's 132 multiprocessors by code for sm_90, where sharing the last wave was measured to pay, and where not.
TEST(ManyRowsByTensorMap, ShareTheLastWaveWhereItPays) {
  jit::DeviceInfo device;
  device.limits = jit::limits_of(jit::Target::parse("sm_90"));
  device.sm_count = 132;
  Problem p{};
  p.op = tag_gemm;
  p.call.device = &device;
  p.call.sms = 132;
  p.shape.a = p.shape.b = p.shape.out = Dtype::bf16;
  p.shape.scales = Scales::none;
  p.shape.epilogue = &expression::intern("acc");
  p.params.groups = 1;
  const struct {
    int m, n, k;
    Choice fastest;
  } all[] = {{4096, 7168, 16384, {Variant::tma_mma_256x192, kLastWave, 1}},
             {8192, 8192, 8192, {Variant::tma_mma_256x192, kLastWave, 1}},
             {1024, 7168, 7168, {Variant::tma_mma_128x256, kLastWave, 1}},
             {4096, 4096, 7168, {Variant::tma_mma_256x192, 1, 1}},
             {4096, 7168, 2048, {Variant::tma_mma_256x192, 1, 1}},
             {4096, 24576, 1536, {Variant::tma_mma_256x192, 1, 1}}};
  for (const auto& each : all) {
    SCOPED_TRACE(std::to_string(each.m) + 'x' + std::to_string(each.n) + 'x' + std::to_string(each.k));
    p.params.m = each.m, p.params.n = each.n, p.params.k = each.k;
    p.params.a_row = p.params.b_row = each.k;
    const Choice choice = by_model(p, sizes_of(p));
    EXPECT_EQ(choice, each.fastest) << Tunings::text_of(choice);
    const std::vector<Choice> choices = candidates(p, sizes_of(p));
    EXPECT_NE(std::find(choices.begin(), choices.end(), choice), choices.end()) << "tuning does not measure it";
  }
  // Not for so few rows, nor where a stage cannot be described.
  p.params.m = 64;
  EXPECT_EQ(by_model(p, sizes_of(p)).variant, Variant::small);
  p.params.m = 4096;
  p.shape.copy_bytes = 4;
  EXPECT_EQ(by_model(p, sizes_of(p)).variant, Variant::large);
}

}  // namespace
}  // namespace quern::ops::gemm
