// Keys for the kernel of 64 rows that no tensor map can copy: of 8 bits, in rows of 656 bytes, listed one by one, or in
// pages of any size. Each of the two blocks of a pair has four warps that look its keys up, read their rows and store
// them as tiles of numbers; or two, where plain rows are copied without passing through registers.
//
// Each warp has 16 rows, of which it reads eight at a time: four lanes have a row, and of every 64 columns 16 each. So
// a lane has one address only; all it reads is under way at once, while products still read the block's rows before.
//
// Numbers of 8 bits cost more to widen than to multiply. Where two blocks of threads with tiles of one sequence are a
// cluster (PAIRED), each reads and widens eight of the 16 rows and stores them to both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/lookup.cuh"
#include "mla_decode/kernels/sm90/rows64.cuh"

namespace q {

inline constexpr bool kGathered = true, kQueriesAhead = false, kJoinsPairs = false;
inline constexpr bool kStaggered = kPlain;     // see decode.cuh: elsewhere there are no registers for it
inline constexpr bool kClearsValues = kPlain;  // else those that widen do: what they read goes to other blocks, too
inline constexpr int kTeller = 0;              // which of the warps that copy schedules
inline constexpr int kBlockWarps = 4;          // that copy a block, so many rows each
inline constexpr int kWarpRows = kKeys / kBlockWarps;
inline constexpr int kCopyWarps = kPlain ? kBlockWarps : 2 * kBlockWarps;
// A block comes in two turns with a barrier each: the half of its columns that is free first, and the rest. Or in one,
// where a warp widens all of its rows itself.
inline constexpr int kTurns = kPlain || kPaired ? 2 : 1, kTurnTiles = kRopeTile / kTurns;
QUERN_DEVICE constexpr int barrier_of(int block, int part) {
  return kTurns == 1 ? 0 : part == kRopePart ? 1 : part >> 1 ^ block;
}
// Whether part i of a block, in the order in which they are copied, is the first of its barrier.
QUERN_DEVICE constexpr bool begins_barrier(int i) { return i == 0 || (kTurns == 2 && i == 2); }
// Warps arrive once they have stored all; of copies under way each thread does besides.
inline constexpr int kFullArrivals = kBlockWarps + (kPlain ? kBlockWarps * kWarp : 0);
inline constexpr int kListeners = kConsumers / kWarp + kCopyWarps;
inline constexpr int kShare = 8;                                        // rows of a block that a warp widens in one go
inline constexpr int kRopeReads = kKind == CacheKind::rows656 ? 2 : 1;  // of 16 bytes, of a lane
static_assert(kWarp == 4 * kShare && kWarpRows == 2 * kShare, "four lanes have a row");

// What a lane has under way of its row: 16 bytes of each tile's.
struct RawRow {
  vec16 latent[kRopeTile], rope[kRopeReads];
  vec16 scales;  // rows656: of 128 numbers each; of a token: the first
};

// By kind of cache: how keys are looked up.
template <bool plain>
struct Ways {
  using Finder = LookupInMemory;
};
template <>
struct Ways<true> {
  using Finder = Lookup;
};
using Finder = Ways<kPlain>::Finder;

class Gatherer {
 public:
  QUERN_DEVICE Gatherer(const MlaParams& params, Memory memory, int w)
      : p(params), m_(memory), block_(w / kBlockWarps), w_(w % kBlockWarps), round_(0), tensor_scale_(1.0f) {
    if (kKind == CacheKind::e4m3_tensor) tensor_scale_ = p.cache_scale[0];
  }

  QUERN_DEVICE void run() {
    // Who does not tell must not read what was counted: it may be gone by then.
    const bool tells = block_ * kBlockWarps + w_ == kTeller;
    Tasks tasks(p, m_.told().mailbox, tells ? m_.chunks() : nullptr);
    Listener listener(m_.told().mailbox);
    QUERN_ROLLED for (;;) {
      if (tells) tasks.tell_next(m_.chunks());
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      Finder lookup(p, t, where(), round_);
      const i32 begin = shuffle(t.key, 0);
      FoundRows rows = lookup.next(begin, where(), round_);
      QUERN_ROLLED for (i32 key = begin; key < shuffle(t.end_key, 0); key += kBlock) {
        if constexpr (kPlain) {
          QUERN_ROLLED for (int block = 0; block < 2; ++block) copy(rows, block);
        } else {
          widen_shares(rows, t, key + block_ * kKeys + w_ * kWarpRows);
        }
        round_ ^= 1;
        rows = lookup.next(key + kBlock, where(), round_);
      }
      listener.done();
    }
  }

