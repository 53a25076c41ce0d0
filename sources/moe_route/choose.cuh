// One token's experts, found by one warp: scores, group-limited selection (DeepSeek-AI, "DeepSeek-V3 Technical Report",
// 2024, section 2.1.2), the largest choices, their weights.
//
// A lane holds the choices of kEach experts with consecutive ids, so that of lanes that hold the same value the lowest
// has the lowest id. Choices are compared as 32-bit keys that order as the numbers do: 0 is no expert, or one that is
// out of the running; 1 is NaN; then from -inf up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pointwise.cuh"
#include "common/reduce.cuh"
#include "moe_route/params.cuh"

namespace q {

using Logit = LOGIT;                        // f32, f16 or bf16
inline constexpr int kCapacity = CAPACITY;  // experts there is room for
inline constexpr int kEach = kCapacity / kWarp;

QUERN_DEVICE u32 key_of(f32 value) {
  if (value != value) return 1;
  const u32 bits = bits_of(value + 0.0f);  // -0 becomes 0: they are equal
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
QUERN_DEVICE f32 value_of(u32 key) { return f32_of(key & 0x80000000u ? key & 0x7fffffffu : ~key); }

QUERN_DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }
QUERN_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// This lane's part of a row of `count` numbers, -inf behind its end.
template <class T>
QUERN_DEVICE void load_part(const T* row, i32 count, bool vectors, f32 (&part)[kEach]) {
  const i32 begin = lane() * kEach;
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  if constexpr (kEach % kVector == 0) {
    if (vectors && begin + kEach <= count) {
      QUERN_UNROLL for (int i = 0; i < kEach; i += kVector) {
        const vec16 v = load16(row + begin + i);
        if constexpr (sizeof(T) == 4) {
          QUERN_UNROLL for (int j = 0; j < 4; ++j) part[i + j] = f32_of(v.x[j]);
        } else {
          QUERN_UNROLL for (int j = 0; j < 4; ++j) {
            const f32x2 pair = unpack<T>(v.x[j]);
            part[i + 2 * j] = pair.x, part[i + 2 * j + 1] = pair.y;
          }
        }
      }
      return;
    }
  }
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) part[i] = begin + i < count ? to_f32(row[begin + i]) : -infinity();
}

// From logits to scores. For a softmax `max` is the largest logit and `inverse` the reciprocal of the sum; NaN counts
// in neither. Where all logits are -inf so are the scores 0; infinite ones share the whole.
struct Scorer {
  bool sigmoid;
  f32 max, inverse;

  // e^-z, where z is how far the logit lies below the largest one; of a sigmoid, from 0. Infinities lie nowhere: 1 for
  // the largest.
  QUERN_DEVICE f32 weight(f32 logit) const {
    const f32 below = sigmoid ? abs(logit) : max - logit;
    const f32 e = exp_of_minus(at_most(below, 110.0f));
    return !sigmoid && logit == max ? 1.0f : e;
  }
  QUERN_DEVICE f32 score(f32 logit) const {
    const f32 e = weight(logit);
    return (sigmoid && logit >= 0.0f ? 1.0f : e) * (sigmoid ? rcp_approx(1.0f + e) : inverse);
  }
};
QUERN_DEVICE Scorer scorer_of(bool is_sigmoid, const f32 (&logits)[kEach]) {
  Scorer s{is_sigmoid, 0.0f, 0.0f};
  if (is_sigmoid) return s;  // the same in all lanes
  s.max = -infinity();
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) s.max = fmax(s.max, logits[i]);
  s.max = warp_max(s.max);
  f32 sum = 0.0f;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += logits[i] == logits[i] ? s.weight(logits[i]) : 0.0f;
  sum = warp_sum(sum);
  s.inverse = s.max == -infinity() ? 0.0f : rcp(sum);
  return s;
}

