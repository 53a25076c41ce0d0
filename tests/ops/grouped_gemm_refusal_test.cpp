// Every argument of grouped_fp8_gemm wrong in every way: refused by name, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/gemm_mistakes.h"

namespace quern::test {
namespace {

using P = GemmProblem&;

TEST(GroupedGemmRefuses, WhatIsWrongWithAnyTensor) {
  struct Named {
    std::string_view name;
    PickTensor pick;
  };
  GemmCase gathered = product_to_refuse(Product::contiguous);
  gathered.gathered = true;
  gathered.tokens = 9;
  const Named ints[] = {{"offsets", [](GemmTensors& t) -> TensorBox& { return t.offsets; }},
                        {"indices", [](GemmTensors& t) -> TensorBox& { return t.indices; }},
                        {"status", [](GemmTensors& t) -> TensorBox& { return t.status; }}};
  for (const Named& t : ints) {
    SCOPED_TRACE(t.name);
    std::vector<GemmMistake> mistakes = mistakes_in_any_tensor(t.name, t.pick);
    mistakes.push_back({"float", {t.name, "int32"}, [&](P p) { t.pick(p.tensors()).tensor.dtype = kFloat32; }});
    mistakes.push_back({"every other one", {t.name, "strides[0]"}, [&](P p) {
                          TensorBox& box = t.pick(p.tensors());
                          box.strides[0] = t.name == "status" ? -1 : 2;
                          box.tensor.strides = box.strides;
                        }});
    expect_mistakes_refused(gathered, mistakes);
  }
  const GemmCase masked = product_to_refuse(Product::masked);
  expect_mistakes_refused(masked,
                          mistakes_in_any_tensor("counts", [](GemmTensors& t) -> TensorBox& { return t.counts; }));
  for (const Product product : {Product::contiguous, Product::masked}) {
    const GemmCase c = product_to_refuse(product);
    for (const Named& t : {Named{"a", [](GemmTensors& g) -> TensorBox& { return g.a.box; }},
                           Named{"b", [](GemmTensors& g) -> TensorBox& { return g.b.box; }},
                           Named{"out", [](GemmTensors& g) -> TensorBox& { return g.out.box; }},
                           Named{"scale_b", [](GemmTensors& g) -> TensorBox& { return g.scale_b.box; }}}) {
      SCOPED_TRACE(t.name);
      std::vector<GemmMistake> mistakes = mistakes_in_any_tensor(t.name, t.pick);
      // The first extents are held against each other.
      std::erase_if(mistakes, [](const GemmMistake& m) { return std::string_view(m.what) == "another extent"; });
      expect_mistakes_refused(c, mistakes);
    }
  }
}

template <class F>
GemmMistake in_args(const char* what, std::vector<std::string_view> words, F change) {
  return {what, std::move(words), [change](P p) { change(p.tensors().grouped, p.tensors()); }};
}

TEST(GroupedGemmRefuses, EveryWrongArgument) {
  using A = quern_grouped_fp8_gemm_args&;
  using T = GemmTensors&;
  const std::vector<GemmMistake> of_both = {
      in_args("expected_rows", {"expected_rows", "-1"}, [](A a, T) { a.expected_rows = -1; }),
      in_args("reserved", {"reserved", "1"}, [](A a, T) { a.reserved = 1; }),
      in_args("neither offsets nor counts", {"offsets", "counts"}, [](A a, T) { a.offsets = a.counts = nullptr; }),
      in_args("offsets and counts", {"offsets", "counts"},
              [](A a, T t) { a.offsets = t.offsets.get(), a.counts = t.counts.get(); }),
      in_args("a NULL", {"a is NULL"}, [](A a, T) { a.a = nullptr; }),
      in_args("b NULL", {"b is NULL"}, [](A a, T) { a.b = nullptr; }),
      in_args("out NULL", {"out is NULL"}, [](A a, T) { a.out = nullptr; }),
      in_args("scale_a NULL", {"scale_a is NULL"}, [](A a, T) { a.scale_a = nullptr; }),
      in_args("scale_b NULL", {"scale_b is NULL"}, [](A a, T) { a.scale_b = nullptr; }),
      in_args("no size", {"size"}, [](A a, T) { a.size = 0; }),
      in_args("a flag of another op", {"flags"}, [](A a, T) { a.flags = QUERN_GEMM_TF32; }),
      in_args("alignment 3", {"alignment", "3"}, [](A a, T) { a.alignment = 3; }),
      in_args("max_sms negative", {"max_sms"}, [](A a, T) { a.max_sms = -2; }),
      in_args("an unknown type", {"b_type", "7"}, [](A a, T) { a.b_type = 7; }),
      in_args("1025 experts", {"b.shape[0]", "1025", "1024"}, [](A, T t) { t.b.box.shape[0] = 1025; }),
      in_args("b has another k", {"a.shape", "160"}, [](A, T t) { t.b.box.shape[2] = 160; }),
      in_args("no k", {"b.shape[2]"}, [](A, T t) { t.b.box.shape[2] = 0; }),
      in_args("b has other columns", {"out.shape", "48"}, [](A, T t) { t.b.box.shape[1] = 48; }),
      in_args("b steps by two", {"b.strides[2]"}, [](A, T t) { t.b.box.strides[2] = 2; }),
      in_args("b's experts are not aligned", {"b", "stride"}, [](A, T t) { t.b.box.strides[0] += 8; }),
      in_args("b is not aligned", {"b", "data"}, [](A, T t) { t.b.box.tensor.byte_offset = 8; }),
      in_args("a is not aligned", {"a", "data"}, [](A, T t) { t.a.box.tensor.byte_offset = 4; }),
      in_args("a scale for each column of one expert", {"scale_b.shape[1]", "40"},
              [](A, T t) { t.scale_b.box.shape[1] = 1; }),
      in_args("scales of too few experts", {"scale_b.shape[0]", "3"}, [](A, T t) { t.scale_b.box.shape[0] = 2; }),
      in_args("k is not whole copies", {"shape", "136"},
              [](A, T t) { t.a.box.shape[t.a.box.tensor.ndim - 1] = t.b.box.shape[2] = 136; }),
  };
  for (const Product product : {Product::contiguous, Product::masked})
    expect_mistakes_refused(product_to_refuse(product), of_both);
  expect_mistakes_refused(
      product_to_refuse(Product::contiguous),
      {
          in_args("offsets for other experts", {"offsets.shape[0]", "4"}, [](A, T t) { t.offsets.shape[0] = 3; }),
          in_args("out has other rows than a", {"out.shape[0]", "7"}, [](A, T t) { t.out.box.shape[0] = 6; }),
          in_args("indices for other rows", {"indices.shape[0]", "7"},
                  [](A a, T t) {
                    a.indices = t.indices.get();
                    t.indices.shape[0] = 6;
                  }),
          in_args("status of two", {"status.shape[0]", "1"}, [](A, T t) { t.status.shape[0] = 2; }),
          in_args("a has experts", {"a", "dimensions"}, [](A, T t) { t.a.box.tensor.ndim = 3; }),
          in_args("too few scales", {"scale_a.shape[0]", "7"}, [](A, T t) { t.scale_a.box.shape[0] = 6; }),
      });
  expect_mistakes_refused(
      product_to_refuse(Product::masked),
      {
          in_args("indices", {"indices", "counts"}, [](A a, T t) { a.indices = t.indices.get(); }),
          in_args("counts for other experts", {"counts.shape[0]", "3"}, [](A, T t) { t.counts.shape[0] = 4; }),
          in_args("a has other experts", {"a.shape[0]", "3"}, [](A, T t) { t.a.box.shape[0] = 2; }),
          in_args("out has other experts", {"out.shape[0]", "3"}, [](A, T t) { t.out.box.shape[0] = 2; }),
          in_args("out has another capacity", {"out.shape[1]", "5"}, [](A, T t) { t.out.box.shape[1] = 4; }),
          in_args("scales without the experts", {"scale_a", "dimensions"},
                  [](A, T t) { t.scale_a.box.tensor.ndim = 1, t.scale_a.box.shape[0] = 5; }),
      });
}

TEST(GroupedGemmRefuses, BlocksThatDoNotFit) {
  GemmCase c = product_to_refuse(Product::contiguous);
  c.scale_a = c.scale_b = Scaling::blocks;
  expect_mistakes_refused(
      c,
      {
          {"too few blocks of k", {"scale_a.shape[1]", "2"}, [](P p) { p.tensors().scale_a.box.shape[1] = 1; }},
          {"too many blocks of columns", {"scale_b.shape[1]", "1"}, [](P p) { p.tensors().scale_b.box.shape[1] = 2; }},
          {"scale_b not in blocks",
           {"scale_a", "scale_b", "blocks"},
           [](P p) {
             p.tensors().scale_b.box.tensor.ndim = 2;
             p.tensors().scale_b.box.shape[1] = 40;
           }},
      });
}

}  // namespace
}  // namespace quern::test
