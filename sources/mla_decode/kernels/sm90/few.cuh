// MLA decode on Hopper where rows are few: memory is the limit, and products must not be.
//
// The operands change places: keys are the rows of the tensor cores' tiles, and the 16 rows of queries their columns,
// so that nothing is multiplied in vain. How that is done depends on the cache: few_codes.cuh, few_plain.cuh.
//
// Two or three warpgroups take the parts of blocks of 128 keys in turns, each with sums of its own, so that one's
// softmax runs while others multiply; at last they are added up. Four warps copy.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/pipeline.cuh"
#include "common/sm90/warpgroup.cuh"
#if CACHE_KIND == 0
#include "mla_decode/kernels/sm90/few_plain.cuh"
#else
#include "mla_decode/kernels/sm90/few_codes.cuh"
#endif

namespace q {

// By how much a maximum may be left behind, in powers of two: weights of up to 2^8 are far from f16's limit.
inline constexpr f32 kSlack = 8.0f;
class Multiplier {
 public:
  QUERN_DEVICE Multiplier(const MlaParams& params, Memory memory, int warp)
      : p(params),
        m(memory),
        group(warp >> 2),
        w(warp & 3),
        column(lane() & 3),
        line(lane() >> 2),
        products(params, memory, warp >> 2, warp & 3) {}

  QUERN_DEVICE void run() {
    Listener listener(m.told().mailbox);
    PipelineState<kFewSlots> first;  // of a task
    QUERN_ROLLED for (;;) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      products.load_queries(t);
      QUERN_UNROLL for (int i = 0; i < 4; ++i) base[i] = -infinity(), sum[i] = 0.0f;
      QUERN_UNROLL for (int i = 0; i < 8; ++i) sums[i] = {};
      const i32 begin = shuffle(t.key, 0), end = shuffle(t.end_key, 0);
      PipelineState<kFewSlots> slot = first;
      slot.skip(group);
      QUERN_ROLLED for (i32 key = begin + group * kPartKeys; key < end; key += kGroups * kPartKeys) {
        take_part(t, key, slot);
        slot.template advance<kGroups>();
      }
      first.skip(quotient(end - begin, kPartKeys));
      write_results(t);
      listener.done();
    }
  }

 private:
  static constexpr int kHeld = Products::kHeld;
  // This thread's columns of a product with queries: rows of the tile.
  QUERN_DEVICE int row_of_column(int i) const { return few_row(column, i); }