 private:
  // What a warp writes goes to the same place of the cluster's other block, too: latent parts in bulk, once they are
  // there. The rope part goes as it is, since weights take its place while bulk copies may still be reading.
  struct Given {
    u32 to, full;  // 0: there is no other
    QUERN_DEVICE Given(const Memory& m, const Peers& peers, int block, int turn, const u8* from) : to(0), full(0) {
      if (!kPaired || peers.count == 1) return;
      to = cluster_address(from, peers.other());
      full = cluster_address(&m.barriers().full[block][turn], peers.other());
    }
    QUERN_DEVICE void put(u32 offset, const vec16& v) const {
      if (kPaired && full != 0) store_async(to + offset, v, full);
    }
  };

  // Both halves of the warp have the same 16 keys, or each its own block's. Found anew, not kept in registers.
  QUERN_DEVICE Where where() const {
    const u32 own = thread_index_anew() - kConsumers;
    const i32 in_block = static_cast<i32>(own / kWarp * kWarpRows + own % kWarpRows);
    if (kPlain) return {static_cast<i32>(own % kWarp / kWarpRows * kKeys) + in_block, nullptr};
    return {in_block, m_.lookups(static_cast<i32>(own))};
  }

  QUERN_DEVICE static bool is_there(const FoundRows& rows, int row) { return (rows.there >> row & 1) != 0; }
  // Lanes 8 i to 8 i + 7 have the i-th quarter of each tile's columns, of a row each.
  QUERN_DEVICE RawRow read(const FoundRows& rows, int first) const {
    const u32 own = thread_index_anew() % kWarp, quarter = own / kShare;
    const int row = first + static_cast<int>(own % kShare);
    const u8* at = address_of(rows.latent, row);
    const u8 *latent = at + quarter * 16, *rope = at + 528 + quarter * 16, *scales = at + kLatent;
    if (kKind != CacheKind::rows656) {
      rope = address_of(rows.rope, row) + quarter * 16;
      scales = address_of(reinterpret_cast<const u8*>(rows.scale), row);
    }
    RawRow raw = {};
    if (!is_there(rows, row)) return raw;
    QUERN_UNROLL for (int turn = 0; turn < kTurns; ++turn) {
      const u8* from = latent + first_tile(turn) * 64;
      QUERN_UNROLL for (int i = 0; i < kTurnTiles; ++i) {
        raw.latent[turn * kTurnTiles + i] = load16_once(from + i * 64);
      }
    }
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i) raw.rope[i] = load16_once(rope + i * 64);
    if (kKind == CacheKind::rows656) raw.scales = load16_once(scales);
    if (kKind == CacheKind::rows656 && first_tile(0) != 0) {
      raw.scales = {raw.scales.x[2], raw.scales.x[3], raw.scales.x[0], raw.scales.x[1]};
    }
    if (kKind == CacheKind::e4m3_token) raw.scales.x[0] = *reinterpret_cast<const u32*>(scales);
    return raw;
  }
  // The first of a turn's tiles: block 1's right half is free first.
  QUERN_DEVICE int first_tile(int turn) const { return kTurns == 1 ? 0 : (turn ^ block_) * kHalf; }
  // Of the numbers of tile `tile` in the order in which they are read.
  QUERN_DEVICE f32 scale_of(const RawRow& raw, int tile) const {
    if (kKind == CacheKind::e4m3_tensor) return tensor_scale_;
    return f32_of(raw.scales.x[kKind == CacheKind::rows656 ? tile / 2 : 0]);
  }

