// Every argument of gemm and fp8_gemm wrong in every way: refused by name, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/gemm_mistakes.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

using P = GemmProblem&;

constexpr DLDataType kFloat16{kDLFloat, 16, 1}, kUint8{kDLUInt, 8, 1};

struct Named {
  std::string_view name;
  PickTensor pick;
};

void expect_any_tensor_refused(const GemmCase& c, std::initializer_list<Named> tensors) {
  for (const Named& t : tensors) {
    SCOPED_TRACE(t.name);
    expect_mistakes_refused(c, mistakes_in_any_tensor(t.name, t.pick));
  }
}

TEST(GemmRefuses, WhatIsWrongWithAnyTensor) {
  const std::initializer_list<Named> tensors = {{"a", [](GemmTensors& t) -> TensorBox& { return t.a.box; }},
                                                {"b", [](GemmTensors& t) -> TensorBox& { return t.b.box; }},
                                                {"out", [](GemmTensors& t) -> TensorBox& { return t.out.box; }}};
  // The first extents of a and b are held against out's and each other's.
  for (const Product product : {Product::gemm, Product::fp8}) {
    for (const Named& t : tensors) {
      SCOPED_TRACE(t.name);
      std::vector<GemmMistake> mistakes = mistakes_in_any_tensor(t.name, t.pick);
      std::erase_if(mistakes, [](const GemmMistake& m) { return std::string_view(m.what) == "another extent"; });
      expect_mistakes_refused(product_to_refuse(product), mistakes);
    }
  }
  expect_any_tensor_refused(product_to_refuse(Product::fp8),
                            {{"scale_a", [](GemmTensors& t) -> TensorBox& { return t.scale_a.box; }},
                             {"scale_b", [](GemmTensors& t) -> TensorBox& { return t.scale_b.box; }}});
  GemmCase c = product_to_refuse(Product::fp8);
  c.bias = c.c = Element::f32;
  expect_any_tensor_refused(c, {{"epilogue.bias", [](GemmTensors& t) -> TensorBox& { return t.bias.box; }},
                                {"epilogue.c", [](GemmTensors& t) -> TensorBox& { return t.c.box; }}});
  c = product_to_refuse(Product::fp8);
  c.expression = "acc * row0 + col1 + tensor2";
  c.operands = {{EpilogueOperand::row, Element::f32},
                {EpilogueOperand::column, Element::f32},
                {EpilogueOperand::tensor, Element::f32}};
  c.out = Element::e4m3;
  c.out_scale = true;
  expect_any_tensor_refused(c,
                            {{"epilogue.operands[0]", [](GemmTensors& t) -> TensorBox& { return t.operands[0].box; }},
                             {"epilogue.operands[1]", [](GemmTensors& t) -> TensorBox& { return t.operands[1].box; }},
                             {"epilogue.operands[2]", [](GemmTensors& t) -> TensorBox& { return t.operands[2].box; }},
                             {"epilogue.out_scale", [](GemmTensors& t) -> TensorBox& { return t.out_scale.box; }}});
}