  // What a row does not see becomes -inf; the slot's first key is `first`.
  QUERN_DEVICE void mask(const Task& t, i32 first, f32 (&x)[kHeld][4]) const {
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const Range seen = visible(p, sequence_of(t), t.first_row + row_of_column(c));
      QUERN_UNROLL for (int h = 0; h < kHeld; ++h) {
        const i32 key = first + products.key_of(h);
        if (key < seen.first || key >= seen.last) x[h][c] = -infinity();
      }
    }
  }

  // Of keys that only some of the rows see; those that no row sees were not copied. All of the group have multiplied
  // them.
  QUERN_DEVICE void clear_nan(const Task& t, i32 key, u8* keys) const {
    constexpr int kPieces = kLatent * 2 / 16;
    QUERN_ROLLED for (i32 i = thread_index() % kGroupThreads; i < kPartKeys * kPieces; i += kGroupThreads) {
      const i32 row = i / kPieces, piece = i % kPieces;
      if (key + row >= t.all.first && key + row < t.all.last) continue;
      u8* at = keys + (piece >> 3) * kFewTile + row * 128 + (piece & 7) * 16;
      store16(at, without_nan(load16(at)));
    }
  }

  // A part of a block, the first key at `key`.
  QUERN_DEVICE void take_part(const Task& t, i32 key, const PipelineState<kFewSlots>& slot) {
    const SharedArray<Mbarrier> full(m.told().full);
    mbarrier_wait(full, slot.stage, slot.phase);
    const u8* keys = m.keys(slot.stage);
    fence_async();  // what the copying threads' cp.async wrote, for products that read it themselves
    f32 x[kHeld][4];
    products.multiply_keys(keys, x);
    f32 scale[kHeld], size[kHeld];  // of a token's numbers, and as a power of two
    QUERN_UNROLL for (int h = 0; h < kHeld; ++h) {
      scale[h] = 1.0f, size[h] = 0.0f;
      if (kKind == CacheKind::e4m3_token) {
        scale[h] = m.scales(slot.stage)[products.key_of(h)];
        size[h] = fabs(scale[h]) < infinity() ? log2(fabs(scale[h])) : 0.0f;  // else logits say so
      }
      QUERN_UNROLL for (int c = 0; c < 4; ++c) {
        x[h][c] *= products.factor[c];
        if (kKind == CacheKind::e4m3_token) x[h][c] *= scale[h];
#if CAP
        x[h][c] = logit(p, x[h][c]);
#endif
      }
    }
    const bool edge = !kListed && (key < t.all.first || key + kPartKeys > t.all.last);
    if (kListed) {
      const u64 there = m.told().there[slot.stage];
      QUERN_UNROLL for (int h = 0; h < kHeld; ++h) {
        const bool seen = (there >> products.key_of(h) & 1) != 0;
        QUERN_UNROLL for (int c = 0; c < 4; ++c) x[h][c] = seen ? x[h][c] : -infinity();
      }
    } else if (edge) {
      mask(t, key, x);
    }
    // Maxima are of what weights become once they are multiplied with their token's scale.
    f32 max[4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      max[c] = x[0][c] + size[0];
      QUERN_UNROLL for (int h = 1; h < kHeld; ++h) max[c] = fmax(max[c], x[h][c] + size[h]);
      QUERN_UNROLL for (int d = 4; d < kWarp; d *= 2) max[c] = fmax(max[c], shuffle_xor(max[c], d));
      if (line == 0) m.of_warps(group, row_of_column(c))[w] = max[c];
    }
    sync_named(kGroup + group, kGroupThreads);
    bool changed = false;
    f32 change[4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const vec16 all = load16(m.of_warps(group, row_of_column(c)));
      f32 most = f32_of(all.x[0]);
      QUERN_UNROLL for (int e = 1; e < 4; ++e) most = fmax(most, f32_of(all.x[e]));
      change[c] = 1.0f;
      if (most > base[c] + kSlack) {
        change[c] = exp2(base[c] - most);
        base[c] = most;
        changed = true;
      }
    }
    f32 weight[kHeld][4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const f32 from = finite_max(base[c]);
      sum[c] *= change[c];
      QUERN_UNROLL for (int h = 0; h < kHeld; ++h) {
        weight[h][c] = exp2(x[h][c] + size[h] - from);
        sum[c] += kKind == CacheKind::e4m3_token ? exp2(x[h][c] - from) : weight[h][c];
        if (kKind == CacheKind::e4m3_token) {
          weight[h][c] = f32_of(bits_of(weight[h][c]) ^ (bits_of(scale[h]) & 0x80000000u));
        }
      }
    }
    products.store_weights(weight);
    if (kPlain && edge && differ(t.any, t.all)) clear_nan(t, key, m.keys(slot.stage));
    sync_named(kGroup + group, kGroupThreads);
    if (ballot(changed)) {
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        QUERN_UNROLL for (int e = 0; e < 8; ++e) sums[i].x[e] *= change[column_of_element(e)];
      }
    }
    products.add_values(keys, sums);
    sync_warp();
    if (lane() == 0) mbarrier_arrive(m.told().empty[slot.stage]);
  }
  QUERN_DEVICE static int column_of_element(int i) { return (i >> 2) * 2 + (i & 1); }

  // The third group's sums go to the first two, a half of each warp's columns to each.
  QUERN_DEVICE void add_third(f32 (&by)[4]) {
    if (group == 2) {
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        QUERN_UNROLL for (int e = 0; e < 8; e += 4) {
          vec16 given;
          QUERN_UNROLL for (int x = 0; x < 4; ++x) {
            given.x[x] = bits_of(sums[i].x[e + x] * by[column_of_element(e + x)]);
          }
          store16(m.merged(i >> 2, w) + (2 * (i & 3) + e / 4) * kWarp + lane(), given);
        }
      }
    }
    sync_named(kBoth, kConsumers);
    if (group == 2) return;
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      QUERN_UNROLL for (int e = 0; e < 8; ++e) sums[i].x[e] *= by[column_of_element(e)];
    }
    QUERN_UNROLL for (int c = 0; c < 4; ++c) by[c] = 1.0f;
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      QUERN_UNROLL for (int e = 0; e < 8; e += 4) {
        const vec16 given = load16(m.merged(group, w) + (2 * i + e / 4) * kWarp + lane());
        QUERN_UNROLL for (int x = 0; x < 4; ++x) {
          if (group == 0) {
            sums[i].x[e + x] += f32_of(given.x[x]);
          } else {
            sums[i + 4].x[e + x] += f32_of(given.x[x]);
          }
        }
      }
    }
    sync_named(kTwo, 2 * kGroupThreads);  // before the same places are written again
  }

  QUERN_DEVICE void write_results(const Task& t) {
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      QUERN_UNROLL for (int d = 4; d < kWarp; d *= 2) sum[c] += shuffle_xor(sum[c], d);
      if (line == 0) m.totals(group, row_of_column(c))[w] = sum[c];
      if (line == 0 && w == 0) m.bases(group)[row_of_column(c)] = base[c];
    }
    sync_named(kBoth, kConsumers);
    // All groups' sums become relative to the largest of their maxima.
    f32 total[4], by[4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const i32 row = row_of_column(c);
      f32 joint = m.bases(0)[row];
      QUERN_UNROLL for (int g = 1; g < kGroups; ++g) joint = fmax(joint, m.bases(g)[row]);
      by[c] = exp2(base[c] - finite_max(joint)) * products.unit();
      total[c] = 0.0f;
      QUERN_UNROLL for (int g = 0; g < kGroups; ++g) {
        const vec16 four = load16(m.totals(g, row));
        f32 all = 0.0f;
        QUERN_UNROLL for (int i = 0; i < 4; ++i) all += f32_of(four.x[i]);
        total[c] = fma(all, exp2(m.bases(g)[row] - finite_max(joint)), total[c]);
      }
      base[c] = joint;
    }
    if (kGroups == 3) add_third(by);
    if (group == 2) return;
    // Each of two groups writes a half of each warp's columns, and gives the other half away.
    Accumulator result[4];
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      QUERN_UNROLL for (int e = 0; e < 8; e += 4) {
        vec16 given;
        QUERN_UNROLL for (int x = 0; x < 4; ++x) {
          const f32 left = sums[i].x[e + x] * by[column_of_element(e + x)];
          const f32 right = sums[i + 4].x[e + x] * by[column_of_element(e + x)];
          result[i].x[e + x] = group == 0 ? left : right;
          given.x[x] = bits_of(group == 0 ? right : left);
        }
        store16(m.merged(group, w) + (2 * i + e / 4) * kWarp + lane(), given);
      }
    }
    sync_named(kTwo, 2 * kGroupThreads);
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      QUERN_UNROLL for (int e = 0; e < 8; e += 4) {
        const vec16 given = load16(m.merged(group ^ 1, w) + (2 * i + e / 4) * kWarp + lane());
        QUERN_UNROLL for (int x = 0; x < 4; ++x) result[i].x[e + x] += f32_of(given.x[x]);
      }
    }
    const bool first = group == 0 && w == 0 && line == 0;
    if (t.slot >= 0) {
      f32* slot = slot_at(p, t.slot, tile_of_block(p));
      QUERN_UNROLL for (int c = 0; c < 4; ++c) {
        const i32 row = row_of_column(c);
        if (first) slot[kRows * kLatent + row] = base[c], slot[kRows * (kLatent + 1) + row] = total[c];
        f32* to = slot + row * kLatent;
        QUERN_UNROLL for (int i = 0; i < 4; ++i) {
          const f32 low = result[i].x[element_of(0, c)], high = result[i].x[element_of(1, c)];
          if (Products::kNeighbouring) {
            *reinterpret_cast<u64*>(to + column_of_sums(i)) = bits_of(low) | static_cast<u64>(bits_of(high)) << 32;
          } else {
            to[column_of_sums(i)] = low, to[column_of_sums(i) + 8] = high;
          }
        }
      }
      return;
    }
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const i32 row = row_of_column(c);
      if (row >= t.rows) continue;
      const RowPlace place = place_of(p, t.q_begin, t.first_row + row);
      const Finished done = finish(p, base[c], total[c], place.head);
      if (first && place.lse) *place.lse = done.lse;
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        Element* to = place.out + column_of_sums(i);
        const u32 two =
            pack<Element>(result[i].x[element_of(0, c)] * done.inverse, result[i].x[element_of(1, c)] * done.inverse);
        if (Products::kNeighbouring) {
          *reinterpret_cast<u32*>(to) = two;
        } else {
          *reinterpret_cast<u16*>(to) = static_cast<u16>(two),
          *reinterpret_cast<u16*>(to + 8) = static_cast<u16>(two >> 16);
        }
      }
    }
  }
  // Of product i of the results: the column of row `line`, and that of row line + 8 behind it or 8 further on.
  QUERN_DEVICE int column_of_sums(int i) const {
    return (w * 8 + group * 4 + i) * 16 + (Products::kNeighbouring ? 2 : 1) * line;
  }

  const MlaParams& p;
  Memory m;
  int group, w;
  int column, line;  // of a thread in a product: the pair of columns, the row
  Products products;
  f32 base[4], sum[4];
  Accumulator sums[8];
};