  // A key that some rows see and others do not (`partly`) must not be NaN as a value: what the latter weigh by zero
  // would be NaN. NaN moves to its rope part, of which only logits are made. All lanes together.
  QUERN_DEVICE static void move_nan(RawRow& raw, bool partly) {
    u32 found = 0;
    QUERN_UNROLL for (int i = 0; i < kRopeTile; ++i) {
      QUERN_UNROLL for (int x = 0; x < 4; ++x) {
        // Of a code, the highest bit: whether all seven others are set.
        const u32 bad = ((raw.latent[i].x[x] & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
        found |= bad;
        if (partly) raw.latent[i].x[x] &= ~((bad >> 7) * 0xffu);
      }
    }
    if (kKind == CacheKind::rows656 || kKind == CacheKind::e4m3_token) {
      QUERN_UNROLL for (int x = 0; x < (kKind == CacheKind::rows656 ? 4 : 1); ++x) {
        if (fabs(f32_of(raw.scales.x[x])) < infinity()) continue;
        found = 1;
        if (partly) raw.scales.x[x] = 0;
      }
    }
    QUERN_UNROLL for (int d = kShare; d < kWarp; d *= 2) found |= shuffle_xor(found, d);
    if (!partly || found == 0) return;
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i) {
      QUERN_UNROLL for (int x = 0; x < 4; ++x) raw.rope[i].x[x] = 0x7f7f7f7fu | 0x00800080u;
    }
  }
  // Eight of 16 numbers of 8 bits. What their type cannot hold is its largest number: infinities would be NaN to those
  // who weigh the key by zero.
  QUERN_DEVICE static vec16 widened(const vec16& bytes, int half, f32 scale) {
    vec16 v;
    QUERN_UNROLL for (int x = 0; x < 2; ++x) {
      const u32 four = bytes.x[2 * half + x];
      const f32x2 low = unpack_fp8<e4m3>(static_cast<u16>(four)), high = unpack_fp8<e4m3>(static_cast<u16>(four >> 16));
      v.x[2 * x] = pack_finite<Element>(low.x * scale, low.y * scale);
      v.x[2 * x + 1] = pack_finite<Element>(high.x * scale, high.y * scale);
    }
    return v;
  }
  // A quarter of a row of a tile, 16 numbers as two pieces of 8.
  QUERN_DEVICE static void store_latent(u8* const (&pieces)[2], int tile, const vec16& bytes, f32 scale) {
    QUERN_UNROLL for (int i = 0; i < 2; ++i) store16(pieces[i] + tile * kTileBytes, widened(bytes, i, scale));
  }
  QUERN_DEVICE void store_rope(u8* to, const RawRow& raw, const Given& given) const {
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      vec16 v;
      int piece = lane() / kShare;
      if constexpr (kKind == CacheKind::rows656) {
        v = raw.rope[i];
        piece += i * 4;
        if constexpr (!kIsBf16<Element>) {
          QUERN_UNROLL for (int x = 0; x < 4; ++x) {
            const f32x2 two = unpack<bf16>(v.x[x]);
            v.x[x] = pack_finite<Element>(two.x, two.y);
          }
        }
      } else {
        v = widened(raw.rope[0], i, scale_of(raw, kRopeTile));
        piece = piece * 2 + i;
      }
      const u32 at = static_cast<u32>(kRopeTile * kTileBytes) + place_in_tile(lane() % kShare, piece);
      store16(to + at, v);
      given.put(at, v);
    }
  }

  // A half of the columns as soon as it is free, then the other with the rope part.
  QUERN_DEVICE void copy(const FoundRows& rows, int block) {
    const int to = w_ * kWarpRows, first = block * kWarpRows;
    u8* keys = m_.keys(block);
    Barriers& barriers = m_.barriers();
    QUERN_ROLLED for (int turn = 0; turn < 2; ++turn) {
      const int half = turn ^ block;
      mbarrier_wait(barriers.empty[block][half], round_ ^ 1);
      QUERN_FOUR_AT_ONCE for (int row = 0; row < kWarpRows; ++row) {
        const u8* from = address_of(rows.latent, first + row);
        const int piece = half * kWarp + lane();
        copy_async_16(keys + (piece >> 3) * kTileBytes + place_in_tile(to + row, piece & 7), from + piece * 16,
                      is_there(rows, first + row));
      }
      if (turn == 1) copy_rope(rows, block);
      copy_async_arrive(barriers.full[block][turn]);
      if (kListed && turn == 0 && lane() == 0) tell_there(block, rows.there >> first);
      if (lane() == 0) mbarrier_arrive(barriers.full[block][turn]);
    }
  }
  QUERN_DEVICE void copy_rope(const FoundRows& rows, int block) const {
    constexpr int kPieces = 8, kAtOnce = kWarp / kPieces;
    QUERN_UNROLL for (int i = 0; i < kWarpRows / kAtOnce; ++i) {
      const int row = i * kAtOnce + lane() / kPieces, piece = lane() % kPieces;
      const u8* from = address_of(rope_of(rows), block * kWarpRows + row);
      copy_async_16(m_.keys(block) + kRopeTile * kTileBytes + place_in_tile(w_ * kWarpRows + row, piece),
                    from + piece * 16, is_there(rows, block * kWarpRows + row));
    }
  }
  QUERN_DEVICE void tell_there(int block, u32 bits) const {
    reinterpret_cast<u16*>(m_.told().there)[block * kBlockWarps + w_] = static_cast<u16>(bits);
  }

