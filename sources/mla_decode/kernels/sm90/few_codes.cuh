// Products of the kernel for few rows where the cache has 8 bits.
//
//   logits   by wgmma, in 8 bits: keys as they lie, queries as the sum of two numbers of 8 bits (three where they are
//            f16), which hold all of their digits, relative to the largest number of their row. They are columns of
//            their own. Products are added up in f32 every 128 columns, since the tensor cores keep 14 bits of sums
//   sums     by mma.sync: ldmatrix transposes two neighbouring columns of keys at a time, and their numbers become f16,
//            in which all of them are exact, in registers, as operand A
//
// Scales stay out of the products: a tensor's multiplies logits and results, a token's multiplies its logit and its
// weight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/wgmma.cuh"
#include "mla_decode/kernels/sm90/few_memory.cuh"

namespace q {

QUERN_DEVICE OperandA<f16> widened(u32 first, u32 second, u32 third, u32 fourth) {
  return {{first, second, third, fourth}};
}
// Bytes 0 and 2, and bytes 1 and 3, as f16 in units of kPairUnit: sign, exponent and mantissa move to their places. (A
// NaN becomes a number here, but not in the logits.)
inline constexpr f32 kPairUnit = 256.0f;
QUERN_DEVICE u32 even_pair(u32 four) { return (four << 7 & 0x3f803f80u) | (four << 8 & 0x80008000u); }
QUERN_DEVICE u32 odd_pair(u32 four) { return (four >> 1 & 0x3f803f80u) | (four & 0x80008000u); }

// Within a warpgroup warp w has the logits of keys 16 w and on, and the sums of columns 128 w and on.
struct Products {
  static constexpr int kHeld = 2;              // keys of a thread
  static constexpr bool kNeighbouring = true;  // rows l and l + 8 of a product of sums are columns 2 l and 2 l + 1
  const MlaParams& p;
  Memory m;
  int group, w;
  f32 tensor_scale;
  f32 factor[4];  // of this thread's columns: what makes logits of products

  QUERN_DEVICE Products(const MlaParams& params, Memory memory, int own_group, int own_w)
      : p(params), m(memory), group(own_group), w(own_w) {
    tensor_scale = kKind == CacheKind::e4m3_tensor ? p.cache_scale[0] : 1.0f;
  }
  QUERN_DEVICE int key_of(int h) const { return w * 16 + (lane() >> 2) + 8 * h; }  // of the slot
  // What makes results of sums.
  QUERN_DEVICE f32 unit() const { return tensor_scale * kPairUnit; }

  // A row's largest number as a power of two: bits of the exponent, so that neither it nor its inverse overflows.
  QUERN_DEVICE static u32 exponent_of(f32 largest) {
    const u32 e = bits_of(largest) >> 23;
    return e < 1 ? 1 : e < 253 ? e : 253;
  }
  // Queries to shared memory, as operand B: of two warpgroups 16 threads have a row, four columns of each 64.
  QUERN_DEVICE void load_queries(const Task& t) {
    constexpr int kRowThreads = 2 * kGroupThreads / kRows, kPieces = kColumns / (4 * kRowThreads),
                  kLatentPieces = kPieces - 1;
    static_assert(kRope == 4 * kRowThreads, "the last piece is the rope part's");
    const int row = thread_index() / kRowThreads, own = thread_index() % kRowThreads * 4;
    const bool loads = group < 2, take = loads && row < t.rows;
    u64 raw[kPieces];
    {
      const i32 of = t.first_row + (take ? row : 0), within = of / p.by_heads, head = of - within * p.heads;
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
    if (loads && own == 0) m.largest()[row] = largest;
    const f32 down = f32_of((254 - exponent_of(largest)) << 23) * kQueryUnit;
    QUERN_UNROLL for (int i = 0; i < kPieces; ++i) {
      if (!loads) break;
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
      factor[i] = f32_of(exponent_of(m.largest()[few_row(lane() & 3, i)]) << 23) * (1.0f / kQueryUnit) * tensor_scale *
                  (CAP ? 1.0f : p.scale);
    }
  }

  // The warpgroup's 64 keys times all queries: of this warp's 16 keys each thread has two.
  QUERN_DEVICE void multiply_keys(const u8* keys, f32 (&x)[kHeld][4]) const {
    constexpr int kTiles = kLatent / 128 + 1, kElements = kParts * 8;  // the rope part's the last
    constexpr int kAtOnce = kParts == 2 ? 3 : 1;                       // for whose products there are registers
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
    QUERN_UNROLL for (int h = 0; h < kHeld; ++h) {
      QUERN_UNROLL for (int c = 0; c < 4; ++c) {
        const int e = element_of(h, c);
        x[h][c] = totals[(kParts - 1) * 8 + e];
        QUERN_UNROLL for (int part = kParts - 2; part >= 0; --part) {
          x[h][c] = fma(x[h][c], 1.0f / kPartUnit, totals[part * 8 + e]);
        }
      }
    }
  }

  QUERN_DEVICE void store_weights(const f32 (&weight)[kHeld][4]) const {
    u32 weights[4];
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      weights[i] = pack<f16>(weight[i & 1][i & 2], weight[i & 1][(i & 2) + 1]);
    }
    store_matrix<false>(m.weights(group, w * 16 + (lane() & 15), lane() >> 4), weights);
  }
  // sums += values of this warp's 128 columns times weights, over a slot's keys.
  QUERN_DEVICE void add_values(const u8* keys, Accumulator (&sums)[8]) const {
    const int l = lane();
    const u8* row = keys + w * kFewTile + l * 128;  // the warp's columns are a tile
    QUERN_UNROLL for (int k = 0; k < kPartKeys; k += 32) {
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
};

}  // namespace q