// What the two ops have in common; `args` gives the struct.
template <class Args>
std::vector<GemmMistake> of_every_call(Args GemmTensors::* args) {
  const auto change = [args](const std::function<void(Args&)>& f) { return [args, f](P p) { f(p.tensors().*args); }; };
  return {
      {"a NULL", {"a is NULL"}, change([](Args& a) { a.a = nullptr; })},
      {"b NULL", {"b is NULL"}, change([](Args& a) { a.b = nullptr; })},
      {"out NULL", {"out is NULL"}, change([](Args& a) { a.out = nullptr; })},
      {"no size", {"size"}, change([](Args& a) { a.size = 0; })},
      {"an absurd size", {"size"}, change([](Args& a) { a.size = 1u << 30; })},
      {"an unknown flag", {"flags"}, change([](Args& a) { a.flags = 1u << 30; })},
      {"alignment 2", {"alignment", "2"}, change([](Args& a) { a.alignment = 2; })},
      {"alignment 32", {"alignment", "32"}, change([](Args& a) { a.alignment = 32; })},
      {"alignment negative", {"alignment", "-4"}, change([](Args& a) { a.alignment = -4; })},
      {"max_sms negative", {"max_sms", "-1"}, change([](Args& a) { a.max_sms = -1; })},
      {"b has another k", {"b.shape[1]", "144"}, [](P p) { p.tensors().b.box.shape[1] = 160; }},
      {"out has other rows", {"out.shape[0]", "5"}, [](P p) { p.tensors().out.box.shape[0] = 4; }},
      {"out has other columns", {"out.shape[1]", "40"}, [](P p) { p.tensors().out.box.shape[1] = 39; }},
      {"no k", {"a.shape[1]", "1 and more"}, [](P p) { p.tensors().a.box.shape[1] = p.tensors().b.box.shape[1] = 0; }},
      {"k is not whole copies",
       {"a.shape[1]", "141"},
       [](P p) { p.tensors().a.box.shape[1] = p.tensors().b.box.shape[1] = 141; }},
      {"a's rows are not aligned", {"a", "stride"}, [](P p) { p.tensors().a.box.strides[0] -= 2; }},
      {"b's rows are not aligned", {"b", "stride"}, [](P p) { p.tensors().b.box.strides[0] -= 2; }},
      {"a is not aligned", {"a", "data", "aligned to 4"}, [](P p) { p.tensors().a.box.tensor.byte_offset += 4; }},
      {"b is not aligned", {"b", "data", "aligned to 8"}, [](P p) { p.tensors().b.box.tensor.byte_offset += 8; }},
      {"a steps by two", {"a.strides[1]", "2"}, [](P p) { p.tensors().a.box.strides[1] = 2; }},
      {"b steps by two", {"b.strides[1]", "2"}, [](P p) { p.tensors().b.box.strides[1] = 2; }},
      {"out steps by two", {"out.strides[1]", "2"}, [](P p) { p.tensors().out.box.strides[1] = 2; }},
      {"out's rows over each other",
       {"out.strides[0]", "39", "over each other"},
       [](P p) { p.tensors().out.box.strides[0] = 39; }},
      {"out's rows in one place", {"out.strides[0]", "0"}, [](P p) { p.tensors().out.box.strides[0] = 0; }},
      {"more rows than are counted",
       {"a.shape[0]", "2147483647", "2^31 - 4096"},
       [](P p) { p.tensors().a.box.shape[0] = INT32_MAX; }},
      {"more columns than are counted",
       {"b.shape[0]", "2147483647", "2^31 - 4096"},
       [](P p) { p.tensors().b.box.shape[0] = INT32_MAX; }},
      {"more elements than are counted",
       {"a.shape[0]", "2^48"},
       [](P p) { p.tensors().a.box.shape[0] = INT32_MAX, p.tensors().a.box.shape[1] = std::int64_t{1} << 30; }},
      {"out is of integers", {"out", "int32", "allowed"}, [](P p) { p.tensors().out.box.tensor.dtype = kInt32; }},
  };
}

