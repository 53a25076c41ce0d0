// MLA decode on Hopper where rows are few and the cache has 8 bits: memory is the limit, and products must not be.
//
// The operands change places: keys are the rows of the tensor cores' tiles, and the 16 rows of queries their columns,
// so that nothing is multiplied in vain.
//
//   logits   by wgmma, in 8 bits: keys as they lie, queries as the sum of two numbers of 8 bits (three where they are
//            f16), which hold all of their digits, relative to the largest number of their row. They are columns of
//            their own. Products are added up in f32 every 128 columns, since the tensor cores keep 14 bits of sums
//   sums     by mma.sync: ldmatrix transposes two neighbouring columns of keys at a time, and their numbers become f16,
//            in which all of them are exact, in registers, as operand A
//
// Scales stay out of the products: a tensor's multiplies logits and results, a token's multiplies its logit and its
// weight.
//
// Two warpgroups take the two halves of a block of 128 keys, each with sums of its own, so that one's softmax runs
// while the other multiplies; at last they are added up. Four warps copy. Within a warpgroup warp w has the logits of
// keys 16 w and on, and the sums of columns 128 w and on.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/pipeline.cuh"
#include "common/sm90/wgmma.cuh"
#include "mla_decode/kernels/sm90/few_memory.cuh"

namespace q {

// By how much a maximum may be left behind, in powers of two: weights of up to 2^8 are far from f16's limit.
inline constexpr f32 kSlack = 8.0f;
// Named barriers: of all who multiply; of a warpgroup.
enum Named { kBoth = 1, kGroup = 2 };

QUERN_DEVICE OperandA<f16> widened(u32 first, u32 second, u32 third, u32 fourth) {
  return {{first, second, third, fourth}};
}
// Bytes 0 and 2, and bytes 1 and 3, as f16 in units of kPairUnit: sign, exponent and mantissa move to their places. (A
// NaN becomes a number here, but not in the logits.)
inline constexpr f32 kPairUnit = 256.0f;
QUERN_DEVICE u32 even_pair(u32 four) { return (four << 7 & 0x3f803f80u) | (four << 8 & 0x80008000u); }
QUERN_DEVICE u32 odd_pair(u32 four) { return (four >> 1 & 0x3f803f80u) | (four & 0x80008000u); }

class Multiplier {
 public:
  QUERN_DEVICE Multiplier(const MlaParams& params, Memory memory, int warp)
      : p(params), m(memory), group(warp >> 2), w(warp & 3), column(lane() & 3), line(lane() >> 2) {
    tensor_scale = kKind == CacheKind::e4m3_tensor ? p.cache_scale[0] : 1.0f;
  }

  QUERN_DEVICE void run() {
    Listener listener(m.told().mailbox);
    PipelineState<kFewSlots> slot;
    if (group == 1) slot.next();
    QUERN_ROLLED for (;;) {
      const Task& t = listener.next();
      if (shuffle(t.rows, 0) < 0) break;
      load_queries(t);
      QUERN_UNROLL for (int i = 0; i < 4; ++i) base[i] = -infinity(), sum[i] = 0.0f;
      QUERN_UNROLL for (int i = 0; i < 8; ++i) sums[i] = {};
      const i32 end = shuffle(t.end_key, 0);
      QUERN_ROLLED for (i32 key = shuffle(t.key, 0); key < end; key += kBlock) {
        take_half(t, key + group * kHalfBlock, slot);
        slot.template advance<2>();
      }
      write_results(t);
      listener.done();
    }
  }

 private:
  // This thread's columns of a product with queries: rows of the tile.
  QUERN_DEVICE int row_of_column(int i) const { return (i >> 1) * 8 + column * 2 + (i & 1); }

