// Index scores on Hopper: 64 heads of 128 numbers, e4m3 or e5m2, by wgmma. A product's rows are 64 keys, its columns
// the heads of 1, 2 or 4 queries, so that the sum over heads runs within a thread, and over its quad at the end.
//
// Warpgroups multiply and sum, each while others' products run; a warp copies queries and keys by TMA, two others the
// keys' scales and the heads' weights. Of 8 queries at once (TOKENS) four warpgroups have 2 each, and all multiply the
// same keys: so many sums are never under way that the tensor cores have nothing to do. Else two warpgroups have the
// same queries and take blocks of keys in turns. Blocks of threads stay for all their items: the next item's queries
// and keys come while this one's last keys are multiplied.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/accumulator.cuh"
#include "common/sm90/pipeline.cuh"
#include "common/sm90/wgmma.cuh"
#include "index_scores/kernels/shared/work.cuh"

namespace q {

using Code = CODE;  // e4m3 or e5m2
inline constexpr bool kSharedKeys = TOKENS == 8;
inline constexpr i32 kGroupThreads = 128, kConsumers = index_groups(TOKENS);
inline constexpr i32 kTokens = kSharedKeys ? TOKENS / kConsumers : TOKENS;                        // of a warpgroup
inline constexpr i32 kTileTokens = kSharedKeys ? 4 : TOKENS, kQueryTiles = TOKENS / kTileTokens;  // as they are copied
inline constexpr i32 kKeys = kIndexKeys, kPageRows = PAGE_ROWS;
inline constexpr i32 kKeyBytes = kKeys * 128, kQueryBytes = kTileTokens * 64 * 128;
inline constexpr i32 kStages = index_stages(TOKENS);
inline constexpr i32 kHeadSums = 32;          // accumulators of a thread and query
inline constexpr i32 kWeights = TOKENS * 64;  // of an item
static_assert(THREADS == (kConsumers + 1) * kGroupThreads);

using KeyState = PipelineState<kStages>;
using QueryState = PipelineState<2>;

struct Barriers {
  PipelineBarriers<kStages> keys;
  PipelineBarriers<2> queries;
};
struct Memory {
  u8* queries;   // two buffers of kQueryTiles tiles
  u8* keys;      // stages
  f32* scales;   // stages of kKeys
  f32* weights;  // two buffers of TOKENS times 64 heads
  Barriers& barriers;
};
QUERN_DEVICE Memory carve(u8* shared) {
  u8* keys = shared + 2 * kQueryTiles * kQueryBytes;
  u8* scales = keys + kStages * kKeyBytes;
  u8* weights = scales + kStages * kKeys * 4;
  return {shared, keys, reinterpret_cast<f32*>(scales), reinterpret_cast<f32*>(weights),
          *reinterpret_cast<Barriers*>(weights + 2 * kWeights * 4)};
}

// The keys of an item that some query sees end here; at work.from where there are none.
QUERN_DEVICE i32 end_of_keys(const Work& work) {
  const i32 end = work.most() < work.to ? work.most() : work.to;
  return end > work.from ? end : work.from;
}

// Visits this block's items that have keys to multiply: visit(work, end).
template <class Visit>
QUERN_DEVICE void each_item(const IndexParams& p, const Visit& visit) {
  const i32 items = p.slots.value * p.chunks;
  QUERN_ROLLED for (i32 item = block_index(0); item < items; item += block_count(0)) {
    Work work;
    if (!work_at<TOKENS>(p, item, work)) continue;
    visit(work, end_of_keys(work));
  }
}

// ---- The copying warp.

// Pages of a warp's worth of copies at once, kPageRows keys each: those of a block of keys are among the same.
struct Pages {
  static constexpr i32 kCopies = kKeys / kPageRows;
  static_assert(kWarp % kCopies == 0);
  i32 held = -kWarp, page = 0;

