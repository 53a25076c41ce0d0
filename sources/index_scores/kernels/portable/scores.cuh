// Index scores for every target: 8-bit numbers are widened to f16, which holds each of them, on their way into shared
// memory, and multiplied there by tensor cores. A block of threads has a few queries of a sequence, all heads of each,
// and goes through its chunk of keys, a block of keys at once: the next one is on its way while this one is multiplied.
// A warp takes 16 keys, holds them as operand A for all queries, and sums their heads in its registers.
// SPDX-License-Identifier: Apache-2.0
#include "index_scores/kernels/shared/work.cuh"

namespace q {

using Code = CODE;  // e4m3 or e5m2
inline constexpr i32 kDim = DIM, kTokens = TOKENS, kKeys = KEYS, kThreads = THREADS;
inline constexpr i32 kHeadRows = HEAD_ROWS;  // heads of a query, whole tiles of 16
inline constexpr i32 kRows = kTokens * kHeadRows;
inline constexpr i32 kWarps = kThreads / kWarp;
inline constexpr i32 kPitch = index_pitch(kDim);
inline constexpr i32 kPieces = kDim / 16;  // of 16 numbers, in a row
inline constexpr i32 kEach = (kKeys * kPieces + kThreads - 1) / kThreads;
inline constexpr i32 kHeld = 256 / kWarp;
inline constexpr bool kWide = ALIGNMENT == 16;
inline constexpr IndexLayout kLayout = index_layout(kDim, kRows, kTokens, kKeys);

struct Memory {
  f16* queries;
  f16* keys;
  f32 *weights, *scores, *scales;
};

// 16 numbers as they lie in memory.
QUERN_DEVICE vec16 load_codes(const u8* from) {
  if (kWide) return load16(from);
  vec16 v;
  QUERN_UNROLL for (int i = 0; i < 4; ++i) v.x[i] = reinterpret_cast<const u32*>(from)[i];
  return v;
}
QUERN_DEVICE void store_widened(f16* to, const vec16& codes) {
  QUERN_UNROLL for (int half = 0; half < 2; ++half) {
    vec16 v;
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      const u32 word = codes.x[2 * half + i / 2];
      const f32x2 two = unpack_fp8<Code>(static_cast<u16>(i % 2 == 0 ? word : word >> 16));
      v.x[i] = pack<f16>(two.x, two.y);
    }
    store16(to + 8 * half, v);
  }
}

// Zeros where there is no query or head.
QUERN_DEVICE void load_queries(const IndexParams& p, const Work& work, const Memory& m) {
  QUERN_ROLLED for (i32 i = thread_index(); i < kRows * kPieces; i += kThreads) {
    const i32 row = i / kPieces, piece = i - row * kPieces, token = row / kHeadRows, head = row - token * kHeadRows;
    vec16 codes = {};
    if (token < work.count && head < p.heads)
      codes = load_codes(p.q + (work.first + token) * p.q_token + head * p.q_head + piece * 16);
    store_widened(m.queries + row * kPitch + piece * 16, codes);
  }
  QUERN_ROLLED for (i32 row = thread_index(); row < kRows; row += kThreads) {
    const i32 token = row / kHeadRows, head = row - token * kHeadRows;
    m.weights[row] = token < work.count && head < p.heads ? weight_of(p, work.first + token, head) : 0.0f;
  }
}

// What a thread has of a block of keys: pieces thread, thread + kThreads and so on; zeros for keys that nobody sees.
struct Pieces {
  vec16 codes[kEach];
  f32 scale;  // of key `thread`
};
QUERN_DEVICE Pieces load_keys(const IndexParams& p, const Work& work, i32 key) {
  Pieces pieces = {};
  const i32 end = work.most() < work.to ? work.most() : work.to;
  QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
    const i32 i = e * kThreads + thread_index(), row = i / kPieces, piece = i - row * kPieces;
    if (row >= kKeys || key + row >= end) continue;
    const KeyPlace at = place_of_key(p, work, key + row);
    if (at.there) pieces.codes[e] = load_codes(p.k + at.page * p.k_page + at.place * p.k_place + piece * 16);
  }
  if (thread_index() < kKeys && key + thread_index() < end) {
    const KeyPlace at = place_of_key(p, work, key + thread_index());
    if (at.there) pieces.scale = scale_of_key(p, at);
  }
  return pieces;
}
QUERN_DEVICE void store_keys(const Memory& m, const Pieces& pieces) {
  QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
    const i32 i = e * kThreads + thread_index(), row = i / kPieces, piece = i - row * kPieces;
    if (row < kKeys) store_widened(m.keys + row * kPitch + piece * 16, pieces.codes[e]);
  }
  if (thread_index() < kKeys) m.scales[thread_index()] = pieces.scale;
}

