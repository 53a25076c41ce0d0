// Matrix products of many rows on Hopper: a persistent kernel whose producer warpgroup copies tiles of a and b by TMA
// and whose two consumer warpgroups multiply them as they arrive. It takes operands that are aligned and not gathered;
// others go to kernels/portable/main.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/persistent_roles.cuh"

QUERN_KERNEL(quern_gemm_persistent, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b, QUERN_PARAM q::TensorMap map_out) {
  q::multiply_persistently(p, q::LineScales(p), map_a, map_b, map_out);
}
