// A kernel of the engine's own, written on quern's device-side layer: sums over devices that reach each other's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quern.h"

namespace quern::engine {

// What every device has for the others: whoever is `from` puts what block `block` is given into a slot there, every
// other time into the other half, as messages of four bytes and of which time it is. Whoever reads one that tells this
// time has the bytes too: nothing else has to be ordered, and nobody waits for a fence.
inline constexpr int kMostPeers = 8, kPeerBlocks = 64, kPeerThreads = 512;
inline constexpr std::int64_t kPeerSlot = 64 << 10;  // bytes of messages
inline constexpr std::int64_t peer_slots(std::int64_t ranks) { return 2 * ranks * kPeerBlocks * kPeerSlot; }
inline constexpr std::int64_t peer_room(std::int64_t ranks) {
  return peer_slots(ranks) + kPeerBlocks * std::int64_t{sizeof(std::uint32_t)};
}

struct PeerParams {
  void* rooms[kMostPeers];  // of each rank, its own among them: slots, and how often a block was here
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
// had messages of the launch between, which are sent by a launch behind the reader's.
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

QUERN_DEVICE u64* messages_of(u8* room, u32 epoch, u32 from, int block) {
  return reinterpret_cast<u64*>(room + (static_cast<i64>((epoch & 1) * RANKS + from) * BLOCKS + block) * SLOT);
}

// Four messages of a thread, each beside the other threads'.
QUERN_DEVICE void send(u64* to, const vec16& v, u32 epoch) {
  QUERN_UNROLL for (int j = 0; j < 4; ++j) store_message(to + j * THREADS, static_cast<u64>(epoch) << 32 | v.x[j]);
}
QUERN_DEVICE vec16 receive(const u64* from, u32 epoch) {
  vec16 v;
  bool there;
  do {
    u64 message[4];
    QUERN_UNROLL for (int j = 0; j < 4; ++j) message[j] = load_message(from + j * THREADS);
    there = true;
    QUERN_UNROLL for (int j = 0; j < 4; ++j) {
      v.x[j] = static_cast<u32>(message[j]);
      there = there && static_cast<u32>(message[j] >> 32) == epoch;
    }
  } while (!there);
  return v;
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
  launch_next_grid();
  wait_for_previous_grid();
  u8* const room = p.rooms[p.rank];
  u32* const epochs = reinterpret_cast<u32*>(room + SLOTS);
  const u32 epoch = epochs[block] + 1;
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (at >= length) continue;
    own[i] = load16(p.delta + (first + at) * 2);
    if (NORMALISE) residual[i] = load16(p.residual + (first + at) * 2);
    QUERN_UNROLL for (u32 r = 0; r < RANKS; ++r) {
      if (r != p.rank) send(messages_of(p.rooms[r], epoch, p.rank, block) + i * 4 * THREADS + t, own[i], epoch);
    }
  }
  f32 squares = 0.0f, kept[kRounds][8] = {};
  QUERN_UNROLL for (int i = 0; i < kRounds; ++i) {
    const i64 at = (i * THREADS + t) * 8;
    if (at >= length) continue;
    f32 sums[8] = {};
    // In the order of the ranks, so that all of them have the same bits.
    QUERN_UNROLL for (u32 r = 0; r < RANKS; ++r) {
      const u64* const from = messages_of(room, epoch, r, block) + i * 4 * THREADS + t;
      const vec16 part = r == p.rank ? own[i] : receive(from, epoch);
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
  if (NORMALISE) {
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
  sync_block();  // all threads have read which time it was
  if (t == 0) epochs[block] = epoch;
}
)";

}  // namespace quern::engine
