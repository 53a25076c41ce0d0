// A kernel of the engine's own, written on quern's device-side layer: sums over devices that reach each other's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quern.h"

namespace quern::engine {

// What every device has for the others: whoever is `from` puts what block `block` is given into a slot there, every
// other time into the other half, and then says in the flag which time it was.
inline constexpr int kMostPeers = 8, kPeerBlocks = 64, kPeerThreads = 512;
inline constexpr std::int64_t kPeerSlot = 32 << 10;  // bytes
inline constexpr std::int64_t kPeerFlags = std::int64_t{kMostPeers} * kPeerBlocks * 128;
inline constexpr std::int64_t kPeerEpochs = kPeerBlocks * std::int64_t{sizeof(std::uint32_t)};
inline constexpr std::int64_t kPeerRoom = kPeerFlags + 2 * kMostPeers * kPeerBlocks * kPeerSlot + kPeerEpochs;

struct PeerParams {
  void* rooms[kMostPeers];  // of each rank, its own among them; one flag a line, slots, and how often a block was here
  void* delta;              // bf16 [rows, LENGTH], or [count] where nothing is normalised
  void* residual;           // bf16 [rows, LENGTH]
  const void* weight;       // bf16 [LENGTH]
  void* normed;             // bf16 [rows, LENGTH]
  std::int64_t count;       // elements of delta, a multiple of eight
  float eps;
  std::uint32_t rank;
};

// Readies it: for rows of `length` elements that are normalised, by 1 + weight where `plus_one` says so, or for parts
// of so many that are summed alone. For the context's device, or compiled for another target: then null. `flags` are
// those of quern_kernel_desc. Throws std::runtime_error.
struct PeerKernel {
  std::int64_t length, ranks;
  bool normalises = false, plus_one = false;
};
quern_kernel* ready_peer_kernel(quern_context* context, const PeerKernel& which, std::uint32_t flags,
                                const char* target = nullptr);

// A block has LENGTH elements. All ranks launch the same blocks in the same order, and a block waits for the others'
// of its number: so all blocks of a launch must find a place at once, and none is launched beside another launch.
//
// A slot is written again two launches later. By then its reader has ended the launch that read it: the writer has
// seen the flag of the launch between, which is set by a launch behind the reader's.
inline constexpr const char* kPeerKernel = R"(#include "common/reduce.cuh"

namespace q {

constexpr int kRounds = (LENGTH + THREADS * 8 - 1) / (THREADS * 8);  // of sixteen bytes a thread

struct Params {
  u8* rooms[MOST_PEERS];
  u8* delta;
  u8* residual;
  const u8* weight;
  u8* normed;
  i64 count;
  f32 eps;
  u32 rank;
};

QUERN_DEVICE u32* flag_of(u8* room, u32 from, int block) {
  return reinterpret_cast<u32*>(room + (static_cast<i64>(from) * BLOCKS + block) * 128);
}
QUERN_DEVICE u8* slot_of(u8* room, u32 epoch, u32 from, int block) {
  return room + FLAGS + (static_cast<i64>((epoch & 1) * MOST_PEERS + from) * BLOCKS + block) * SLOT;
}

}  // namespace q

QUERN_KERNEL(peer_sum, THREADS, 1, QUERN_PARAM q::Params p) {
  using namespace q;
  QUERN_SHARED(f32, scratch, THREADS / kWarp);
  const int t = thread_index(), block = block_index(0);
  const i64 first = static_cast<i64>(block) * LENGTH;
  const i64 length = p.count - first < LENGTH ? p.count - first : LENGTH;
  vec16 weight[kRounds] = {}, own[kRounds] = {}, residual[kRounds] = {};
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (NORMALISE && at < length) weight[i] = load16(p.weight + at * 2);
  }
  wait_for_previous_grid();
  launch_next_grid();
  u8* const room = p.rooms[p.rank];
  u32* const epochs = reinterpret_cast<u32*>(room + FLAGS + static_cast<i64>(2 * MOST_PEERS * BLOCKS) * SLOT);
  const u32 epoch = epochs[block] + 1;
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (at >= length) continue;
    own[i] = load16(p.delta + (first + at) * 2);
    if (NORMALISE) residual[i] = load16(p.residual + (first + at) * 2);
    QUERN_UNROLL for (u32 r = 0; r < RANKS; ++r) {
      if (r != p.rank) store16(slot_of(p.rooms[r], epoch, p.rank, block) + at * 2, own[i]);
    }
  }
  sync_block();
  if (warp() == 0) {
    const u32 other = static_cast<u32>(t);
    const bool is_one = other < RANKS && other != p.rank;
    if (is_one) publish(flag_of(p.rooms[other], p.rank, block), epoch);
    sync_warp();
    // One that is ahead has said a later time already.
    while (is_one && static_cast<i32>(acquire(flag_of(room, other, block)) - epoch) < 0) {
    }
  }
  sync_block();
  if (t == 0) epochs[block] = epoch;
  f32 squares = 0.0f, kept[kRounds][8] = {};
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (at >= length) continue;
    f32 sums[8] = {};
    // In the order of the ranks, so that all of them have the same bits.
    QUERN_UNROLL for (u32 r = 0; r < RANKS; ++r) {
      const vec16 part = r == p.rank ? own[i] : load16(slot_of(room, epoch, r, block) + at * 2);
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        const f32x2 two = unpack<bf16>(part.x[j]);
        sums[2 * j] += two.x, sums[2 * j + 1] += two.y;
      }
    }
    QUERN_UNROLL for (int j = 0; j < 4 && NORMALISE; ++j) {
      const f32x2 two = unpack<bf16>(residual[i].x[j]);
      sums[2 * j] += two.x, sums[2 * j + 1] += two.y;
    }
    QUERN_UNROLL for (int j = 0; j < 4; ++j) {
      own[i].x[j] = pack<bf16>(sums[2 * j], sums[2 * j + 1]);
      squares += sums[2 * j] * sums[2 * j] + sums[2 * j + 1] * sums[2 * j + 1];
    }
    store16((NORMALISE ? p.residual : p.delta) + (first + at) * 2, own[i]);
    // The next layer adds to what is rounded; what is normalised is rounded once, at the end.
    QUERN_UNROLL for (int j = 0; j < 8; ++j) kept[i][j] = sums[j];
  }
  if (!NORMALISE) return;
  const f32 scale = q::rsqrt(block_sum<THREADS>(squares, scratch) / LENGTH + p.eps);
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (at >= length) continue;
    vec16 out;
    QUERN_UNROLL for (int j = 0; j < 4; ++j) {
      const f32x2 w = unpack<bf16>(weight[i].x[j]);
      out.x[j] = pack<bf16>(kept[i][2 * j] * scale * (w.x + PLUS), kept[i][2 * j + 1] * scale * (w.y + PLUS));
    }
    store16(p.normed + (first + at) * 2, out);
  }
}
)";

}  // namespace quern::engine