TEST(Fp8GemmRefuses, EveryWrongArgument) {
  GemmCase c = product_to_refuse(Product::fp8);
  expect_mistakes_refused(c, of_every_call(&GemmTensors::fp8));
  expect_mistakes_refused(
      c, {
             {"scale_a NULL", {"scale_a is NULL"}, [](P p) { p.tensors().fp8.scale_a = nullptr; }},
             {"scale_b NULL", {"scale_b is NULL"}, [](P p) { p.tensors().fp8.scale_b = nullptr; }},
             {"a flag of another op", {"flags"}, [](P p) { p.tensors().fp8.flags = QUERN_GEMM_TF32; }},
             {"a is f16", {"a", "e4m3"}, [](P p) { p.tensors().a.box.tensor.dtype = kFloat16; }},
             {"bytes without a type", {"a_type", "uint8"}, [](P p) { p.tensors().a.box.tensor.dtype = kUint8; }},
             {"b's bytes without a type", {"b_type", "uint8"}, [](P p) { p.tensors().b.box.tensor.dtype = kUint8; }},
             {"an unknown type", {"a_type", "3"}, [](P p) { p.tensors().fp8.a_type = 3; }},
             {"a type that is not the tensor's", {"b_type", "2"}, [](P p) { p.tensors().fp8.b_type = QUERN_FP8_E5M2; }},
             {"scale_a is bf16",
              {"scale_a", "f32"},
              [](P p) { p.tensors().scale_a.box.tensor.dtype = dtype_of(Format::bf16); }},
             {"more tiles than are counted",
              {"out", "tiles", "2^31"},
              [](P p) {
                constexpr std::int64_t kMany = 1 << 24;
                GemmTensors& t = p.tensors();
                t.a.box.shape[0] = t.b.box.shape[0] = t.scale_a.box.shape[0] = t.scale_b.box.shape[0] = kMany;
                t.out.box.shape[0] = t.out.box.shape[1] = t.out.box.strides[0] = kMany;
              },
              SeenBy::the_call},
             {"too few scales", {"scale_a.shape[0]", "5"}, [](P p) { p.tensors().scale_a.box.shape[0] = 4; }},
             {"too many scales", {"scale_b.shape[0]", "40"}, [](P p) { p.tensors().scale_b.box.shape[0] = 48; }},
             {"scale_a in blocks, scale_b not",
              {"scale_a", "scale_b", "blocks"},
              [](P p) {
                TensorBox& scale = p.tensors().scale_a.box;
                scale.tensor.ndim = 2;
                scale.shape[1] = 2;
              }},
             {"scale_b in blocks, scale_a not",
              {"scale_a", "scale_b", "blocks"},
              [](P p) {
                TensorBox& scale = p.tensors().scale_b.box;
                scale.tensor.ndim = 2;
                scale.shape[0] = 1, scale.shape[1] = 2;
              }},
         });
  c.scale_a = c.scale_b = Scaling::blocks;
  expect_mistakes_refused(
      c, {
             {"too few rows of scales", {"scale_a.shape[0]", "5"}, [](P p) { p.tensors().scale_a.box.shape[0] = 4; }},
             {"too few blocks of k", {"scale_a.shape[1]", "2"}, [](P p) { p.tensors().scale_a.box.shape[1] = 1; }},
             {"too many blocks of k", {"scale_b.shape[1]", "2"}, [](P p) { p.tensors().scale_b.box.shape[1] = 3; }},
             {"a scale for each column", {"scale_b.shape[0]", "1"}, [](P p) { p.tensors().scale_b.box.shape[0] = 40; }},
         });
  c.alignment = 4;
  expect_mistakes_refused(c, {
                                 {"k of 142",
                                  {"a.shape[1]", "142"},
                                  [](P p) { p.tensors().a.box.shape[1] = p.tensors().b.box.shape[1] = 142; }},
                                 {"a is not aligned to 4",
                                  {"a", "data", "aligned to 2"},
                                  [](P p) { p.tensors().a.box.tensor.byte_offset += 2; }},
                             });
}

