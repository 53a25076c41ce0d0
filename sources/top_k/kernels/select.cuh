// The place in a row's order down to which there are so many elements: found digit by digit, from histograms that the
// row's blocks add up. Exact, and the same whatever the order of additions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "top_k/kernels/keys.cuh"

namespace q {

inline constexpr int kBins = 1 << 11;
inline constexpr int kDigits = 6;

struct SelectRoom {
  u32* counts;   // [kBins], 16-byte aligned
  u32* totals;   // [kBins], 16-byte aligned
  u32* scratch;  // [kWarps + 4]
};

// The digits, from the key's highest on, each by its lowest bit: three of the key, three of the index's complement.
struct Digit {
  bool of_key;
  int shift, bits;
  QUERN_DEVICE static Digit at(int number) {
    const int of = number < 3 ? number : number - 3;
    return {number < 3, of == 0 ? 21 : of == 1 ? 10 : 0, of == 2 ? 10 : 11};
  }
  QUERN_DEVICE u32 mask() const { return ((1u << bits) - 1) << shift; }
};

// What is known of the place that is looked for: the high bits of its key, then those of its index's complement.
struct Prefix {
  u32 key, key_mask, index, index_mask;

  // The bits of a digit that has been found.
  QUERN_DEVICE void add(const Digit& digit, u32 bits) {
    const u32 mask = digit.mask();
    if (digit.of_key) {
      key |= bits & mask, key_mask |= mask;
    } else {
      index |= bits & mask, index_mask |= mask;
    }
  }
};

// Counts a group's elements in bins, those of the last one's bin at once: where all are equal it is one addition.
template <int count>
QUERN_DEVICE void count_group(u32* counts, const u32 (&bins)[count], const bool (&in)[count]) {
  u32 common = 0, of_common = 0;
  QUERN_UNROLL for (int i = 0; i < count; ++i) common = in[i] ? bins[i] : common;
  QUERN_UNROLL for (int i = 0; i < count; ++i) {
    if (in[i] && bins[i] != common) atomic_add(counts + bins[i], 1u);
    of_common += in[i] && bins[i] == common;
  }
  if (of_common != 0) atomic_add(counts + common, of_common);
}

// Adds up `counts` over the row's blocks; where it lies then. Barriers at both ends.
QUERN_DEVICE u32* add_up_blocks(const SelectRoom& room) {
  const i32 blocks = row_blocks();
  if (blocks == 1) {
    sync_block();
    return room.counts;
  }
  sync_row();
  const i32 share = kBins / 4 / blocks;  // of four bins each
  QUERN_ROLLED for (i32 i = thread_index(); i < share; i += kThreads) {
    const i32 at = 4 * (row_block() * share + i);
    // All are asked before the first answers: those that there are not are the first once more.
    vec16 own[kMostRowBlocks], sum{};
    QUERN_UNROLL for (i32 b = 0; b < kMostRowBlocks; ++b) {
      own[b] = ask(reinterpret_cast<const vec16*>(room.counts + at), b < blocks ? b : 0);
    }
    QUERN_UNROLL for (i32 b = 0; b < kMostRowBlocks; ++b) {
      QUERN_UNROLL for (int w = 0; w < 4; ++w) sum.x[w] += b < blocks ? own[b].x[w] : 0u;
    }
    QUERN_ROLLED for (i32 b = 0; b < blocks; ++b) tell(reinterpret_cast<vec16*>(room.totals + at), b, sum);
  }
  sync_row();
  return room.totals;
}

struct Cut {
  u64 least;  // place; at least 2^32
  u32 count;  // how many lie there and above: `wanted`, or all that there are
};

// The `wanted` first elements of those that the prefix leaves, of a row of n: wanted > 0. `number` is the first digit
// that the prefix has not; the key that is looked for is known to lie between `least` and `most`.
template <class Keys>
QUERN_DEVICE Cut cut_after(const SelectRoom& room, const Keys& keys, u32 wanted, i32 n, Prefix prefix = {},
                           int number = 0, u32 least_key = 0, u32 most_key = ~0u) {
  u32 rest = wanted;
  QUERN_ROLLED for (; number < kDigits; ++number) {
    const Digit digit = Digit::at(number);
    const u32 mask = digit.mask();
    if (digit.of_key && (least_key ^ most_key) >> digit.shift == 0) {
      prefix.add(digit, most_key);  // there is no other
      continue;
    }
    if (!digit.of_key && digit.shift != 0 && (static_cast<u32>(n - 1) >> digit.shift) == 0) {
      prefix.add(digit, ~0u);  // no index has bits here: their complements have all
      continue;
    }
    bins_zero<kThreads>(room.counts, kBins);
    sync_block();
    keys.each([&](i32 tile, const u32(&k)[kGroup]) {
      u32 bins[kGroup];
      bool in[kGroup];
      if (digit.of_key) {
        QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
          bins[i] = (k[i] & mask) >> digit.shift;
          in[i] = ((k[i] ^ prefix.key) & prefix.key_mask) == 0;
        }
      } else {
        QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
          const u32 complement = ~static_cast<u32>(keys.index_of(tile, i));
          bins[i] = (complement & mask) >> digit.shift;
          in[i] = k[i] == prefix.key && ((complement ^ prefix.index) & prefix.index_mask) == 0;
        }
      }
      count_group(room.counts, bins, in);
    });
    if (number == 0) {
      // No number has a key as low as this: what is counted there is none.
      sync_block();
      if (thread_index() == 0) room.counts[0] = 0;
    }
    const u32* totals = add_up_blocks(room);
    const FoundBin<u32> found = find_from_top<kThreads, kBins / kThreads>(totals, rest, room.scratch);
    sync_block();
    if (found.bin < 0) return {kLeastPlace, found.above};  // by the first digit only: there are not so many
    prefix.add(digit, static_cast<u32>(found.bin) << digit.shift);
    rest -= found.above;
    if (found.in == rest) break;  // all of them
  }
  const u64 least = static_cast<u64>(prefix.key) << 32 | prefix.index;
  return {least > kLeastPlace ? least : kLeastPlace, wanted};
}

}  // namespace q
