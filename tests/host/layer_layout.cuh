// Where layer.cuh writes what: shared by the kernel and the test that reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q::layer {

inline constexpr int kThreads = 128;
inline constexpr int kGrid[3] = {3, 2, 2};
inline constexpr int kBlocks = 12;
inline constexpr int kDynamicBytes = 8192;
inline constexpr int kInputs = 2048;  // u32

// A row is one u32 a thread.
enum Row : int {
  kThreadIndex,
  kLane,
  kWarpOf,
  kBlockIndex,                    // 3
  kBlockCount = kBlockIndex + 3,  // 3
  kShuffle = kBlockCount + 3,     // of thread * 3 + 1, from lane (lane * 7 + 3) mod warp
  kShuffleXor,                    // with 5
  kShuffleUp,                     // by 3
  kShuffle64,                     // 2: low and high word, from lane ^ 1
  kShuffleF32 = kShuffle64 + 2,   // of thread + 0.5, from lane 0
  kBallot,                        // 2: low and high word, thread mod 3 == 0
  kSyncBlock = kBallot + 2,       // what thread + 37 wrote, static array
  kSyncBlockDynamic,              // what thread + 41 wrote, dynamic memory
  kSyncWarp,                      // what the next lane wrote
  kSyncNamed,                     // what the other warp of a pair wrote, or 0 where there are no named barriers
  kStaticKept,                    // a second static array, written before everything else
  kLoad16,                        // 4 words
  kLoad16Once = kLoad16 + 4,      // 4 words
  kLoadVolatile = kLoad16Once + 4,
  kAcquire,
  kOldCount,  // what atomic_add gave, a permutation over all blocks
  kCopy16,    // kCopyRounds words, input or 0 where `take` was false
  kCopyRounds = 4,
  kCopy4 = kCopy16 + kCopyRounds,
  kMaths = kCopy4 + 1,  // exp2 log2 rcp rsqrt fmin fmax fma(x, y, z) infinity nan bits fabs
  kMathsCount = 11,
  kRows = kMaths + kMathsCount
};

// Then the tiles, one set a warp: dense 16x16 f32 matrices.
enum Tile : int {
  kProduct,            // A B
  kProductTransposed,  // the same with B stored the other way round, on top of an accumulator of 1
  kSecond,             // (A B) B through to_operand
  kMatrices
};
inline constexpr int kTileValues = kMatrices * 256 + 32;  // and the sum and maximum of each row of A B
inline constexpr int kTypes = 2;                          // f16, bf16
inline constexpr int kMostWarps = 4;
inline constexpr int kTiles = kRows * kThreads;
inline constexpr int kBlockResults = kTiles + kMostWarps * kTypes * kTileValues;

// Entry (row, k) of A and (k, column) of B, small whole numbers: every sum is exact.
#ifdef QUERN_DEVICE
#define LAYER_FUNCTION QUERN_DEVICE constexpr
#else
#define LAYER_FUNCTION constexpr
#endif
LAYER_FUNCTION int a_entry(int row, int k) { return (row * 5 + k * 3) % 5 - 2; }
LAYER_FUNCTION int b_entry(int k, int column) { return (k * 7 + column * 2 + k * column) % 3 - 1; }

enum Counter : int { kCountOnes, kSumSigned, kSumF32, kMaxU32, kMaxI32, kCounters };

struct Params {
  const unsigned* input;  // kInputs words: what load16 and the copies read
  unsigned* results;      // kBlocks * kBlockResults words, 0xff bytes at first
  unsigned* counters;     // kCounters words; kMaxI32 begins at -1000, the others at 0
  float x, y, z;          // plain arguments of kMaths: x is scaled by thread + 1
};

}  // namespace q::layer
