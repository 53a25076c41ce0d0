// Where segments and their tiles lie.
//
// A tile belongs to one segment. Of ragged segments that of tile numbers begins at offsets[s] / tile + s: there is room
// for all of a segment's tiles before the next one's, so that nobody has to count them first, and some numbers have no
// keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "sort/params.cuh"

namespace q {

QUERN_DEVICE i64 begin_of(const SortParams& p, i32 segment, i64 stride) {
  return p.offsets ? i64{p.offsets[segment]} : segment * stride;
}
QUERN_DEVICE i32 length_of(const SortParams& p, i32 segment) {
  return p.offsets ? p.offsets[segment + 1] - p.offsets[segment] : p.n;
}
QUERN_DEVICE i32 first_tile_of(const SortParams& p, i32 segment) {
  return p.offsets ? p.offsets[segment] / p.tile + segment : segment * p.row_tiles.value;
}

struct TilePlace {
  i32 segment;
  i32 at;     // its first key's place in the segment
  i32 count;  // of its keys; 0: there are none, and no segment
};
QUERN_DEVICE TilePlace place_of(const SortParams& p, i32 tile) {
  i32 segment = 0;
  if (p.offsets) {
    i32 end = p.segments;
    QUERN_ROLLED while (end - segment > 1) {
      const i32 middle = (segment + end) / 2;
      if (first_tile_of(p, middle) <= tile) {
        segment = middle;
      } else {
        end = middle;
      }
    }
  } else {
    segment = tile / p.row_tiles;
  }
  const i32 before = tile - first_tile_of(p, segment), length = length_of(p, segment);
  // Compared by tiles: keys before a tile that has none could be more than a number holds.
  if (before < 0 || before >= div_up(length, p.tile)) return {segment, 0, 0};
  const i32 at = before * p.tile, rest = length - at;
  return {segment, at, rest < p.tile ? rest : p.tile};
}

}  // namespace q
