// Every wrong call of pointwise: refused by name, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "tests/ops/manifest.h"
#include "tests/ops/pointing.h"

namespace quern::test {
namespace {

struct Refusable : Pointing {
  Refusable() : Pointing({"tensor0+scalar0*number(integer1)", "tensor0*2"}) {
    scalars = {2.0f};
    operand(Stored::f32, {6, 8});
    operand(Stored::i32, {8});
    out(Stored::f32, {6, 8});
    out(Stored::bf16, {6, 8});
    fill("refusals");
    set();
  }
};

TEST(PointwiseRefuses, EveryWrongArgument) {
  using P = Refusable&;
  const std::vector<Mistake<Refusable>> mistakes = {
      {"out NULL", {"out", "NULL"}, [](P p) { p.args.out = nullptr; }},
      {"expression NULL", {"expression", "NULL"}, [](P p) { p.args.expression = nullptr; }},
      {"expression1 NULL", {"expression1", "NULL"}, [](P p) { p.args.expression1 = nullptr; }},
      {"out1 NULL", {"out1", "NULL"}, [](P p) { p.args.out1 = nullptr; }},
      {"a gap",
       {"out2 is given", "out1"},
       [](P p) { p.args.out2 = p.args.out1, p.args.out1 = nullptr, p.args.expression1 = nullptr; }},
      {"operands NULL", {"operands", "NULL"}, [](P p) { p.args.operands = nullptr; }},
      {"an operand missing", {"operands[1]", "NULL"}, [](P p) { p.args.operand_count = 1; }},
      {"too many operands", {"operand_count", "9"}, [](P p) { p.args.operand_count = 9; }},
      {"a scalar missing", {"scalar_count", "0"}, [](P p) { p.args.scalar_count = 0; }},
      {"scalars NULL", {"scalars", "NULL"}, [](P p) { p.args.scalars = nullptr; }},
      {"too many scalars", {"scalar_count", "9"}, [](P p) { p.args.scalar_count = 9; }},
      {"a formula of products",
       {"expression", "acc+row0", "tensorN"},
       [](P p) { p.args.expression = expression("acc+row0"); }},
      {"a column", {"expression", "col0", "tensorN"}, [](P p) { p.args.expression = expression("col0*2"); }},
      {"two readings",
       {"expression1", "operand 1", "integer1"},
       [](P p) { p.args.expression1 = expression("tensor1"); }},
      {"numbers as integers",
       {"operands[0]", "f32", "integer0", "int8"},
       [](P p) { p.args.expression = p.args.expression1 = expression("integer0+1"); }},
      {"an operand's extent",
       {"operands[1].shape[0]", "7", "out.shape[1]"},
       [](P p) { p.operands[1]->extents()[0] = 7; }},
      {"an operand's rank",
       {"operands[0]", "2 dimensions", "1"},
       [](P p) {
         for (const auto& one : p.outs) one->change().ndim = 1, one->extents()[0] = 8;
       }},
      {"rank 7", {"out.ndim", "7", "0 to 6"}, [](P p) { p.outs[0]->change().ndim = 7; }},
      {"another result's extent", {"out1.shape[0]", "5", "6"}, [](P p) { p.outs[1]->extents()[0] = 5; }},
      {"a dtype", {"operands[0]", "float64", "bool"}, [](P p) { p.operands[0]->change().dtype = {kDLFloat, 64, 1}; }},
      {"a result's dtype", {"out", "complex64", "int64"}, [](P p) { p.outs[0]->change().dtype = {kDLComplex, 64, 1}; }},
      {"elements over each other", {"out.strides[0]", "4"}, [](P p) { p.outs[0]->strides()[0] = 4; }},
      {"a stride too far",
       {"operands[0].strides[0]", "2^48"},
       [](P p) { p.operands[0]->strides()[0] = std::int64_t{1} << 49; }},
      {"results over each other", {"out1", "out"}, [](P p) { p.args.out1 = p.args.out; }},
      {"an operand over a result",
       {"operands[1]", "lies over out", "shape"},
       [](P p) { p.operands[1]->change().data = p.outs[0]->change().data; },
       true},
      {"without data", {"operands[0]", "NULL"}, [](P p) { p.operands[0]->change().data = nullptr; }, true},
      {"data's alignment", {"operands[1]", "data", "16"}, [](P p) { p.operands[1]->change().byte_offset += 4; }, true},
      {"another device", {"operands[0]", "ROCm"}, [](P p) { p.operands[0]->change().device.device_type = kDLROCM; }},
      {"alignment 3", {"alignment", "3"}, [](P p) { p.args.alignment = 3; }},
      {"max_sms negative", {"max_sms", "-1"}, [](P p) { p.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](P p) { p.args.flags = 1u << 18; }},
      {"no size", {"size"}, [](P p) { p.args.size = 0; }},
  };
  expect_all_refused(
      mistakes, kPointwise, [] { return std::make_unique<Refusable>(); },
      [](Refusable& one) {
        return [&one] {
          one.outs[0]->download(), one.outs[1]->download();
          return one.outs[0]->is_untouched() && one.outs[1]->is_untouched();
        };
      });
}

TEST(PointwiseRefuses, ManifestLinesThatNoCallCouldAskFor) {
  const std::pair<const char*, const char*> lines[] = {
      {"pointwise host expression=tensor0 width=8 operand0=f32 out=f32", "allowed: up to 4"},
      {"pointwise host expression=acc width=1 out=f32", "tensorN"},
      {"pointwise host expression=integer0 width=1 operand0=f32 out=f32", "integer0"},
      {"pointwise host expression=tensor0 width=1 operand0=f32 out=f32 out_along=same", "each, any"},
      {"pointwise host expression=tensor0 width=1 operand0=f64 out=f32", "operand0"},
  };
  for (const auto& [line, word] : lines) {
    const std::vector<Warmed> warmed = warm(context(), {}, line, nullptr, QUERN_WARM_LIST_ONLY);
    ASSERT_EQ(warmed.size(), 1u);
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find(word), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