  // For the block that begins with key `key` of the work.
  QUERN_DEVICE void hold(const IndexParams& p, const Work& work, i32 key, i32 end) {
    if (kRagged) return;
    const i32 copy = key / kPageRows;
    if (static_cast<u32>(copy - held) < static_cast<u32>(kWarp)) return;
    held = copy / kWarp * kWarp;
    const i32 of_lane = (held + lane()) * kPageRows;
    page = of_lane < end && of_lane >= work.from ? p.pages[work.begin + of_lane / p.page_size] : 0;
    if (static_cast<u32>(page) >= static_cast<u32>(p.pool_pages)) {
      page = p.pool_pages;  // beyond the pool a copy gives zeros
      tell(p, kBadPage);
    }
  }
  // Of key `key`, which may differ from lane to lane.
  QUERN_DEVICE i32 of(i32 key) const { return kRagged ? 0 : shuffle(page, key / kPageRows - held); }
};
// Of a key of the work: its place in its page, ragged its row.
QUERN_DEVICE i32 place_in_page(const IndexParams& p, const Work& work, i32 key) {
  return kRagged ? static_cast<i32>(work.begin) + key : key - key / p.page_size * p.page_size.value;
}

QUERN_DEVICE void copy_keys(const IndexParams& p, const TensorMap& map, const Work& work, i32 key, i32 end,
                            const Pages& pages, u8* to, Mbarrier& full) {
  constexpr i32 kCopies = Pages::kCopies;
  i32 page[kCopies], count = 0;
  QUERN_UNROLL for (i32 c = 0; c < kCopies; ++c) {
    page[c] = pages.of(key + c * kPageRows);
    count += key + c * kPageRows < end;
  }
  if (elect_one()) {
    mbarrier_arrive_expect(full, static_cast<u32>(count * kPageRows * 128));
    QUERN_UNROLL for (i32 c = 0; c < kCopies; ++c) {
      const i32 first = key + c * kPageRows;
      if (first >= end) continue;
      tma_load(to + c * kPageRows * 128, map, full, CacheHint::normal, 0, place_in_page(p, work, first), page[c]);
    }
  }
  sync_warp();
}

QUERN_DEVICE void copy(const IndexParams& p, const TensorMap& queries, const TensorMap& keys, const Memory& m) {
  KeyState state;
  QueryState query;
  const SharedArray<Mbarrier> empty(m.barriers.keys.empty), query_empty(m.barriers.queries.empty);
  each_item(p, [&](const Work& work, i32 end) {
    if (end <= work.from) return;
    acquire(query_empty, query);
    if (elect_one()) {
      Mbarrier& full = m.barriers.queries.full[query.stage];
      u8* to = m.queries + query.stage * kQueryTiles * kQueryBytes;
      mbarrier_arrive_expect(full, kQueryTiles * kQueryBytes);
      QUERN_UNROLL for (i32 tile = 0; tile < kQueryTiles; ++tile) {
        tma_load(to + tile * kQueryBytes, queries, full, CacheHint::normal, 0, 0, work.first + tile * kTileTokens);
      }
    }
    sync_warp();
    query.next();
    Pages pages;
    QUERN_ROLLED for (i32 key = work.from; key < end; key += kKeys, state.next()) {
      pages.hold(p, work, key, end);
      acquire(empty, state);
      copy_keys(p, keys, work, key, end, pages, m.keys + state.stage * kKeyBytes, m.barriers.keys.full[state.stage]);
    }
  });
}

// ---- The warp that copies scales.

QUERN_DEVICE void copy_scales(const IndexParams& p, const Memory& m) {
  KeyState state;
  const SharedArray<Mbarrier> full(m.barriers.keys.full), empty(m.barriers.keys.empty);
  each_item(p, [&](const Work& work, i32 end) {
    Pages pages;
    QUERN_ROLLED for (i32 key = work.from; key < end; key += kKeys, state.next()) {
      pages.hold(p, work, key, end);
      const f32* from[kKeys / kWarp];
      bool take[kKeys / kWarp];
      QUERN_UNROLL for (i32 i = 0; i < kKeys / kWarp; ++i) {
        const i32 at = key + i * kWarp + lane(), page = pages.of(at);
        take[i] = p.k_scale && at < end && (kRagged || page < p.pool_pages);
        from[i] = p.k_scale;
        if (take[i]) from[i] += page * p.k_scale_page + place_in_page(p, work, at) * p.k_scale_place;
      }
      acquire(empty, state);
      f32* to = m.scales + state.stage * kKeys + lane();
      if (p.k_scale) {
        QUERN_UNROLL for (i32 i = 0; i < kKeys / kWarp; ++i) copy_async_4(to + i * kWarp, from[i], take[i]);
        copy_async_arrive(full, state.stage);
      } else {
        QUERN_UNROLL for (i32 i = 0; i < kKeys / kWarp; ++i) to[i * kWarp] = 1.0f;
        mbarrier_arrive(full, state.stage);
      }
    }
  });
}

// ---- The warp that copies weights, times the queries' scales.

QUERN_DEVICE void copy_weights(const IndexParams& p, const Memory& m) {
  QueryState query;
  const SharedArray<Mbarrier> full(m.barriers.queries.full), empty(m.barriers.queries.empty);
  each_item(p, [&](const Work& work, i32 end) {
    if (end <= work.from) return;
    acquire(empty, query);
    f32* to = m.weights + query.stage * kWeights;
    QUERN_FOUR_AT_ONCE for (i32 i = lane(); i < kWeights; i += kWarp) {
      const i32 token = i / 64, head = i - token * 64;
      to[i] = token < work.count ? weight_of(p, work.first + token, head) : 0.0f;
    }
    mbarrier_arrive(full, query.stage);
    query.next();
  });
}

// ---- The warpgroups that multiply.

// Of a thread's columns of each of its queries.
struct Weights {
  f32 x[kTokens][kHeadSums / 2];
  // `first`: of the warpgroup's first query.
  QUERN_DEVICE void load(const f32* first, i32 thread) {
    const SharedArray<f32> weights(first);
    QUERN_UNROLL for (i32 t = 0; t < kTokens; ++t) {
      QUERN_UNROLL for (i32 i = 0; i < kHeadSums / 2; i += 2) {
        f32 two[2];
        load_shared(two, weights, t * 64 + accumulator_column(thread, 2 * i));
        x[t][i] = two[0], x[t][i + 1] = two[1];
      }
    }
  }
};

// The sum over the quad, of the query that the thread then has: number thread % count.
template <i32 count>
QUERN_DEVICE f32 quad_total(const f32 (&v)[count], i32 thread) {
  if constexpr (count == 1) {
    return quad_sum(v[0]);
  } else {
    const bool odd = (thread & 1) != 0, upper = (thread & 2) != 0;
    f32 kept[count / 2];
    QUERN_UNROLL for (i32 t = 0; t < count; t += 2) kept[t / 2] =
        (odd ? v[t + 1] : v[t]) + shuffle_xor(odd ? v[t] : v[t + 1], 1);
    constexpr i32 kLast = count / 2 - 1;
    return (upper ? kept[kLast] : kept[0]) + shuffle_xor(upper ? kept[0] : kept[kLast], 2);
  }
}

struct Multiplier {
  const IndexParams& p;
  const Memory& m;
  i32 group, thread;
  SharedArray<Mbarrier> full, query_full;

