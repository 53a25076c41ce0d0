// wgmma with accumulators as plain arrays. Accumulators in numbered registers (common/registers/warpgroup_sums.cuh)
// take less time to compile.
//
//   wgmma<A, B, a_major, b_major>(d, a, b, accumulate)
//                            d[64][n] (+)= a[64][k] b[k][n]. d is an array of n / 2 f32, n = 8 to 256 by 8, laid out as
//                            wgmma_row and wgmma_column say; k is kWgmmaK<A>. A and B are both bf16 or both f16, or
//                            each one of e4m3 and e5m2 (sums of integers stay where warpgroup_sums.cuh has them). b is
//                            a matrix descriptor; a is one, or an array of 4 u32 as wgmma_a_row and wgmma_a_k say. All
//                            threads of a warpgroup call it; asynchronous, as common/sm90/warpgroup.cuh says
//   wgmma_four<a_bytes, b_bytes, A, B, a_major, b_major>(d, a, b, accumulate)
//                            four of them, one step of k after the other: from one to the next the tiles lie so many
//                            bytes further on. It takes less time to compile
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/sm90/wgmma_cuda.cuh"
#endif