// ---- The four warps that copy, and schedule
QUERN_DEVICE void copy_rows(const MlaParams& p, Memory m, int w, const FoundRows& rows, int first, i32 slot) {
  constexpr int kPieces = kLatent * kBytes / 16, kRopePieces = kRope * kBytes / 16, kRopeRows = kWarp / kRopePieces;
  constexpr int kRopeRow = kRopePieces * 16;  // bytes, in a tile of its own
  u8* keys = m.keys(slot);
  QUERN_FOUR_AT_ONCE for (int i = 0; i < kOwnRows; ++i) {
    const int row = w * kOwnRows + i;
    const u8* from = address_of(rows.latent, first + i);
    QUERN_UNROLL for (int j = 0; j < kPieces; j += kWarp) {
      const int piece = j + lane();
      copy_async_16(keys + (piece >> 3) * kFewTile + row * 128 + (((piece & 7) ^ (row & 7)) << 4), from + piece * 16,
                    (rows.there >> (first + i) & 1) != 0);
    }
  }
  QUERN_UNROLL for (int i = 0; i < kOwnRows; i += kRopeRows) {
    const int of = i + lane() / kRopePieces, row = w * kOwnRows + of, piece = lane() % kRopePieces;
    const u8* from = address_of(rope_of(rows), first + of);
    copy_async_16(keys + kLatent * kBytes / 128 * kFewTile + row * kRopeRow +
                      ((piece ^ (row * kRopeRow / 128 & (kRopePieces - 1))) << 4),
                  from + piece * 16, (rows.there >> (first + of) & 1) != 0);
  }
  if (kKind == CacheKind::e4m3_token && lane() / kOwnRows == first / kOwnRows) {
    copy_async_4(m.scales(slot) + w * kOwnRows + lane() % kOwnRows, rows.scale, (rows.there >> lane() & 1) != 0);
  }
  copy_async_arrive(m.told().full[slot]);
  if (lane() == 0) {
    if (kListed) {
      if (kOwnRows == 16) {
        reinterpret_cast<u16*>(m.told().there + slot)[w] = static_cast<u16>(rows.there >> first);
      } else {
        reinterpret_cast<u8*>(m.told().there + slot)[w] = static_cast<u8>(rows.there >> first);
      }
    }
    mbarrier_arrive(m.told().full[slot]);
  }
}

