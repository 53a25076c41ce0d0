// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_mistakes.h"

#include <gtest/gtest.h>

#include "tests/ops/refusal.h"

namespace quern::test {

void expect_mistakes_refused(const GemmCase& c, const std::vector<GemmMistake>& mistakes) {
  for (const GemmMistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    GemmProblem problem(c, Random("refused"));
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
    const GemmOutput before = problem.output();
    mistake.make(problem);
    GemmTensors& t = problem.tensors();
    expect_refused(mistake.words, [&](quern_error* e) { return t.run(context(), e); });
    if (mistake.seen_by == SeenBy::all_three) {
      std::uint64_t bytes = 77;
      expect_refused(mistake.words, [&](quern_error* e) { return t.workspace_of(context(), &bytes, e); });
      EXPECT_EQ(bytes, 77u);
      expect_refused(mistake.words, [&](quern_error* e) { return t.prepare(context(), e); });
    }
    EXPECT_TRUE(problem.output() == before);
    EXPECT_EQ(problem.status(), 0);
  }
}

std::vector<GemmMistake> mistakes_in_any_tensor(std::string_view name, PickTensor pick) {
  const auto change = [pick](const std::function<void(TensorBox&)>& f) {
    return [pick, f](GemmProblem& p) { f(pick(p.tensors())); };
  };
  return {
      {"rank too high", {name, "dimensions"}, change([](TensorBox& t) { t.tensor.ndim = 4; })},
      {"rank negative", {name, "dimensions"}, change([](TensorBox& t) { t.tensor.ndim = -1; })},
      {"float64", {name, "allowed"}, change([](TensorBox& t) { t.tensor.dtype = {kDLFloat, 64, 1}; })},
      {"int64", {name, "allowed"}, change([](TensorBox& t) { t.tensor.dtype = {kDLInt, 64, 1}; })},
      {"two lanes", {name, "vectors of 2"}, change([](TensorBox& t) { t.tensor.dtype.lanes = 2; })},
      {"another device", {name, "ROCm", "context"}, change([](TensorBox& t) {
         t.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM);
       })},
      {"another ordinal", {name, ":5"}, change([](TensorBox& t) { t.tensor.device.device_id = 5; })},
      {"no shape", {name, "shape"}, change([](TensorBox& t) { t.tensor.shape = nullptr; })},
      {"a negative extent", {name, "shape[0]"}, change([](TensorBox& t) { t.shape[0] = -1; })},
      {"an absurd extent", {name, "shape[0]"}, change([](TensorBox& t) { t.shape[0] = std::int64_t{1} << 40; })},
      {"another extent", {name, "shape[0]"}, change([](TensorBox& t) { t.shape[0] += 3; })},
      {"a negative stride", {name, "strides[0]"}, change([](TensorBox& t) {
         t.strides[0] = -t.strides[0] - 1;
         t.tensor.strides = t.strides;
       })},
      {"data between two elements", {name, "data", "aligned to 1"}, change([](TensorBox& t) {
         t.tensor.byte_offset += 1;
       })},
      {"no data", {name, "NULL"}, change([](TensorBox& t) { t.tensor.data = nullptr; }), SeenBy::the_call},
  };
}

GemmCase product_to_refuse(Product product) {
  GemmCase c;
  c.name = "refused";
  c.product = product;
  c.padding = 16;
  c.out_padding = 8;
  switch (product) {
    case Product::gemm:
      c.a = c.b = c.out = Element::f16;
      break;
    case Product::fp8:
      break;
    case Product::contiguous:
      c.counts = {2, 0, 4};
      c.m = 7;
      break;
    case Product::masked:
      c.counts = {2, 0, 4};
      break;
  }
  return c;
}

}  // namespace quern::test
