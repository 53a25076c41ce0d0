// What reduce refuses, and manifest lines that no call needs.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/ops/reduce_problem.h"

namespace quern::test::reduce {
namespace {

TEST(ReduceRefuses, EveryWrongArgument) {
  using P = Problem&;
  static const quern_expression *row = nullptr, *gate = nullptr, *fine = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_expression_create(context(), "acc + row0", &row, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_expression_create(context(), "gate", &gate, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_expression_create(context(), "acc * scalar3", &fine, &error), QUERN_OK) << error.text;
  const std::vector<Mistake<Problem>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](P d) { d.args.x = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](P d) { d.args.out = nullptr; }},
      {"no dimension", {"x", "dimensions"}, [](P d) { d.x.tensor.ndim = 0; }},
      {"seven dimensions", {"x", "7", "dimensions"}, [](P d) { d.x.tensor.ndim = 7; }},
      {"x's dtype", {"x", "int32"}, [](P d) { d.x.tensor.dtype = kInt32; }},
      {"uint8 of no type", {"type"}, [](P d) { d.x.tensor.dtype = kUint8; }},
      {"an axis too far", {"axes", "bits 0 to 1"}, [](P d) { d.args.axes = 4; }},
      {"a reduction", {"reduction1", "11"}, [](P d) { d.args.reduction1 = 11; }},
      {"a reduction without out", {"out2", "reduction2"}, [](P d) { d.args.reduction2 = kMax; }},
      {"a formula without out", {"out2", "after2"}, [](P d) { d.args.after2 = fine; }},
      {"out's extent",
       {"out.shape[0]", "5"},
       [](P d) {
         static std::int64_t four[] = {4};
         d.out[0].shape = four;
       }},
      {"a row too long",
       {"x has rows of 2147483648 elements", "2^31 - 2^16"},
       [](P d) {
         static std::int64_t shape[] = {5, std::int64_t{1} << 31}, apart[] = {std::int64_t{1} << 34, 2};
         d.x.tensor.shape = shape, d.x.tensor.strides = apart;
       }},
      {"too many results",
       {"out.shape[0]", "2^31 - 1"},
       [](P d) {
         static std::int64_t shape[] = {std::int64_t{1} << 31, 1}, of_out[] = {std::int64_t{1} << 31};
         d.x.tensor.shape = shape, d.x.tensor.strides = nullptr, d.out[0].shape = d.out[1].shape = of_out;
       }},
      {"out's rank", {"out", "dimensions"}, [](P d) { d.out[0].ndim = 3; }},
      {"out's dtype", {"out", "int64"}, [](P d) { d.out[0].dtype = kInt64; }},
      {"out1's dtype", {"out1", "f32"}, [](P d) { d.out[1].dtype = kFloat32; }},
      {"out's elements over each other",
       {"out.strides[0]"},
       [](P d) {
         static std::int64_t none[] = {0};
         d.out[0].strides = none;
       }},
      {"out within x", {"out lies over x"}, [](P d) { d.out[0].data = d.x.tensor.data; }, true},
      {"two results in one place", {"out1 is out"}, [](P d) { d.out[1] = d.out[0], d.args.reduction1 = kMax; }, true},
      {"dot without y", {"y"}, [](P d) { d.args.reduction = kDot; }},
      {"y for nothing", {"y", "NULL"}, [](P d) { d.args.y = d.args.x; }},
      {"a row's operand", {"before", "acc+row0", "tensor0"}, [](P d) { d.args.before = row; }},
      {"a gate", {"after", "gate"}, [](P d) { d.args.after = gate; }},
      {"a formula of a place", {"after1", "places"}, [](P d) { d.args.after1 = fine; }},
      {"too few scalars", {"scalar_count", "0"}, [](P d) { d.args.before = fine; }},
      {"scalars NULL", {"scalars", "NULL"}, [](P d) { d.args.scalar_count = 1; }},
      {"nine scalars", {"scalar_count", "9"}, [](P d) { d.args.scalar_count = 9, d.args.scalars = Problem::kScalars; }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 18; }},
      {"alignment 2", {"alignment", "2"}, [](P d) { d.args.alignment = 2; }},
      {"reserved", {"reserved", "1"}, [](P d) { d.args.reserved = 1; }},
      {"x without data", {"x", "NULL"}, [](P d) { d.x.tensor.data = nullptr; }, true},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  expect_all_refused(
      mistakes, ThreeCalls<quern_reduce_args>{quern_reduce, quern_reduce_workspace, quern_reduce_prepare},
      [&] {
        auto problem = std::make_unique<Problem>(plain("refused", {5, 40}, 2, {kSum, kArgmax}));
        problem->put();
        return problem;
      },
      [](P d) {
        return [&d] { return std::ranges::all_of(d.results(), [](unsigned char byte) { return byte == 0xee; }); };
      });
}

TEST(ReduceRefuses, ASmallWorkspace) {
  Problem problem(plain("small workspace", {2, 40000}, 2, {kSum}));
  problem.put();
  expect_refused({"workspace_size"}, [&](quern_error* e) { return quern_reduce(context(), &problem.args, e); });
}

TEST(ReduceWarm, RefusesLinesThatNoCallNeeds) {
  const Context fresh = compiling_context();
  for (const char* wrong :
       {"way=rows dtype=f32 kind=none", "way=rows dtype=f32 kind=dot", "way=rows dtype=f32 kind=sum y=1",
        "way=rows dtype=f32 kind=sum exact=1", "way=rows dtype=f32 kind=argmax", "way=rows dtype=f32 kind=sum team=512",
        "way=rows dtype=f32 kind=any out=uint8 after=acc*2", "way=columns dtype=f32 kind=sum vectors=0",
        "way=rows dtype=f32 kind=sum before=gate"}) {
    const std::string line = std::string("reduce host ") + wrong;
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << line << ": " << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test::reduce