  // A warp's rows of a block: all, or of a cluster's two blocks one half each.
  QUERN_DEVICE void widen_shares(const FoundRows& rows, const Task& t, i32 key) {
    const bool alone = !kPaired || peers_.count == 1;
    const int begin = alone ? 0 : static_cast<int>(peers_.rank) * kShare, end = alone ? kWarpRows : begin + kShare;
    QUERN_ROLLED for (int share = begin; share < end; share += kShare) {
      const bool edge =
          !kListed && differ(t.any, t.all) && (key + share < t.all.first || key + share + kShare > t.all.last);
      RawRow raw = read(rows, share);
      if (edge) {
        const i32 own = key + share + lane() % kShare;
        move_nan(raw, own < t.all.first || own >= t.all.last);
      }
      // Eight rows are all that swizzling concerns.
      u8* to = m_.keys(block_) + (w_ * kWarpRows + share) * 128;
      const bool waits = share == begin, last = share + kShare == end;
      take_turn<0>(raw, to, waits, last, rows.there);
      if constexpr (kTurns == 2) take_turn<1>(raw, to, waits, last, rows.there);
    }
  }
  // Widens a turn's tiles once they are free, the last turn the rope part, too: weights lie there until all have been
  // multiplied. With the `last` share the turn is complete.
  template <int turn>
  QUERN_DEVICE void take_turn(const RawRow& raw, u8* to, bool waits, bool last, u32 there) {
    Barriers& barriers = m_.barriers();
    if (waits) {
      QUERN_UNROLL for (int i = turn; i < turn + 2 / kTurns; ++i) {
        mbarrier_wait(barriers.empty[block_][i ^ (kTurns == 2 ? block_ : 0)], round_ ^ 1);
      }
    }
    constexpr bool kWithRope = turn + 1 == kTurns;
    const Given given(m_, peers_, block_, turn, to);
    if constexpr (kWithRope) store_rope(to, raw, given);
    const u32 at = static_cast<u32>(first_tile(turn) * kTileBytes);
    u8* pieces[2];
    const int own = static_cast<int>(thread_index_anew() % kWarp);
    QUERN_UNROLL for (int i = 0; i < 2; ++i) pieces[i] = to + at + place_in_tile(own % kShare, own / kShare * 2 + i);
    QUERN_UNROLL for (int i = 0; i < kTurnTiles; ++i) {
      const int tile = turn * kTurnTiles + i;
      store_latent(pieces, i, raw.latent[tile], scale_of(raw, tile));
    }
    fence_async();
    sync_warp();
    if (kPaired && given.full != 0 && elect_one()) {
      QUERN_UNROLL for (int i = 0; i < kTurnTiles; ++i) {
        const u32 tile = at + static_cast<u32>(i * kTileBytes);
        bulk_store_cluster(given.to + tile, to + tile, kShare * 128, given.full);
      }
    }
    if (!last || lane() != 0) return;
    if (kListed && turn == 0) tell_there(block_, there);
    // The other block's same warp stores as much to this one's memory.
    if (kPaired && peers_.count > 1) {
      mbarrier_arrive_expect(barriers.full[block_][turn], kShare * (kTurnTiles + kWithRope) * 128);
    } else {
      mbarrier_arrive(barriers.full[block_][turn]);
    }
  }

  const MlaParams& p;
  Memory m_;
  Peers peers_;
  int block_, w_;  // which block, and which of the warps that copy it
  u32 round_;
  f32 tensor_scale_;
};

QUERN_DEVICE void supply(const MlaParams& p, Memory m, int w) {
  all_ready();
  Gatherer(p, m, w).run();
}

}  // namespace q
