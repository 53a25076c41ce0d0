// Every wrong epilogue: refused by name, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/array.h"
#include "tests/ops/gemm_mistakes.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

using P = GemmProblem&;

GemmMistake in_epilogue(const char* what, std::vector<std::string_view> words,
                        const std::function<void(quern_epilogue&)>& change) {
  return {what, std::move(words), [change](P p) { change(p.tensors().epilogue); }};
}

const quern_expression* expression(const char* text) {
  const quern_expression* made = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_expression_create(context(), text, &made, &error), QUERN_OK) << error.text;
  return made;
}

TEST(EpilogueRefuses, WhatIsWrongWithActivationBiasAndC) {
  GemmCase c = product_to_refuse(Product::fp8);
  c.activation = QUERN_ACTIVATION_RELU;
  c.bias = c.c = Element::f32;
  expect_mistakes_refused(
      c,
      {
          in_epilogue("no size", {"quern_epilogue", "size"}, [](quern_epilogue& e) { e.size = 0; }),
          in_epilogue("an absurd size", {"quern_epilogue", "size"}, [](quern_epilogue& e) { e.size = 1u << 30; }),
          in_epilogue("an unknown flag", {"epilogue.flags"}, [](quern_epilogue& e) { e.flags = 1u << 5; }),
          in_epilogue("an unknown activation", {"epilogue.activation", "6"},
                      [](quern_epilogue& e) { e.activation = 6; }),
          in_epilogue("a negative activation", {"epilogue.activation", "-1"},
                      [](quern_epilogue& e) { e.activation = -1; }),
          in_epilogue("operands without an expression", {"epilogue.operand_count", "1"},
                      [](quern_epilogue& e) { e.operand_count = 1; }),
          in_epilogue("scalars without an expression", {"epilogue.scalar_count", "1"},
                      [](quern_epilogue& e) { e.scalar_count = 1; }),
          in_epilogue("powers of two of nothing", {"QUERN_EPILOGUE_POWER_OF_TWO", "out_scale"},
                      [](quern_epilogue& e) { e.flags = QUERN_EPILOGUE_POWER_OF_TWO; }),
          in_epilogue("an expression beside them", {"expression", "activation"},
                      [](quern_epilogue& e) { e.expression = expression("acc"); }),
          {"bias is 8-bit",
           {"epilogue.bias", "e4m3", "allowed"},
           [](P p) { p.tensors().bias.box.tensor.dtype = Element(Element::e4m3).type(); }},
          {"c is 8-bit",
           {"epilogue.c", "e5m2", "allowed"},
           [](P p) { p.tensors().c.box.tensor.dtype = Element(Element::e5m2).type(); }},
          {"too little bias", {"epilogue.bias.shape[0]", "40"}, [](P p) { p.tensors().bias.box.shape[0] = 39; }},
          {"a bias for each row", {"epilogue.bias", "dimensions"}, [](P p) { p.tensors().bias.box.tensor.ndim = 2; }},
          {"c has other rows", {"epilogue.c.shape[0]", "5"}, [](P p) { p.tensors().c.box.shape[0] = 6; }},
          {"c is out with other rows",
           {"epilogue.c", "out", "strides"},
           [](P p) {
             p.tensors().c.box.tensor.dtype = p.tensors().out.box.tensor.dtype;
             p.tensors().c.box.tensor.data = p.tensors().out.box.tensor.data;
             p.tensors().c.box.strides[0] = p.tensors().out.box.strides[0] + 8;
           }},
          {"c is out in another dtype",
           {"epilogue.c", "out", "dtype"},
           [](P p) { p.tensors().c.box.tensor.data = p.tensors().out.box.tensor.data; }},
          {"c has other columns", {"epilogue.c.shape[1]", "40"}, [](P p) { p.tensors().c.box.shape[1] = 20; }},
      });
}

