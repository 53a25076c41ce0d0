// The device-side layer every kernel is written on. A kernel includes this file and nothing of its target's own; what
// is listed here means the same on every target; the library chooses the backend when it compiles a kernel.
//
// A kernel is one extern "C" entry, its arguments passed by value:
//
//   struct Params { ... };
//   QUERN_KERNEL(name, threads, blocks_per_sm, QUERN_PARAM Params p) { ... }
//
// `threads` is the block size it is always launched with, `blocks_per_sm` the residency the register allocator aims at.
//
// QUERN_UNROLL, QUERN_FOUR_AT_ONCE, QUERN_TWO_AT_ONCE and QUERN_ROLLED stand before a loop that is to be unrolled
// completely, by four or by two (so that loads overlap), or not at all. Without them compilers unroll loops that run
// once, and compile time grows.
//
// QUERN_DEVICE stands before a function that becomes part of its caller; QUERN_CALLED before one that is compiled once
// and called: for what is long, done from several places and not often.
//
// Kernel code must be in namespace q or in a namespace inside it: elsewhere NVRTC's own ballot, exp2, log2, rsqrt,
// fmin, fmax, fabs and fma are found beside these.
//
// What each backend provides, in namespace q:
//
//   Execution   kWarp                              lanes of a warp: 32, or 64 on AMD
//               thread_index() lane() warp()       within the block, which is one-dimensional
//               block_index(d) block_count(d)      d = 0, 1, 2
//               sync_block()                       barrier of the block; orders shared and global memory among its
//                                                  threads. All of them must call it: none may have returned
//               sync_warp()                        the same for the calling warp
//               sync_named(id, threads)            barrier `id` (1..15) of `threads` threads, whole warps; not on AMD:
//                                                  the macro QUERN_NAMED_BARRIERS is defined where it is
//   Shared      dynamic_shared()                   u8 *, 128-byte aligned
//               QUERN_SHARED(type, name, count)    static, an array of a trivial type
//               in_shared(p)                       p, which points there: for functions of their own (QUERN_CALLED),
//                                                  whose loads and atomics would be those for any memory, and slow
//   Warp        shuffle(v, lane) shuffle_xor(v, mask) shuffle_up(v, delta)
//                                                  for 32-bit and 64-bit values; all lanes must call them
//               ballot(predicate) -> u64
//                                                  common/reduce.cuh has sums, extrema, scans and histograms of
//                                                  warps and blocks
//   Bits        popcount(v) leading_zeros(v) trailing_zeros(v)
//                                                  of u32 and u64, as u32; those of 0 are 32 or 64
//   Bytes       permute_bytes<s>(low, high)        u32 of four bytes of the eight of `low` (0 to 3) and `high` (4 to
//                                                  7): the result's byte i is number s >> 4 i & 7
//   Integers    multiply_wide(a, b)                i64 product of two i32, by one instruction where there is one
//   Memory      load16(p) store16(p, v)            16 bytes, aligned; load16_once(p): read once, do not keep in L1;
//                                                  load16_alone(p): likewise, by a kernel that stores next to nothing;
//                                                  store16_global(p, v): to memory that is not shared
//               load_volatile(p)                   a load that is neither hoisted nor served from a stale L1 line
//               atomic_add(p, v) atomic_max(p, v) atomic_or(p, v)  device scope, relaxed; u32, i32, u64, and f32 for
//               add atomic_cas(p, expected, v)         stores v where `expected` stands; what stood there. u32 and u64
//               atomic_add_ordered(p, v)       atomic_add of a u32 in global memory behind all that this thread has
//                                              written, and its block before a barrier, and in front of all that these
//                                              read from then on
//               fence()                            orders this thread's writes before its later ones, device wide
//               publish(p, v)                      stores a u32 after all that this thread has written, for the host
//                                                  and other devices, too
//               acquire(p)                         loads a u32: what its publisher had written before it can be read
//                                                  from then on, and behind a barrier by the whole block
//               store_message(p, v)                stores a u64 at once, for other devices, too; orders nothing else
//               load_message(p)                    loads it: both halves are those of one store
//   Debugging   print(format, values...)           one line of the context's log, in the checked form alone:
//                                                  common/checked.cuh
//   Async       copy_async_16(shared, global, take) copies 16 aligned bytes; writes zeros when `take` is false, without
//                                                  reading `global`. copy_async_4 likewise with 4 bytes
//               copy_async_commit()                closes a group of this thread's copies
//               copy_async_wait<n>()               waits until at most the n youngest groups are in flight; a barrier
//                                                  then makes them visible to the other threads
//               prefetch_line(global)              asks for a line of 128 bytes in L2, where the target can
//   Grid        wait_for_previous_grid()           programmatic launch: waits until the previous grid has finished and
//                                                  its writes are visible
//               launch_next_grid()                 lets the next grid begin its set-up
//               fetch_parameters(params)           reads a kernel's parameters, each of which is else waited for where
//                                                  it is first needed: before wait_for_previous_grid()
//   Control     stay_in_branch()                   keeps the compiler from hoisting the branch that it stands in and
//                                                  the loads there: parameters that are seldom needed are then loaded
//                                                  in that branch only
//               needed_here(v)                     in a branch that has no use for v, of u32: keeps what loads v in
//                                                  front of the branch, where a load would else be moved into the
//                                                  other one
//               laid_first(c)                      returns c. As the condition of a branch it asks for the branch's
//                                                  code to be placed first: a multiprocessor fetches code that it has
//                                                  not run yet line by line
//               held(u64)                          the same number, which is loaded here and not again where it is used
//   Maths       exp2 log2 rcp sqrt rsqrt: a few ulp;    fmin fmax fabs fma: exact
//               rcp_approx(x)                      1/x to 1 ulp for x from 2^-126 to 2^126, by the target's instruction
//                                                  alone; exp, log, tanh and the activations are in
//                                                  common/pointwise.cuh
//               infinity() nan()
//   Conversion  to_f32(f16|bf16) from_f32<T>(f32)  round to nearest even
//               pack<T>(lo, hi) -> u32 unpack<T>(u32) -> f32x2 for f16 and bf16
//               pack_finite<T>(lo, hi)             the same, but that the largest number stands for infinities
//               to_f32 and from_f32<T> also for e4m3 and e5m2; pack_fp8<T>(lo, hi) -> u16, unpack_fp8<T>(u16) -> f32x2;
//                                                  too large becomes the largest finite value
//               bits_of(f32) -> u32 f32_of(u32) -> f32
//               add_halves(a, b)                   the sums of two pairs of f16
//   Tile        a 16x16 tile of f32 accumulators over a warp, and its operands of T = f16, bf16, e4m3, e5m2 or f32
//               (TF32 where the target has no f32 products):
//     kTileK<T>                         the k of one tensor-core step: 16 for 16 bits, 32 for 8, 8 for f32
//     Accumulator                       { f32 x[256 / kWarp]; }
//     kRowsHeld                         distinct rows among a lane's elements
//     held_row(i)                       which of the lane's rows (0 .. kRowsHeld-1) element i lies in
//     row_of(lane, held) column_of(lane, i)   where that is in the tile
//     OperandA<T> load_a(tile, pitch)   16 rows of kTileK<T> k, `tile` in shared memory with `pitch` elements from row
//                                       to row
//     OperandB<T> load_b(tile, pitch)   stored [n][k]: 16 columns, each with its k side by side
//     load_a_transposed, load_b_transposed    stored [k][m] and [k][n]; not for 8 bits
//                                       rows must be 16-byte aligned; a pitch of an odd number of 16 bytes avoids bank
//                                       conflicts
//     mma(accumulator, a, b)            accumulator += a b, of f16 or bf16. Other types are multiplied by
//                                       common/registers/numbered_sums.cuh, which like common/registers/tile_sums.cuh
//                                       keeps accumulators over a whole loop; except on NVIDIA, multiplicand(operand)
//                                       is what mma takes of them: 8 bits are widened where necessary
//     to_operand<T>(accumulator)        the accumulator as operand A of a next product, f16 or bf16: the layouts agree,
//                                       so no lane exchanges anything
//     reduce_row_max(v) reduce_row_sum(v)  over the lanes that hold the same row; every one of them gets the result
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

template <class T>
inline constexpr int kTileK = 32 / static_cast<int>(sizeof(T));

}  // namespace q

#include "common/backend.cuh"
#include "common/checked.cuh"
#include "common/convert.cuh"

namespace q {

QUERN_DEVICE constexpr i32 div_up(i32 a, i32 b) { return (a + b - 1) / b; }
QUERN_DEVICE constexpr i32 round_up(i32 a, i32 b) { return div_up(a, b) * b; }

}  // namespace q
