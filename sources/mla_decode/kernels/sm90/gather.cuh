// Keys for the kernel of 64 rows that no tensor map can copy: of 8 bits, in rows of 656 bytes, listed one by one, or in
// pages of any size. Four warps look each key up, read its row and store it as tiles of numbers; plain rows are copied
// without passing through registers.
//
// Each warp has 16 rows of each of the two blocks of a pair. A row's latent part is read by all lanes at once, 16 bytes
// each, and its numbers so lie in one tile for every four lanes. Four rows are read while the four before are stored.
//
// Numbers of 8 bits cost more to widen than to multiply. Where two blocks of threads with tiles of one sequence are a
// cluster (PAIRED), each reads and widens eight of the 16 rows and stores them to both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/lookup.cuh"
#include "mla_decode/kernels/sm90/rows64.cuh"

namespace q {

inline constexpr bool kGathered = true, kQueriesAhead = false, kJoinsPairs = false;
inline constexpr int kFour = 4;  // rows of a warp that are read in one go
// Warps arrive once they have stored all; of copies under way each thread does besides.
inline constexpr int kFullArrivals = 4 + (kPlain ? 4 * kWarp : 0), kListeners = kConsumers / kWarp + 4;
inline constexpr int kRopePieces = kPlain || kKind == CacheKind::rows656 ? 8 : 4;  // of 16 bytes, as they are read
inline constexpr int kRopeRows = kWarp / kRopePieces;
inline constexpr int kShare = kPaired ? kOwnRows / 2 : kOwnRows;  // rows of a block that a warp widens in one go
inline constexpr int kRopeReads = kShare / kRopeRows;
inline constexpr u32 kShareBytes = kShare * kTiles * 128;  // as they are stored
static_assert(kWarp == 32, "a lane has 16 bytes of 512");

// One row's 16 bytes of a lane, and what they are multiplied with.
struct Raw {
  vec16 bytes;
  f32 scale;
};

class Gatherer {
 public:
  QUERN_DEVICE Gatherer(const MlaParams& params, Memory memory, int w)
      : p(params), m_(memory), w_(w), round_(0), tensor_scale_(1.0f) {
    if (kKind == CacheKind::e4m3_tensor) tensor_scale_ = p.cache_scale[0];
  }

  QUERN_DEVICE void run() {
    Tasks tasks(p, m_.told().mailbox, m_.chunks());
    Listener listener(m_.told().mailbox);
    QUERN_ROLLED for (;;) {
      if (w_ == 0) tasks.tell_next();
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      const i32 end = shuffle(t.end_key, 0);
      Lookup lookup(p, t, w_);
      const i32 begin = shuffle(t.key, 0);
      FoundRows rows = lookup.next(begin);
      QUERN_ROLLED for (i32 key = begin; key < end; key += kBlock) {
        QUERN_ROLLED for (int block = 0; block < 2; ++block) {
          if constexpr (kPlain) {
            copy(rows, block);
          } else {
            widen_shares(rows, block);
          }
        }
        rows = lookup.next(key + kBlock);
        round_ ^= 1;
      }
      listener.done();
    }
  }

 private:
  // A place in this block of threads, and the same in the cluster's other.
  struct Target {
    u8* own;
    u32 other, full;  // 0: there is no other
    QUERN_DEVICE Target(const Memory& m, const Peers& peers, int block, u8* at) : own(at), other(0), full(0) {
      if (!kPaired || peers.count == 1) return;
      other = cluster_address(own, peers.rank ^ 1);
      full = cluster_address(&m.barriers().full[block][0], peers.rank ^ 1);
    }
    QUERN_DEVICE void put(u32 offset, const vec16& v) const {
      store16(own + offset, v);
      if (kPaired && full != 0) store_async(other + offset, v, full);
    }
  };

  QUERN_DEVICE f32 scale_of(const FoundRows& rows, int source) const {
    if (kKind != CacheKind::e4m3_token) return tensor_scale_;
    return *reinterpret_cast<const f32*>(address_of(reinterpret_cast<const u8*>(rows.scale), source));
  }
  QUERN_DEVICE Raw read_latent(const FoundRows& rows, int source) const {
    const u8* from = address_of(rows.latent, source);
    const f32 scale = scale_of(rows, source);
    if ((rows.there >> source & 1) == 0) return {{}, 0.0f};
    if (kKind != CacheKind::rows656) return {load16_once(from + lane() * 16), scale};
    return {load16_once(from + lane() * 16), *reinterpret_cast<const f32*>(from + 512 + (lane() >> 3) * 4)};
  }
  QUERN_DEVICE void read_four(const FoundRows& rows, int source, Raw (&raw)[kFour]) const {
    QUERN_UNROLL for (int i = 0; i < kFour; ++i) raw[i] = read_latent(rows, source + i);
  }
  QUERN_DEVICE void store_four(const Target& to, int row, const Raw (&raw)[kFour]) const {
    QUERN_UNROLL for (int i = 0; i < kFour; ++i) store_wide(to, row + i, (lane() & 3) * 2, raw[i]);
  }
  // Of the rope part a lane has 16 bytes of row lane / kRopePieces of as many rows as a warp reads at once.
  QUERN_DEVICE Raw read_rope(const FoundRows& rows, int first) const {
    const int source = first + lane() / kRopePieces;
    const u8* from = address_of(rope_of(rows), source);
    const f32 scale = scale_of(rows, source);
    if ((rows.there >> source & 1) == 0) return {{}, 0.0f};
    return {load16_once(from + lane() % kRopePieces * 16), scale};
  }

