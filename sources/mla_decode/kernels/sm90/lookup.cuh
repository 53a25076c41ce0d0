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

// The blocks of a task one after the other: pages are looked up a block ahead, and listed indices two.
class Lookup {
 public:
  // `place`: the lane's own key, of those of a block.
  QUERN_DEVICE Lookup(const MlaParams& params, const Task& task, i32 place) : p(params), t(task), place_(place) {
    index_ = index_of(t.key);
    find(t.key);
    index_ = index_of(t.key + kBlock);
  }

  // The rows of the block at `key`, which follows the one before.
  QUERN_DEVICE FoundRows next(i32 key) {
    const FoundRows rows = settle_rows();
    find(key + kBlock);
    index_ = index_of(key + 2 * kBlock);
    return rows;
  }

 private:
  // This lane's place among the sequence's keys, or what stands there in its list.
  QUERN_DEVICE i32 index_of(i32 key) const {
    const i32 at = key + place_;
    if (!kListed) return at;
    return key < t.end_key && at < p.top_k ? p.indices[t.q_begin * p.indices_stride + at] : -1;
  }
  QUERN_DEVICE void find(i32 key) {
    const i32 position = index_;
    there_ = key < t.end_key && position >= 0;
    if (kListed) {
      const i64 pool = static_cast<i64>(p.pool_pages) * p.page_size;
      if (there_ && (kSlots ? position >= pool : position >= t.kv_len)) {
        there_ = false;
        tell(p, kBadIndex);
      }
    }
    if (!kSlots) there_ = there_ && position >= t.any.first && position < t.any.last;
    if (!there_) return;
    page_ = quotient(position, p.page_size);
    slot_ = position - page_ * p.page_size;
    if (!kSlots) page_ = p.pages[t.pages + page_];
  }
  QUERN_DEVICE FoundRows settle_rows() const {
    bool there = there_;
    if (there && static_cast<u32>(page_) >= static_cast<u32>(p.pool_pages)) {
      there = false;
      tell(p, kBadPage);
    }
    FoundRows rows;
    rows.there = static_cast<u32>(ballot(there));
    const i64 page = there ? page_ : 0, slot = there ? slot_ : 0;
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
  i32 place_;
  i32 index_;
  i32 page_, slot_;
  bool there_;
};

}  // namespace q
