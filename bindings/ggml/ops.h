// The ops of ggml that this backend runs: whether it can, by types and shapes alone, and its launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "run.h"

namespace quern::ggml {

struct Op {
  ggml_op op;
  bool (*is_supported)(const ggml_tensor* node);
  void (*run)(Run& run, const ggml_tensor* node);
};
// Matrix products.
extern const Op kMulMat;
// Attention.
extern const Op kFlashAttention;
// Norms, soft-max, rope, rows of tables.
extern const Op kRmsNorm, kNorm, kGroupNorm, kSoftMax, kRope, kGetRows, kSetRows;
// Element by element.
extern const Op kAdd, kSub, kMul, kDiv, kScale, kUnary, kGlu, kCopy, kCont, kDup;

// The rows of a product of one of ggml's matrices, dequantised where quern has no such elements: the type that the
// other operand is to have, and whether there is one.
DLDataType product_type(const ggml_tensor* matrix);

}  // namespace quern::ggml
