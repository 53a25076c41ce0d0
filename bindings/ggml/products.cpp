// ggml_mul_mat by quern_gemm: out[t, n] = sum over k of rows[t, k] matrix[n, k].
// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

namespace quern::ggml {
namespace {

// Q8_0: blocks of 32 numbers, an f16 scale in front of 32 bytes.
constexpr std::int64_t kBlock = 32, kBlockBytes = 34;

bool is_quantised(const ggml_tensor* matrix) { return matrix->type == GGML_TYPE_Q8_0; }

constexpr std::size_t kLeastAlignment = 4;

// What quern_gemm reads as it stands: last stride 1, or the one before it, and the others aligned.
bool is_readable(const ggml_tensor* tensor) {
  const std::size_t size = type_of(tensor).bits / 8;
  if (!is_even(tensor) || reinterpret_cast<std::uintptr_t>(tensor->data) % kLeastAlignment != 0) return false;
  const bool turned = tensor->nb[0] != size;
  if (turned && tensor->nb[1] != size) return false;
  for (int i = 0; i < GGML_MAX_DIMS; ++i) {
    if (tensor->ne[i] > 1 && i != (turned ? 1 : 0) && tensor->nb[i] % kLeastAlignment != 0) return false;
  }
  return true;
}

View compact(Run& run, const View& from, DLDataType type) {
  const View made = run.scratch(type, from.shape);
  run.copy(from, made);
  return made;
}

bool is_supported(const ggml_tensor* node) {
  const ggml_tensor *matrix = node->src[0], *rows = node->src[1];
  if (node->type != GGML_TYPE_F32 || !has_type(rows, {GGML_TYPE_F32, GGML_TYPE_F16}) || !is_even(rows)) return false;
  // Written row by row.
  if (node->nb[0] != sizeof(float) || !is_even(node)) return false;
  if (is_quantised(matrix)) return ggml_is_contiguous(matrix);
  // Rows of whole pairs of 16 bits, which are what quern_gemm reads at the least.
  return product_type(matrix).bits != 0 && is_even(matrix) && matrix->ne[0] * type_of(matrix).bits % 32 == 0;
}

// One of ggml's matrices [n, k] as quern_gemm takes them.
View matrix_of(Run& run, const ggml_tensor* matrix) {
  if (!is_quantised(matrix)) {
    return is_readable(matrix) ? view_of(matrix) : compact(run, view_of(matrix), type_of(matrix));
  }
  // All of it at once: numbers and scales are two views of the same blocks.
  const std::int64_t rows = ggml_nrows(matrix), blocks = matrix->ne[0] / kBlock;
  auto* data = static_cast<char*>(matrix->data);
  const View scales = {data, kF16, {rows, blocks, 1}, {blocks * kBlockBytes / 2, kBlockBytes / 2, 1}};
  const View numbers = {data + 2, kI8, {rows, blocks, kBlock}, {blocks * kBlockBytes, kBlockBytes, 1}};
  bool held = false;
  const auto bytes = static_cast<std::size_t>(rows * blocks * kBlock) * sizeof(std::uint16_t);
  void* const kept = run.widened().of(matrix, bytes, &held);
  View wide = {kept, kF16, {rows, blocks, kBlock}, {blocks * kBlock, kBlock, 1}};
  if (kept == nullptr) wide = run.scratch(kF16, wide.shape);
  if (!held) run.pointwise("tensor0 * tensor1", {numbers, scales}, wide);
  if (kept != nullptr && !held) run.widened().keep(matrix);
  const std::int64_t k = matrix->ne[0], n = matrix->ne[1], outer = matrix->ne[2];
  return {wide.data, kF16, {matrix->ne[3], outer, n, k}, {outer * n * k, n * k, k, 1}};
}

// A batch of products; where there is one alone, without the dimension.
void product(Run& run, View rows, View matrix, View out) {
  if (out.shape[0] == 1) {
    rows = rows.at(0);
    matrix = matrix.at(0);
    out = out.at(0);
  }
  quern_gemm_args args = {};
  args.a = run.tensor(rows);
  args.b = run.tensor(matrix);
  args.out = run.tensor(out);
  QUERN_LAUNCH(run, gemm, args);
}

void run_it(Run& run, const ggml_tensor* node) {
  const View matrix = matrix_of(run, node->src[0]), out = view_of(node);
  View rows = view_of(node->src[1]);
  const bool readable =
      is_readable(node->src[1]) && rows.type.code == matrix.type.code && rows.type.bits == matrix.type.bits;
  if (!readable) rows = compact(run, rows, matrix.type);
  // A matrix serves as many neighbours of `rows` as there are of them more.
  const std::int64_t wide3 = out.shape[0] / matrix.shape[0], wide2 = out.shape[1] / matrix.shape[1];
  for (std::int64_t i3 = 0; i3 < out.shape[0]; ++i3) {
    const View some = matrix.at(i3 / wide3);
    if (wide2 == 1) {
      product(run, rows.at(i3), some, out.at(i3));
      continue;
    }
    for (std::int64_t m = 0; m < matrix.shape[1]; ++m) {
      View part = rows.at(i3), into = out.at(i3), shared = some;
      part.data = part.at(m * wide2).data;
      into.data = into.at(m * wide2).data;
      shared.data = shared.at(m).data;
      part.shape[0] = into.shape[0] = shared.shape[0] = wide2;
      shared.strides[0] = 0;
      product(run, part, shared, into);
    }
  }
}

}  // namespace

DLDataType product_type(const ggml_tensor* matrix) {
  if (is_quantised(matrix)) return kF16;
  return has_type(matrix, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) ? type_of(matrix) : DLDataType{};
}

extern const Op kMulMat = {GGML_OP_MUL_MAT, is_supported, run_it};

}  // namespace quern::ggml
