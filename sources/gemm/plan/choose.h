// Which variant a product of so many rows takes, and how its blocks of threads stand together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sources/gemm/plan/shape.h"
#include "sources/gemm/plan/split.h"
#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {

struct Sizes {
  std::int64_t rows;  // of a group; where only the device knows, what may be expected
  std::int64_t groups;
};
Sizes sizes_of(const Problem& problem);
std::int64_t columns_of(const Problem& problem);
int all_sms(const Problem& problem);
std::optional<Tiling> tiling_of(const Problem& problem, Variant variant);
std::int64_t tiles_of(const Problem& problem, const Tiling& tiling, const Sizes& sizes);
// Whether tensor maps can describe the operands: not where one line stands for many.
bool takes_tensor_maps(const Problem& problem);
// Whether two blocks of threads may share the columns of b, as the kernel is made for
// (sources/gemm/kernels/sm90/persistent.cuh): where tiles are small, so that reading them sets the pace.
bool may_pair(const Problem& problem, Variant variant);
// Of a variant for few rows, its work and the device as split() sees them.
FewRows few_rows(const Problem& problem, const Tiling& tiling, const Sizes& sizes);
Machine machine_of(const Problem& problem, const Tiling& tiling);

// Of sliced_k on so many multiprocessors: blocks that share a tile, where tiles are few.
int parts_of_sliced(const Tiling& tiling, std::int64_t tiles, std::int64_t steps, int sms);

struct Choice {
  Variant variant = Variant::tiny;
  // Of few rows on Hopper: blocks that share a tile; 0: as the model splits it. Of mapped_*: kLastWave, or tiles whole.
  int parts = 1;
  int peers = 1;  // of few rows: blocks with tiles side by side; of warpgroups: blocks that share columns of b
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Tiles that are too few for a last wave are shared by the steps of k.
inline constexpr int kLastWave = 2;

// What the model of waves and bytes takes.
Choice by_model(const Problem& problem, const Sizes& sizes);
// What has been measured to be the fastest (sources/gemm/plan/tunings.h), else the model's, its split of few rows left
// open.
Choice choose(const Runtime& runtime, const Problem& problem, const Sizes& sizes);

// Every variant that a product with no more rows and groups may take.
std::vector<Variant> reachable(const Runtime& runtime, const Problem& problem);

// Everything that a dense product of so many rows can take and that may be the fastest.
std::vector<Choice> candidates(const Problem& problem, const Sizes& sizes);

// What a variant needs at most, whatever the choice.
std::uint64_t workspace_bytes(const Problem& problem, Variant variant);
// The kernel, made ready as the call's flags and the context allow. Throws Error.
const jit::Kernel* kernel_of(const Runtime& runtime, const Problem& problem, Variant variant);
// launch_product in a way that somebody else has chosen, one of the candidates.
void launch_as(const Runtime& runtime, Problem& problem, const Choice& choice, void* workspace,
               std::uint64_t workspace_size);

}  // namespace quern::ops::gemm
