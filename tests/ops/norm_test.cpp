// norm against its definition in fp64: every kind, with what may stand around it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/compiled.h"
#include "tests/ops/norm_fixture.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "norm * dtype=bf16 out=bf16 kind=layer weight=bf16 bias=bf16 residual=1 team=256",
    "norm * dtype=f16 out=f32 kind=rms scale=f32 shift=f32 team=16 access=2 tail=1",
    "norm * dtype=bf16 out=bf16 kind=group stage=apply weight=f32 bias=f32 channels_last=1 team=512",
    "norm * dtype=bf16 out=bf16 kind=group stage=moments team=512",
    "norm * dtype=bf16 out=bf16 kind=layer weight=bf16 bias=bf16 team=512 twice=1",
};

class NormOf : public testing::TestWithParam<NormCase> {};
std::string name_of_case(const testing::TestParamInfo<NormCase>& c) { return c.param.name; }

std::vector<NormCase> cases() {
  std::vector<NormCase> all;
  const auto add = [&](const std::string& name, int kind, Element x, std::int64_t rows, std::int64_t n) -> NormCase& {
    NormCase& c = all.emplace_back();
    c.name = name, c.kind = kind, c.x = c.out = x, c.rows = rows, c.n = n;
    return c;
  };
  // Both sides of each change of team; primes; rows in pieces.
  for (const std::int64_t n : {1, 7, 33, 512, 521, 8192, 16384}) {
    NormCase& c = add("layer_" + std::to_string(n), QUERN_NORM_LAYER, n % 2 == 0 ? Element::bf16 : Element::f16,
                      n > 5000 ? 2 : 19, n);
    c.weight = c.bias = Parameter::like_x;
    // The longest row has no registers for as many parameters at once.
    if (n == 16384) c.scale = c.shift = Parameter::f32;
  }
  NormCase& pieces = add("layer_pieces", QUERN_NORM_LAYER, Element::f16, 2, 20011);
  pieces.weight = Parameter::like_x, pieces.residual = true, pieces.to = Where::x, pieces.sum = Where::residual;
  NormCase& many = add("l2_many_pieces", QUERN_NORM_L2, Element::f32, 2, 70000);
  many.max_sms = 1;
  add("rms_pieces", QUERN_NORM_RMS, Element::f16, 1, 66000).out = Element::f32;
  add("l2_7", QUERN_NORM_L2, Element::f32, 5, 7);
  NormCase& wide = add("rms_bf16_to_f32", QUERN_NORM_RMS, Element::bf16, 5, 256);
  wide.out = Element::f32, wide.bias = Parameter::f32;
  // What rmsnorm does of it.
  NormCase& rms = add("rms_as_rmsnorm", QUERN_NORM_RMS, Element::bf16, 5, 264);
  rms.weight = Parameter::like_x, rms.flags = QUERN_NORM_WEIGHT_PLUS_ONE, rms.residual = true, rms.sum = Where::own;
  // Modulated: a token, a sample, all alike.
  for (const std::int64_t m : {6, 3, 1}) {
    NormCase& c = add("adaln_" + std::to_string(m), QUERN_NORM_LAYER, Element::bf16, 6, 320);
    c.scale = c.shift = m == 3 ? Parameter::f32 : Parameter::like_x, c.m = m;
  }
  NormCase& everything = add("everything", QUERN_NORM_RMS, Element::f16, 6, 100);
  everything.weight = everything.bias = everything.scale = everything.shift = Parameter::f32, everything.m = 2;
  everything.residual = true, everything.sum = Where::residual, everything.to = Where::x;
  everything.flags = std::uint32_t{QUERN_NORM_WEIGHT_PLUS_ONE} | QUERN_NORM_SCALE_ALONE, everything.padding = 3;
  // Groups: several channels, one, all; vectors that lie in one channel and in several.
  const auto group = [&](const std::string& name, Element x, std::int64_t batch, std::int64_t channels,
                         std::int64_t places, std::int64_t groups) -> NormCase& {
    NormCase& c = add(name, QUERN_NORM_GROUP, x, batch, channels * places);
    c.groups = groups, c.places = places, c.weight = c.bias = Parameter::like_x;
    return c;
  };
  group("group_whole", Element::bf16, 2, 32, 64, 8);
  group("group_33_places", Element::f16, 3, 10, 33, 5).padding = 5;
  group("instance", Element::f32, 2, 3, 49, 3).residual = true;
  group("group_one", Element::f32, 2, 6, 1, 1);
  group("group_pieces", Element::bf16, 1, 4, 9001, 2);
  // The channels of a place beside each other: whole vectors, several to a place, and none.
  for (const std::int64_t channels : {64, 40, 8}) {
    NormCase& c = group("channels_last_" + std::to_string(channels), Element::bf16, 2, channels, 35, 4);
    c.channels_last = true;
  }
  NormCase& last = group("channels_last_pieces", Element::f32, 1, 20, 2003, 2);
  last.channels_last = true, last.residual = true, last.to = Where::x, last.sum = Where::residual;
  NormCase& bare = group("group_bare", Element::bf16, 2, 8, 16, 2);
  bare.weight = bare.bias = Parameter::none;
  // A mean far from 0 leaves the variance what it is.
  add("far_mean", QUERN_NORM_LAYER, Element::f32, 3, 521).mean = 1000.0;
  // Parts of a row whose means differ: what lies between them is most of the variance.
  for (const int max_sms : {0, 1}) {
    NormCase& c = add("drift_" + std::to_string(max_sms), QUERN_NORM_LAYER, Element::f32, 1, 70000);
    c.drift = 100.0, c.max_sms = max_sms;
  }
  add("no_rows", QUERN_NORM_LAYER, Element::bf16, 0, 64);
  add("alignment4", QUERN_NORM_L2, Element::bf16, 5, 40).alignment = 4;
  add("max_sms", QUERN_NORM_LAYER, Element::f32, 300, 40).max_sms = 1;
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, NormOf, testing::ValuesIn(cases()), name_of_case);

