// What ggml does element by element, by quern_pointwise and quern_copy.
// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

namespace quern::ggml {
namespace {

constexpr std::initializer_list<ggml_type> kNumbers = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

bool is_number(const ggml_tensor* tensor) { return has_type(tensor, kNumbers) && is_even(tensor); }

// Operands are repeated in ggml; quern stretches single ones alone.
bool stretches(const ggml_tensor* operand, const ggml_tensor* to) {
  for (int i = 0; i < GGML_MAX_DIMS; ++i) {
    if (operand->ne[i] != to->ne[i] && operand->ne[i] != 1) return false;
  }
  return true;
}

bool is_binary_supported(const ggml_tensor* node) {
  return is_number(node) && is_number(node->src[0]) && is_number(node->src[1]) && stretches(node->src[0], node) &&
         stretches(node->src[1], node);
}
template <char Sign>
void run_binary(Run& run, const ggml_tensor* node) {
  constexpr char kFormula[] = {'t', 'e', 'n', 's', 'o', 'r', '0', ' ', Sign,
                               ' ', 't', 'e', 'n', 's', 'o', 'r', '1', '\0'};
  run.pointwise(kFormula, {view_of(node->src[0]), view_of(node->src[1])}, view_of(node));
}

bool is_scale_supported(const ggml_tensor* node) { return is_number(node) && is_number(node->src[0]); }
void run_scale(Run& run, const ggml_tensor* node) {
  run.pointwise("tensor0 * scalar0 + scalar1", {view_of(node->src[0])}, view_of(node),
                {float_parameter(node, 0), float_parameter(node, 1)});
}

// nullptr: left to others.
const char* unary_formula(const ggml_tensor* node) {
  switch (ggml_get_unary_op(node)) {
    case GGML_UNARY_OP_ABS:
      return "abs(tensor0)";
    case GGML_UNARY_OP_NEG:
      return "-tensor0";
    case GGML_UNARY_OP_TANH:
      return "tanh(tensor0)";
    case GGML_UNARY_OP_RELU:
      return "relu(tensor0)";
    case GGML_UNARY_OP_SIGMOID:
      return "sigmoid(tensor0)";
    case GGML_UNARY_OP_GELU:
      return "gelu_tanh(tensor0)";
    case GGML_UNARY_OP_GELU_ERF:
      return "gelu(tensor0)";
    case GGML_UNARY_OP_GELU_QUICK:
      return "tensor0 * sigmoid(1.702 * tensor0)";
    case GGML_UNARY_OP_SILU:
      return "silu(tensor0)";
    case GGML_UNARY_OP_EXP:
      return "exp(tensor0)";
    case GGML_UNARY_OP_EXPM1:
      return "expm1(tensor0)";
    case GGML_UNARY_OP_FLOOR:
      return "floor(tensor0)";
    case GGML_UNARY_OP_CEIL:
      return "ceil(tensor0)";
    case GGML_UNARY_OP_TRUNC:
      return "trunc(tensor0)";
    default:
      return nullptr;
  }
}
bool is_unary_supported(const ggml_tensor* node) {
  return unary_formula(node) != nullptr && is_number(node) && is_number(node->src[0]);
}
void run_unary(Run& run, const ggml_tensor* node) {
  run.pointwise(unary_formula(node), {view_of(node->src[0])}, view_of(node));
}

const char* glu_formula(const ggml_tensor* node) {
  switch (ggml_get_glu_op(node)) {
    case GGML_GLU_OP_REGLU:
      return "relu(tensor0) * tensor1";
    case GGML_GLU_OP_GEGLU:
      return "gelu_tanh(tensor0) * tensor1";
    case GGML_GLU_OP_SWIGLU:
      return "silu(tensor0) * tensor1";
    case GGML_GLU_OP_GEGLU_ERF:
      return "gelu(tensor0) * tensor1";
    case GGML_GLU_OP_GEGLU_QUICK:
      return "tensor0 * sigmoid(1.702 * tensor0) * tensor1";
    default:
      return nullptr;
  }
}
bool is_glu_supported(const ggml_tensor* node) {
  return glu_formula(node) != nullptr && is_number(node) && is_number(node->src[0]) &&
         (node->src[1] == nullptr || is_number(node->src[1]));
}
void run_glu(Run& run, const ggml_tensor* node) {
  View gate = view_of(node->src[0]), up = gate;
  if (node->src[1] != nullptr) {
    up = view_of(node->src[1]);
  } else {
    // The halves of each row, in either order.
    const std::int64_t half = gate.shape[3] / 2;
    const bool swapped = node->op_params[1] != 0;
    gate.shape[3] = up.shape[3] = half;
    const std::int64_t step = half * gate.strides[3] * gate.type.bits / 8;
    (swapped ? gate : up).data = static_cast<char*>(gate.data) + step;
  }
  run.pointwise(glu_formula(node), {gate, up}, view_of(node));
}

// A copy into another shape goes row by row of neither: both must be without gaps, or of one shape.
bool is_copy_supported(const ggml_tensor* node) {
  const ggml_tensor* from = node->src[0];
  const bool typed =
      (is_number(node) && is_number(from)) ||
      (node->type == from->type && has_type(node, {GGML_TYPE_I32, GGML_TYPE_I64}) && is_even(node) && is_even(from));
  return typed && (ggml_are_same_shape(node, from) || (ggml_is_contiguous(node) && ggml_is_contiguous(from)));
}
void run_copy(Run& run, const ggml_tensor* node) {
  View from = view_of(node->src[0]), to = view_of(node);
  if (from.shape != to.shape) {
    from.shape = to.shape = {to.count()};
    from.strides = to.strides = {1};
  }
  run.copy(from, to);
}

}  // namespace

extern const Op kAdd = {GGML_OP_ADD, is_binary_supported, run_binary<'+'>};
extern const Op kSub = {GGML_OP_SUB, is_binary_supported, run_binary<'-'>};
extern const Op kMul = {GGML_OP_MUL, is_binary_supported, run_binary<'*'>};
extern const Op kDiv = {GGML_OP_DIV, is_binary_supported, run_binary<'/'>};
extern const Op kScale = {GGML_OP_SCALE, is_scale_supported, run_scale};
extern const Op kUnary = {GGML_OP_UNARY, is_unary_supported, run_unary};
extern const Op kGlu = {GGML_OP_GLU, is_glu_supported, run_glu};
extern const Op kCopy = {GGML_OP_CPY, is_copy_supported, run_copy};
extern const Op kCont = {GGML_OP_CONT, is_copy_supported, run_copy};
extern const Op kDup = {GGML_OP_DUP, is_copy_supported, run_copy};

}  // namespace quern::ggml