  QUERN_DEVICE Multiplier(const IndexParams& params, const Memory& memory, i32 own)
      : p(params),
        m(memory),
        group(own),
        thread(thread_index() - own * kGroupThreads),
        full(memory.barriers.keys.full),
        query_full(memory.barriers.queries.full) {}

  // Products of a block of keys with the warpgroup's queries; the keys' scales beside them.
  QUERN_DEVICE void multiply(const KeyState& state, u64 queries, f32 (&x)[kTokens * kHeadSums],
                             f32 (&scales)[2]) const {
    await(full, state);
    const u64 keys = matrix_descriptor(m.keys + state.stage * kKeyBytes, k_major_layout(Swizzle::bytes128));
    wgmma_fence();
    wgmma_four<32, 32, Code, Code>(x, keys, queries, false);
    wgmma_commit();
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) scales[h] = m.scales[state.stage * kKeys + accumulator_row(thread, h)];
    wgmma_wait<0>(x);
  }
  QUERN_DEVICE void release(Mbarrier& empty) const {
    sync_warp();
    if (elect_one()) mbarrier_arrive(empty);
  }

  // Sums over the heads, and writes what the thread then has.
  QUERN_DEVICE void finish(const Work& work, const Weights& weights, const f32 (&x)[kTokens * kHeadSums],
                           const f32 (&scales)[2], i32 key, i32 own_first, i32 own_count) const {
    f32 sums[2][kTokens] = {};
    QUERN_UNROLL for (i32 i = 0; i < kHeadSums; ++i) {
      QUERN_UNROLL for (i32 t = 0; t < kTokens; ++t) {
        f32& sum = sums[half_of(i)][t];
        sum = fma(fmax(x[t * kHeadSums + i], 0.0f), weights.x[t][i / 4 * 2 + i % 2], sum);
      }
    }
    const i32 t = thread % kTokens;
    const i32 limit = work.limit_of(own_first + t);
    f32* out = p.out + (work.first + own_first + t) * p.out_token;
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const f32 total = quad_total(sums[h], thread) * scales[h];
      // Of several threads with one query each writes a half of its own.
      if (kTokens < 4 && (thread & 3) / kTokens != h) continue;
      const i32 column = key + accumulator_row(thread, h);
      const bool seen = column < limit;
      if (t < own_count && column < work.to && (seen || !p.leave_masked)) out[column] = seen ? total : -infinity();
    }
  }

  QUERN_DEVICE void run() const {
    KeyState state;
    QueryState query;
    i32 turn = 0;  // whose a block of keys is, where they are shared out
    each_item(p, [&](const Work& work, i32 end) {
      const i32 own_first = kSharedKeys ? group * kTokens : 0;
      const i32 rest = work.count - own_first, own_count = rest < kTokens ? rest : kTokens;
      i32 key = work.from;
      if (key < end) {
        await(query_full, query);
        Weights weights;
        weights.load(m.weights + query.stage * kWeights + own_first * 64, thread);
        const u8* tile = m.queries + query.stage * kQueryTiles * kQueryBytes + own_first * (64 * 128);
        const u64 queries = matrix_descriptor(tile, k_major_layout(Swizzle::bytes128));
        QUERN_ROLLED for (; key < end; key += kKeys, state.next(), turn ^= 1) {
          if (!kSharedKeys && turn != group) continue;
          f32 x[kTokens * kHeadSums], scales[2];
          multiply(state, queries, x, scales);
          release(m.barriers.keys.empty[state.stage]);
          finish(work, weights, x, scales, key, own_first, own_count);
        }
        release(m.barriers.queries.empty[query.stage]);
        query.next();
      }
      fill_masked(p, work, key, thread_index(), kConsumers * kGroupThreads);
    });
  }
};

