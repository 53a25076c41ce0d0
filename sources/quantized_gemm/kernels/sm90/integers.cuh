// Many rows of int8 by int8 on Hopper: gemm's persistent kernel, whose sums are s32 here, with the scales of
// quantized_gemm. Sums are exact, and scaled in the order of product.cuh, so both give the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/persistent_roles.cuh"
#include "quantized_gemm/kernels/shared/scales.cuh"

namespace q {

static_assert(kIntegers && kGroup == 0 && kIntegerSums<ElementA> && !kOutScale);

// What ResultScales asks for. A row's scale includes those of the tensors.
class TileScales {
 public:
  QUERN_DEVICE explicit TileScales(const QuantizedParams& p) : p_(p) {}
  QUERN_DEVICE f32 of_row(const Work& work, i32 line) const { return scale_of_all(p_) * scale_of_row(p_, work, line); }
  QUERN_DEVICE f32 of_column(const Work& work, i32 line) const { return scale_of_column(p_, work, line); }

 private:
  const QuantizedParams& p_;
};

}  // namespace q

QUERN_KERNEL(quern_quantized_gemm_integers, THREADS, 1, QUERN_PARAM q::QuantizedParams p,
             QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b, QUERN_PARAM q::TensorMap map_out) {
  q::multiply_persistently(p.product, q::TileScales(p), map_a, map_b, map_out);
}
