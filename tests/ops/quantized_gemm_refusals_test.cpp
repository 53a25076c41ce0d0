// Calls of quantized_gemm that must be refused, with nothing written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/ops/quantized_gemm_fixture.h"

namespace quern::test {
namespace {

using Mistakes = std::vector<Mistake<QuantizedProduct>>;

void expect_refusals(const QuantizedCase& good, const Mistakes& mistakes) {
  const ThreeCalls<quern_quantized_gemm_args> op{quern_quantized_gemm, quern_quantized_gemm_workspace,
                                                 quern_quantized_gemm_prepare};
  expect_all_refused(
      mistakes, op,
      [&] {
        auto product = std::make_unique<QuantizedProduct>(good);
        product->upload();
        return product;
      },
      [](QuantizedProduct& product) {
        return [&product, before = product.out.memory()] {
          product.out.download();
          return product.out.memory() == before;
        };
      });
}

QuantizedCase weights() {
  QuantizedCase c;
  c.name = "refusals", c.b = QuantizedCode::uint4, c.zeros = 128;
  return c;
}

TEST(QuantizedGemmRefusals, OperandsAndResults) {
  expect_refusals(
      weights(),
      {
          {"no a", {"a is NULL"}, [](QuantizedProduct& p) { p.args.a = nullptr; }},
          {"no b", {"b is NULL"}, [](QuantizedProduct& p) { p.args.b = nullptr; }},
          {"no out", {"out is NULL"}, [](QuantizedProduct& p) { p.args.out = nullptr; }},
          {"one dimension", {"a", "1", "2"}, [](QuantizedProduct& p) { p.a.array().box().tensor.ndim = 1; }},
          {"a of f32", {"a is f32"}, [](QuantizedProduct& p) { p.a.array().box().tensor.dtype = kFloat32; }},
          {"a of bytes",
           {"a_format", "QUERN_QUANTIZED_INT4"},
           [](QuantizedProduct& p) { p.a.array().box().tensor.dtype = {kDLUInt, 8, 1}; }},
          {"b of bf16",
           {"b", "bf16"},
           [](QuantizedProduct& p) { p.b.array().box().tensor.dtype = {kDLBfloat, 16, 1}; }},
          {"unknown format", {"b_format is 9"}, [](QuantizedProduct& p) { p.args.b_format = 9; }},
          {"a format of what is no bytes",
           {"a_format", "bf16"},
           [](QuantizedProduct& p) { p.args.a_format = QUERN_QUANTIZED_INT4; }},
          {"fewer k in b", {"b has rows of 128", "256"}, [](QuantizedProduct& p) { p.b.array().box().shape[1] = 64; }},
          {"k of half a copy",
           {"b.shape[1] is 24", "16"},
           [](QuantizedProduct& p) { p.b.array().box().shape[1] = 24, p.a.array().box().shape[1] = 48; }},
          {"columns", {"out.shape[1]", "33"}, [](QuantizedProduct& p) { p.out.box().shape[1] = 32; }},
          {"rows", {"out.shape[0]", "5"}, [](QuantizedProduct& p) { p.out.box().shape[0] = 4; }},
          {"out over itself", {"out"}, [](QuantizedProduct& p) { p.out.box().strides[0] = 3; }},
          {"a stride", {"b.strides[1]"}, [](QuantizedProduct& p) { p.b.array().box().strides[1] = 2; }},
          {"rows of b not aligned",
           {"b", "a stride", "16"},
           [](QuantizedProduct& p) { p.b.array().box().strides[0] = 100; }},
          {"alignment", {"alignment is 2"}, [](QuantizedProduct& p) { p.args.alignment = 2; }},
          {"flags", {"flags"}, [](QuantizedProduct& p) { p.args.flags = QUERN_GEMM_TF32; }},
          {"size", {"size"}, [](QuantizedProduct& p) { p.args.size = 3; }},
      });
}

TEST(QuantizedGemmRefusals, ScalesAndZeroPoints) {
  expect_refusals(
      weights(),
      {
          {"scales of bf16 activations",
           {"scale_a is given", "bf16"},
           [](QuantizedProduct& p) { p.args.scale_a = p.scale_b.tensor(); }},
          {"a tensor's scale of those",
           {"tensor_scale_a is given", "bf16"},
           [](QuantizedProduct& p) { p.args.tensor_scale_a = p.tensor_a.tensor(); }},
          {"groups of 85",
           {"scale_b.shape[1] is 3", "K 256"},
           [](QuantizedProduct& p) { p.scale_b.box().shape[1] = 3; }},
          {"groups of 8", {"scale_b.shape[1] is 32"}, [](QuantizedProduct& p) { p.scale_b.box().shape[1] = 32; }},
          {"lines", {"scale_b.shape[0]", "33"}, [](QuantizedProduct& p) { p.scale_b.box().shape[0] = 32; }},
          {"dtype", {"scale_b", "int32"}, [](QuantizedProduct& p) { p.scale_b.box().tensor.dtype = kInt32; }},
          {"bytes that stand for nothing",
           {"scale_b_type", "QUERN_QUANTIZED_SCALE_UE8M0"},
           [](QuantizedProduct& p) { p.scale_b.box().tensor.dtype = {kDLUInt, 8, 1}; }},
          {"unknown type", {"scale_b_type is 3"}, [](QuantizedProduct& p) { p.args.scale_b_type = 3; }},
          {"zero points of signed numbers",
           {"zero_b is given"},
           [](QuantizedProduct& p) { p.args.b_format = QUERN_QUANTIZED_INT4; }},
          {"other groups of zero points",
           {"zero_b.shape[1] is 4"},
           [](QuantizedProduct& p) { p.zero_b.box().shape[1] = 4; }},
          {"zero points of another dtype",
           {"zero_b", "int8"},
           [](QuantizedProduct& p) { p.zero_b.box().tensor.dtype = {kDLInt, 8, 1}; }},
          {"a tensor's scale of two",
           {"tensor_scale_b.shape[0] is 2"},
           [](QuantizedProduct& p) {
             p.tensor_b.box().shape[0] = 2;
             p.args.tensor_scale_b = p.tensor_b.tensor();
           }},
      });
  QuantizedCase both = weights();
  both.a = QuantizedCode::int8, both.scales_a = 64;
  expect_refusals(both, {{"groups of two sizes", {"scale_a has groups of 64", "128"}, [](QuantizedProduct&) {}}});
}

TEST(QuantizedGemmRefusals, NoWorkspace) {
  QuantizedCase divided = weights();
  divided.k = 1 << 16;  // so many that several blocks of threads have a part of it
  expect_refusals(divided, {{"no workspace", {"workspace_size is 0"}, [](QuantizedProduct&) {}, true}});
}

}  // namespace
}  // namespace quern::test