TEST(GemmRefuses, EveryWrongArgument) {
  const GemmCase c = product_to_refuse(Product::gemm);
  expect_mistakes_refused(c, of_every_call(&GemmTensors::gemm));
  expect_mistakes_refused(
      c, {
             {"a is 8-bit",
              {"a", "e4m3", "f16"},
              [](P p) { p.tensors().a.box.tensor.dtype = Element(Element::e4m3).type(); }},
             {"b is another float",
              {"b", "bf16", "f16"},
              [](P p) { p.tensors().b.box.tensor.dtype = dtype_of(Format::bf16); }},
             {"b has a batch and a none", {"b", "dimensions"}, [](P p) { p.tensors().b.box.tensor.ndim = 3; }},
             {"neither stride of a is 1", {"a.strides[1]"}, [](P p) { p.tensors().a.box.strides[1] = 8; }},
         });
  GemmCase batched = c;
  batched.batch = 3;
  expect_mistakes_refused(
      batched, {
                   {"a's batch", {"shape[0]"}, [](P p) { p.tensors().a.box.shape[0] = 2; }},
                   {"b's batch", {"b.shape[0]", "3"}, [](P p) { p.tensors().b.box.shape[0] = 1; }},
                   {"more elements than 64 bits count",
                    {"a.shape[0]", "2^48"},
                    [](P p) {
                      std::int64_t* shape = p.tensors().a.box.shape;
                      shape[0] = INT32_MAX, shape[1] = std::int64_t{1} << 18, shape[2] = std::int64_t{1} << 30;
                    }},
                   {"out's batches over each other",
                    {"out.strides[0]", "over each other"},
                    [](P p) { p.tensors().out.box.strides[0] = p.tensors().out.box.strides[1]; }},
                   {"out's batch", {"out.shape[0]", "3"}, [](P p) { p.tensors().out.box.shape[0] = 4; }},
                   {"out has no batch", {"out", "dimensions"}, [](P p) { p.tensors().out.box.tensor.ndim = 2; }},
                   {"b has no batch", {"b", "dimensions"}, [](P p) { p.tensors().b.box.tensor.ndim = 2; }},
                   {"a's batch is not aligned", {"a", "stride"}, [](P p) { p.tensors().a.box.strides[0] += 4; }},
               });
  GemmCase transposed = c;
  transposed.transposed_b = true;
  const auto columns = [](P p, std::int64_t n) { p.tensors().b.box.shape[0] = p.tensors().out.box.shape[1] = n; };
  expect_mistakes_refused(transposed, {{"n is not whole copies", {"b.shape[0]", "36"}, [&](P p) { columns(p, 36); }}});
  transposed.gate = true;
  transposed.n = 48;
  expect_mistakes_refused(transposed, {{"half of n is not whole copies", {"b.shape[0]", "24", "halves"}, [](P p) {
                                          p.tensors().b.box.shape[0] = 24, p.tensors().out.box.shape[1] = 12;
                                        }}});
}

// Where blocks of threads share tiles.
TEST(GemmRefuses, AWorkspaceThatWillNotDo) {
  for (const Product product : {Product::gemm, Product::fp8}) {
    GemmCase c = product_to_refuse(product);
    c.m = 3, c.n = 24, c.k = 7184;
    c.alignment = 4;  // a kernel that takes one, whatever the target
    const auto args = [](P p, auto f) { p.tensors().with_args(f); };
    expect_mistakes_refused(
        c, {
               {"NULL",
                {"workspace", "NULL"},
                [&](P p) { args(p, [](auto& a) { a.workspace = nullptr; }); },
                SeenBy::the_call},
               {"too small",
                {"workspace_size", "100000"},
                [&](P p) { args(p, [](auto& a) { a.workspace_size = 100000; }); },
                SeenBy::the_call},
               {"misaligned",
                {"workspace", "256"},
                [&](P p) { args(p, [](auto& a) { a.workspace = static_cast<char*>(a.workspace) + 128; }); },
                SeenBy::the_call},
           });
  }
}

// A struct from another header: longer with zeros behind it, and longer with something that is not known here.
TEST(GemmRefuses, WhatItDoesNotKnowOfALongerEpilogue) {
  struct Longer {
    quern_epilogue epilogue;
    std::uint64_t more;
  } longer{};
  GemmCase c;
  c.activation = QUERN_ACTIVATION_RELU;
  GemmProblem problem(c, Random("longer"));
  ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
  longer.epilogue = problem.tensors().epilogue;
  longer.epilogue.size = sizeof(longer);
  problem.tensors().fp8.epilogue = &longer.epilogue;
  longer.more = 1;
  const GemmOutput before = problem.output();
  expect_refused({"size"}, [&](quern_error* e) { return problem.tensors().run(context(), e); });
  EXPECT_TRUE(problem.output() == before);
  longer.more = 0;
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  synchronize();
  problem.check();
}

}  // namespace
}  // namespace quern::test
