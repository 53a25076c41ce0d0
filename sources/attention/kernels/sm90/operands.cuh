// What is multiplied by warpgroups, and how it lies in shared memory; seen by all of Hopper's kernels for many rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/combine.cuh"
#include "attention/kernels/sm90/room.cuh"
#include "common/registers/warpgroup_sums.cuh"
#include "common/sm90/accumulator.cuh"
#include "common/sm90/pipeline.cuh"
#include "common/sm90/wgmma.cuh"

namespace q {

inline constexpr int kGroupThreads = 128;
inline constexpr int kConsumers = CONSUMERS;       // warpgroups that multiply
inline constexpr int kQueryStages = QUERY_STAGES;  // tiles of queries
static_assert(kQueryStages == 1 || kQueryStages == 2);
// What is multiplied: all of 8 bits, or all of 16, to which a cache of 8 bits is widened on its way.
inline constexpr bool kEights = sizeof(QueryElement) == 1;
inline constexpr bool kWidened = sizeof(CacheElement) < sizeof(QueryElement);
static_assert(sizeof(CacheElement) <= sizeof(QueryElement) && !(kEights && kTokenScales));
inline constexpr int kOperandBytes = static_cast<int>(sizeof(QueryElement));
inline constexpr int kCacheBytes = static_cast<int>(sizeof(CacheElement));
template <bool widened>
struct MultipliedOf {
  using Type = CacheElement;
};
template <>
struct MultipliedOf<true> {
  using Type = Element;
};
using Multiplied = MultipliedOf<kWidened>::Type;  // of keys and values
static_assert(kBlock % 16 == 0, "a product takes 16 keys at once");

// Tiles lie as spans of 128 bytes, of all their rows, swizzled by 128 bytes.
inline constexpr int kSpansK = spans_of(kDimK, kOperandBytes);
inline constexpr int kSpanElements = kSpanBytes / kOperandBytes, kChunkElements = 16 / kOperandBytes;
// Steps of the product of queries and keys, 32 bytes each, and of the product of weights and values.
inline constexpr int kProductsK = div_up(kDimK * kOperandBytes, 32), kProductsV = kBlock * kOperandBytes / 32;
// Weights are of the result's type, or e4m3.
template <bool eights>
struct WeightOf {
  using Type = Element;
};
template <>
struct WeightOf<true> {
  using Type = e4m3;
};
using Weight = WeightOf<kEights>::Type;
inline constexpr int kQueryBytes = kSpansK * kRows * kSpanBytes;
// Where a dim lies among the rows of turned values of 8 bits: of each second eight neighbours have changed places, so
// that the eight even dims of sixteen, which come to be stored at once, are different rows modulo 8. Sums of columns
// come in that order.
QUERN_DEVICE constexpr int turned_row(int dim) { return dim ^ (dim >> 3 & 1); }
// Two neighbouring sums from element i on, in the order of their columns.
template <int count>
QUERN_DEVICE f32x2 two_sums(const f32 (&o)[count], int i) {
  return kEights && (i >> 2 & 1) ? f32x2{o[i + 1], o[i]} : f32x2{o[i], o[i + 1]};
}
// One box of a copy by tensor map: the keys of a block that share a page.
inline constexpr int kBoxKeys = PAGED ? box_keys(PAGE_SIZE, kBlock) : kBlock, kBoxes = kBlock / kBoxKeys;
static_assert(kBlock % kBoxKeys == 0 && kBoxKeys % 8 == 0, "a box begins where a swizzle's pattern does");

// Where a block's keys lie that one box brings: a page and a token in it. Behind the sequence's last key there is no
// page, and what is copied from there is zeros.
struct Place {
  i32 page, token;
};
// Places of a sequence's boxes.
struct Places {
  const i32* pages = nullptr;
  i32 base = 0, kv_len;

  QUERN_DEVICE Places(const AttentionParams& p, i32 index, i32 length) : kv_len(length) {
#if PAGED
    pages = p.pages + (p.page_indptr ? static_cast<i64>(p.page_indptr[index]) : index * p.pages_stride);
#else
    base = p.cu_kv[index];
#endif
  }
  QUERN_DEVICE Place at(i32 key) const {
#if PAGED
    if (key >= kv_len) return {-1, 0};
    constexpr u32 kPage = PAGE_SIZE;
    return {pages[static_cast<u32>(key) / kPage], static_cast<i32>(static_cast<u32>(key) % kPage)};
#else
    return {0, base + key};
#endif
  }
};

// Barriers by number; 0 is the block's. A consumer's own 128 threads, all consumers.
inline constexpr int kGroupBarrier = 1, kConsumersBarrier = kGroupBarrier + kConsumers;
// The consumers as a team.
struct Consumers {
  static constexpr int kThreads = kConsumers * kGroupThreads;
  QUERN_DEVICE static int index() { return thread_index(); }
  QUERN_DEVICE static void sync() { sync_named(kConsumersBarrier, kThreads); }
};

// The part of a matrix descriptor that changes is its low word.
struct Operand {
  u32 low;
  template <Major major, int kTileRows>
  static QUERN_DEVICE constexpr u64 layout() {
    return major == Major::k ? k_major_layout(Swizzle::bytes128) : mn_major_layout(Swizzle::bytes128, kTileRows);
  }
  template <Major major, int kTileRows>
  static QUERN_DEVICE Operand of(const u8* tile) {
    return {static_cast<u32>(matrix_descriptor(tile, layout<major, kTileRows>()))};
  }
  template <Major major, int kTileRows>
  QUERN_DEVICE u64 at(i32 bytes) const {
    constexpr u64 kHigh = layout<major, kTileRows>() >> 32 << 32;
    return kHigh | (low + (static_cast<u32>(bytes) >> 4));
  }
};

}  // namespace q