TEST(EpilogueRefuses, GatesThatDoNotFit) {
  GemmCase c = product_to_refuse(Product::fp8);
  c.gate = true;
  c.bias = Element::f32;
  const auto columns = [](P p, std::int64_t n) {
    p.tensors().b.box.shape[0] = p.tensors().scale_b.box.shape[0] = p.tensors().bias.box.shape[0] = n;
    p.tensors().out.box.shape[1] = n / 2;
  };
  expect_mistakes_refused(
      c, {
             {"an odd number of columns", {"b.shape[0]", "39", "even"}, [&](P p) { columns(p, 39); }},
             {"out as wide as b", {"out.shape[1]", "20"}, [](P p) { p.tensors().out.box.shape[1] = 40; }},
             {"c is out",
              {"epilogue.c", "out", "shape"},
              [](P p) {
                GemmTensors& t = p.tensors();
                t.operands[0].box.set(dtype_of(Format::bf16), {t.out.box.shape[0], 40}, {t.out.box.strides[0], 1});
                t.operands[0].box.place(t.out.box.tensor.data);
                t.epilogue.c = t.operands[0].box.get();
              }},
             {"a bias of one half", {"epilogue.bias.shape[0]", "40"}, [](P p) { p.tensors().bias.box.shape[0] = 20; }},
         });
  GemmCase blocks = product_to_refuse(Product::fp8);
  blocks.gate = true;
  blocks.scale_a = blocks.scale_b = Scaling::blocks;
  blocks.n = 64;
  expect_mistakes_refused(blocks, {{"halves across blocks", {"b.shape[0]", "48", "32"}, [](P p) {
                                      p.tensors().b.box.shape[0] = 48, p.tensors().out.box.shape[1] = 24;
                                    }}});
}

TEST(EpilogueRefuses, ExpressionsThatDoNotFit) {
  GemmCase c = product_to_refuse(Product::fp8);
  c.expression = "acc * row0 + col1 * scalar1 + tensor2";
  c.operands = {{EpilogueOperand::row, Element::f32},
                {EpilogueOperand::column, Element::f32},
                {EpilogueOperand::tensor, Element::f32}};
  c.scalars = {1.0f, 2.0f};
  expect_mistakes_refused(
      c,
      {
          in_epilogue("an activation too", {"expression", "activation"},
                      [](quern_epilogue& e) { e.activation = QUERN_ACTIVATION_RELU; }),
          {"a bias too",
           {"expression", "bias"},
           [](P p) { p.tensors().epilogue.bias = p.tensors().operands[1].box.get(); }},
          {"c too", {"expression", "c"}, [](P p) { p.tensors().epilogue.c = p.tensors().operands[2].box.get(); }},
          {"acc with a gate",
           {"acc", "gate and up", "QUERN_EPILOGUE_GATE is set"},
           [](P p) {
             p.tensors().epilogue.flags = QUERN_EPILOGUE_GATE;
             p.tensors().out.box.shape[1] = 20;
           }},
          in_epilogue("nine operands", {"epilogue.operand_count", "9"}, [](quern_epilogue& e) { e.operand_count = 9; }),
          in_epilogue("nine scalars", {"epilogue.scalar_count", "9"}, [](quern_epilogue& e) { e.scalar_count = 9; }),
          in_epilogue("operands NULL", {"epilogue.operands is NULL"}, [](quern_epilogue& e) { e.operands = nullptr; }),
          in_epilogue("scalars NULL", {"epilogue.scalars is NULL"}, [](quern_epilogue& e) { e.scalars = nullptr; }),
          in_epilogue("too few operands", {"epilogue.operands[2]"}, [](quern_epilogue& e) { e.operand_count = 2; }),
          in_epilogue("no operands", {"epilogue.operands[0]"}, [](quern_epilogue& e) { e.operand_count = 0; }),
          in_epilogue("too few scalars", {"epilogue.scalar_count", "1"}, [](quern_epilogue& e) { e.scalar_count = 1; }),
          {"an operand is NULL", {"epilogue.operands[1] is NULL"}, [](P p) { p.tensors().operand_list[1] = nullptr; }},
          {"a row operand of columns",
           {"epilogue.operands[0].shape[0]", "5"},
           [](P p) { p.tensors().operands[0].box.shape[0] = 40; }},
          {"a column operand of rows",
           {"epilogue.operands[1].shape[0]", "40"},
           [](P p) { p.tensors().operands[1].box.shape[0] = 5; }},
          {"a tensor operand without rows",
           {"epilogue.operands[2]", "dimensions"},
           [](P p) { p.tensors().operands[2].box.tensor.ndim = 1; }},
          {"a tensor operand transposed",
           {"epilogue.operands[2].shape[0]", "5"},
           [](P p) { std::swap(p.tensors().operands[2].box.shape[0], p.tensors().operands[2].box.shape[1]); }},
          {"an operand of integers",
           {"epilogue.operands[0]", "int32"},
           [](P p) { p.tensors().operands[0].box.tensor.dtype = kInt32; }},
      });
  GemmCase gated = product_to_refuse(Product::fp8);
  gated.expression = "gate * up";
  gated.gate = true;
  expect_mistakes_refused(gated,
                          {{"gate without the flag", {"gate*up", "acc", "QUERN_EPILOGUE_GATE is not set"}, [](P p) {
                              p.tensors().epilogue.flags = 0;
                              p.tensors().out.box.shape[1] = p.tensors().out.box.strides[0] = 40;
                            }}});
}

