// The products under the `host` target's unfair scheduling and late copies, by seed: a missing wait or barrier gives
// other bits.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

constexpr int kSeeds = 12;

std::vector<GemmCase> cases() {
  std::vector<GemmCase> all;
  const auto add = [&](const std::string& name, GemmCase c, const std::function<void(GemmCase&)>& change = {}) {
    c.name = "unfair_" + name;
    if (change) change(c);
    all.push_back(std::move(c));
  };
  for (const GemmKind& kind : gemm_kinds()) {
    const std::string name = kind.name;
    if (name == "bf16") continue;  // as f16
    add(name + "_tiny", of_shape(kind.common, 5, 72, 528));
    add(name + "_shared", of_shape(kind.common, 5, 24, 2064));
    if (name == "f32") continue;  // has one variant
    add(name + "_small", of_shape(kind.common, 33, 130, 272));
    add(name + "_medium", of_shape(kind.common, 70, 130, 272));
    add(name + "_large", of_shape(kind.common, 300, 264, 272));
  }
  add("f16_tt", of_shape(gemm_of(Element::f16), 8, 40, 144),
      [](GemmCase& c) { c.transposed_a = c.transposed_b = true; });
  add("aligned_to_4", of_shape(fp8_blocks(), 5, 77, 268), [](GemmCase& c) { c.alignment = 4; });
  // Where Hopper's kernels are not taken.
  add("aligned_to_4_shared", of_shape(fp8_vectors(), 5, 24, 2060), [](GemmCase& c) { c.alignment = 4; });
  add("aligned_to_4_small", of_shape(fp8_vectors(), 33, 77, 268), [](GemmCase& c) { c.alignment = 4; });
  add("aligned_to_4_medium", of_shape(fp8_vectors(), 70, 77, 268), [](GemmCase& c) { c.alignment = 4; });
  add("aligned_to_4_large", of_shape(fp8_vectors(), 300, 264, 268), [](GemmCase& c) { c.alignment = 4; });
  add("aligned_to_4_blocks_large", of_shape(fp8_blocks(), 300, 264, 268), [](GemmCase& c) { c.alignment = 4; });
  // Tiles that are shared, and side by side, in turn.
  add("few_rows_turns", of_shape(fp8_blocks(), 30, 1100, 528));
  add("few_rows_peers", of_shape(fp8_blocks(), 100, 1100, 400),
      [](GemmCase& c) { c.flags = std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_GEMM_CONSTANT_B; });
  add("few_rows_one_block", of_shape(gemm_of(Element::f16), 70, 300, 272), [](GemmCase& c) { c.max_sms = 1; });
  // Many rows: two blocks beside each other, and the widest tiles' two passes.
  add("many_rows_peers", of_shape(fp8_vectors(), 200, 40, 400));
  add("many_rows_wide", of_shape(fp8_blocks(), 300, 520, 272), [](GemmCase& c) { c.out = Element::bf16; });
  add("many_rows_of_experts", of_shape(fp8_blocks(), 550, 384, 272), [](GemmCase& c) {
    c.product = Product::contiguous;
    c.counts = {300, 0, 250};
    c.gate = true;
  });
  // Operands stored the other way round, of few rows and of many, in boxes of several widths.
  const auto turned = [](GemmCase& c) { c.transposed_a = c.transposed_b = true; };
  add("few_rows_tn", of_shape(gemm_of(Element::f16), 24, 1104, 528), turned);
  add("many_rows_nn_peers", of_shape(gemm_of(Element::f16), 200, 40, 400), [](GemmCase& c) { c.transposed_b = true; });
  add("many_rows_tn_peers", of_shape(gemm_of(Element::f16), 200, 40, 403), turned);
  add("many_rows_tn", of_shape(gemm_of(Element::f16), 304, 264, 275), turned);
  add("many_rows_tn_wide", of_shape(gemm_of(Element::f16), 304, 520, 275), turned);
  add("many_rows_tn_gate", of_shape(gemm_of(Element::f16), 304, 1040, 147),
      [&](GemmCase& c) { turned(c), c.gate = true; });
  add("gate_out_scale", of_shape({}, 5, 544, 272), [](GemmCase& c) {
    c.gate = true, c.scale_a = c.scale_b = Scaling::blocks;
    c.out = Element::e5m2, c.out_scale = true;
  });
  add("contiguous", of_shape({}, 66, 72, 144), [](GemmCase& c) {
    c.product = Product::contiguous;
    c.counts = {3, 0, 40, 17, 0};
    c.gathered = true, c.tokens = 30;
  });
  add("masked", of_shape({}, 45, 72, 272), [](GemmCase& c) {
    c.product = Product::masked;
    c.counts = {3, 0, 40, 17};
    c.scale_a = c.scale_b = Scaling::blocks;
  });
  return all;
}

class GemmScheduling : public Gemm {};

TEST_P(GemmScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  GemmProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  const GemmOutput fair = problem.output();
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t value = run_seed() * kSeeds + static_cast<std::uint64_t>(seed);
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
    ASSERT_TRUE(problem.output() == fair) << "host_seed " << value;
  }
  problem.expect_counters_zero();
}
INSTANTIATE_TEST_SUITE_P(Seeds, GemmScheduling, testing::ValuesIn(listed(cases())), name_of_product);

}  // namespace
}  // namespace quern::test
