// What tokens weigh, in integers, whose sums do not depend on an order; and the place in a row's order down to which
// they weigh so much.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "top_k/kernels/select.cuh"

namespace q {

inline constexpr bool kLogits = LOGITS != 0;

// Tokens that can be chosen: with a probability, or a logit above -inf.
QUERN_DEVICE u32 key_of_token(f32 x) { return x > (kLogits ? -infinity() : 0.0f) ? key_of_number(x) : 0u; }
using Tokens = KeysBy<key_of_token>;

// Weights are in units of 2^-40 of the largest, or a little less: of probabilities they are exact down to 2^-17 of it,
// and of logits e^-z, z the distance from the largest over the temperature.
struct Scale {
  f32 max, factor;  // factor: a power of two, or 1 / temperature

  QUERN_DEVICE static Scale of_probabilities(f32 max) {
    const i32 exponent = static_cast<i32>(bits_of(max) >> 23);  // 0 where it is subnormal
    const i32 scaled = 127 + 40 - (exponent - 127);
    return {max, f32_of(static_cast<u32>(scaled < 254 ? scaled : 254) << 23)};
  }
  // In those units, not rounded down.
  QUERN_DEVICE f32 value(f32 x) const {
    if constexpr (kLogits) {
      return exp_of_minus(at_most(x == max ? 0.0f : (max - x) * factor, 128.0f)) * 0x1p40f;
    } else {
      return x * factor;
    }
  }
  QUERN_DEVICE u64 weight(f32 x) const { return static_cast<u64>(value(x)); }
  QUERN_DEVICE u64 weight_of_key(u32 key) const { return key != 0 ? weight(number_of_key(key)) : u64{0}; }
};

// Sums of 64 bits in two halves, since additions in shared memory are of 32: who makes the lower half overflow carries.
struct WeighRoom {
  SelectRoom select;  // its counts are the lower halves
  u32* high;          // [kBins], 16-byte aligned
  u64* totals;        // [kBins], 16-byte aligned
  u64* scratch;       // [kWarps + 4]
};

QUERN_DEVICE void add_weight(u32* low, u32* high, u32 bin, u64 weight) {
  const u32 lower = static_cast<u32>(weight), old = atomic_add(low + bin, lower);
  const u32 upper = static_cast<u32>(weight >> 32) + (old + lower < old);
  if (upper != 0) atomic_add(high + bin, upper);
}
// As count_group, of weights; those of 0 are nowhere.
template <int count>
QUERN_DEVICE void weigh_group(u32* low, u32* high, const u32 (&bins)[count], const u64 (&weights)[count]) {
  u32 common = 0;
  u64 of_common = 0;
  QUERN_UNROLL for (int i = 0; i < count; ++i) common = weights[i] != 0 ? bins[i] : common;
  QUERN_UNROLL for (int i = 0; i < count; ++i) {
    if (weights[i] != 0 && bins[i] != common) add_weight(low, high, bins[i], weights[i]);
    of_common += bins[i] == common ? weights[i] : 0;
  }
  if (of_common != 0) add_weight(low, high, common, of_common);
}

// The sums over the row's blocks, in totals. Barriers at both ends.
QUERN_DEVICE void add_up_weights(const WeighRoom& room) {
  const i32 blocks = row_blocks(), share = kBins / 2 / blocks;  // of two bins each
  sync_row();
  QUERN_ROLLED for (i32 i = thread_index(); i < share; i += kThreads) {
    const i32 at = 2 * (row_block() * share + i);
    u64 sum[2] = {};
    QUERN_ROLLED for (i32 base = 0; base < blocks; base += 4) {
      // Four are asked before the first answers: those that there are not are the first once more.
      u64 low[4], high[4];
      QUERN_UNROLL for (i32 b = 0; b < 4; ++b) {
        low[b] = ask(reinterpret_cast<const u64*>(room.select.counts + at), base + b < blocks ? base + b : 0);
        high[b] = ask(reinterpret_cast<const u64*>(room.high + at), base + b < blocks ? base + b : 0);
      }
      QUERN_UNROLL for (i32 b = 0; b < 4; ++b) {
        if (base + b >= blocks) continue;
        sum[0] += (high[b] << 32) + (low[b] & 0xffffffffu), sum[1] += (high[b] >> 32 << 32) + (low[b] >> 32);
      }
    }
    const vec16 both{{static_cast<u32>(sum[0]), static_cast<u32>(sum[0] >> 32), static_cast<u32>(sum[1]),
                      static_cast<u32>(sum[1] >> 32)}};
    QUERN_ROLLED for (i32 b = 0; b < blocks; ++b) tell(reinterpret_cast<vec16*>(room.totals + at), b, both);
  }
  sync_row();
}

// The key at which the first tokens of a row of n come to weigh `wanted`, which those do that weigh `total`: wanted >
// 0.
struct WeightCut {
  Prefix prefix;  // the key's
  u32 equal;      // so many of the tokens of this key are needed; 0: all of them
};
QUERN_DEVICE WeightCut cut_by_weight(const WeighRoom& room, const Tokens& tokens, const Scale& scale, u64 wanted,
                                     u64 total, i32 n) {
  Prefix prefix{};
  // All that weigh less than this together do not make up what may be missing: they need not be counted.
  const u64 least = (total - wanted) / static_cast<u64>(n);
  QUERN_ROLLED for (int number = 0; number < 3; ++number) {
    const Digit digit = Digit::at(number);
    bins_zero<kThreads>(room.select.counts, kBins);
    bins_zero<kThreads>(room.high, kBins);
    sync_block();
    tokens.each([&](i32, const u32(&k)[kGroup]) {
      u32 bins[kGroup];
      u64 weights[kGroup];
      QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
        bins[i] = (k[i] & digit.mask()) >> digit.shift;
        const u64 weight = ((k[i] ^ prefix.key) & prefix.key_mask) == 0 ? scale.weight_of_key(k[i]) : u64{0};
        weights[i] = weight >= least ? weight : u64{0};
      }
      weigh_group(room.select.counts, room.high, bins, weights);
    });
    add_up_weights(room);
    const FoundBin<u64> found = find_from_top<kThreads, kBins / kThreads>(room.totals, wanted, room.scratch);
    sync_block();
    if (found.bin < 0) return {};
    prefix.add(digit, static_cast<u32>(found.bin) << digit.shift);
    wanted -= found.above;
    if (found.in == wanted) return {prefix, 0};
  }
  // Equal ones weigh the same, so it is their number that counts.
  const u64 each = scale.weight_of_key(prefix.key);
  return {prefix, static_cast<u32>((wanted + each - 1) / each)};
}

// How much is needed to reach a share of the whole.
QUERN_DEVICE u64 share_of_weight(f32 share, u64 total) {
  const f64 exact = static_cast<f64>(share) * static_cast<f64>(total);
  u64 whole = static_cast<u64>(exact);
  if (static_cast<f64>(whole) < exact) ++whole;
  return whole == 0 ? 1 : whole;
}

}  // namespace q