TEST(EpilogueRefuses, ScalesThatDoNotFit) {
  GemmCase c = product_to_refuse(Product::fp8);
  c.out = Element::e4m3;
  c.out_scale = true;
  c.n = 264;
  expect_mistakes_refused(
      c,
      {
          {"out is bf16",
           {"epilogue.out_scale", "bf16", "e4m3"},
           [](P p) { p.tensors().out.box.tensor.dtype = dtype_of(Format::bf16); }},
          {"too few rows", {"epilogue.out_scale.shape[0]", "5"}, [](P p) { p.tensors().out_scale.box.shape[0] = 4; }},
          {"a scale for each column",
           {"epilogue.out_scale.shape[1]", "3"},
           [](P p) { p.tensors().out_scale.box.shape[1] = 264; }},
          {"a scale for each row",
           {"epilogue.out_scale", "dimensions"},
           [](P p) { p.tensors().out_scale.box.tensor.ndim = 1; }},
          {"scales over each other",
           {"epilogue.out_scale.strides", "over each other"},
           [](P p) { p.tensors().out_scale.box.strides[0] = p.tensors().out_scale.box.strides[1] = 1; }},
          {"scales of f16",
           {"epilogue.out_scale", "f32"},
           [](P p) { p.tensors().out_scale.box.tensor.dtype = dtype_of(Format::f16); }},
      });
}

TEST(EpilogueRefuses, OperandsWithoutTheBatchInFront) {
  GemmCase c = product_to_refuse(Product::gemm);
  c.batch = 3;
  c.expression = "acc * row0 + col1 + tensor2";
  c.operands = {{EpilogueOperand::row, Element::f32},
                {EpilogueOperand::column, Element::f32},
                {EpilogueOperand::tensor, Element::f32}};
  expect_mistakes_refused(c, {
                                 {"a row operand",
                                  {"epilogue.operands[0]", "dimensions"},
                                  [](P p) { p.tensors().operands[0].box.tensor.ndim = 1; }},
                                 {"a tensor operand",
                                  {"epilogue.operands[2]", "dimensions"},
                                  [](P p) { p.tensors().operands[2].box.tensor.ndim = 2; }},
                                 {"another batch",
                                  {"epilogue.operands[2].shape[0]", "3"},
                                  [](P p) { p.tensors().operands[2].box.shape[0] = 2; }},
                             });
}

// What expressions have for pointwise alone.
TEST(EpilogueRefuses, PlacesAndIntegers) {
  Array a(Element::f32, {2, 4}), b(Element::f32, {3, 4}), out(Element::f32, {2, 3});
  for (const char* const formula : {"acc+number(place)", "acc*number(index1)", "int8(acc)", "acc+number(integer0)"}) {
    auto epilogue = sized<quern_epilogue>();
    auto args = sized<quern_gemm_args>();
    args.a = a.tensor(), args.b = b.tensor(), args.out = out.tensor(), args.epilogue = &epilogue;
    ASSERT_EQ(quern_expression_create(context(), formula, &epilogue.expression, nullptr), QUERN_OK);
    expect_refused({"epilogue.expression", formula, "a number as its value", "scalarN"},
                   [&](quern_error* e) { return quern_gemm(context(), &args, e); });
    EXPECT_TRUE(out.is_untouched(0, 0) && out.is_untouched(1, 2));
  }
}

}  // namespace
}  // namespace quern::test
