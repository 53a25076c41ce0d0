// What a call expects of its index tensors, as a list of checks that the library makes and that it walks itself on
// `host`, or has a kernel walk on the device in the checked form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/checked_params.cuh"
#include "common/integers.cuh"

namespace q {

enum class CheckKind : i32 {
  each,         // values[row], or values[row][column] of the first counts[row] or `columns`: least to most
  earlier,      // values[row][column]: least to column - 1
  offsets,      // values[0 .. rows]: from 0 on, never falling, the last at most `most`
  extents,      // values[row + 1] - values[row]: at most `most`
  mask_rows,    // values[row]: where the row's queries' masks of counts[row] bits begin, in bytes: 0 to where they fit
  rooms,        // values[row]: 0 to (indptr[row + 1] - indptr[row]) * size
  pages,        // the pages of the first counts[row] places of `size` each, by row of a table or by indptr: 0 to most
  listed,       // values[token][column], tokens by indptr or a token a row: less than counts[row]
  members,      // values[indptr[0] .. indptr[rows]]: 0 to most
  new_lengths,  // values[row]: from the row's new tokens (by indptr, else 1) to its pages' places
  new_positions,  // values[token] of the row's new tokens: less than its pages' places
  new_pages,      // the pages that the row's new tokens go to
  distinct        // values[row] of which none from least to most comes twice
};
enum CheckFlags : i32 {
  kLessAllowed = 1,    // below `least` is fine too: it means none
  kOtherNegative = 2,  // where others[row] is negative, values[row] is not looked at
  kOneValueMore = 4,   // `size` is allowed as well; distinct: as often as it likes
  kSaysKeys = 8        // pages: the text says which keys are meant
};

// How many `distinct` looks at on a device, where it compares each with each; the host looks at all.
inline constexpr i64 kMostDistinct = 16384;

struct IndexCheck {
  Integers values;
  Integers others;     // positions of new tokens, or a companion
  const i32* counts;   // per row; null: none
  const i32* indptr;   // [rows + 1]; null: none
  const i32* queries;  // pages, mask_rows: [rows + 1], rows without queries are passed over; null: one each
  const i32* page_indptr;
  i64 row_stride;  // of values, in elements
  i64 rows, columns;
  i64 least, most;
  i64 size;    // of a page, or of what an entry of indptr has room for
  i64 window;  // pages: keys further to the left of the first query are not seen
  CheckKind kind;
  i32 flags;
  // The library's texts. '#' stands for the row; without one "[row]" or "[row][column]" follows, then " (item row)".
  const char *name, *item, *bound;
};

inline constexpr i32 kMostChecks = 10;
struct IndexChecks {
  IndexCheck checks[kMostChecks];
  i32 count;
  i32 again;  // another check of the same call went before: its verdict stands
  u32* verdict;
  u64 call;
  const char* op;
};
static_assert(sizeof(IndexChecks) <= 3968, "more than a launch's parameters may take");
static_assert(sizeof(FaultMessage) + sizeof(IndexCheck) <= kMessageBytes, "a fault does not fit a message");
static_assert(sizeof(PrintMessage) <= kMessageBytes, "a line does not fit a message");

// Who walks: rows are dealt out among teams, a row's columns among a team's members.
struct Walkers {
  i64 team, teams, member, members;
};
struct IndexFault {
  i64 row, column, at;
  i64 value, least, most, extra;
};

QUERN_SHARED_CODE inline i64 begin_of_pages(const IndexCheck& c, i64 row) {
  return c.page_indptr != nullptr ? c.page_indptr[row] : row * c.row_stride;
}
QUERN_SHARED_CODE inline i64 room_of_pages(const IndexCheck& c, i64 row) {
  return (c.page_indptr != nullptr ? c.page_indptr[row + 1] - c.page_indptr[row] : c.columns) * c.size;
}
QUERN_SHARED_CODE inline i64 queries_of(const IndexCheck& c, i64 row) {
  return c.queries != nullptr ? c.queries[row + 1] - c.queries[row] : 1;
}
QUERN_SHARED_CODE inline i64 least_of(i64 a, i64 b) { return a < b ? a : b; }
QUERN_SHARED_CODE inline i64 largest_of(i64 a, i64 b) { return a > b ? a : b; }

// Each of the following finds the first that is wrong among the walker's share of one row; false: none.
QUERN_SHARED_CODE inline bool each_fault(const IndexCheck& c, i64 row, const Walkers& w, IndexFault& fault) {
  const bool flat = c.columns < 0;
  const i64 count = flat ? 1 : c.counts != nullptr ? c.counts[row] : c.columns;
  for (i64 column = w.member; column < count; column += w.members) {
    const i64 value = integer_at(c.values, row * c.row_stride + column);
    const i64 most = c.kind == CheckKind::earlier ? column - 1 : c.most;
    if (value <= most && (value >= c.least || (c.flags & kLessAllowed))) continue;
    if ((c.flags & kOneValueMore) && value == c.size) continue;
    if ((c.flags & kOtherNegative) && integer_at(c.others, row) < 0) continue;
    fault = {row, flat ? -1 : column, -1, value, c.least, most, 0};
    return true;
  }
  return false;
}

QUERN_SHARED_CODE inline bool pages_fault(const IndexCheck& c, i64 row, const Walkers& w, IndexFault& fault) {
  const i64 length = c.counts[row], queries = queries_of(c, row);
  if (queries <= 0) return false;
  const i64 first = largest_of(length - queries - c.window, 0) / c.size;
  const i64 begin = begin_of_pages(c, row);
  for (i64 page = first + w.member; page * c.size < length; page += w.members) {
    const i64 id = integer_at(c.values, begin + page);
    if (id >= 0 && id <= c.most) continue;
    fault = {row, page, c.page_indptr != nullptr ? begin + page : -1, id, 0, c.most, length};
    return true;
  }
  return false;
}

QUERN_SHARED_CODE inline bool listed_fault(const IndexCheck& c, i64 row, const Walkers& w, IndexFault& fault) {
  const i64 first = c.indptr != nullptr ? c.indptr[row] : row, last = c.indptr != nullptr ? c.indptr[row + 1] : row + 1;
  const i64 keys = c.counts[row];
  for (i64 token = first; token < last; ++token) {
    for (i64 column = w.member; column < c.columns; column += w.members) {
      const i64 index = integer_at(c.values, token * c.row_stride + column);
      if (index < 0 || index < keys) continue;
      fault = {token, column, -1, index, -1, keys - 1, 0};
      return true;
    }
  }
  return false;
}

// The row's new tokens: their positions are given, or the last of the sequence.
QUERN_SHARED_CODE inline bool new_token_fault(const IndexCheck& c, i64 row, const Walkers& w, IndexFault& fault) {
  const i64 first = c.indptr != nullptr ? c.indptr[row] : row;
  const i64 last = least_of(c.indptr != nullptr ? c.indptr[row + 1] : row + 1, c.window);
  const i64 room = room_of_pages(c, row);
  if (c.kind == CheckKind::new_lengths) {
    if (w.member != 0) return false;
    const i64 length = c.counts[row];
    if (length >= last - first && length <= room) return false;
    fault = {row, -1, -1, length, last - first, room, 0};
    return true;
  }
  for (i64 token = first + w.member; token < last; token += w.members) {
    const i64 position = c.others.data != nullptr ? integer_at(c.others, token) : c.counts[row] - (last - token);
    if (position < 0) continue;
    if (c.kind == CheckKind::new_positions) {
      if (position < room) continue;
      fault = {token, -1, -1, position, 0, room - 1, row};
      return true;
    }
    const i64 page = position / c.size, at = begin_of_pages(c, row) + page, id = integer_at(c.values, at);
    if (id >= 0 && id <= c.most) continue;
    fault = {row, page, c.page_indptr != nullptr ? at : -1, id, 0, c.most, 0};
    return true;
  }
  return false;
}

QUERN_SHARED_CODE inline bool one_fault(const IndexCheck& c, i64 row, IndexFault& fault) {
  if (c.kind == CheckKind::offsets) {
    const i64 begin = integer_at(c.values, row), end = integer_at(c.values, row + 1);
    if (row == 0 && (begin < 0 || begin > c.most)) {
      fault = {0, -1, -1, begin, 0, c.most, 1};
      return true;
    }
    if (end >= begin && end <= c.most) return false;
    fault = {row, -1, -1, end, begin, c.most, 0};
    return true;
  }
  if (c.kind == CheckKind::extents) {
    const i64 extent = integer_at(c.values, row + 1) - integer_at(c.values, row);
    if (extent <= c.most) return false;
    fault = {row, -1, -1, extent, 0, c.most, 0};
    return true;
  }
  if (c.kind == CheckKind::rooms) {
    const i64 value = integer_at(c.values, row), room = static_cast<i64>(c.indptr[row + 1] - c.indptr[row]) * c.size;
    if (value <= room) return false;
    fault = {row, -1, -1, value, 0, room, 0};
    return true;
  }
  if (c.kind == CheckKind::mask_rows) {
    const i64 begin = integer_at(c.values, row), bytes = queries_of(c, row) * ((c.counts[row] + i64{7}) / 8);
    if (bytes <= 0 || (begin >= 0 && begin <= c.most - bytes)) return false;
    fault = {row, -1, -1, begin, 0, c.most - bytes, 0};
    return true;
  }
  // distinct
  const i64 value = integer_at(c.values, row);
  if (value < c.least || value > c.most || row >= kMostDistinct) return false;
  if ((c.flags & kOneValueMore) && value == c.size) return false;
  for (i64 before = 0; before < row; ++before) {
    if (integer_at(c.values, before) != value) continue;
    fault = {row, -1, before, value, c.least, c.most, 0};
    return true;
  }
  return false;
}

// The first of the walker's share that is wrong, by row and column; false: none. A row's own walk needs what earlier
// checks of the list held to be right.
QUERN_SHARED_CODE inline bool first_fault(const IndexCheck& c, const Walkers& w, IndexFault& fault) {
  if (c.kind == CheckKind::members) {
    const i64 begin = c.indptr[0], end = c.indptr[c.rows];
    for (i64 row = begin + w.team * w.members + w.member; row < end; row += w.teams * w.members) {
      const i64 value = integer_at(c.values, row);
      if (value >= 0 && value <= c.most) continue;
      fault = {row, -1, -1, value, 0, c.most, 0};
      return true;
    }
    return false;
  }
  const bool alone = c.kind == CheckKind::offsets || c.kind == CheckKind::extents || c.kind == CheckKind::rooms ||
                     c.kind == CheckKind::distinct || c.kind == CheckKind::mask_rows ||
                     (c.kind == CheckKind::each && c.columns < 0);
  if (alone) {
    const Walkers one = {0, 1, 0, 1};
    for (i64 row = w.team * w.members + w.member; row < c.rows; row += w.teams * w.members) {
      if (c.kind == CheckKind::each ? each_fault(c, row, one, fault) : one_fault(c, row, fault)) return true;
    }
    return false;
  }
  for (i64 row = w.team; row < c.rows; row += w.teams) {
    const bool found = c.kind == CheckKind::pages                                  ? pages_fault(c, row, w, fault)
                       : c.kind == CheckKind::listed                               ? listed_fault(c, row, w, fault)
                       : c.kind == CheckKind::each || c.kind == CheckKind::earlier ? each_fault(c, row, w, fault)
                                                                                   : new_token_fault(c, row, w, fault);
    if (found) return true;
  }
  return false;
}

}  // namespace q
