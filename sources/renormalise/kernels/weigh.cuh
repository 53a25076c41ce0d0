// What tokens weigh together, in integers, whose sums do not depend on an order; and the place in a row's order down to
// which there are so many of them, or so much weight, found digit by digit among all of the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/kernels/tokens.cuh"
#include "top_k/kernels/select.cuh"
#include "top_k/kernels/sort.cuh"

namespace q {

// f(index, keys) for each four tokens of this thread that lie side by side, the first of which has that index. They
// move up, so that f's code is short. All lanes of a warp together.
template <class F>
QUERN_DEVICE void each_four(const Slice& s, F f) {
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
    vec16 v[kTiles];
    load_mostly_whole<Fill::nan>(s, tile, v);
    f32 x[kEach];
    QUERN_UNROLL for (int j = 0; j < kTiles; ++j) widen_vector(v[j], x + j * kVector);
    QUERN_ROLLED for (int i = 0; i < kEach; i += 4) {
      u32 keys[4];
      QUERN_UNROLL for (int e = 0; e < 4; ++e) keys[e] = key_of_token(x[e]);
      f(s.place(tile + i / kVector) - s.shift + i % kVector, keys);
      QUERN_UNROLL for (int e = 0; e < kEach - 4; ++e) x[e] = x[e + 4];
    }
  }
}

// Sums of 64 bits in two halves, since additions in shared memory are of 32: who makes the lower half overflow carries.
struct WeighRoom {
  u32 *low, *high;  // [kBins] each, 16-byte aligned
  u64* totals;      // [kBins], 16-byte aligned
  u64* scratch;     // [kWarps + 4]
  u64* slots;       // [kMostRowBlocks * kWarps]
};

// What a thread adds to a bin waits until it has something for another one: where tokens are alike that is seldom.
struct Addition {
  u32 bin;
  u64 weight;

  QUERN_DEVICE void make(const WeighRoom& room) const {
    if (weight == 0) return;
    const u32 lower = static_cast<u32>(weight), old = atomic_add(room.low + bin, lower);
    const u32 upper = static_cast<u32>(weight >> 32) + (old + lower < old);
    if (upper != 0) atomic_add(room.high + bin, upper);
  }
  QUERN_DEVICE void add(const WeighRoom& room, u32 its_bin, u64 its_weight) {
    if (its_bin != bin) {
      make(room);
      bin = its_bin, weight = 0;
    }
    weight += its_weight;
  }
};

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
        low[b] = ask(reinterpret_cast<const u64*>(room.low + at), base + b < blocks ? base + b : 0);
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

// The sum over all threads of the row's blocks. Compiled once, as are the next ones; what they need comes by value,
// since what is referred to would have to lie in memory. Ends with a barrier of the row.
QUERN_CALLED u64 sum_of_row(u64* slots, u64 own) {
  own = warp_total(own);
  const i32 blocks = row_blocks();
  if (lane() < blocks) tell(slots + row_block() * kWarps + warp(), lane(), own);
  sync_row();
  u64 sum = 0;
  QUERN_ROLLED for (i32 i = lane(); i < blocks * kWarps; i += kWarp) sum += slots[i];
  sum = warp_total(sum);
  sync_row();
  return sum;
}
// The sum over the threads below this one; that over all is left at scratch[kWarps]. Ends with a barrier.
QUERN_CALLED u64 sum_before(u64* scratch, u64 own) {
  u64 total;
  const u64 before = block_scan<kThreads>(own, scratch, &total);
  if (thread_index() == 0) scratch[kWarps] = total;
  sync_block();
  return before;
}
QUERN_CALLED void sort_places(u64* list, i32 size) { sort_list(in_shared(list), size); }
// The weight of the tokens from a place on.
QUERN_CALLED u64 weight_from(u64* slots, Slice s, Scale scale, u64 least) {
  u64 own = 0;
  each_four(s, [&](i32 index, const u32(&k)[4]) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      if (stays(k[i], index + i, least)) own += scale.weight_of_key(k[i]);
    }
  });
  return sum_of_row(slots, own);
}

// How much is needed to reach a share of the whole.
QUERN_DEVICE u64 share_of_weight(f32 share, u64 total) {
  const f64 exact = static_cast<f64>(share) * static_cast<f64>(total);
  u64 whole = static_cast<u64>(exact);
  if (static_cast<f64>(whole) < exact) ++whole;
  return whole == 0 ? 1 : whole;
}

// A place in a row's order, and what the tokens weigh down to there; 0 where that is not known.
struct PlaceFound {
  u64 place, sum;
};