// Takes the experts of all but the best groups out of the running. 2^group_shift lanes find the two largest keys of a
// group, each from a run of it, beginning at different places for the sake of the banks of shared memory. Whoever calls
// this again has a barrier of the warp in between.
QUERN_DEVICE void limit_to_groups(const MoeRouteParams& p, u32* shared_keys, u32 (&keys)[kEach]) {
  QUERN_UNROLL for (int i = 0; i < kEach; i += 4) {
    if constexpr (kEach % 4 == 0) {
      store16(shared_keys + lane() * kEach + i, {{keys[i], keys[i + 1], keys[i + 2], keys[i + 3]}});
    } else {
      QUERN_UNROLL for (int j = i; j < kEach && j < i + 4; ++j) shared_keys[lane() * kEach + j] = keys[j];
    }
  }
  sync_warp();
  const i32 lanes = 1 << p.group_shift, group = lane() >> p.group_shift;
  u32 first = 0, second = 0;
  if (group < p.groups) {
    const i32 run = div_up(p.group_size, lanes), begin = (lane() & (lanes - 1)) * run;
    i32 at = group % run;
    QUERN_ROLLED for (i32 i = 0; i < run; ++i) {
      if (begin + at < p.group_size) {
        const u32 key = shared_keys[group * p.group_size + begin + at];
        second = larger(second, smaller(first, key));
        first = larger(first, key);
      }
      at = at + 1 == run ? 0 : at + 1;
    }
  }
  QUERN_ROLLED for (i32 d = 1; d < lanes; d *= 2) {
    const u32 other_first = shuffle_xor(first, d), other_second = shuffle_xor(second, d);
    second = larger(smaller(first, other_first), larger(second, other_second));
    first = larger(first, other_first);
  }
  // A group of one expert has no second.
  const u32 worth = p.bias && second != 0 ? key_of(value_of(first) + value_of(second)) : first;
  i32 better = 0;
  QUERN_ROLLED for (i32 other = 0; other < p.groups; ++other) {
    const u32 its = shuffle(worth, other << p.group_shift);
    better += its > worth || (its == worth && other < group);
  }
  const u64 best = ballot(group < p.groups && better < p.top_groups);
  i32 id = lane() * kEach;
  i32 its_group = id / p.group_size, place = id - its_group * p.group_size;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i, ++id) {
    if (id < p.experts && (best >> (its_group << p.group_shift) & 1) == 0) keys[i] = 0;
    if (++place == p.group_size) place = 0, ++its_group;
  }
}

// The top_k largest keys' ids, largest first, into `chosen`.
QUERN_DEVICE void choose(const MoeRouteParams& p, u32 (&keys)[kEach], i32* chosen) {
  const u64 lanes_below = (u64{1} << lane()) - 1;
  u32 best = 0;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) best = larger(best, keys[i]);
  QUERN_ROLLED for (i32 j = 0; j < p.top_k; ++j) {
    const u32 top = warp_max(best);
    const bool mine = best == top;
    if ((ballot(mine) & lanes_below) == 0 && mine) {
      i32 id = -1;
      best = 0;
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
        if (id < 0 && keys[i] == top) {
          id = lane() * kEach + i;
          keys[i] = 0;
        }
        best = larger(best, keys[i]);
      }
      chosen[j] = id;
    }
  }
}

// What the lanes below top_k weigh their choices with, from those choices' scores; the other lanes' scores are 0.
QUERN_DEVICE f32 weigh(const MoeRouteParams& p, f32 score) {
  if (p.renormalize) {  // the same in all lanes
    const f32 sum = warp_sum(score);
    // The reciprocal of a very small sum would be infinite. Where all scores are 0 so are the weights.
    const f32 grow = sum < 0x1p-100f ? 0x1p100f : 1.0f;
    score = sum == 0.0f ? 0.0f : score * grow * rcp(sum * grow);
  }
  return score * p.scale;
}

// Writes a token's ids and weights. Returns the id that this lane chose, -1 in the lanes from top_k on. `chosen` and
// `shared_keys` (kCapacity, where groups are limited) belong to the warp.
QUERN_DEVICE i32 route_token(const MoeRouteParams& p, i32 token, i32* chosen, u32* shared_keys) {
  const Logit* row = static_cast<const Logit*>(p.logits) + token * p.logits_stride;
  f32 logits[kEach];
  load_part(row, p.experts, p.vectors, logits);
  const Scorer scorer = scorer_of(p.sigmoid, logits);
  u32 keys[kEach];
  if (p.bias) {
    f32 bias[kEach];
    load_part(p.bias, p.experts, p.vectors, bias);
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) keys[i] = key_of(scorer.score(logits[i]) + bias[i]);
  } else {
    // The score rises with the logit: comparing logits loses nothing to rounding.
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) keys[i] = key_of(logits[i]);
  }
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (lane() * kEach + i >= p.experts) keys[i] = 0;
  }
  if (p.groups > 1) limit_to_groups(p, shared_keys, keys);
  sync_warp();  // whoever still reads the choices of the token before
  choose(p, keys, chosen);
  sync_warp();
  const bool mine = lane() < p.top_k;
  const i32 id = mine ? chosen[lane()] : -1;
  const f32 weight = weigh(p, mine ? scorer.score(to_f32(row[id])) : 0.0f);
  if (mine) {
    p.ids[token * p.ids_stride + lane()] = id;
    p.weights[token * p.weights_stride + lane()] = weight;
  }
  return id;
}

}  // namespace q