  // A row's largest number as a power of two: bits of the exponent, so that neither it nor its inverse overflows.
  QUERN_DEVICE static u32 exponent_of(f32 largest) {
    const u32 e = bits_of(largest) >> 23;
    return e < 1 ? 1 : e < 253 ? e : 253;
  }
  // Queries to shared memory, as operand B: 16 threads have a row, four columns of each 64.
  QUERN_DEVICE void load_queries(const Task& t) {
    constexpr int kRowThreads = kConsumers / kRows, kPieces = kColumns / (4 * kRowThreads), kLatentPieces = kPieces - 1;
    static_assert(kRope == 4 * kRowThreads, "the last piece is the rope part's");
    const int row = thread_index() / kRowThreads, own = thread_index() % kRowThreads * 4;
    const bool take = row < t.rows;
    u64 raw[kPieces];
    {
      const i32 of = t.first_row + (take ? row : 0), within = quotient(of, p.heads), head = of - within * p.heads;
      const i64 token = t.q_begin + within;
      const Element* latent = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head;
      const Element* rope =
          static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head;
      QUERN_UNROLL for (int i = 0; i < kPieces; ++i) {
        const Element* from = (i < kLatentPieces ? latent + i * kRope : rope) + own;
        raw[i] = take ? *reinterpret_cast<const u64*>(from) : 0;
      }
    }
    f32 largest = 0.0f;
    QUERN_UNROLL for (int i = 0; i < kPieces; ++i) {
      QUERN_UNROLL for (int j = 0; j < 2; ++j) {
        const f32x2 two = unpack<Element>(static_cast<u32>(raw[i] >> 32 * j));
        largest = fmax(largest, fmax(fabs(two.x), fabs(two.y)));
      }
    }
    QUERN_UNROLL for (int d = 1; d < kRowThreads; d *= 2) largest = fmax(largest, shuffle_xor(largest, d));
    sync_named(kBoth, kConsumers);  // what was given away of the results before lies there no more
    if (own == 0) m.largest()[row] = largest;
    const f32 down = f32_of((254 - exponent_of(largest)) << 23) * kQueryUnit;
    QUERN_UNROLL for (int i = 0; i < kPieces; ++i) {
      f32 rest[4];
      QUERN_UNROLL for (int j = 0; j < 2; ++j) {
        const f32x2 two = unpack<Element>(static_cast<u32>(raw[i] >> 32 * j));
        rest[2 * j] = two.x * down, rest[2 * j + 1] = two.y * down;
      }
      QUERN_UNROLL for (int part = 0; part < kParts; ++part) {
        u32 four = 0;
        QUERN_UNROLL for (int j = 0; j < 2; ++j) {
          // An infinity, of which 8 bits know none, is to spoil its row and not to become a number.
          f32 x = rest[2 * j], y = rest[2 * j + 1];
          x += x - x, y += y - y;
          const u32 code = pack_fp8<e4m3>(x, y);
          const f32x2 back = unpack_fp8<e4m3>(static_cast<u16>(code));
          rest[2 * j] = (x - back.x) * kPartUnit, rest[2 * j + 1] = (y - back.y) * kPartUnit;
          four |= code << 16 * j;
        }
        const int n = part * kRows + row;
        *reinterpret_cast<u32*>(i < kLatentPieces ? m.queries(n, i * kRope + own) : m.rope_queries(n, own)) = four;
      }
    }
    fence_async();
    sync_named(kBoth, kConsumers);
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      factor[i] = f32_of(exponent_of(m.largest()[row_of_column(i)]) << 23) * (1.0f / kQueryUnit) * tensor_scale *
                  (CAP ? 1.0f : p.scale);
    }
  }

  // The warpgroup's 64 keys times all queries: of this warp's 16 keys, elements as a product of 16 x 16 has them.
  QUERN_DEVICE void multiply_keys(const u8* keys, f32 (&x)[8]) const {
    constexpr int kTiles = kLatent / 128 + 1, kElements = kParts * 8;  // the rope part's the last
    constexpr int kAtOnce = kParts == 2 ? kTiles : 3;                  // for whose products there are registers
    constexpr u64 kLayout = k_major_layout(Swizzle::bytes128), kRopeLayout = k_major_layout(Swizzle::bytes64);
    f32 totals[kElements];
    QUERN_UNROLL for (int first = 0; first < kTiles; first += kAtOnce) {
      const int count = kTiles - first < kAtOnce ? kTiles - first : kAtOnce;
      f32 products[kAtOnce][kElements];
      wgmma_fence();
      QUERN_UNROLL for (int i = 0; i < count; ++i) {
        const u8* tile = keys + (first + i) * kFewTile;
        if (first + i < kTiles - 1) {
          wgmma_four<32, 32, e4m3>(products[i], matrix_descriptor(tile, kLayout),
                                   matrix_descriptor(m.queries(0, 128 * (first + i)), kLayout), false);
        } else {
          const u64 rope = matrix_descriptor(tile, kRopeLayout),
                    queries = matrix_descriptor(m.rope_queries(0, 0), kRopeLayout);
          QUERN_UNROLL for (int k = 0; k < 2; ++k) {
            wgmma<e4m3>(products[i], advanced(rope, k * 32), advanced(queries, k * 32), k > 0);
          }
        }
      }
      wgmma_commit();
      QUERN_UNROLL for (int i = 0; i < count; ++i) {
        wgmma_wait<0>(products[i]);
        QUERN_UNROLL for (int e = 0; e < kElements; ++e) {
          totals[e] = first + i == 0 ? products[i][e] : totals[e] + products[i][e];
        }
      }
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      x[i] = totals[(kParts - 1) * 8 + i];
      QUERN_UNROLL for (int part = kParts - 2; part >= 0; --part) {
        x[i] = fma(x[i], 1.0f / kPartUnit, totals[part * 8 + i]);
      }
    }
  }

