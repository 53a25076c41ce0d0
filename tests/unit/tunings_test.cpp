// Records of tuning: which calls they are for, and that they come back as they were kept.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/tunings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

namespace quern::ops::gemm {
namespace {

class TuningsTest : public testing::Test {
 protected:
  TuningsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-tunings-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
    folder_ = pattern;
    device.limits = jit::limits_of(jit::Target::parse("sm_90a"));
    device.sm_count = 132;
    device.name = "A Hopper";
    options_.store.folder = folder_.string();
    service.emplace(options_);
    tunings.emplace(*service);
  }
  ~TuningsTest() override {
    tunings.reset();
    service.reset();
    std::filesystem::remove_all(folder_);
  }

  // A process after the one before.
  void restart() {
    tunings.reset();
    service.reset();
    service.emplace(options_);
    tunings.emplace(*service);
  }

  // bf16, a and b one line after the other.
  Problem problem(int m, int n = 4096, int k = 7168) const {
    Problem p{};
    p.op = tag_gemm;
    p.call.device = &device;
    p.call.sms = 132;
    p.shape.epilogue = &expression::intern("acc");
    p.params.m = m, p.params.n = n, p.params.k = k;
    p.params.groups = 1;
    p.params.a_row = p.params.b_row = k;
    return p;
  }
  std::optional<Choice> found(const Problem& p) { return tunings->choice(p, p.params.m); }

  jit::DeviceInfo device;
  std::optional<jit::Service> service;
  std::optional<Tunings> tunings;
  // What the model would not take: more blocks than are of use.
  const TunedRows kept{1, 16, {Variant::split_k_64x128, 4, 1}, 8.25, 9.5};

 private:
  std::filesystem::path folder_;
  jit::Service::Options options_;
};

TEST_F(TuningsTest, CallsTakeWhatWasKept) {
  EXPECT_FALSE(found(problem(16)));
  tunings->keep(problem(16), kept);
  for (int round = 0; round < 2; ++round) {
    for (const int m : {1, 9, 16}) {
      EXPECT_EQ(found(problem(m)), kept.choice) << m;
      EXPECT_EQ(choose({nullptr, nullptr, jit::Miss::compile, nullptr, &*tunings}, problem(m), {m, 1}), kept.choice)
          << m;
    }
    EXPECT_NE(by_model(problem(16), {16, 1}), kept.choice) << "the test would prove nothing";
    ASSERT_EQ(tunings->all(problem(16)).size(), 1u);
    EXPECT_EQ(tunings->all(problem(16))[0].microseconds, 8.25);
    EXPECT_EQ(tunings->all(problem(16))[0].model_microseconds, 9.5);
    restart();
  }
}

TEST_F(TuningsTest, OtherCallsGoByTheModel) {
  tunings->keep(problem(16), kept);
  EXPECT_FALSE(found(problem(17)));
  EXPECT_FALSE(found(problem(16, 4104)));
  EXPECT_FALSE(found(problem(16, 4096, 7176)));
  Problem p = problem(16);
  p.flags = QUERN_CALL_BATCH_INVARIANT;
  EXPECT_FALSE(found(p));
  p = problem(16);
  p.call.sms = 131;
  EXPECT_FALSE(found(p));
  p = problem(16);
  p.params.a_row = 0;
  EXPECT_FALSE(found(p)) << "one row for all: no tensor map describes it";
  p = problem(16);
  p.shape.transposed_b = true, p.params.b_row = 1, p.params.b_k = 0;
  EXPECT_FALSE(Tunings::covers(p)) << "one k for all";
  p.params.b_k = 4096;
  EXPECT_TRUE(Tunings::covers(p)) << "columns side by side";
  p = problem(16);
  p.params.groups = 2, p.params.a_group = p.params.b_group = 1 << 20;
  EXPECT_FALSE(found(p)) << "two of them are another product";
  p = problem(16);
  p.shape.out = Dtype::f32;
  EXPECT_FALSE(found(p));
  p = problem(16);
  p.op = tag_fp8_gemm;
  p.shape.a = p.shape.b = Dtype::e4m3, p.shape.scales = Scales::vectors;
  EXPECT_FALSE(found(p));
  jit::DeviceInfo other = device;
  other.sm_count = 114;
  p = problem(16);
  p.call.device = &other, p.call.sms = 114;
  restart();
  EXPECT_FALSE(found(p)) << "another device";
}

TEST_F(TuningsTest, RowsAndBatchesStandSideBySide) {
  const TunedRows more{1, 4096, {Variant::persistent_128x128, 1, 1}, 100, 110},
      less{1, 64, {Variant::small_m_64x16, 1, 1}, 10, 11};
  for (const TunedRows& one : {more, kept, less}) tunings->keep(problem(16), one);
  const TunedRows again{1, 16, {Variant::small_m_64x64, 1, 1}, 7, 9};
  tunings->keep(problem(16), again);
  restart();
  const auto all = tunings->all(problem(1));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].choice, again.choice) << "what was measured last";
  EXPECT_EQ(all[1].choice, less.choice);
  EXPECT_EQ(all[2].choice, more.choice);
  EXPECT_EQ(found(problem(4040)), more.choice) << "as many tiles of 64 rows";
  EXPECT_FALSE(found(problem(4032)));
}

// What this library has no kernel or no room for is as good as not there.
TEST_F(TuningsTest, RecordsThatDoNotHoldAreLeftOut) {
  tunings->keep(problem(16), {1, 16, {Variant::split_k_64x128, 9, 1}, 1, 2});  // no such cluster
  tunings->keep(problem(16), {1, 32, {Variant::plain, 1, 1}, 1, 2});           // not on tensor cores
  tunings->keep(problem(16), {1, 64, {Variant::small_m_64x32, 1, 1}, 1, 2});
  tunings->keep(problem(16), {1, 204, {Variant::persistent_128x128, 1, 1}, 1, 2});  // no class of rows
  restart();
  const auto all = tunings->all(problem(16));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].rows, 64);
}

TEST_F(TuningsTest, WhatCannotBeStoredHoldsForTheProcess) {
  jit::Service::Options nowhere;
  nowhere.store.no_file = true;
  jit::Service none(nowhere);
  Tunings own(none);
  try {
    own.keep(problem(16), kept);
    FAIL() << "nobody was told";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_IO);
  }
  EXPECT_EQ(own.choice(problem(16), 16), kept.choice);
}

}  // namespace
}  // namespace quern::ops::gemm
