// Where a token goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kv_append/place_params.cuh"
#include "rope/rotate.cuh"

namespace q {

struct TokenPlace {
  bool taken;
  i64 position;  // for rope
  i64 page;
  i32 place;  // in the page
  u32 wrong;  // why a token that has a place is left out all the same: bits of enum quern_mla_status
};
inline constexpr u32 kBeyondTable = 1, kBadPage = 2, kBadSlot = 4;

// The last sequence that begins at `token` or before; -1 where none does.
QUERN_DEVICE i32 sequence_of(const TokenPlaces& p, i32 token) {
  if (!p.cu_q) return token < p.batch ? token : -1;
  i32 low = -1, high = p.batch;  // begins at or before, begins after
  QUERN_ROLLED while (high - low > 1) {
    const i32 middle = (low + high) / 2;
    if (p.cu_q[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low >= 0 && token < p.cu_q[low + 1] ? low : -1;
}

// An integer as it lies in memory: nothing is computed of it where it is loaded, which would wait for it there.
struct RawInteger {
  u32 low, high;  // high only of 64 bits
};
QUERN_DEVICE RawInteger load_raw(const Integers& of, i32 i) {
  const i64 at = i * of.stride;
  RawInteger raw{};
  if (of.wide != 0) {
    const u32* from = static_cast<const u32*>(of.data) + 2 * at;
    raw.low = from[0], raw.high = from[1];
  } else {
    raw.low = static_cast<const u32*>(of.data)[at];
  }
  return raw;
}
QUERN_DEVICE i64 value_of(const Integers& of, const RawInteger& raw) {
  return of.wide != 0 ? static_cast<i64>(static_cast<u64>(raw.high) << 32 | raw.low) : static_cast<i32>(raw.low);
}

// What is given for each token, so long before its place is worked out.
struct GivenPlace {
  RawInteger slot, position;  // where one is given
};
QUERN_DEVICE GivenPlace load_place(const TokenPlaces& p, i32 token) {
  GivenPlace given{};
  if (p.slots.data) given.slot = load_raw(p.slots, token);
  if (p.positions.data) given.position = load_raw(p.positions, token);
  return given;
}
QUERN_DEVICE i64 position_of(const TokenPlaces& p, const GivenPlace& given) {
  return p.positions.data ? value_of(p.positions, given.position) : 0;
}

QUERN_DEVICE TokenPlace place_by_slot(const TokenPlaces& p, const GivenPlace& given) {
  TokenPlace t{};
  const i64 slot = value_of(p.slots, given.slot);
  t.position = position_of(p, given);
  t.taken = slot >= 0;
  if (slot >> 31 == 0) {
    t.page = static_cast<i32>(slot) / p.page_size;
    t.place = static_cast<i32>(slot) - static_cast<i32>(t.page) * p.page_size.value;
  } else if (slot >= 0) {
    t.page = static_cast<i64>(static_cast<u64>(slot) / static_cast<u64>(p.page_size.value));
    t.place = static_cast<i32>(slot - t.page * p.page_size.value);
  }
  return t;
}

QUERN_DEVICE TokenPlace place_by_table(const TokenPlaces& p, i32 token, const GivenPlace& given) {
  TokenPlace t{};
  const i32 sequence = sequence_of(p, token);
  if (sequence < 0) return t;
  if (p.positions.data) {
    t.position = position_of(p, given);
  } else {
    const i32 end = p.cu_q ? p.cu_q[sequence + 1] : token + 1;
    t.position = p.lengths[sequence] - (end - token);
  }
  // What no page is there for is left out, as far as that can be told.
  if (t.position < 0) return t;
  t.wrong = kBeyondTable;
  if (t.position >> 31 != 0) return t;
  const i32 column = static_cast<i32>(t.position) / p.page_size;
  t.place = static_cast<i32>(t.position) - column * p.page_size.value;
  const i64 begin = p.page_indptr ? static_cast<i64>(p.page_indptr[sequence]) : sequence * p.pages_stride;
  const i64 columns = p.page_indptr ? p.page_indptr[sequence + 1] - begin : p.page_columns;
  if (column >= columns || (p.page_indptr && (begin < 0 || begin + column >= p.page_columns))) return t;
  t.page = p.pages[begin + column];
  t.taken = true, t.wrong = 0;
  return t;
}

QUERN_DEVICE TokenPlace place_of_token(const TokenPlaces& p, i32 token, const GivenPlace& given) {
  TokenPlace t = p.slots.data ? place_by_slot(p, given) : place_by_table(p, token, given);
  // Outside of the cache nothing is written.
  if (t.taken && (t.page < 0 || t.page >= p.page_count)) {
    t.taken = false;
    t.wrong = p.slots.data ? kBadSlot : kBadPage;
  }
  return t;
}

QUERN_DEVICE TokenPlace place_of_token(const TokenPlaces& p, i32 token) {
  return place_of_token(p, token, load_place(p, token));
}

}  // namespace q
