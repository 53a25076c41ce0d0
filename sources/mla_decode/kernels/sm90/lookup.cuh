// Where the keys of a block lie: looked up by the lanes of four warps, each of which copies a quarter of the keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/tasks.cuh"

namespace q {

inline constexpr CacheKind kKind = static_cast<CacheKind>(CACHE_KIND);
inline constexpr bool kPlain = kKind == CacheKind::plain;
inline constexpr int kPartKeys = kRows == 16 && kPlain ? kBlock / 4 : kBlock / 2;  // that are copied at once
inline constexpr int kOwnRows = kPartKeys / 4;                                     // of a warp, of each part of a block
static_assert(kWarp == kBlock / kPartKeys * kOwnRows, "a lane looks one key up");

// Of a block's rows that a warp has, each lane's own.
struct FoundRows {
  const u8 *latent, *rope;
  u32 there;         // a bit a lane
  const f32* scale;  // of the token, where it is there
};

// Behind 512 numbers and 16 bytes of scales, or in a pool of its own.
QUERN_DEVICE const u8* rope_of(const FoundRows& rows) {
  return kKind == CacheKind::rows656 ? rows.latent + 528 : rows.rope;
}
// What lane `source` holds of an address.
QUERN_DEVICE const u8* address_of(const u8* own, int source) {
  return reinterpret_cast<const u8*>(shuffle(reinterpret_cast<u64>(own), source));
}

// A lane's place in a block, and four numbers of shared memory that it has for itself where that is asked for.
struct Where {
  i32 place;
  i32* own;
};

// What a lane looks up: one key of each block of a task, at the same place of each.
class LookedUp {
 public:
  QUERN_DEVICE LookedUp(const MlaParams& params, const Task& task) : p(params), t(task) {}

 protected:
  // Whether the key at `place` of the block at `key` is listed.
  QUERN_DEVICE bool is_listed(i32 key, i32 place) const { return key < t.end_key && key + place < p.top_k; }
  QUERN_DEVICE const i32* index_at(i32 at) const { return p.indices + (t.q_begin * p.indices_stride + at); }
  // Whether `position`, of the block at `key`, is to be read.
  QUERN_DEVICE bool is_seen(i32 position, i32 key) const {
    bool there = key < t.end_key && position >= 0;
    if (kListed) {
      const i64 pool = static_cast<i64>(p.pool_pages) * p.page_size;
      if (there && (kSlots ? position >= pool : position >= t.kv_len)) {
        there = false;
        tell(p, kBadIndex);
      }
    }
    if (!kSlots) there = there && position >= t.any.first && position < t.any.last;
    return there;
  }
  // By all lanes together.
  QUERN_DEVICE FoundRows rows_at(bool there, i32 own_page, i32 own_slot) const {
    if (there && static_cast<u32>(own_page) >= static_cast<u32>(p.pool_pages)) {
      there = false;
      tell(p, kBadPage);
    }
    FoundRows rows;
    rows.there = static_cast<u32>(ballot(there));
    const i64 page = there ? own_page : 0, slot = there ? own_slot : 0;
    rows.latent = p.latent + page * p.latent_page_bytes + slot * p.latent_token_bytes;
    rows.rope = p.rope + page * p.rope_page_bytes + slot * p.rope_token_bytes;
    rows.scale = nullptr;
    if (kKind == CacheKind::e4m3_token) {
      rows.scale = p.cache_scale + page * p.scale_stride_page + slot * p.scale_stride_token;
    }
    return rows;
  }

  const MlaParams& p;
  const Task& t;
};

// The blocks of a task one after the other: pages are looked up a block ahead, and listed indices two.
class Lookup : LookedUp {
 public:
  QUERN_DEVICE Lookup(const MlaParams& params, const Task& task, const Where& at, u32 = 0)
      : LookedUp(params, task), place_(at.place) {
    index_ = index_of(t.key);
    find(t.key);
    index_ = index_of(t.key + kBlock);
  }

  // The rows of the block at `key`, which follows the one before.
  QUERN_DEVICE FoundRows next(i32 key, const Where&, u32) {
    const FoundRows rows = rows_at(there_, page_, slot_);
    find(key + kBlock);
    index_ = index_of(key + 2 * kBlock);
    return rows;
  }

 private:
  // This lane's place among the sequence's keys, or what stands there in its list.
  QUERN_DEVICE i32 index_of(i32 key) const {
    if (!kListed) return key + place_;
    return is_listed(key, place_) ? *index_at(key + place_) : -1;
  }
  QUERN_DEVICE void find(i32 key) {
    there_ = is_seen(index_, key);
    if (!there_) return;
    page_ = index_ / p.by_page_size;
    slot_ = index_ - page_ * p.page_size;
    if (!kSlots) page_ = p.pages[t.pages + page_];
  }

  i32 place_, index_;
  i32 page_, slot_;
  bool there_;
};

// The same without registers that would have to be kept while rows are on their way to all others: what was asked for
// is copied to shared memory, indices and pages of two blocks in turns; and what
// follows from the thread's own index is told anew each time.
class LookupInMemory : LookedUp {
 public:
  // `turn`, 0 or 1: of the first block. It changes from block to block.
  QUERN_DEVICE LookupInMemory(const MlaParams& params, const Task& task, const Where& at, u32 turn)
      : LookedUp(params, task) {
    ask_index(at, t.key, turn);
    copy_async_commit();
    copy_async_wait<0>();
    ask_page(at, t.key, turn);
    ask_index(at, t.key + kBlock, turn ^ 1);
    copy_async_commit();
  }

  // The rows of the block at `key`, which follows the one before.
  QUERN_DEVICE FoundRows next(i32 key, const Where& at, u32 turn) const {
    copy_async_wait<0>();
    const i32 position = position_of(at, key, turn), page = position / p.by_page_size;
    const FoundRows rows =
        rows_at(is_read(at, position, key), kSlots ? page : at.own[2 + turn], position - page * p.page_size);
    ask_page(at, key + kBlock, turn ^ 1);
    ask_index(at, key + 2 * kBlock, turn);
    copy_async_commit();
    return rows;
  }

 private:
  QUERN_DEVICE static i32 position_of(const Where& at, i32 key, u32 turn) {
    return kListed ? at.own[turn] : key + at.place;
  }
  QUERN_DEVICE bool is_read(const Where& at, i32 position, i32 key) const {
    return (!kListed || is_listed(key, at.place)) && is_seen(position, key);
  }
  QUERN_DEVICE void ask_index(const Where& at, i32 key, u32 turn) const {
    if (kListed && is_listed(key, at.place)) copy_async_4(at.own + turn, index_at(key + at.place), true);
  }
  QUERN_DEVICE void ask_page(const Where& at, i32 key, u32 turn) const {
    const i32 position = position_of(at, key, turn);
    if (!kSlots && is_read(at, position, key)) {
      copy_async_4(at.own + 2 + turn, p.pages + (t.pages + position / p.by_page_size), true);
    }
  }
};

}  // namespace q