QUERN_DEVICE void score(const IndexParams& p, const TensorMap& queries, const TensorMap& keys) {
  const Memory m = carve(tile_shared());
  if (thread_index() == 0) {
    // Copies by TMA arrive once, and each lane of the warps that copy scales and weights.
    m.barriers.keys.init(1 + kWarp, kSharedKeys ? kConsumers * 4 : 4);
    m.barriers.queries.init(1 + kWarp, kConsumers * 4);
    fence_mbarrier_init();
    prefetch_tensor_map(queries);
    prefetch_tensor_map(keys);
  }
  launch_next_grid();
  sync_block();
  wait_for_previous_grid();
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  if (group == kConsumers) {
    registers_shrink<kSharedKeys ? 32 : 40>();  // as many as the others take
    const i32 role = shuffle(warp() % 4, 0);
    if (role == 0) {
      copy(p, queries, keys, m);
    } else if (role == 1) {
      copy_scales(p, m);
    } else if (role == 2) {
      copy_weights(p, m);
    }
  } else {
    registers_grow<kSharedKeys ? 112 : 232>();
    Multiplier(p, m, group).run();
  }
}

}  // namespace q

QUERN_KERNEL(quern_index_scores_sm90, THREADS, 1, QUERN_PARAM q::IndexParams p, QUERN_PARAM q::TensorMap queries,
             QUERN_PARAM q::TensorMap keys) {
  q::score(p, queries, keys);
}
