// Keys for the kernel of 64 rows that no tensor map can copy: of 8 bits, in rows of 656 bytes, listed one by one, or in
// pages of any size. Four warps look each key up, read its row and store it as tiles of numbers; plain rows are copied
// without passing through registers.
//
// Each warp has 16 rows of each of the two blocks of a pair. A row's latent part is read by all lanes at once, 16 bytes
// each, and its numbers so lie in one tile for every four lanes. Eight rows are read while the eight before are stored.
//
// Numbers of 8 bits cost more to widen than to multiply. Where two blocks of threads with tiles of one sequence are a
// cluster (PAIRED), each reads and widens eight of the 16 rows and stores them to both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/lookup.cuh"
#include "mla_decode/kernels/sm90/rows64.cuh"

namespace q {

inline constexpr bool kGathered = true, kQueriesAhead = false, kJoinsPairs = false;
inline constexpr int kBatch = 8;  // rows of a warp that are read in one go
// Warps arrive once they have stored all; of copies under way each thread does besides.
inline constexpr int kFullArrivals = 4 + (kPlain ? 4 * kWarp : 0), kListeners = kConsumers / kWarp + 4;
inline constexpr int kRopePieces = kPlain || kKind == CacheKind::rows656 ? 8 : 4;  // of 16 bytes, as they are read
inline constexpr int kRopeRows = kWarp / kRopePieces, kRopeReads = kBatch / kRopeRows;
inline constexpr u32 kBatchBytes = kBatch * kTiles * 128;  // as they are stored
static_assert(kWarp == 32 && 2 * kBatch == kOwnRows, "a lane has 16 bytes of 512");

// What a lane has of a batch of rows. Lane 4 r + i also has what row r's numbers are multiplied with: those of its
// columns 128 i and on, where that differs.
struct Batch {
  vec16 latent[kBatch];
  f32 scale;
};
// The rope part of one batch, which is stored last: there are registers for one alone.
struct BatchRope {
  vec16 x[kRopeReads];
};
// Where in shared memory a batch goes.
struct BatchPlace {
  int block, half;
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
      const i32 end = shuffle(t.end_key, 0), begin = shuffle(t.key, 0);
      Lookup lookup(p, t, w_);
      if constexpr (kPlain) {
        QUERN_ROLLED for (i32 key = begin; key < end; key += kBlock) {
          const FoundRows rows = lookup.next(key);
          QUERN_ROLLED for (int block = 0; block < 2; ++block) copy(rows, block);
          round_ ^= 1;
        }
      } else {
        widen_all(lookup, begin, end);
      }
      listener.done();
    }
  }

 private:
  // A batch is read before the one before it is stored, so that reading never waits for room. Of a block's two batches
  // a block of threads has one or, alone, both.
  QUERN_DEVICE void widen_all(Lookup& lookup, i32 key, i32 end) {
    const bool alone = peers_.count == 1;
    const int first = alone ? 0 : static_cast<int>(peers_.rank), second = alone ? 1 : first;
    int block = 0;  // of the batch in `even`
    FoundRows rows = lookup.next(key);
    Batch even, odd;
    BatchRope rope;
    read(rows, {0, first}, even);
    read_rope(rows, {0, first}, rope);
    QUERN_ROLLED for (bool more = true; more;) {
      const int odd_block = alone ? block : 1;
      read(rows, {odd_block, second}, odd);
      store(rows.there, {block, first}, even, rope, !alone);
      read_rope(rows, {odd_block, second}, rope);
      const u32 there = rows.there;
      if (odd_block == 1) {
        key += kBlock;
        more = key < end;
        if (more) rows = lookup.next(key);
      }
      if (alone) block ^= 1;
      if (more) read(rows, {block, first}, even);
      store(there, {odd_block, second}, odd, rope, true);
      if (more) read_rope(rows, {block, first}, rope);
      if (odd_block == 1) round_ ^= 1;
    }
  }

  QUERN_DEVICE void read(const FoundRows& rows, BatchPlace place, Batch& batch) const {
    const int first = place.block * kOwnRows + place.half * kBatch;
    QUERN_UNROLL for (int i = 0; i < kBatch; ++i) {
      const u8* from = address_of(rows.latent, first + i);
      batch.latent[i] = {};
      if ((rows.there >> (first + i) & 1) != 0) batch.latent[i] = load16_once(from + lane() * 16);
    }
    const int source = first + lane() / 4;
    batch.scale = kKind == CacheKind::e4m3_tensor ? tensor_scale_ : 0.0f;
    if (kKind == CacheKind::e4m3_token) {
      const u8* from = address_of(reinterpret_cast<const u8*>(rows.scale), source);
      if ((rows.there >> source & 1) != 0) batch.scale = *reinterpret_cast<const f32*>(from);
    } else if (kKind == CacheKind::rows656) {
      const u8* from = address_of(rows.latent, source);
      if ((rows.there >> source & 1) != 0) batch.scale = *reinterpret_cast<const f32*>(from + 512 + lane() % 4 * 4);
    }
  }

  QUERN_DEVICE void read_rope(const FoundRows& rows, BatchPlace place, BatchRope& rope) const {
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i) {
      const int source = place.block * kOwnRows + place.half * kBatch + i * kRopeRows + lane() / kRopePieces;
      const u8* from = address_of(rope_of(rows), source);
      rope.x[i] = {};
      if ((rows.there >> source & 1) != 0) rope.x[i] = load16_once(from + lane() % kRopePieces * 16);
    }
  }

  // Widens a batch and stores it, to the cluster's other block, too; `last` of its block.
  QUERN_DEVICE void store(u32 there, BatchPlace place, const Batch& batch, const BatchRope& parts, bool last) const {
    const int block = place.block;
    if (peers_.count > 1 || place.half == 0) wait_empty(block);
    // Eight rows are all that swizzling concerns.
    u8* rows = m_.keys(block) + (w_ * kOwnRows + place.half * kBatch) * 128;
    const Target latent(m_, peers_, block, rows + (lane() >> 2) * kTileBytes);
    QUERN_UNROLL for (int i = 0; i < kBatch; ++i) {
      const f32 scale = shuffle(batch.scale, i * 4 + (lane() >> 3));
      store_wide(latent, i * 128, i, lane() & 3, batch.latent[i], scale);
    }
    const Target rope(m_, peers_, block, rows + kRopeTile * kTileBytes);
    QUERN_UNROLL for (int i = 0; i < kRopeReads; ++i) {
      const int row = i * kRopeRows + lane() / kRopePieces;
      if constexpr (kKind == CacheKind::rows656) {
        vec16 v = parts.x[i];
        QUERN_UNROLL for (int x = 0; x < 4; ++x) {
          const f32x2 two = unpack<bf16>(v.x[x]);
          v.x[x] = pack<Element>(two.x, two.y);
        }
        rope.put(place_in_tile(row, lane() % kRopePieces), v);
      } else {
        store_wide(rope, row * 128, row, lane() % kRopePieces, parts.x[i], shuffle(batch.scale, row * 4));
      }
    }
    fence_async();
    sync_warp();
    if (last) filled(there, block);
  }

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

  // 16 numbers as pieces 2 p and 2 p + 1, of 8 each, to a row of a tile. Neighbouring groups of lanes store the two in
  // different orders, so that no two of eight lanes meet in a bank.
  QUERN_DEVICE void store_wide(const Target& target, u32 offset, int row, int p, const vec16& bytes, f32 scale) const {
    const bool swap = (lane() & 4) != 0;
    vec16 two[2];
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      QUERN_UNROLL for (int x = 0; x < 2; ++x) {
        const u32 four = bytes.x[2 * i + x];
        const f32x2 low = unpack_fp8<e4m3>(static_cast<u16>(four)),
                    high = unpack_fp8<e4m3>(static_cast<u16>(four >> 16));
        two[i].x[2 * x] = pack<Element>(low.x * scale, low.y * scale);
        two[i].x[2 * x + 1] = pack<Element>(high.x * scale, high.y * scale);
      }
    }
    const u32 first = static_cast<u32>(2 * p + static_cast<int>(swap)) << 4;
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      vec16 v;
      QUERN_UNROLL for (int x = 0; x < 4; ++x) v.x[x] = swap ? two[1 - i].x[x] : two[i].x[x];
      target.put(offset + (first ^ static_cast<u32>((row ^ i) << 4)), v);
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
    filled(rows.there, block);
  }

  QUERN_DEVICE void filled(u32 there, int block) const {
    if (lane() != 0) return;
    if (kListed) {
      reinterpret_cast<u16*>(m_.told().there)[block * 4 + w_] = static_cast<u16>(there >> block * kOwnRows);
    }
    // The other block's same warp stores as much to this one's memory.
    if (kPaired && peers_.count > 1) {
      mbarrier_arrive_expect(m_.barriers().full[block][0], kBatchBytes);
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
