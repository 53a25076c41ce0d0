// quern_sample while its kernels are being compiled: the small one that does the calls until they are there draws the
// same tokens, whatever is asked for.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/ops/manifest.h"
#include "tests/ops/sample_inputs.h"
#include "tests/support/temporary_folder.h"

namespace quern::test {
namespace {

// Contexts that have that kernel alone: each is made for one call, and forgets what it begins to compile.
class SampleWhileCompiling : public testing::Test {
 protected:
  void SetUp() override {
    if (device_kind() == Kind::host64)
      GTEST_SKIP() << "a row that a warp of 64 reads has no cluster: one kernel for all";
    const Context made = make_context([&](quern_context_options& o) { o.cache_path = folder_.c_str(); });
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* rest : {"edits=0", "edits=1", "edits=0 largest=1", "edits=1 largest=1"})
        warm(made.get(), {}, std::string("sample * dtype=") + dtype + " filters=1 clusters=1 small=1 " + rest + "\n");
    }
    bundle_ = std::string(folder_.c_str()) + "/small.qb";
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_cache_export(made.get(), bundle_.c_str(), nullptr, nullptr, &error), QUERN_OK) << error.text;
  }

  // On `host` in an unfair order, by seed.
  SampleOutput run(const SampleInput& in) {
    const char* const bundle = bundle_.c_str();
    const Context fresh = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_NO_CACHE;
      o.bundles = &bundle, o.bundle_count = 1;
      if (!on_cuda()) o.flags |= QUERN_CONTEXT_HOST_SEED, o.host_seed = run_seed() + calls_++;
    });
    SampleCall call(in);
    call.prepare();
    auto error = sized<quern_error>();
    EXPECT_EQ(quern_sample(fresh.get(), &call.args, &error), QUERN_OK) << error.text;
    synchronize();
    const std::vector<std::string> lines = manifest_of(fresh.get());
    EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& l) { return l.find("small=1") != l.npos; }))
        << "another kernel did it: " << (lines.empty() ? "none" : lines.back());
    return call.read();
  }

  // The portable kernel's, which a filter that is given and off asks for.
  void expect_as_portable(const SampleInput& in, const std::string& what) {
    SampleInput rare = in;
    rare.typical_p.assign(in.count(), 1.0f);
    const SampleOutput other = SampleCall(rare).run(), out = run(in);
    for (std::size_t i = 0; i < in.count(); ++i) {
      const std::string where = what + " row " + std::to_string(i) + ", QUERN_TEST_SEED=" + std::to_string(run_seed());
      EXPECT_EQ(out.ids[i], other.ids[i]) << where;
      EXPECT_EQ(out.status[i], other.status[i]) << where;
      if (in.logprobs) {
        EXPECT_EQ(std::memcmp(&out.logprobs[i], &other.logprobs[i], 4), 0)
            << where << ": " << out.logprobs[i] << ", " << other.logprobs[i];
      }
    }
    EXPECT_EQ(out.offsets, other.offsets) << what;
    EXPECT_EQ(out.counts, other.counts) << what;
    EXPECT_EQ(out.top_ids, other.top_ids) << what;
    EXPECT_EQ(out.top_logprobs, other.top_logprobs) << what;
  }

 private:
  const TemporaryFolder folder_;
  std::string bundle_;
  std::uint64_t calls_ = 0;
};

void leave_the_usual(SampleInput* in) {
  for (auto* of : {&in->typical_p, &in->n_sigma, &in->xtc_probability, &in->xtc_threshold, &in->dynamic_range,
                   &in->dynamic_exponent})
    of->clear();
  in->flags &= QUERN_SAMPLE_JOINT | QUERN_SAMPLE_LOGPROBS_FILTERED;
}

TEST_F(SampleWhileCompiling, DrawsTheSameTokens) {
  Random random("sample small");
  for (int round = 0; round < 8; ++round) {
    constexpr std::size_t kRows = 7;
    const Element element = round % 3 == 0 ? Element::bf16 : round % 3 == 1 ? Element::f16 : Element::f32;
    SampleInput in = make_input(random,
                                round % 4 == 0   ? 300
                                : round % 4 == 1 ? 5000
                                                 : 9003 + 6144 * round,
                                element, kRows);
    add_filters(random, &in);
    if (round % 2 != 0) add_edits(random, &in);
    leave_the_usual(&in);
    if (round % 5 == 4) in.top_k.clear(), in.top_p.clear(), in.min_p.assign(kRows, 0.0f);
    if (in.top_k.empty()) in.top_k.assign(kRows, 0);  // given, so that it is a call that filters
    if (round % 4 == 3) in.flags |= QUERN_SAMPLE_JOINT;
    in.logprobs = round % 3 != 2;
    in.top_n = round % 2 == 0 ? 0 : 5;
    if (round % 4 == 1) in.flags |= QUERN_SAMPLE_LOGPROBS_FILTERED;
    in.max_sms = round % 2 == 0 ? 0 : 4;
    for (std::size_t i = 0; i < kRows; ++i) {
      in.seeds.push_back(static_cast<std::int64_t>(random.next()));
      in.offsets.push_back(static_cast<std::int64_t>(random.below(1000)));
    }
    expect_as_portable(in, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST_F(SampleWhileCompiling, DrawsTheSameTokensOfOddLogits) {
  Random random("sample small odd");
  for (int round = 0; round < 4; ++round) {
    SampleInput in;
    in.vocab = 20000;
    for (const LogitShape shape :
         {LogitShape::peaked, LogitShape::equal, LogitShape::two, LogitShape::rising, LogitShape::holes,
          LogitShape::staircase, LogitShape::denormal, LogitShape::huge, LogitShape::heaps, LogitShape::one})
      in.logits.push_back(make_logits(random, shape, in.vocab, Element::f32));
    const std::size_t rows = in.count();
    in.logits[4][7] = NAN, in.logits[4][9] = INFINITY;
    if (round == 1) std::fill(in.logits[9].begin(), in.logits[9].end(), -INFINITY);
    in.temperature = drawn(random, rows, {1.0f, 0.8f, 0.0f, 2.0f});
    in.top_k = drawn(random, rows, {0, 0, 1, 64, 65, 500, 3000, 19999, 20000, 30000});
    in.top_p = drawn(random, rows, {1.0f, 0.9f, 0.99f, 0.0f}),
    in.min_p = drawn(random, rows, {0.0f, 0.0f, 0.01f, 1.0f});
    if (round == 2) in.top_k[3] = -2, in.top_p[5] = 2.0f;
    if (round == 3) add_edits(random, &in), leave_the_usual(&in);
    in.logprobs = round % 3 == 0, in.top_n = round == 3 ? 7 : 0;
    expect_as_portable(in, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace quern::test
