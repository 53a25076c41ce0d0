// Products of the kernel for few rows where the cache has q's type, both by mma.sync.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/few_memory.cuh"

namespace q {

// Named barriers: of two warps of a warpgroup with the same keys; few.cuh has those before.
inline constexpr int kPairs = kGroup + kGroups;

// Within a warpgroup, logits: warp w has keys 16 (w % 2) and on, and a half of the columns, whose queries it keeps in
// registers; two warps then add up what they have, and each ends up with eight keys. Sums: warp w has columns 128 w and
// on.
struct Products {
  static constexpr int kHeld = 1;  // keys of a thread
  static constexpr bool kNeighbouring = false;
  // Of a half's columns: four tiles of 64, and a half of the tile in the middle.
  static constexpr int kSteps = kColumns / 2 / 16, kMiddle = 4;
  const MlaParams& p;
  Memory m;
  int group, w, tile, half;
  f32 factor[4];  // of this thread's columns: what makes logits of products
  OperandB<Element> queries[kSteps];

  QUERN_DEVICE Products(const MlaParams& params, Memory memory, int own_group, int own_w)
      : p(params), m(memory), group(own_group), w(own_w), tile(own_w & 1), half(own_w >> 1) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) factor[i] = CAP ? 1.0f : p.scale;
  }
  QUERN_DEVICE int key_of(int) const { return tile * 16 + half * 8 + (lane() >> 2); }
  QUERN_DEVICE f32 unit() const { return 1.0f; }

  // The first column of a step.
  QUERN_DEVICE int column_of_step(int s) const {
    return s < 4 * kMiddle ? (half * (kMiddle + 1) + s / 4) * 64 + s % 4 * 16 : kMiddle * 64 + half * 32 + s % 4 * 16;
  }
  // Queries to registers, as operand B.
  QUERN_DEVICE void load_queries(const Task& t) {
    QUERN_UNROLL for (int n = 0; n < 2; ++n) {
      const QueryRow row(p, t, n * 8 + (lane() >> 2));
      QUERN_UNROLL for (int s = 0; s < kSteps; ++s) {
        const int column = column_of_step(s) + lane() % 4 * 2;
        const Element* from = column < kLatent ? row.latent + column : row.rope + (column - kLatent);
        QUERN_UNROLL for (int i = 0; i < 2; ++i) {
          queries[s].x[2 * n + i] = row.there ? *reinterpret_cast<const u32*>(from + 8 * i) : 0;
        }
      }
    }
    sync_named(kBoth, kConsumers);  // what was given away of the results before lies there no more
  }

  QUERN_DEVICE void multiply_keys(const u8* keys, f32 (&x)[kHeld][4]) const {
    const int l = lane(), key = tile * 16 + (l & 15), turn = key & 7, upper = l >> 4;
    const u8* row = keys + key * 128;
    const u8* tiles = row + half * (kMiddle + 1) * kFewTile;
    Accumulator products[2] = {};  // two chains
    QUERN_UNROLL for (int s = 0; s < kSteps; ++s) {
      u32 v[4];
      if (s < 4 * kMiddle) {
        load_matrix<false>(v, tiles + s / 4 * kFewTile + (((s % 4 * 2 + upper) ^ turn) << 4));
      } else {
        load_matrix<false>(v, row + kMiddle * kFewTile + (((half * 4 + s % 4 * 2 + upper) ^ turn) << 4));
      }
      mma(products[s & 1], OperandA<Element>{{v[0], v[1], v[2], v[3]}}, queries[s]);
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) products[0].x[i] += products[1].x[i];
    // Of two warps with the same keys each ends up with half of them.
    vec16 given;
    QUERN_UNROLL for (int c = 0; c < 4; ++c) {
      const f32 low = products[0].x[element_of(0, c)], high = products[0].x[element_of(1, c)];
      given.x[c] = bits_of(half ? low : high);
      x[0][c] = half ? high : low;
    }
    store16(m.exchange(group, w) + l, given);
    sync_named(kPairs + group * 2 + tile, 2 * kWarp);
    const vec16 received = load16(m.exchange(group, w ^ 2) + l);
    QUERN_UNROLL for (int c = 0; c < 4; ++c) x[0][c] += f32_of(received.x[c]);
  }

  QUERN_DEVICE void store_weights(const f32 (&weight)[kHeld][4]) const {
    const u32 weights[2] = {pack<Element>(weight[0][0], weight[0][1]), pack<Element>(weight[0][2], weight[0][3])};
    store_matrix<false>(m.weights(group, tile * 16 + half * 8 + (lane() & 7), lane() >> 3 & 1), weights);
  }
  // sums += values of this warp's 128 columns times weights, over a slot's keys.
  QUERN_DEVICE void add_values(const u8* keys, Accumulator (&sums)[8]) const {
    const int l = lane();
    // Matrices are of eight keys and eight columns: the next eight columns, then the next eight keys.
    const u8* row = keys + 2 * w * kFewTile + ((l >> 4) * 8 + (l & 7)) * 128;
    QUERN_UNROLL for (int k = 0; k < kPartKeys; k += 16) {
      OperandB<Element> weights;
      load_matrix<true>(weights.x, m.weights(group, k + (l & 15), l >> 4));
      QUERN_UNROLL for (int i = 0; i < 8; ++i) {
        u32 v[4];
        load_matrix<true>(v, row + i / 4 * kFewTile + k * 128 + (((i % 4 * 2 + (l >> 3 & 1)) ^ (l & 7)) << 4));
        mma(sums[i], OperandA<Element>{{v[0], v[1], v[2], v[3]}}, weights);
      }
    }
  }
};

}  // namespace q