// A task's queries go to L2 before its keys are asked for: they are needed first.
QUERN_DEVICE void prefetch_queries(const MlaParams& p, const Task& t, int w) {
  constexpr int kLines = kLatent * 2 / 128, kWarpRows = kRows / 4;
  const i32 row = w * kWarpRows + lane() % kWarpRows;
  if (row >= t.rows) return;
  const i32 of = t.first_row + row, within = of / p.by_heads, head = of - within * p.heads;
  const i64 token = t.q_begin + within;
  const Element* latent = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head;
  const Element* rope =
      static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head;
  prefetch_line(latent + lane() / kWarpRows * 64);
  if (lane() < kWarpRows) prefetch_line(rope);
  static_assert(kLines == kWarp / kWarpRows, "a lane has a line");
}

QUERN_DEVICE void copy_all(const MlaParams& p, Memory m, int w) {
  // Who does not tell must not read what was counted: it may be gone by then.
  Tasks tasks(p, m.told().mailbox, w == 0 ? m.chunks() : nullptr);
  Listener listener(m.told().mailbox);
  PipelineState<kFewSlots> slot;
  QUERN_ROLLED for (;;) {
    if (w == 0) tasks.tell_next(m.chunks());
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    prefetch_queries(p, t, w);
    Lookup lookup(p, t, {(lane() / kOwnRows) * kPartKeys + w * kOwnRows + lane() % kOwnRows, nullptr});
    const i32 end = shuffle(t.end_key, 0);
    QUERN_ROLLED for (i32 key = shuffle(t.key, 0); key < end; key += kBlock) {
      const FoundRows rows = lookup.next(key, {}, 0);
      QUERN_ROLLED for (int i = 0; i < kBlock / kPartKeys; ++i) {
        mbarrier_wait(m.told().empty[slot.stage], slot.phase ^ 1);
        copy_rows(p, m, w, rows, i * kOwnRows, slot.stage);
        slot.next();
      }
    }
    listener.done();
  }
}

}  // namespace q

QUERN_KERNEL(quern_mla_few16, THREADS, 1, QUERN_PARAM q::MlaParams p) {
  using namespace q;
  const Memory memory = {tile_shared()};
  if (thread_index() == 0) {
    QUERN_ROLLED for (int i = 0; i < kFewSlots; ++i) {
      mbarrier_init(memory.told().full[i], 4 * kWarp + 4);
      mbarrier_init(memory.told().empty[i], kGroupThreads / kWarp);
    }
    memory.told().mailbox.init(THREADS / kWarp);
    fence_mbarrier_init();
  }
  sync_block();
  launch_next_grid();
  wait_for_previous_grid();
  note_no_cut(p, block_index(0) / p.by_side, thread_index() == 0);
  count_together(p, THREADS / kWarp, memory.chunks());
  sync_block();
  const int w = shuffle(warp(), 0);
  if (w < kConsumers / kWarp) {
    registers_grow<kGroups == 3 ? 144 : 208>();
    Multiplier(p, memory, w).run();
  } else {
    registers_shrink<kGroups == 3 ? 80 : 88>();
    copy_all(p, memory, w - kConsumers / kWarp);
  }
}