TEST_P(NormOf, IsWhatItsDefinitionSays) {
  Norm norm(GetParam());
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  norm.check();
}

// `host` in an unfair order, by seed: a missing barrier gives other bits.
TEST(NormScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (const std::int64_t n : {512, 8192, 20011}) {
    SCOPED_TRACE(n);
    NormCase c = plain_norm("unfair" + std::to_string(n), 5, n);
    c.x = c.out = n % 2 == 0 ? Element::bf16 : Element::f16, c.max_sms = 1;
    Norm norm(c);
    ASSERT_NO_FATAL_FAILURE(norm.run(context()));
    norm.check();
    const std::vector<unsigned char> out = norm.out.all_found();
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      norm.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(norm.call(unfair.get()));
      EXPECT_EQ(norm.out.all_found(), out) << "seed " << seed;
    }
  }
}

// A row's bits are its own, whatever lies beside it.
TEST(NormRows, AreTheSameAlone) {
  const NormCase c = plain_norm("rows", 37, 512);
  Norm norm(c);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  const std::vector<unsigned char> together = norm.out.all_found();
  const auto bytes = static_cast<std::ptrdiff_t>(c.n * 2);
  for (Matrix* each : {&norm.x, &norm.out}) {
    each->box.shape[0] = 1;
    each->box.tensor.byte_offset = static_cast<std::uint64_t>(17 * bytes);
  }
  ASSERT_NO_FATAL_FAILURE(norm.call(context()));
  const unsigned char *here = norm.out.all_found().data() + 17 * bytes, *there = together.data() + 17 * bytes;
  EXPECT_TRUE(std::equal(here, here + bytes, there));
}

// A row's NaN and infinities stay in the row; a row of one number gives zeros, and one of subnormals what eps leaves.
TEST(NormNumbers, WhatIsNotFiniteStaysInItsRow) {
  NormCase c;
  c.name = "odd numbers", c.rows = 5, c.n = 96, c.x = c.out = Element::f32;
  Norm norm(c);
  norm.x.put(0, 5, std::numeric_limits<double>::quiet_NaN());
  norm.x.put(1, 7, std::numeric_limits<double>::infinity());
  for (std::int64_t k = 0; k < c.n; ++k) norm.x.put(2, k, 3.0), norm.x.put(3, k, k % 2 == 0 ? 1e-40 : -1e-40);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  for (std::int64_t k = 0; k < c.n; ++k) {
    EXPECT_TRUE(std::isnan(norm.out.found(0, k))) << k;
    EXPECT_TRUE(std::isnan(norm.out.found(1, k))) << "infinity less an infinite mean: " << k;
    EXPECT_EQ(norm.out.found(2, k), 0.0) << k;
    EXPECT_LE(std::fabs(norm.out.found(3, k)), 1e-36) << k;
    EXPECT_TRUE(std::isfinite(norm.out.found(4, k))) << k;
  }
}

// What a model's warming names is what its calls take; and a line that no call could need is refused.
TEST(NormWarm, NamesWhatCallsTake) {
  auto model = sized<quern_model>();
  model.hidden_size = 768, model.layers = 1, model.heads = 12, model.kv_heads = 12, model.head_dim = 64;
  model.flags = QUERN_MODEL_LAYER_NORM;
  std::string lines;
  for (const std::string& line : listed_by_warm(context(), model)) {
    EXPECT_FALSE(line.starts_with("rmsnorm ")) << line;
    if (line.starts_with("norm ")) lines += line + "\n";
  }
  EXPECT_NE(lines.find("kind=layer stage=whole weight=bf16 bias=bf16 scale=none shift=none residual=0"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("residual=1"), std::string::npos) << lines;
  const Context fresh = compiling_context();
  for (const char* wrong :
       {"kind=layer team=3", "kind=layer team=2048", "kind=none team=32", "kind=layer team=32 weight=f16",
        "kind=group team=32 scale=f32", "kind=layer stage=apply team=32", "kind=layer team=32 weight=f32 bias=bf16"}) {
    const std::string line = std::string("norm host dtype=bf16 out=bf16 ") + wrong;
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