  // What a row does not see becomes -inf. Element i is of key `first` + line, or 8 further on.
  QUERN_DEVICE void mask(const Task& t, i32 first, f32 (&x)[8]) const {
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const Range seen = visible(p, sequence_of(t), t.first_row + row_of_column(c));
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const i32 key = first + line + 8 * h;
        if (key < seen.first || key >= seen.last) x[(c >> 1) * 4 + h * 2 + (c & 1)] = -infinity();
      }
    }
  }
  QUERN_DEVICE static int column_of_element(int i) { return (i >> 2) * 2 + (i & 1); }

  // This warpgroup's half of a block, the first key at `key`.
  QUERN_DEVICE void take_half(const Task& t, i32 key, const PipelineState<kFewSlots>& slot) {
    const SharedArray<Mbarrier> full(m.told().full);
    mbarrier_wait(full, slot.stage, slot.phase);
    const u8* keys = m.keys(slot.stage);
    fence_async();               // what the copying threads' cp.async wrote
    const int own_row = w * 16;  // of the slot
    f32 x[8];
    multiply_keys(keys, x);
    f32 scale[2] = {1.0f, 1.0f}, size[2] = {0.0f, 0.0f};  // of a token's numbers, and as a power of two
    if (kKind == CacheKind::e4m3_token) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        scale[h] = m.scales(slot.stage)[own_row + line + 8 * h];
        size[h] = log2(fabs(scale[h]));
      }
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      x[i] *= factor[column_of_element(i)];
      if (kKind == CacheKind::e4m3_token) x[i] *= scale[half_of_element(i)];
#if CAP
      x[i] = logit(p, x[i]);
