// Gated results of 8 bits with scales: the 128 columns of a scale are more than a narrow tile has. So a block takes the
// tiles that they lie in one behind the other, and its threads hold the results of all until they have the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/epilogue.cuh"

namespace q {

// Iterates over the tiles of one block of threads: all of a run, then those of every block_count-th one. Runs of the
// same columns are numbered one after the other, so that blocks that run at the same time find the same b in L2. The
// last run of a row may have tiles beyond the columns.
class TileRuns {
 public:
  static constexpr i32 kTiles = div_up(128, kOutTileN);

  QUERN_DEVICE explicit TileRuns(const GemmParams& p)
      : p_(p), across_(div_up(kGate ? p.n / 2 : p.n, 128)), run_(block_index(0)) {}
  QUERN_DEVICE bool next(Work& work) {
    if (run_ >= p_.groups * p_.tiles_m * across_) return false;
    work = Work{};
    work.rows = p_.m;
    work.end_k_block = static_cast<i32>((static_cast<u32>(p_.k) + (kBlockK - 1)) / kBlockK);
    work.tile = run_;
    i32 column = run_;
    if (p_.tiles_m > 1 || p_.groups > 1) {
      stay_in_branch();
      column = run_ / p_.tiles_m;
      work.row = (run_ - column * p_.tiles_m) * kTileM;
      work.group = column / across_;
      column -= work.group * across_;
    }
    work.column = column * 128 + place_ * kOutTileN;
    if (++place_ == kTiles) place_ = 0, run_ += block_count(0);
    return true;
  }
  // Whether it is the last of its run.
  QUERN_DEVICE static bool ends(const Work& work) { return work.column % 128 + kOutTileN >= 128; }

 private:
  const GemmParams& p_;
  i32 across_, run_, place_ = 0;
};

// What a thread holds of a run: of one row eight columns of each tile. Neighbouring threads have the row's others.
// A template, so that only a kernel whose results have a type with scales compiles it.
template <class Result>
struct HeldRun {
  static constexpr i32 kGroups = kOutTileN / kEight;
  Eight tiles[TileRuns::kTiles];  // the newest last

  // Eight results of row `line` and column `column` of a tile, the row `source` of a; `sums` and `others` are scaled
  // already. All lanes of a warp must call it; `there` is false in a lane without results.
  QUERN_DEVICE void take(const GemmParams& p, const Work& work, bool there, i32 line, i32 column, const Eight& sums,
                         const Eight& others) {
    const Place at{work.group, work.first_row + work.row + line, work.column + column, kGate ? p.n / 2 : p.n};
    QUERN_UNROLL for (i32 i = 0; i + 1 < TileRuns::kTiles; ++i) tiles[i] = tiles[i + 1];
    tiles[TileRuns::kTiles - 1] = there && at.column < at.columns ? apply_formula(p, at, sums, others) : Eight{};
    if (TileRuns::ends(work)) store(p, at, there);
  }

 private:
  // `last` is where the newest go.
  QUERN_DEVICE void store(const GemmParams& p, const Place& last, bool there) const {
    const auto place_of = [&](i32 i) {
      Place at = last;
      at.column -= (TileRuns::kTiles - 1 - i) * kOutTileN;
      return at;
    };
    f32 largest = 0.0f;
    QUERN_UNROLL for (i32 i = 0; i < TileRuns::kTiles; ++i) {
      const Place at = place_of(i);
      largest = larger_of(largest, at, there && at.column < at.columns, tiles[i]);
    }
    const f32 scale = scale_for<Result>(lanes_reduce<kGroups>(largest, Larger()), p.power_of_two != 0);
    if (!there) return;
    const Place first = place_of(0);
    if (first.column % 128 == 0 && first.column < first.columns) store_scale(p, first, scale);
    // Divisions would be a third of the kernel's code, which comes late where each multiprocessor runs it once; what
    // they would get right, a quotient's last bit, is nothing beside what a code rounds off.
    const f32 inverse = rcp_approx(scale);
    QUERN_UNROLL for (i32 i = 0; i < TileRuns::kTiles; ++i) {
      const Place at = place_of(i);
      if (at.column >= at.columns) continue;
      Eight codes = tiles[i];
      QUERN_UNROLL for (f32& x : codes.x) x *= inverse;
      Result* const to = static_cast<Result*>(p.out) + at.group * p.out_group + at.row * p.out_row + at.column;
      write_eight(to, codes, p.out_vectors != 0, at);
    }
  }
};

}  // namespace q