  // 16 numbers as two pieces of 8, to a row of a tile. Neighbouring groups of lanes store the two in different orders,
  // so that no two of eight lanes meet in a bank.
  QUERN_DEVICE void store_wide(const Target& to, int row, int piece, const Raw& raw) const {
    const bool swap = (lane() & 4) != 0;
    vec16 two[2];
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      QUERN_UNROLL for (int x = 0; x < 2; ++x) {
        const u32 four = raw.bytes.x[2 * i + x];
        const f32x2 low = unpack_fp8<e4m3>(static_cast<u16>(four)),
                    high = unpack_fp8<e4m3>(static_cast<u16>(four >> 16));
        two[i].x[2 * x] = pack<Element>(low.x * raw.scale, low.y * raw.scale);
        two[i].x[2 * x + 1] = pack<Element>(high.x * raw.scale, high.y * raw.scale);
      }
    }
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      vec16 v;
      QUERN_UNROLL for (int x = 0; x < 4; ++x) v.x[x] = swap ? two[1 - i].x[x] : two[i].x[x];
      to.put(place_in_tile(row, piece + (i ^ static_cast<int>(swap))), v);
    }
  }

  QUERN_DEVICE void store_rope(const Target& to, int row, const Raw& raw) const {
    if (kKind == CacheKind::rows656) {
      vec16 v = raw.bytes;
      QUERN_UNROLL for (int x = 0; x < 4; ++x) {
        const f32x2 two = unpack<bf16>(v.x[x]);
        v.x[x] = pack<Element>(two.x, two.y);
      }
      to.put(place_in_tile(row, lane() % kRopePieces), v);
    } else {
      store_wide(to, row, lane() % kRopePieces * 2, raw);
    }
  }

  QUERN_DEVICE void wait_empty(int block) const {
    QUERN_UNROLL for (int half = 0; half < 2; ++half) mbarrier_wait(m_.barriers().empty[block][half], round_ ^ 1);
  }
  QUERN_DEVICE void copy(const FoundRows& rows, int block) {
    const int first = block * kOwnRows, to = w_ * kOwnRows;
    u8* keys = m_.keys(block);
    wait_empty(block);
    QUERN_FOUR_AT_ONCE for (int row = 0; row < kOwnRows; ++row) {
      const u8* from = address_of(rows.latent, first + row);
      const bool take = (rows.there >> (first + row) & 1) != 0;
      QUERN_UNROLL for (int i = 0; i < 2; ++i) {
        const int piece = i * kWarp + lane();
        copy_async_16(keys + (piece >> 3) * kTileBytes + place_in_tile(to + row, piece & 7), from + piece * 16, take);
      }
    }
    QUERN_UNROLL for (int i = 0; i < kOwnRows / kRopeRows; ++i) {
      const int row = i * kRopeRows + lane() / kRopePieces, piece = lane() % kRopePieces;
      const u8* from = address_of(rope_of(rows), first + row);
      copy_async_16(keys + kRopeTile * kTileBytes + place_in_tile(to + row, piece), from + piece * 16,
                    (rows.there >> (first + row) & 1) != 0);
    }
    copy_async_arrive(m_.barriers().full[block][0]);
    filled(rows, block);
  }

  // A warp's rows of a block: all, or of a cluster's two blocks one half each.
  QUERN_DEVICE void widen_shares(const FoundRows& rows, int block) {
    const int first = peers_.count == 1 ? 0 : static_cast<int>(peers_.rank);
    const int last = kPaired && peers_.count == 1 ? 1 : first;
    QUERN_ROLLED for (int share = first; share <= last; ++share) widen(rows, block, share * kShare, share == first);
    fence_async();
    sync_warp();
    filled(rows, block);
  }
  // Four rows are read while the four before are stored. (Read one by one they would share the few counters that tell
  // of loads, and each wait for all. So they would eight at a time.)
  QUERN_DEVICE void widen(const FoundRows& rows, int block, int begin, bool waits) {
    const int first = block * kOwnRows + begin;
    Raw rope[kRopeReads], latent[2][kFour];
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i) rope[i] = read_rope(rows, first + i * kRopeRows);
    read_four(rows, first, latent[0]);
    if (waits) wait_empty(block);
    // Eight rows are all that swizzling concerns.
    u8* to = m_.keys(block) + (w_ * kOwnRows + begin) * 128;
    const Target rope_to(m_, peers_, block, to + kRopeTile * kTileBytes);
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i)
        store_rope(rope_to, i * kRopeRows + lane() / kRopePieces, rope[i]);
    const Target latent_to(m_, peers_, block, to + (lane() >> 2) * kTileBytes);
    QUERN_UNROLL for (int row = 0; row < kShare; row += kFour) {
      const int turn = row / kFour & 1;
      if (row + kFour < kShare) read_four(rows, first + row + kFour, latent[turn ^ 1]);
      store_four(latent_to, row, latent[turn]);
    }
  }
  QUERN_DEVICE void filled(const FoundRows& rows, int block) const {
    if (lane() != 0) return;
    if (kListed) {
      reinterpret_cast<u16*>(m_.told().there)[block * 4 + w_] = static_cast<u16>(rows.there >> block * kOwnRows);
    }
    // The other block's same warp stores as much to this one's memory.
    if (kPaired && peers_.count > 1) {
      mbarrier_arrive_expect(m_.barriers().full[block][0], kShareBytes);
    } else {
      mbarrier_arrive(m_.barriers().full[block][0]);
    }
  }

  const MlaParams& p;
  Memory m_;
  Peers peers_;
  int w_;
  u32 round_;
  f32 tensor_scale_;
};

QUERN_DEVICE void supply(const MlaParams& p, Memory m, int w) { Gatherer(p, m, w).run(); }

}  // namespace q
