// The tiles of a block of threads, one after the other through the pipeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/portable/sliced_k.cuh"

namespace q {

// A sequence of one tile.
struct OneTile {
  Work work;
  bool given = false;
  QUERN_DEVICE bool next(Work& to) {
    if (given) return false;
    to = work;
    return given = true;
  }
};

// Multiplies the tiles of `tiles` one after the other and calls finish(work) with each one's accumulators in `sums`.
template <class Operands, class Tiles, class Finish>
QUERN_DEVICE void multiply(const typename Operands::Params& p, Tiles tiles, u8* shared, Sums& sums,
                           Fragments& fragments, Finish finish) {
  Work work;
  if constexpr (kContinuous) {
    Pipeline<Tiles, Operands> pipeline(p, tiles, shared);
    pipeline.fill();
    QUERN_ROLLED while (tiles.next(work)) {
      product(pipeline, work.end_k_block - work.first_k_block, sums, fragments);
      finish(work);
    }
    copy_async_wait<0>();
  } else {
    QUERN_ROLLED while (tiles.next(work)) {
      Work mine = work;
      if constexpr (kTeams > 1) mine = of_team(work);
      Pipeline<OneTile, Operands> pipeline(p, {mine}, shared + team() * kTeamBytes);
      pipeline.fill();
      if constexpr (kTeams > 1) fetch_scales(p, work);
      product(pipeline, mine.end_k_block - mine.first_k_block, sums, fragments);
      copy_async_wait<0>();
      sync_block();
      finish(work);
    }
  }
}

}  // namespace q