#endif
    }
    if (kListed) {
      const u64 there = m.told().there[slot.stage] >> own_row;
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        if ((there >> (line + 8 * half_of_element(i)) & 1) == 0) x[i] = -infinity();
      }
    } else if (key < t.all.first || key + kHalfBlock > t.all.last) {
      mask(t, key + own_row, x);
    }
    // Maxima are of what weights become once they are multiplied with their token's scale.
    f32 max[4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const int i = (c >> 1) * 4 + (c & 1);
      max[c] = fmax(x[i] + size[0], x[i + 2] + size[1]);
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
    u32 weights[4];
    f32 weight[8];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) sum[c] *= change[c];
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      const int c = column_of_element(i), h = half_of_element(i);
      weight[i] = exp2(x[i] + size[h] - finite_max(base[c]));
      sum[c] += kKind == CacheKind::e4m3_token ? exp2(x[i] - finite_max(base[c])) : weight[i];
      if (kKind == CacheKind::e4m3_token) weight[i] = f32_of(bits_of(weight[i]) ^ (bits_of(scale[h]) & 0x80000000u));
    }
    QUERN_UNROLL for (int i = 0; i < 4; ++i) weights[i] = pack<f16>(weight[2 * i], weight[2 * i + 1]);
    store_matrix<false>(m.weights(group, own_row + (lane() & 15), lane() >> 4), weights);
    sync_named(kGroup + group, kGroupThreads);
    if (ballot(changed)) {
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        QUERN_UNROLL for (int e = 0; e < 8; ++e) sums[i].x[e] *= change[column_of_element(e)];
      }
    }
    add_values(keys);
    sync_warp();
    if (lane() == 0) mbarrier_arrive(m.told().empty[slot.stage]);
  }
  QUERN_DEVICE static int half_of_element(int i) { return i >> 1 & 1; }
  // sums += values of this warp's 128 columns times weights, over a slot's keys.
  QUERN_DEVICE void add_values(const u8* keys) {
    const int l = lane();
    const u8* row = keys + w * kFewTile + l * 128;  // the warp's columns are a tile
    QUERN_UNROLL for (int k = 0; k < kHalfBlock; k += 32) {
      OperandB<f16> weights[2];
      QUERN_UNROLL for (int i = 0; i < 2; ++i) {
        load_matrix<true>(weights[i].x, m.weights(group, k + i * 16 + (l & 15), l >> 4));
      }
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        u32 v[4];
        load_matrix<true>(v, row + k * 128 + ((i ^ (l & 7)) << 4));
        // Each register has two keys of two columns: bytes 0 and 2 are of one column, 1 and 3 of the next.
        mma(sums[i], widened(even_pair(v[0]), odd_pair(v[0]), even_pair(v[1]), odd_pair(v[1])), weights[0]);
        mma(sums[i], widened(even_pair(v[2]), odd_pair(v[2]), even_pair(v[3]), odd_pair(v[3])), weights[1]);
      }
    }
  }

  QUERN_DEVICE void write_results(const Task& t) {
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      QUERN_UNROLL for (int d = 4; d < kWarp; d *= 2) sum[c] += shuffle_xor(sum[c], d);
      if (line == 0) m.totals(group, row_of_column(c))[w] = sum[c];
      if (line == 0 && w == 0) m.bases(group)[row_of_column(c)] = base[c];
    }
    sync_named(kBoth, kConsumers);
    // Both groups' sums become relative to the larger of their maxima.
    f32 total[4], by[4];
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const i32 row = row_of_column(c);
      const f32 joint = fmax(m.bases(0)[row], m.bases(1)[row]);
      by[c] = exp2(base[c] - finite_max(joint)) * tensor_scale * kPairUnit;
      total[c] = 0.0f;
      QUERN_UNROLL for (int g = 0; g < 2; ++g) {
        const vec16 four = load16(m.totals(g, row));
        f32 all = 0.0f;
        QUERN_UNROLL for (int i = 0; i < 4; ++i) all += f32_of(four.x[i]);
        total[c] = fma(all, exp2(m.bases(g)[row] - finite_max(joint)), total[c]);
      }
      base[c] = joint;
    }
    // Each group writes a half of each warp's columns, and gives the other half away.
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
    sync_named(kBoth, kConsumers);
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      QUERN_UNROLL for (int e = 0; e < 8; e += 4) {
        const vec16 given = load16(m.merged(group ^ 1, w) + (2 * i + e / 4) * kWarp + lane());
        QUERN_UNROLL for (int x = 0; x < 4; ++x) result[i].x[e + x] += f32_of(given.x[x]);
      }
    }
    const bool first = group == 0 && w == 0 && line == 0;
    if (t.slot >= 0) {
      f32* slot = slot_at(p, t.slot, block_index(0) % p.side_by_side);
      QUERN_UNROLL for (int c = 0; c < 4; ++c) {
        const i32 row = row_of_column(c);
        if (first) slot[kRows * kLatent + row] = base[c], slot[kRows * (kLatent + 1) + row] = total[c];
        const int e = element_of(c);
        QUERN_UNROLL for (int i = 0; i < 4; ++i) {
          *reinterpret_cast<u64*>(slot + row * kLatent + column_of_sums(i)) =
              bits_of(result[i].x[e]) | static_cast<u64>(bits_of(result[i].x[e + 2])) << 32;
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
      const int e = element_of(c);
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<u32*>(place.out + column_of_sums(i)) =
            pack<Element>(result[i].x[e] * done.inverse, result[i].x[e + 2] * done.inverse);
      }
    }
  }
  // The first element of a product in this thread's column c; the one in row line + 8 is two further on.
  QUERN_DEVICE static int element_of(int c) { return (c >> 1) * 4 + (c & 1); }
  // Rows line and line + 8 of product i of the results are two neighbouring columns of theirs: the first of them.
  QUERN_DEVICE int column_of_sums(int i) const { return (w * 8 + group * 4 + i) * 16 + 2 * line; }

  const MlaParams& p;
  Memory m;
  int group, w;
  int column, line;  // of a thread in a product: the pair of columns, the row
  f32 tensor_scale;
  f32 factor[4];  // of this thread's columns: what makes logits of products
  f32 base[4], sum[4];
  Accumulator sums[8];
};