// Of the tokens with keys from `low` to `high`, of which there are no more than kMostOfBin, the one down to which they
// come to weigh `wanted`: they are listed, and the first block puts them in order. What they weigh down to there.
inline constexpr i32 kMostOfBin = kBins;
QUERN_DEVICE PlaceFound place_among(const WeighRoom& room, const Slice& s, const Scale& scale, u64 wanted, u32 low,
                                    u32 high) {
  u64* const list = reinterpret_cast<u64*>(room.low);  // the bins' place: they have been added up
  u32* const count = reinterpret_cast<u32*>(room.scratch + kWarps + 3);
  if (thread_index() == 0) *count = 0;
  sync_block();
  each_four(s, [&](i32 index, const u32(&k)[4]) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      if (k[i] - low > high - low) continue;
      list[atomic_add(count, 1u)] = static_cast<u64>(k[i]) << 32 | ~static_cast<u32>(index + i);
    }
  });
  sync_row();
  u64* const told = room.scratch + kWarps + 1;
  if (row_block() == 0) {
    i32 held = static_cast<i32>(*count), size = 1;
    QUERN_ROLLED for (i32 b = 1; b < row_blocks(); ++b) {
      const i32 its = static_cast<i32>(ask(count, b));
      QUERN_ROLLED for (i32 i = thread_index(); i < its; i += kThreads) list[held + i] = ask(list + i, b);
      held += its;
    }
    QUERN_ROLLED while (size < held) size *= 2;
    QUERN_ROLLED for (i32 i = held + thread_index(); i < size; i += kThreads) list[i] = 0;
    sort_places(list, size);
    // Each thread has a run of them.
    const i32 each = div_up(held, kThreads), first = thread_index() * each,
              last = first + each < held ? first + each : held;
    u64 through = 0;
    QUERN_ROLLED for (int round = 0; round < 2; ++round) {
      QUERN_ROLLED for (i32 i = first; i < last; ++i) {
        const u64 above = through;
        through += scale.weight_of_key(static_cast<u32>(list[i] >> 32));
        if (round != 0 && above < wanted && wanted <= through) told[0] = list[i], told[1] = through;
      }
      if (round == 0) through = sum_before(room.scratch, through);
    }
  }
  sync_row();
  const PlaceFound found{ask(told, 0), ask(told + 1, 0)};
  sync_row();  // all have read it
  return found;
}
// The place down to which the first tokens of a row of n are `wanted` many, or, if `weighing`, come to weigh so much;
// 0: the `share` of what all of them weigh. Where there are not so many it is that of all. The tokens that may lie
// there have keys from `low` to `high`, that of the largest.
QUERN_DEVICE PlaceFound place_reaching(const WeighRoom& room, const Slice& s, const Scale& scale, u64 wanted,
                                       bool weighing, f32 share, i32 n, u32 low, u32 high) {
  Prefix prefix{};
  u64 sum = weighing ? wanted : 0;
  i32 number = 2;
  // First the key, each time among 2^11 stretches of those that it may be one of; then digits of the index.
  QUERN_ROLLED while (number < kDigits) {
    const bool of_key = number == 2, weighs = weighing && of_key;
    const Digit digit = Digit::at(of_key ? 3 : number);
    i32 shift = digit.shift;
    if (of_key) {
      shift = 0;
      QUERN_ROLLED while ((high - low) >> shift >= static_cast<u32>(kBins))++ shift;
    } else if (shift != 0 && (static_cast<u32>(n - 1) >> shift) == 0) {
      prefix.add(digit, ~0u);  // no index has bits here: their complements have all
      ++number;
      continue;
    }
    bins_zero<kThreads>(room.low, kBins);
    bins_zero<kThreads>(room.high, kBins);
    sync_block();
    Addition addition{0, 0};
    each_four(s, [&](i32 index, const u32(&k)[4]) {
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        const u32 complement = ~static_cast<u32>(index + i);
        if (k[i] - low > high - low || ((complement ^ prefix.index) & prefix.index_mask) != 0) continue;
        const u32 bin = of_key ? kBins - 1 - ((high - k[i]) >> shift) : (complement & digit.mask()) >> shift;
        addition.add(room, bin, weighs ? scale.weight_of_key(k[i]) : u64{1});
      }
    });
    addition.make(room);
    add_up_weights(room);
    // Thread 0 has the topmost bins.
    constexpr int kOwn = kBins / kThreads;
    const i32 top = kBins - 1 - thread_index() * kOwn;
    u64 of_bins = 0;
    QUERN_UNROLL for (int i = 0; i < kOwn; ++i) of_bins += room.totals[top - i];
    u64 above = sum_before(room.scratch, of_bins);
    if (wanted == 0) sum = wanted = share_of_weight(share, room.scratch[kWarps]);
    if (room.scratch[kWarps] < wanted) return {kLeastPlace, 0};
    if (above < wanted && wanted <= above + of_bins) {
      i32 bin = top;
      QUERN_ROLLED while (above + room.totals[bin] < wanted) above += room.totals[bin--];
      room.scratch[kWarps + 1] = static_cast<u64>(bin), room.scratch[kWarps + 2] = above;
    }
    sync_block();
    const i32 found = static_cast<i32>(room.scratch[kWarps + 1]);
    wanted -= room.scratch[kWarps + 2];
    const u64 in_bin = room.totals[found];
    const bool all = in_bin == wanted;
    sync_block();  // all have read it
    if (of_key) {
      high -= static_cast<u32>(kBins - 1 - found) << shift;
      const u32 width = (1u << shift) - 1;
      low = high - low > width ? high - width : low;
    } else {
      prefix.add(digit, static_cast<u32>(found) << shift);
    }
    if (all) break;  // of its tokens
    // None of the bin weighs less than its least would. To count further takes less time than to put many in order.
    if (weighs && in_bin <= scale.weight_of_key(low) * kMostOfBin) {
      const PlaceFound last = place_among(room, s, scale, wanted, low, high);
      return {last.place, sum - wanted + last.sum};
    }
    if (of_key && shift != 0) continue;
    ++number;
    if (weighs) {
      // Equal ones weigh the same, so it is their number that counts.
      const u64 each = scale.weight_of_key(low), equal = (wanted + each - 1) / each;
      sum += equal * each - wanted;
      wanted = equal;
    }
  }
  return {static_cast<u64>(low) << 32 | prefix.index, sum};
}

}  // namespace q
