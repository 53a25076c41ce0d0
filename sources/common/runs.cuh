// Products of operands that a lane holds in runs: eight elements that follow one another along k, as a lane reads them
// from memory at once, whatever their number of bits there. Tensor cores take any order of k that both operands share,
// so nothing is exchanged between lanes, and what is packed is unpacked in registers.
//
//   kRunK                            the k of a product of runs: 32
//   kRunsHeld                        runs that a lane holds of 16 lines (rows of a, columns of b) and kRunK of k
//   run_line(lane, held)             which line its run number `held` is of
//   run_k(lane)                      the first of its eight k, in all of its runs
//   Runs<T>                          { u32 x[kRunsHeld][words]; }: four words of two f16 or bf16, or two of four i8. In
//                                    which order the eight stand is up to the caller, the same in a and b
//   IntegerAccumulator               { i32 x[256 / kWarp]; }, laid out as Accumulator is
//   mma(accumulator, a, b)           accumulator += a b, of Runs<f16> or Runs<bf16>; with an IntegerAccumulator of
//                                    Runs<i8>, whose sums wrap around
//   HalfRuns<T>, HalfAccumulator, IntegerHalfAccumulator
//                                    of 8 columns of b, where the macro QUERN_HALF_RUNS is defined: a lane's one run,
//                                    that of the first of its lines, and the first half of an accumulator's elements.
//                                    mma() takes them as it takes the whole ones
//   fma_pairs<T>(a, b, c)            a b + c of two pairs of f16 or bf16, rounded once on NVIDIA's GPUs
//   masked_and_turned(v, mask, turned)   (v & mask) ^ turned, by one instruction where there is one: compilers take it
//                                    apart where mask and `turned` have no bit in common
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

inline constexpr int kRunK = 32;
inline constexpr int kRunsHeld = 16 * kRunK / 8 / kWarp;
// The lanes of a line have neighbouring runs.
QUERN_DEVICE constexpr int run_line(int lane, int held) { return kWarp == 32 ? (lane >> 2) + 8 * held : lane & 15; }
QUERN_DEVICE constexpr int run_k(int lane) { return kWarp == 32 ? (lane & 3) << 3 : (lane >> 4) << 3; }

template <class T>
struct Runs {
  u32 x[kRunsHeld][2 * sizeof(T)];
};
struct IntegerAccumulator {
  i32 x[256 / kWarp];
};
template <class T>
struct HalfRuns {
  u32 x[1][2 * sizeof(T)];
};
struct HalfAccumulator {
  f32 x[128 / kWarp];
};
struct IntegerHalfAccumulator {
  i32 x[128 / kWarp];
};

}  // namespace q

#if defined(QUERN_NAMED_TILE_SUMS)
#include "common/portable/runs_cuda.cuh"
#elif defined(__HIP__)
#include "common/portable/runs_hip.cuh"
#else
#include "common/portable/runs_host.cuh"
#endif