// The scores of a block of keys.
QUERN_DEVICE void multiply(const Work& work, const Memory& m) {
  QUERN_ROLLED for (i32 tile = warp(); tile < kKeys / 16; tile += kWarps) {
    OperandA<f16> keys[kPieces];
    QUERN_UNROLL for (i32 k = 0; k < kPieces; ++k) keys[k] = load_a(m.keys + tile * 16 * kPitch + k * 16, kPitch);
    QUERN_ROLLED for (i32 t = 0; t < work.count; ++t) {
      f32 sums[kRowsHeld] = {};
      QUERN_ROLLED for (i32 row = t * kHeadRows; row < (t + 1) * kHeadRows; row += 16) {
        Accumulator x = {};
        QUERN_UNROLL for (i32 k = 0; k < kPieces; ++k)
            mma(x, keys[k], load_b(m.queries + row * kPitch + k * 16, kPitch));
        QUERN_UNROLL for (int i = 0; i < kHeld; ++i) {
          f32& sum = sums[held_row(i)];
          sum = fma(fmax(x.x[i], 0.0f), m.weights[row + column_of(lane(), i)], sum);
        }
      }
      QUERN_UNROLL for (int h = 0; h < kRowsHeld; ++h) {
        const f32 sum = reduce_row_sum(sums[h]);
        const i32 key = tile * 16 + row_of(lane(), h);
        if (column_of(lane(), 0) == 0) m.scores[t * kKeys + key] = sum * m.scales[key];
      }
    }
  }
}

QUERN_DEVICE void write_scores(const IndexParams& p, const Work& work, const Memory& m, i32 key) {
  QUERN_ROLLED for (i32 i = thread_index(); i < work.count * kKeys; i += kThreads) {
    const i32 t = i / kKeys, c = i - t * kKeys, column = key + c;
    const bool seen = column < work.limit_of(t);
    if (column >= work.to || (!seen && p.leave_masked)) continue;
    p.out[(work.first + t) * p.out_token + column] = seen ? m.scores[i] : -infinity();
  }
}

QUERN_DEVICE void score_item(const IndexParams& p, const Work& work, const Memory& m) {
  const i32 end = work.most() < work.to ? work.most() : work.to;
  i32 key = work.from;
  if (key < end) {
    load_queries(p, work, m);
    Pieces next = load_keys(p, work, key);
    QUERN_ROLLED for (; key < end; key += kKeys) {
      store_keys(m, next);
      sync_block();
      if (key + kKeys < end) next = load_keys(p, work, key + kKeys);
      multiply(work, m);
      sync_block();
      write_scores(p, work, m, key);
    }
    sync_block();  // the next item's queries and keys take the place of these
  }
  fill_masked(p, work, key, thread_index(), kThreads);
}

QUERN_DEVICE void score(const IndexParams& p) {
  u8* shared = dynamic_shared();
  const Memory m = {reinterpret_cast<f16*>(shared), reinterpret_cast<f16*>(shared + kLayout.keys),
                    reinterpret_cast<f32*>(shared + kLayout.weights), reinterpret_cast<f32*>(shared + kLayout.scores),
                    reinterpret_cast<f32*>(shared + kLayout.scales)};
  const i32 items = p.slots.value * p.chunks;
  QUERN_ROLLED for (i32 item = block_index(0); item < items; item += block_count(0)) {
    Work work;
    if (work_at<kTokens>(p, item, work)) score_item(p, work, m);
  }
}

}  // namespace q

QUERN_KERNEL(quern_index_scores, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::IndexParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::score(p);
}
