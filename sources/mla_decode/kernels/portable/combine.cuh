// Joins the pieces of the items that were cut: one row at a time by a warp, or by a block of threads where there are
// many pieces. Pieces are joined in their order, whoever wrote them when.
// SPDX-License-Identifier: Apache-2.0
#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kChunks = div_up(kLatent / 4, kWarp);  // of four columns, that a lane has
// More pieces than this are shared out among the warps of a block.
inline constexpr i32 kManyPieces = 8;
// Blocks of threads before this many cuts are counted through at once.
inline constexpr int kCutsAtOnce = 256;

struct State {
  f32 max, sum;
  f32 x[kChunks][4];
};

// Joins pieces first, first + step, ... of a row, of which the slot of piece 0 is `slot`.
QUERN_DEVICE State join(const MlaParams& p, const MlaCut& cut, i32 tile, i32 row, i32 first, i32 step) {
  State all;
  all.max = -infinity();
  all.sum = 0.0f;
  QUERN_UNROLL for (int c = 0; c < kChunks; ++c) { QUERN_UNROLL for (int x = 0; x < 4; ++x) all.x[c][x] = 0.0f; }
  QUERN_FOUR_AT_ONCE for (i32 i = first; i < cut.count; i += step) {
    const f32* part = slot_at(p, slot_of_piece(cut.first_slot, cut.slot_step, i), tile);
    const f32 part_max = part[kRows * kLatent + row], part_sum = part[kRows * (kLatent + 1) + row];
    const f32 grown = fmax(all.max, part_max), base = finite_max(grown);
    const f32 before = exp2(all.max - base), weight = exp2(part_max - base);
    all.max = grown;
    all.sum = fma(weight, part_sum, all.sum * before);
    QUERN_UNROLL for (int c = 0; c < kChunks; ++c) {
      const i32 column = (c * kWarp + lane()) * 4;
      if (kLatent % (4 * kWarp) != 0 && column >= kLatent) continue;
      const vec16 four = load16(part + row * kLatent + column);
      QUERN_UNROLL for (int x = 0; x < 4; ++x) all.x[c][x] = fma(weight, f32_of(four.x[x]), all.x[c][x] * before);
    }
  }
  return all;
}

QUERN_DEVICE void write_row(const MlaParams& p, const MlaCut& cut, i32 row, const State& all) {
  const RowPlace place = place_of(p, cut.q_begin, row);
  const Finished done = finish(p, all.max, all.sum, place.head);
  QUERN_UNROLL for (int c = 0; c < kChunks; ++c) {
    const i32 column = (c * kWarp + lane()) * 4;
    if (kLatent % (4 * kWarp) != 0 && column >= kLatent) continue;
    u32* out = reinterpret_cast<u32*>(place.out + column);
    out[0] = pack<Element>(all.x[c][0] * done.inverse, all.x[c][1] * done.inverse);
    out[1] = pack<Element>(all.x[c][2] * done.inverse, all.x[c][3] * done.inverse);
  }
  if (lane() == 0 && place.lse) *place.lse = done.lse;
}

struct Shared {
  MlaCut cuts[kCutsAtOnce];
  i32 before[kCutsAtOnce + 1];  // units of work before each cut
  State states[kWarps][kWarp];
};

// A unit of work is as many rows as a block of threads joins at once.
QUERN_DEVICE i32 rows_at_once(const MlaCut& cut) { return cut.count > kManyPieces ? 1 : kWarps; }
QUERN_DEVICE i32 rows_of(const MlaParams& p, const MlaCut& cut) {
  const i32 rows = cut.rows - cut.first_row, most = kRows * p.side_by_side;
  return cut.count <= p.joined || rows <= 0 ? 0 : rows < most ? rows : most;
}

QUERN_DEVICE void join_unit(const MlaParams& p, const MlaCut& cut, i32 unit, Shared& shared) {
  const bool many = cut.count > kManyPieces;
  const i32 row = unit * rows_at_once(cut) + (many ? 0 : warp());
  const i32 tile = row / kRows, within = row - tile * kRows;
  if (!many) {
    if (row < rows_of(p, cut)) write_row(p, cut, cut.first_row + row, join(p, cut, tile, within, 0, 1));
    return;
  }
  sync_block();  // whoever still reads the states of the unit before
  shared.states[warp()][lane()] = join(p, cut, tile, within, warp(), kWarps);
  sync_block();
  if (warp() != 0) return;
  State all = shared.states[0][lane()];
  QUERN_ROLLED for (int w = 1; w < kWarps; ++w) {
    const State& part = shared.states[w][lane()];
    const f32 grown = fmax(all.max, part.max), base = finite_max(grown);
    const f32 before = exp2(all.max - base), weight = exp2(part.max - base);
    all.max = grown;
    all.sum = fma(weight, part.sum, all.sum * before);
    QUERN_UNROLL for (int c = 0; c < kChunks; ++c) {
      QUERN_UNROLL for (int x = 0; x < 4; ++x) all.x[c][x] = fma(weight, part.x[c][x], all.x[c][x] * before);
    }
  }
  write_row(p, cut, cut.first_row + row, all);
}

}  // namespace q

QUERN_KERNEL(quern_mla_combine, THREADS, 2, QUERN_PARAM q::MlaParams p) {
  using namespace q;
  QUERN_SHARED(Shared, memory, 1);
  Shared& shared = *memory;
  launch_next_grid();
  wait_for_previous_grid();
  QUERN_ROLLED for (i32 first = 0; first < p.cut_count; first += kCutsAtOnce) {
    const i32 cuts = p.cut_count - first < kCutsAtOnce ? p.cut_count - first : kCutsAtOnce;
    sync_block();
    QUERN_ROLLED for (i32 i = thread_index(); i < cuts; i += kThreads) {
      shared.cuts[i] = p.invariant ? invariant_cut(p, first + i) : p.cuts[first + i];
    }
    sync_block();
    if (warp() == 0) {
      i32 total = 0;
      QUERN_ROLLED for (i32 i = 0; i < cuts; i += kWarp) {
        const i32 at = i + lane();
        i32 units = 0;
        if (at < cuts) units = div_up(rows_of(p, shared.cuts[at]), rows_at_once(shared.cuts[at]));
        const i32 sum = warp_scan(units);
        if (at < cuts) shared.before[at] = total + sum - units;
        total += shuffle(sum, kWarp - 1);
      }
      if (lane() == 0) shared.before[cuts] = total;
    }
    sync_block();
    const i32 total = shared.before[cuts];
    QUERN_ROLLED for (i32 unit = block_index(0); unit < total; unit += block_count(0)) {
      i32 low = 0, high = cuts;  // before[low] <= unit < before[high]
      QUERN_ROLLED while (high - low > 1) {
        const i32 middle = (low + high) >> 1;
        if (shared.before[middle] <= unit) {
          low = middle;
        } else {
          high = middle;
        }
      }
      join_unit(p, shared.cuts[low], unit - shared.before[low], shared);
    }
  }
}
