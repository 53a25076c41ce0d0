// The compile-time shape of the decode kernel on Hopper: who is who in a block of threads, what lies where in shared
// memory, and which keys and dims a lane holds.
//
// The last kPipes warps copy, each a pipe of its own: of every block of keys it takes kPipeKeys. The first kPipes *
// kReaders warps multiply: those of a pipe take its stages in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/portable/cache.cuh"
#include "attention/kernels/shared/combine.cuh"
#include "attention/kernels/shared/custom_mask.cuh"
#include "attention/kernels/shared/logit.cuh"
#include "attention/kernels/sm90/room.cuh"
#include "common/reduce.cuh"
#include "common/sm90/pipeline.cuh"
#include "common/sm90/warpgroup.cuh"

namespace q {

inline constexpr int kStages = STAGES;  // of each pipe
static_assert(kStages % kReaders == 0, "a reader takes every so many stages");
static_assert(THREADS == kStreamThreads && kRows == 16 && kBlock == kPipes * kPipeKeys);
static_assert(streams_take(kDimK, kDimV, kCacheBytes) && COPY_BYTES == 16);
// Who multiplies takes registers from who copies.
inline constexpr bool kManySums = kDimK + kDimV > 256;
inline constexpr int kCopyRegisters = kManySums ? 72 : 120, kReaderRegisters = kManySums ? 216 : 192;
// More than the block began with would never come: the compiler gives each thread registers by eights.
static_assert(2 * kReaderRegisters + kCopyRegisters <= 3 * (65536 / kStreamThreads / 8 * 8) && kStreamThreads == 384);

// What is multiplied. Codes of 8 bits become f16, exactly and by the fewest instructions, whatever the result's type.
template <bool coded>
struct ProductOf {
  using Type = f16;
};
template <>
struct ProductOf<false> {
  using Type = Element;
};
using Product = ProductOf<kCoded>::Type;

template <class T>
inline constexpr bool kIsE4m3 = false;
template <>
inline constexpr bool kIsE4m3<e4m3> = true;

// Rows lie one behind another, each 16 bytes of a row where swizzled() says: lanes that read the same columns of eight
// rows then read different banks.
inline constexpr int kRowBytesK = kDimK * kCacheBytes, kRowBytesV = kDimV * kCacheBytes;
inline constexpr int kStageBytes = stream_stage_bytes(kDimK, kDimV, kCacheBytes, kTokenScales);
template <int kRowBytes>
QUERN_DEVICE int swizzled(int row, int chunk) {
  constexpr int kMask = kRowBytes % 128 == 0 ? 7 : 3;
  return row * kRowBytes + ((chunk ^ (row & kMask)) * 16);
}

// Column `n` of a tile of eight is this key of eight: so the lanes of a quad and of its neighbour, which are served
// together, read eight banks of both keys and values.
QUERN_DEVICE constexpr int key_of_column(int n) { return (n & 1) << 2 | n >> 1; }
// The key of element i of a lane's scores among the 16 of a stage.
QUERN_DEVICE int key_of_score(int i) { return (i >> 2) * 8 + (i & 1) * 4 + (lane() & 3); }
static_assert(column_of(3, 1) == 7 && column_of(1, 6) == 10 && row_of(5, 1) == 9, "the layout of m16n8k16");

// Named barriers: of those who copy, of those who multiply, and of both before the first copy.
inline constexpr int kCopyBarrier = 1, kReadBarrier = 2, kStartBarrier = 3;

// Those who copy, and those who multiply, as teams.
struct Copiers {
  static constexpr int kThreads = kPipes * kWarp;
  static constexpr bool kDraws = false, kSideBySide = true;
  QUERN_DEVICE static i32 block() { return block_index(0); }
  QUERN_DEVICE static i32 blocks() { return block_count(0); }
  QUERN_DEVICE static int index() { return thread_index() - kPipes * kReaders * kWarp; }
  QUERN_DEVICE static int warp() { return q::warp() - kPipes * kReaders; }
  QUERN_DEVICE static void sync() { sync_named(kCopyBarrier, kThreads); }
};
struct Readers {
  static constexpr int kThreads = kPipes * kReaders * kWarp;
  QUERN_DEVICE static int index() { return thread_index(); }
  QUERN_DEVICE static void sync() { sync_named(kReadBarrier, kThreads); }
};

// What the readers are told. count 0: there is no further piece.
using Task = PieceOfSequence;
// The piece at hand, the one whose results have yet to be joined, and those that are copied ahead.
inline constexpr int kTasks = 4;

struct Shared {
  PipelineBarriers<kStages> pipes[kPipes];
  PipelineBarriers<kTasks> task;
  Mbarrier left;  // results are in shared memory
  Task tasks[kTasks];
  ScheduleScratchOf<Copiers> schedule;
  i32 flag;

  // By those who multiply, while the others find out what there is to copy: a small call's time is that of what stands
  // before its first copy.
  QUERN_DEVICE void init() {
    QUERN_ROLLED for (int i = Readers::index(); i < kPipes * kStages; i += Readers::kThreads) {
      mbarrier_init(pipes[i / kStages].full[i % kStages], kWarp);
      mbarrier_init(pipes[i / kStages].empty[i % kStages], 1);
    }
    // By another warp.
    const int i = Readers::index() - kPipes * kWarp;
    if (i >= 0 && i < kTasks) {
      mbarrier_init(task.full[i], 1);
      mbarrier_init(task.empty[i], kPipes * kReaders);
    }
    if (i == kTasks) mbarrier_init(left, kPipes * kReaders);
    fence_mbarrier_init();
  }
};
static_assert(sizeof(Shared) <= kStreamStaticBytes);

// Dynamic shared memory: the pipes' stages, then the readers' results.
QUERN_DEVICE u8* stages_of(u8* memory, int pipe) { return memory + pipe * kStages * kStageBytes; }
inline constexpr int kJoinedFloats = slot_size(kJoinedRows, kDimV);
inline constexpr int kResultBuffers = stream_result_buffers(kDimK, kDimV, kStages, kCacheBytes, kTokenScales);
QUERN_DEVICE f32* results_at(u8* memory) { return reinterpret_cast<f32*>(memory + kPipes * kStages * kStageBytes); }

}  // namespace q
