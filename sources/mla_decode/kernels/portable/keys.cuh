// Where the keys of a block lie, and copying them: from the cache to shared memory as they are, and there to numbers
// that tensor cores take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr CacheKind kKind = static_cast<CacheKind>(CACHE_KIND);
inline constexpr bool kQuantised = kKind != CacheKind::plain;
inline constexpr int kColumns = kLatent + kRope;
inline constexpr int kCopyBytes = COPY_BYTES;  // 16, or 4 where rows are not aligned to 16
inline constexpr int kPitch = tile_pitch(kColumns);
inline constexpr int kRawBytes = raw_row_bytes(kKind, kColumns);
// Bytes of a key in its two places.
inline constexpr int kRows656Rope = 528;  // where the rope part begins: behind 512 values and 16 bytes of scales
inline constexpr int kLatentBytes = kKind == CacheKind::rows656 ? kRows656Rope : kLatent * (kQuantised ? 1 : 2);
inline constexpr int kRopeBytes = kKind == CacheKind::rows656 ? 128 : kRope * (kQuantised ? 1 : 2);

// Of the keys of a block, in shared memory.
struct KeyPlaces {
  const u8* latent[kBlock];
  const u8* rope[kBlock];
  i32 position[kBlock];  // among the sequence's keys; -1: not there
  f32 scale[kBlock];
};

// Looks up the keys of a block of the sequence; `seen` is what any row sees. Then a barrier makes them known.
QUERN_DEVICE void look_up(const MlaParams& p, const Sequence& s, const Listed& listed, const Range& seen, i32 block,
                          KeyPlaces& places) {
  QUERN_ROLLED for (i32 r = thread_index(); r < kBlock; r += kThreads) {
    const i32 at = s.first + block * kBlock + r;
    i32 position = at, page = 0, slot = 0;
    bool there = true;
    if (kListed) {
      position = at < p.top_k ? p.indices[s.index * p.indices_stride + at] : -1;
      there = position >= 0;
      const i64 pool = static_cast<i64>(p.pool_pages) * p.page_size;
      if (kSlots ? position >= pool : position >= s.kv_len) {
        there = false;
        tell(p, kBadIndex);
      }
    }
    if (!kSlots) there = there && position >= seen.first && position < seen.last;
    if (there) {
      page = position / p.by_page_size;
      slot = position - page * p.page_size;
      if (!kSlots) {
        const i32 sequence = kListed ? listed.sequence : s.index;
        const i64 row = p.page_indptr ? static_cast<i64>(p.page_indptr[sequence]) : sequence * p.pages_stride;
        page = p.pages[row + page];
      }
      if (page < 0 || page >= p.pool_pages) {
        there = false;
        tell(p, kBadPage);
      }
    }
    places.position[r] = there ? position : -1;
    const i64 in_page = there ? slot : 0;
    page = there ? page : 0;
    places.latent[r] = p.latent + page * p.latent_page_bytes + in_page * p.latent_token_bytes;
    places.rope[r] = p.rope + page * p.rope_page_bytes + in_page * p.rope_token_bytes;
    if (kKind == CacheKind::e4m3_token) {
      places.scale[r] = there ? p.cache_scale[page * p.scale_stride_page + in_page * p.scale_stride_token] : 0.0f;
    }
  }
}

QUERN_DEVICE void copy_chunk(u8* to, const u8* from, bool take) {
  if (kCopyBytes == 16) {
    copy_async_16(to, from, take);
  } else {
    copy_async_4(to, from, take);
  }
}

// Copies a block's keys as they lie in the cache; zeros for those that are not there. Completes with the caller's next
// group.
QUERN_DEVICE void copy_keys(const KeyPlaces& places, u8* stage) {
  constexpr int kOfLatent = kLatentBytes / kCopyBytes, kChunks = kOfLatent + kRopeBytes / kCopyBytes;
  QUERN_FOUR_AT_ONCE for (i32 i = thread_index(); i < kBlock * kChunks; i += kThreads) {
    const i32 row = i / kChunks, chunk = i - row * kChunks;
    const u8* from = chunk < kOfLatent ? places.latent[row] + chunk * kCopyBytes
                                       : places.rope[row] + (chunk - kOfLatent) * kCopyBytes;
    copy_chunk(stage + row * kRawBytes + chunk * kCopyBytes, from, places.position[row] >= 0);
  }
}

// Eight numbers of a quantised row. What their type cannot hold is its largest number: an infinity would be NaN to
// those who weigh the key by zero.
QUERN_DEVICE vec16 widened(const u8* raw, f32 scale) {
  vec16 v;
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    const f32x2 two = unpack_fp8<e4m3>(*reinterpret_cast<const u16*>(raw + 2 * i));
    v.x[i] = pack_finite<Element>(two.x * scale, two.y * scale);
  }
  return v;
}

// Turns a stage of quantised keys into numbers.
QUERN_DEVICE void widen_keys(const MlaParams& p, const KeyPlaces& places, const u8* stage, Element* tile) {
  constexpr int kEights = kColumns / 8;
  const f32 tensor_scale = kKind == CacheKind::e4m3_tensor ? p.cache_scale[0] : 1.0f;
  QUERN_ROLLED for (i32 i = thread_index(); i < kBlock * kEights; i += kThreads) {
    const i32 row = i / kEights, column = (i - row * kEights) * 8;
    const u8* raw = stage + row * kRawBytes;
    vec16 v{};
    if (kKind != CacheKind::rows656) {
      v = widened(raw + column, kKind == CacheKind::e4m3_token ? places.scale[row] : tensor_scale);
    } else if (column < 512) {
      const f32 scale = *reinterpret_cast<const f32*>(raw + 512 + column / 128 * 4);
      v = widened(raw + column, scale);
    } else {
      v = load16(raw + kRows656Rope + (column - 512) * 2);
      QUERN_UNROLL for (int x = 0; x < 4; ++x) {
        if constexpr (kIsBf16<Element>) continue;
        const f32x2 two = unpack<bf16>(v.x[x]);
        v.x[x] = pack_finite<Element>(two.x, two.y);
      }
    }
    store16(tile + row * kPitch + column, v);
  }
}

// The queries of a tile of rows, zeros beyond the last. Completes with the caller's next group of copies.
QUERN_DEVICE void copy_queries(const MlaParams& p, const Sequence& s, i32 first_row, Element* tile) {
  constexpr int kOfLatent = kLatent * 2 / kCopyBytes, kChunks = kColumns * 2 / kCopyBytes, kElements = kCopyBytes / 2;
  const i32 rows = s.q_len * p.heads - first_row;
  QUERN_ROLLED for (i32 i = thread_index(); i < kRows * kChunks; i += kThreads) {
    const i32 row = i / kChunks, chunk = i - row * kChunks;
    const bool take = row < rows;
    const i32 of = take ? first_row + row : 0, token = of / p.by_heads, head = of - token * p.heads;
    const i64 at = s.q_begin + token;
    const Element* from =
        static_cast<const Element*>(p.q) + at * p.q_stride_token + head * p.q_stride_head + chunk * kElements;
    if (chunk >= kOfLatent) {
      from = static_cast<const Element*>(p.q_rope) + at * p.q_rope_stride_token + head * p.q_rope_stride_head +
             (chunk - kOfLatent) * kElements;
    }
    copy_chunk(reinterpret_cast<u8*>(tile + row * kPitch) + chunk * kCopyBytes, reinterpret_cast<const u8*>(from),
               take);
  }
}

}  // namespace q