// ---- The four warps that copy, and schedule
QUERN_DEVICE void copy_rows(const MlaParams& p, Memory m, int w, const FoundRows& rows, int first, i32 slot) {
  u8* keys = m.keys(slot);
  QUERN_FOUR_AT_ONCE for (int i = 0; i < kOwnRows; ++i) {
    const int row = w * kOwnRows + i;
    const u8* from = address_of(rows.latent, first + i);
    copy_async_16(keys + (lane() >> 3) * kFewTile + row * 128 + (((lane() & 7) ^ (row & 7)) << 4), from + lane() * 16,
                  (rows.there >> (first + i) & 1) != 0);
  }
  QUERN_UNROLL for (int i = 0; i < 2; ++i) {
    const int of = i * 8 + (lane() >> 2), row = w * kOwnRows + of, piece = lane() & 3;
    const u8* from = address_of(rope_of(rows), first + of);
    copy_async_16(keys + kLatent / 128 * kFewTile + row * 64 + ((piece ^ (row >> 1 & 3)) << 4), from + piece * 16,
                  (rows.there >> (first + of) & 1) != 0);
  }
  if (kKind == CacheKind::e4m3_token && lane() / kOwnRows == first / kOwnRows) {
    copy_async_4(m.scales(slot) + w * kOwnRows + lane() % kOwnRows, rows.scale, (rows.there >> lane() & 1) != 0);
  }
  copy_async_arrive(m.told().full[slot]);
  if (lane() == 0) {
    if (kListed) reinterpret_cast<u16*>(m.told().there + slot)[w] = static_cast<u16>(rows.there >> first);
    mbarrier_arrive(m.told().full[slot]);
  }
}

// A task's queries go to L2 before its keys are asked for: they are needed first.
QUERN_DEVICE void prefetch_queries(const MlaParams& p, const Task& t, int w) {
  constexpr int kLines = kLatent * 2 / 128, kWarpRows = kRows / 4;
  const i32 row = w * kWarpRows + lane() % kWarpRows;
  if (row >= t.rows) return;
  const i32 of = t.first_row + row, within = quotient(of, p.heads), head = of - within * p.heads;
  const i64 token = t.q_begin + within;
  const Element* latent = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head;
  const Element* rope =
      static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head;
  prefetch_line(latent + lane() / kWarpRows * 64);
  if (lane() < kWarpRows) prefetch_line(rope);
  static_assert(kLines == kWarp / kWarpRows, "a lane has a line");
}

QUERN_DEVICE void copy_all(const MlaParams& p, Memory m, int w) {
  Tasks tasks(p, m.told().mailbox, m.chunks());
  Listener listener(m.told().mailbox);
  PipelineState<kFewSlots> slot;
  QUERN_ROLLED for (;;) {
    if (w == 0) tasks.tell_next();
    const Task& t = listener.next();
    if (shuffle(t.rows, 0) < 0) break;
    prefetch_queries(p, t, w);
    Lookup lookup(p, t, w);
    const i32 end = shuffle(t.end_key, 0);
    QUERN_ROLLED for (i32 key = shuffle(t.key, 0); key < end; key += kBlock) {
      const FoundRows rows = lookup.next(key);
      QUERN_ROLLED for (int i = 0; i < 2; ++i) {
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
  note_no_cut(p, quotient(block_index(0), p.side_by_side), thread_index() == 0);
  count_together(p, THREADS / kWarp, memory.chunks());
  sync_block();
  const int w = shuffle(warp(), 0);
  if (w < kConsumers / kWarp) {
    registers_grow<208>();
    Multiplier(p, memory, w).run();
  } else {
    registers_shrink<88>();
    copy_all(p, memory, w - kConsumers / kWarp);
  }
}
