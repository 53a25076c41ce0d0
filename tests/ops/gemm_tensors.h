// The tensors of one matrix product: shapes, strides and sizes, and the argument structs that point to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "capi/quern.h"
#include "tests/ops/gemm_case.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

// A tensor as a view of [group][row][column], of which it need not have every dimension: strides are 0 there.
struct GemmTensor {
  TensorBox box;
  Element element = Element::f32;
  std::int64_t groups = 1, rows = 1, columns = 1;
  std::int64_t begin = 0, group = 0, row = 0, column = 0;
  std::int64_t elements = 0;  // of its buffer; 0: the call goes without it

  bool used() const { return elements > 0; }
  std::size_t at(std::int64_t g, std::int64_t r, std::int64_t c) const {
    return static_cast<std::size_t>(begin + g * group + r * row + c * column);
  }
};

class GemmTensors {
 public:
  // Without data: enough for workspace and prepare. The case's scalars are pointed to.
  explicit GemmTensors(const GemmCase& c);
  GemmTensors(const GemmTensors&) = delete;
  GemmTensors& operator=(const GemmTensors&) = delete;

  GemmTensor a, b, out, scale_a, scale_b, bias, c, out_scale;
  std::array<GemmTensor, 8> operands;
  TensorBox offsets, counts, indices, status;

  // Of which the case's product has one.
  quern_gemm_args gemm{};
  quern_fp8_gemm_args fp8{};
  quern_grouped_fp8_gemm_args grouped{};
  quern_epilogue epilogue{};
  const DLTensor* operand_list[8] = {};

  // f(args) with the struct of the case's product.
  template <class F>
  auto with_args(F f) {
    switch (product_) {
      case Product::gemm:
        return f(gemm);
      case Product::fp8:
        return f(fp8);
      default:
        return f(grouped);
    }
  }

  std::int32_t workspace_of(quern_context* context, std::uint64_t* bytes, quern_error* error);
  std::int32_t prepare(quern_context* context, quern_error* error);
  std::int32_t run(quern_context* context, quern_error* error);

 private:
  void set_operands(const GemmCase& c);
  void set_scales(const GemmCase& c);
  void set_epilogue(const GemmCase& c);
  void set_args(const GemmCase& c);
  void bind(quern_context* context);

  Product product_;
  std::string formula_;
};

}  // namespace quern::test
