// Which variant a product of so many rows takes, and how its blocks of threads are arranged: every choice that is
// possible is enumerated, and the one that costs the least is taken (cost.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sources/gemm/plan/shape.h"
#include "sources/gemm/plan/splits.h"
#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {

struct Sizes {
  std::int64_t rows;  // of a group; an expected number where only the device knows it
  std::int64_t groups;
};
Sizes sizes_of(const Problem& problem);
std::int64_t columns_of(const Problem& problem);
int all_sms(const Problem& problem);
std::optional<Tiling> tiling_of(const Problem& problem, Variant variant);
// The tiling of a variant that this kind of product may take; none where another variant that can do it is always as
// fast. What a model's kernels are listed by, too.
std::optional<Tiling> offered(const Shape& kind, Variant variant, const jit::TargetInfo& target);
std::int64_t tiles_of(const Problem& problem, const Tiling& tiling, const Sizes& sizes);
// Of small_m: tiles, or where results have scales runs of tiles that one block takes (TileRuns).
std::int64_t runs_of(const Problem& problem, const Tiling& tiling, const Sizes& sizes);
// Whether tensor maps can describe the operands: not where a stride of 0 lets one line stand for many.
bool takes_tensor_maps(const Problem& problem);
// Whether two blocks of threads may share copies of b by cluster multicast, which the kernel
// (sources/gemm/kernels/sm90/persistent.cuh) does for small tiles only, since these are bound by reading b.
bool may_pair(const Problem& problem, Variant variant);
// The tiles of a variant, and the device, as split_into() takes them.
Tiles tiles_to_split(const Problem& problem, const Tiling& tiling, const Sizes& sizes);
Machine machine_of(const Problem& problem, const Tiling& tiling);
// Blocks in a cluster, at most: of so many threads, or of a tiling that divides k.
int most_blocks(const Problem& problem, int threads);
int most_blocks(const Problem& problem, const Tiling& tiling);

// How many blocks divide a tile of sliced_k on `sms` multiprocessors: more than one where tiles are few.
int parts_of_sliced(const Tiling& tiling, std::int64_t tiles, std::int64_t k_blocks, int sms);

struct Choice {
  Variant variant = Variant::tiny;
  // Split-K of swap_ab and split_k: blocks that divide a tile's k blocks. tma_mma: kLastWave, or 1 for whole tiles.
  int parts = 1;
  int peers = 1;  // cluster multicast: blocks that share copies of a (swap_ab, fitted) or of b (persistent)
  int tiles = 0;  // fitted: tiles that divide the rows, which makes the number of rows of each
  int twins = 1;  // fitted: blocks that share copies of b
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Choice::parts where the tiles of an incomplete last wave are divided by stream-K.
inline constexpr int kLastWave = 2;

// Numbers of rows that are treated alike: up to 16 and up to 32, above that as many groups of 8 rows, from 256 rows on
// of 16, from 512 on of 32, from 2048 on of 64, from 8192 on of 1024, and all beyond 131072. Returns the largest of
// them. The heights of tiles are multiples of 8.
constexpr std::int64_t row_class(std::int64_t rows) {
  constexpr std::int64_t kMost = 131072;
  if (rows <= 16) return 16;
  if (rows > kMost) return kMost;
  const std::int64_t step = rows <= 32     ? 32
                            : rows <= 256  ? 8
                            : rows <= 512  ? 16
                            : rows <= 2048 ? 32
                            : rows <= 8192 ? 64
                                           : 1024;
  return (rows + step - 1) / step * step;
}

// The tiling of a choice for so many rows: those of the variant's, or of fewer rows.
Tiling fitted_to(Tiling tiling, const Choice& choice, std::int64_t rows);
// The clusters that a choice of fitted has tiles for; those of a cluster lie in one group.
std::int64_t clusters_of(const Problem& problem, const Tiling& tiling, const Choice& choice, const Sizes& sizes);

// The choice of least cost.
Choice by_model(const Problem& problem, const Sizes& sizes);
// The choice that was measured to be the fastest (sources/gemm/plan/tunings.h), or else the one of least cost.
Choice choose(const Runtime& runtime, const Problem& problem, const Sizes& sizes);

// The cheapest choice of this variant; none where the product cannot take it.
std::optional<Choice> choice_as(const Problem& problem, const Sizes& sizes, Variant variant);

// Every variant that a product with no more rows and groups than this one may take.
std::vector<Variant> reachable(const Runtime& runtime, const Problem& problem);
// The same of calls that nothing was measured for.
std::vector<Variant> reachable_by_model(const Problem& problem);

// Every choice for a dense product of so many rows that may be the fastest: what tuning measures.
std::vector<Choice> candidates(const Problem& problem, const Sizes& sizes);

// The bytes of workspace that a variant needs at most, whatever the choice.
std::uint64_t workspace_bytes(const Problem& problem, Variant variant);
// The kernel of a variant, made ready as far as the call's flags and the context allow. Throws Error.
const jit::Kernel* kernel_of(const Runtime& runtime, const Problem& problem, Variant variant);
// launch_product() with a choice made by the caller, one of candidates().
void launch_as(const Runtime& runtime, Problem& problem, const Choice& choice, void* workspace,
               std::uint64_t workspace_size);

}  // namespace quern::ops::gemm
