// Which variant a product takes: what tuning has measured, or else a model of waves and bytes.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/choose.h"

#include <algorithm>

#include "sources/gemm/plan/maps.h"
#include "sources/gemm/plan/small_m.h"
#include "sources/gemm/plan/split_k.h"
#include "sources/gemm/plan/tunings.h"

namespace quern::ops::gemm {
namespace {

// The most rows of the portable variants `tiny` and `small`.
constexpr std::int64_t kMostTiny = 16, kMostSmall = 64;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Blocks in a cluster, at most: 8 on a GPU; the emulation on the host takes 64 warps.
int most_blocks(const Problem& problem, const Tiling& t) {
  constexpr int kMost = 8, kEmulatedThreads = 64 * 32;
  const bool emulated = problem.call.device->limits.target.family() == jit::Family::host;
  return std::min(t.most_parts, emulated ? std::min(kMost, kEmulatedThreads / t.threads) : kMost);
}

// Whether there are tiles enough for one multiprocessor in `share`. Counts all multiprocessors, never max_sms: the set
// of kernels must not depend on max_sms.
bool fills(const Problem& problem, Variant variant, const Sizes& sizes, int share) {
  const std::optional<Tiling> t = tiling_of(problem, variant);
  return t && tiles_of(problem, *t, sizes) * share >= all_sms(problem);
}

bool invariant(const Problem& problem) { return (problem.flags & QUERN_CALL_BATCH_INVARIANT) != 0; }

// With block scales and a gate a tile of `columns` columns of out must have one scale of b in each half.
bool scales_fit(const Problem& problem, int columns) {
  return problem.shape.scales != Scales::blocks || !problem.shape.gate || problem.params.n / 2 % columns == 0;
}

// Whether a kernel can do the product at all: one rule for the model, for what prepare readies and for tuning.
bool is_legal(const Problem& problem, Variant variant) {
  const std::optional<Tiling> t = tiling_of(problem, variant);
  if (!t) return false;
  const jit::TargetInfo& target = problem.call.device->limits;
  switch (facts_of(variant).family) {
    case Family::portable:
      // Batch-invariant sums must not depend on the number of blocks that divide a tile's k.
      return variant != Variant::sliced_k || !invariant(problem);
    case Family::tma_mma:
      return target.tensor_maps && !target.warpgroups && takes_tensor_maps(problem);
    case Family::persistent:
    case Family::swap_ab:
    case Family::small_m:
    case Family::split_k:
      break;
  }
  // TMA copies whole boxes: no rows by index. With block scales the columns of a tile must share one scale of b.
  if (problem.params.indices != nullptr || !takes_tensor_maps(problem)) return false;
  if (!scales_fit(problem, t->out_tile_n(problem.shape.gate))) return false;
  // The overlapped epilogue needs a k block to overlap with. Whether this call's out can have a tensor map is not asked
  // here: what is measured and kept must not depend on it.
  return variant != Variant::overlapped_128x256 || (problem.params.k > 0 && columns_of(problem) % 8 == 0);
}

// Whether the Hopper kernels can do the product: the smallest persistent tile stands for all of them.
bool may_take_persistent(const Problem& problem) { return is_legal(problem, Variant::persistent_128x128); }

// Only products with a tile for every multiprocessor take these variants.
bool may_take_tma_mma(const Problem& problem, Variant variant, const Sizes& sizes) {
  return is_legal(problem, variant) && fills(problem, variant, sizes, 1);
}
// Microseconds of all tiles, with an incomplete last wave divided by stream-K (`share`) or not, as measured on an H200.
// Multiprocessors that wait for others leave them their power, so stream-K saves less than the time of waiting, and it
// costs writing and reading partial sums.
double time_of_tma_mma(const Problem& problem, Variant variant, const Sizes& sizes, bool share) {
  constexpr double kResults = 4.0, kSaved = 0.75;  // microseconds of a tile's results; part of the time of waiting
  const bool high = variant == Variant::tma_mma_256x192;
  const double of_k_block = high ? 1.53 : 1.15, sums = high ? 50.0 : 15.0;
  const Tiling t = *tiling_of(problem, variant);
  const double products = static_cast<double>(div_up(problem.params.k, t.block_k)) * of_k_block;
  const std::int64_t tiles = tiles_of(problem, t, sizes), blocks = all_sms(problem), rest = tiles % blocks;
  const double whole = static_cast<double>(div_up(tiles, blocks)) * (products + kResults);
  if (!share || rest == 0) return whole;
  return whole - kSaved * products * static_cast<double>(blocks - rest) / static_cast<double>(blocks) + sums;
}
std::optional<Choice> tma_mma_by_model(const Problem& problem, const Sizes& sizes) {
  std::optional<Choice> best;
  double least = 0.0;
  for (const Variant variant : kTmaMma) {
    if (!may_take_tma_mma(problem, variant, sizes)) continue;
    for (const int parts : {1, kLastWave}) {
      const double time = time_of_tma_mma(problem, variant, sizes, parts == kLastWave);
      if (!best || time < least) best = Choice{variant, parts, 1}, least = time;
    }
  }
  return best;
}

// The swap_ab variants are for few rows, or for as many as leave the other Hopper kernels idle.
bool may_take_swap_ab(const Problem& problem, bool warpgroups) {
  return warpgroups && is_legal(problem, Variant::swap_ab_128);
}
constexpr std::int64_t kMostSwapAb = 128;

SmallMTiles small_m_tiles(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  const FewRows tiles = few_rows(problem, t, sizes);
  const auto rows = static_cast<int>(std::min<std::int64_t>(sizes.rows, t.tile_m));
  return {tiles.row_tiles, tiles.column_tiles, tiles.k_blocks, rows, t.tile_n, t.stages_of_a};
}

// Split-K needs all clusters on the device at once, so a call that may not use every multiprocessor does not take it;
// nor does a batch, which has tiles enough.
bool may_split_k(const Problem& problem, const Sizes& sizes) {
  return problem.call.sms >= all_sms(problem) && sizes.groups == 1;
}

struct Timed {
  Choice choice;
  double microseconds;

  void improve(const Choice& other, double time) {
    if (time < microseconds) choice = other, microseconds = time;
  }
};

// Improves on `best` by the small_m variants and, if `split_k`, by the split_k variants.
void improve_by_small_m(Timed& best, const Problem& problem, const Sizes& sizes, bool split_k) {
  for (const Variant variant : kSmallM) {
    if (!is_legal(problem, variant)) continue;
    best.improve({variant, 1, 1},
                 time_of(small_m_tiles(problem, *tiling_of(problem, variant), sizes), all_sms(problem)));
  }
  if (!split_k) return;
  for (const Variant variant : kSplitK) {
    if (!is_legal(problem, variant) || (facts_of(variant).rows > 64 && sizes.rows <= 64)) continue;
    const std::optional<Tiling> t = tiling_of(problem, variant);
    const Machine machine{all_sms(problem), all_sms(problem), most_blocks(problem, *t)};
    for (const SplitKTiles& tiles : split_k_tiles(small_m_tiles(problem, *t, sizes), machine)) {
      best.improve({variant, tiles.parts, 1}, tiles.microseconds);
    }
  }
}

// The cost of a product in columns: a wave of tiles costs as much as its tiles are wide, and a little more.
std::int64_t cost_of(const Problem& problem, Variant variant, const Sizes& sizes) {
  constexpr int kOfAnyTile = 32;  // columns
  if (!is_legal(problem, variant)) return INT64_MAX;
  const std::optional<Tiling> t = tiling_of(problem, variant);
  return div_up(tiles_of(problem, *t, sizes), all_sms(problem)) * (t->tile_n + kOfAnyTile);
}

// The variant with the overlapped epilogue takes the place of the one with as many columns.
bool may_overlap(const Problem& problem) { return is_legal(problem, Variant::overlapped_128x256); }
// The overlapped epilogue leaves room for one stage fewer, which costs a percent of each k block, and saves as much
// time as two k blocks take, or one where scales do not change with k. Up to these numbers of k blocks it is faster, as
// measured on an H200. Where scales do not change with k a block must also have a further tile.
bool overlapped_is_faster(const Problem& problem, const Sizes& sizes) {
  const bool vectors = problem.shape.scales == Scales::vectors;
  const std::int64_t most_k_blocks = vectors ? 32 : 40;
  const std::optional<Tiling> t = tiling_of(problem, Variant::overlapped_128x256);
  return t && div_up(problem.params.k, t->block_k) <= most_k_blocks &&
         (!vectors || tiles_of(problem, *t, sizes) > all_sms(problem));
}
// The variant for an out that has a tensor map.
Variant overlapped_if_mapped(const Problem& problem, Variant variant, const Sizes& sizes) {
  return variant == Variant::persistent_128x256 && may_overlap(problem) && overlapped_is_faster(problem, sizes)
             ? Variant::overlapped_128x256
             : variant;
}
Variant overlapped_or_not(const Problem& problem, Variant variant, const Sizes& sizes) {
  return takes_map_of_out(problem) ? overlapped_if_mapped(problem, variant, sizes) : variant;
}

// The persistent variant with the least cost.
Variant least_cost(const Problem& problem, const Sizes& sizes) {
  return *std::min_element(std::begin(kPersistent), std::end(kPersistent), [&](Variant a, Variant b) {
    return cost_of(problem, a, sizes) < cost_of(problem, b, sizes);
  });
}
Variant persistent_by_model(const Problem& problem, const Sizes& sizes) {
  return overlapped_or_not(problem, least_cost(problem, sizes), sizes);
}

// Improves on `best` by a persistent variant, if the time of memory or of products, whichever is model_error, and of
// the rest of a launch is less, as measured on an H200. As for all products of few rows the choice is kept for all
// calls, whatever their out; for_this_out() corrects it.
void improve_by_persistent(Timed& best, const Problem& problem, const Sizes& sizes) {
  constexpr double kOfLaunch = 5.9,
                   kOfColumn = 4.0 / 1755;  // microseconds of a launch; of a k block, for each column of the tile
  const Variant variant = overlapped_if_mapped(problem, least_cost(problem, sizes), sizes);
  const std::optional<Tiling> t = tiling_of(problem, variant);
  const double waves = static_cast<double>(div_up(tiles_of(problem, *t, sizes), all_sms(problem)));
  const double products = waves * static_cast<double>(div_up(problem.params.k, t->block_k)) * t->tile_n * kOfColumn;
  best.improve({variant, 1, 1},
               kOfLaunch + std::max(time_of_memory(small_m_tiles(problem, *t, sizes), all_sms(problem)), products));
}

// The portable variant for few rows. Where tiles, or parts of them, keep multiprocessors about as busy as an even
// division would, sliced_k divides a tile's k blocks among the warps of a block, so that few blocks, or none, wait for
// others' sums. Counts all multiprocessors, never max_sms: the set of kernels must not depend on max_sms. Nor may the
// order of sums depend on the number of rows.
Variant variant_of_tiny(const Problem& problem, std::int64_t groups) {
  // A block may read so many bytes of b more than with an even division: this takes as long as exchanging sums, as
  // measured on an H200.
  constexpr double kMostMore = 240e3;
  if (!is_legal(problem, Variant::sliced_k)) return Variant::tiny;
  const std::optional<Tiling> t = tiling_of(problem, Variant::sliced_k);
  // Every number of rows, 0 too, counts as one row of tiles.
  const std::int64_t tiles = tiles_of(problem, *t, {kMostTiny, std::max<std::int64_t>(groups, 1)}),
                     k_blocks = div_up(problem.params.k, t->block_k);
  if (tiles == 0 || tiles > all_sms(problem)) return Variant::tiny;
  const double k_block_bytes =
      static_cast<double>(t->tile_n) * t->block_k * static_cast<double>(bytes_of(problem.shape.a));
  const double even = static_cast<double>(tiles * k_blocks) / all_sms(problem);
  const double longest = static_cast<double>(div_up(k_blocks, parts_of_sliced(*t, tiles, k_blocks, all_sms(problem))));
  return (longest - even) * k_block_bytes < kMostMore ? Variant::sliced_k : Variant::tiny;
}

// The choice for few rows: the given swap_ab variant, whose rows stand for all numbers of rows that are treated alike,
// or a small_m, split_k or persistent variant.
Choice few_rows_by_model(const Problem& problem, Variant variant, const Sizes& sizes, bool split_k) {
  const Choice swap_ab{variant, 1, 1};
  if (problem.shape.grouping != Grouping::dense) return swap_ab;
  const Sizes alike{facts_of(variant).rows, sizes.groups};
  // Counts all multiprocessors, never max_sms: the set of kernels must not depend on max_sms.
  const std::optional<Tiling> t = tiling_of(problem, variant);
  const Split best =
      split(few_rows(problem, *t, alike), {all_sms(problem), all_sms(problem), most_blocks(problem, *t)});
  // The model of split-K compares splits with each other. Its times are too short by so much, as measured on an H200.
  const double model_error = problem.shape.scales == Scales::none ? 1.2 : 1.3;
  Timed all{swap_ab, model_error * best.microseconds};
  if (sizes.groups != 1) return all.choice;
  improve_by_small_m(all, problem, alike, split_k);
  // Only products of the kind that was measured: both operands k-major, without a gate or scales of results.
  const Shape& shape = problem.shape;
  const bool measured = !shape.transposed_a && !shape.transposed_b && !shape.gate && !shape.out_scale;
  if (measured && alike.rows > 64) improve_by_persistent(all, problem, alike);
  return all.choice;
}

// The model's variant. choose_without_split() adds the clusters of the persistent kernel, by_model() the split of
// swap_ab.
Choice variant_by_model(const Problem& problem, const Sizes& sizes) {
  if (problem.precise) return {Variant::plain};
  const bool warpgroups = may_take_persistent(problem);
  // Each kernel has its own order of sums, so rows that must not depend on their number take one kernel.
  if (warpgroups && invariant(problem)) return {Variant::persistent_128x128};
  const bool swap_ab = may_take_swap_ab(problem, warpgroups);
  if (swap_ab) {
    for (const Variant variant : kSwapAb) {
      if (sizes.rows <= facts_of(variant).rows)
        return few_rows_by_model(problem, variant, sizes, may_split_k(problem, sizes));
    }
  } else {
    if (sizes.rows <= kMostTiny) return {variant_of_tiny(problem, sizes.groups)};
    if (sizes.rows <= kMostSmall) return {Variant::small};
  }
  if (warpgroups && fills(problem, Variant::persistent_128x128, sizes, 2)) return {persistent_by_model(problem, sizes)};
  if (swap_ab) return {Variant::swap_ab_128};
  if (const std::optional<Choice> choice = tma_mma_by_model(problem, sizes)) return *choice;
  return {!warpgroups && fills(problem, Variant::large, sizes, 1) ? Variant::large : Variant::medium};
}

// Calls visit(variant) for every variant that the model takes for a product with no more rows and groups.
template <class Visit>
void for_each_by_model(const Problem& problem, Visit visit) {
  if (problem.precise) return visit(Variant::plain);
  const Sizes sizes = sizes_of(problem);
  const bool warpgroups = may_take_persistent(problem);
  if (warpgroups && invariant(problem)) return visit(Variant::persistent_128x128);
  const bool swap_ab = may_take_swap_ab(problem, warpgroups);
  if (swap_ab) {
    for (const Variant variant : kSwapAb) {
      // A single matrix of a batch may take another variant than the whole batch.
      for (const bool split_k : {false, true})
        visit(few_rows_by_model(problem, variant, {facts_of(variant).rows, 1}, split_k).variant);
      if (sizes.groups != 1) visit(variant);
      if (sizes.rows <= facts_of(variant).rows) return;
    }
  } else {
    visit(variant_of_tiny(problem, 1));
    if (sizes.groups != 1) {
      // A part of a batch may take another variant than a single matrix or the whole batch.
      visit(Variant::tiny);
      if (is_legal(problem, Variant::sliced_k)) visit(Variant::sliced_k);
    }
    if (sizes.rows > kMostTiny) visit(Variant::small);
    if (sizes.rows <= kMostSmall) return;
  }
  const Sizes least{(swap_ab ? kMostSwapAb : kMostSmall) + 1,
                    problem.shape.grouping == Grouping::dense ? 1 : sizes.groups};
  if (warpgroups) {
    if (!fills(problem, Variant::persistent_128x128, least, 2)) visit(swap_ab ? Variant::swap_ab_128 : Variant::medium);
    if (!fills(problem, Variant::persistent_128x128, sizes, 2)) return;
    // All persistent tiles have 128 rows, so each number of tiles of rows is tried where there are not too many.
    constexpr std::int64_t kTileRows = 128, kMostLookedAt = 1024 * kTileRows;
    if (problem.params.groups == 1 && sizes.rows <= kMostLookedAt) {
      for (std::int64_t rows = swap_ab ? 2 * kTileRows : kTileRows; rows < sizes.rows + kTileRows; rows += kTileRows)
        visit(variant_by_model(problem, {std::min(rows, sizes.rows), sizes.groups}).variant);
      return;
    }
    for (const Variant variant : kPersistent) {
      if (cost_of(problem, variant, sizes) != INT64_MAX) visit(overlapped_or_not(problem, variant, sizes));
    }
    return;
  }
  if (!fills(problem, Variant::large, least, 1)) visit(Variant::medium);
  if (fills(problem, Variant::large, sizes, 1)) visit(Variant::large);
  for (const Variant variant : kTmaMma) {
    if (may_take_tma_mma(problem, variant, sizes)) visit(variant);
  }
}

int warpgroup_peers(const Problem& problem, Variant variant, const Sizes& sizes) {
  if (!may_pair(problem, variant)) return 1;
  // Clusters of two need pairs of rows of tiles.
  const std::int64_t tiles_m = div_up(sizes.rows, tiling_of(problem, variant)->tile_m);
  return tiles_m % 2 == 0 || tiles_m >= 16 ? 2 : 1;
}

// Corrects a choice that was measured with an out that has a tensor map for an out that has none.
Choice for_this_out(const Problem& problem, Choice choice) {
  if (choice.variant == Variant::overlapped_128x256 && !takes_map_of_out(problem))
    choice.variant = Variant::persistent_128x256;
  return choice;
}

// The model's choice, with the split of swap_ab left open (parts 0).
Choice choose_without_split(const Problem& problem, const Sizes& sizes) {
  Choice choice = variant_by_model(problem, sizes);
  if (is_a(Family::swap_ab, choice.variant)) {
    choice.parts = problem.shape.grouping == Grouping::dense ? 0 : 1;
  } else {
    choice.peers = warpgroup_peers(problem, choice.variant, sizes);
  }
  return choice;
}

}  // namespace

bool may_pair(const Problem& problem, Variant variant) {
  return variant == Variant::persistent_128x128 && problem.shape.scales != Scales::blocks && problem.call.sms >= 2;
}

bool takes_tensor_maps(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  // Tensor maps take no stride of 0, except that a matrix that all groups share is the only one in its map.
  const bool a_leads = problem.shape.grouping != Grouping::contiguous;
  if ((p.a_row == 0 && (a_leads ? p.m : p.a_rows) > 1) || (p.b_row == 0 && p.n > 1)) return false;
  if ((problem.shape.transposed_a && p.a_k == 0) || (problem.shape.transposed_b && p.b_k == 0)) return false;
  return p.groups <= 1 || (p.b_group >= 0 && (!a_leads || p.a_group >= 0));
}

Sizes sizes_of(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  if (problem.shape.grouping == Grouping::contiguous) return {div_up(p.out_rows, std::max(p.groups, 1)), p.groups};
  return {p.m, p.groups};
}

std::int64_t columns_of(const Problem& problem) { return problem.shape.gate ? problem.params.n / 2 : problem.params.n; }

int all_sms(const Problem& problem) { return std::max(static_cast<int>(problem.call.device->sm_count), 1); }

std::optional<Tiling> tiling_of(const Problem& problem, Variant variant) {
  Shape shape = problem.shape;
  shape.variant = variant;
  return tile(shape, problem.call.device->limits);
}

std::int64_t tiles_of(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  return sizes.groups * div_up(sizes.rows, t.tile_m) * div_up(columns_of(problem), t.out_tile_n(problem.shape.gate));
}

int parts_of_sliced(const Tiling& t, std::int64_t tiles, std::int64_t k_blocks, int sms) {
  constexpr int kFewestKBlocks = 2;  // of each team
  const std::int64_t room = sms / std::max<std::int64_t>(tiles, 1), most = k_blocks / (kFewestKBlocks * t.teams);
  return static_cast<int>(std::max<std::int64_t>(std::min(room, most), 1));
}

FewRows few_rows(const Problem& problem, const Tiling& t, const Sizes& sizes) {
  return {sizes.groups * div_up(sizes.rows, t.tile_m), div_up(columns_of(problem), t.out_tile_n(problem.shape.gate)),
          div_up(problem.params.k, t.block_k), static_cast<double>(t.tile_m) / t.tile_n};
}

Machine machine_of(const Problem& problem, const Tiling& t) {
  return {all_sms(problem), problem.call.sms, most_blocks(problem, t)};
}

Choice by_model(const Problem& problem, const Sizes& sizes) {
  Choice choice = choose_without_split(problem, sizes);
  if (choice.parts == 0) {
    const std::optional<Tiling> t = tiling_of(problem, choice.variant);
    const Split best = split(few_rows(problem, *t, sizes), machine_of(problem, *t));
    choice.parts = best.parts, choice.peers = best.peers;
  }
  return choice;
}

Choice choose(const Runtime& runtime, const Problem& problem, const Sizes& sizes) {
  const Choice choice =
      runtime.tunings->choice_or(problem, sizes.rows, [&] { return choose_without_split(problem, sizes); });
  return for_this_out(problem, choice);
}

std::vector<Variant> reachable(const Runtime& runtime, const Problem& problem) {
  std::vector<Variant> variants;
  const auto add = [&](Variant variant) {
    if (std::find(variants.begin(), variants.end(), variant) == variants.end()) variants.push_back(variant);
  };
  for_each_by_model(problem, add);
  for (const TunedRows& tuned : runtime.tunings->all(problem)) {
    if (tuned.batch <= sizes_of(problem).groups && tuned.rows <= row_class(sizes_of(problem).rows))
      add(tuned.choice.variant);
  }
  // Another call's out may have a tensor map where this one has none, or the reverse.
  const auto there = [&](Variant variant) {
    return std::find(variants.begin(), variants.end(), variant) != variants.end();
  };
  if (there(Variant::overlapped_128x256)) {
    add(Variant::persistent_128x256);
  } else if (there(Variant::persistent_128x256) && may_overlap(problem) &&
             overlapped_is_faster(problem, sizes_of(problem))) {
    add(Variant::overlapped_128x256);
  }
  return variants;
}

// Tuning measures those numbers of split-K parts which by the model take at most this many times as long as the best
// one.
static constexpr double kWorthTrying = 1.2;

std::vector<Choice> candidates(const Problem& problem, const Sizes& sizes) {
  std::vector<Choice> all;
  const bool warpgroups = may_take_persistent(problem);
  if (warpgroups) {
    for (const Variant variant : kPersistent) {
      if (cost_of(problem, variant, sizes) == INT64_MAX) continue;
      all.push_back({variant, 1, 1});
      if (may_pair(problem, variant)) all.push_back({variant, 1, 2});
    }
    if (may_overlap(problem)) all.push_back({Variant::overlapped_128x256, 1, 1});
  } else {
    for (const Variant variant : {Variant::tiny, Variant::sliced_k, Variant::small, Variant::medium, Variant::large}) {
      // Tiles a quarter as high as the rows would read b several times; much higher ones compute rows that do not
      // exist.
      const std::int64_t high = facts_of(variant).rows;
      if (is_legal(problem, variant) && sizes.rows <= 8 * high && (high <= 64 || 8 * sizes.rows > high))
        all.push_back({variant, 1, 1});
    }
    for (const Variant variant : kTmaMma) {
      if (!may_take_tma_mma(problem, variant, sizes)) continue;
      for (const int parts : {1, kLastWave}) all.push_back({variant, parts, 1});
    }
  }
  // Tiles with fewer rows than the product has read b once for each row of tiles, those with more compute rows that
  // do not exist.
  constexpr std::int64_t kMostOfFewRows = 1024, kMostRowTiles = 8;
  const auto suits = [&](Variant variant, std::int64_t most_row_tiles) {
    const std::int64_t rows = facts_of(variant).rows, least = rows > 64 ? rows / 2 : rows / 4;
    return sizes.rows <= most_row_tiles * rows && (rows <= 16 || sizes.rows > least || rows == 64);
  };
  if (may_take_swap_ab(problem, warpgroups) && sizes.rows <= kMostOfFewRows) {
    for (const Variant variant : kSwapAb) {
      if (!suits(variant, facts_of(variant).rows == 128 ? kMostRowTiles : 2)) continue;
      const std::optional<Tiling> t = tiling_of(problem, variant);
      const FewRows product = few_rows(problem, *t, sizes);
      const Machine machine = machine_of(problem, *t);
      for (int peers = 1; peers <= kMostColumnPeers; ++peers) {
        for (int parts = 1; parts * peers <= machine.most_blocks; ++parts) {
          if (split_into(parts, peers, product, machine)) all.push_back({variant, parts, peers});
        }
      }
    }
  }
  if (warpgroups && sizes.rows <= kMostOfFewRows) {
    for (const Variant variant : kSmallM) {
      if (suits(variant, 4) && tiling_of(problem, variant)) all.push_back({variant, 1, 1});
    }
    for (const Variant variant : kSplitK) {
      const std::optional<Tiling> t = tiling_of(problem, variant);
      if (!is_legal(problem, variant) || sizes.groups != 1 || !suits(variant, kMostRowTiles)) continue;
      const FewRows product = few_rows(problem, *t, sizes);
      const Machine machine = machine_of(problem, *t);
      for (int parts = 2; parts <= machine.most_blocks; ++parts) {
        const std::optional<Split> way = split_into(parts, 1, product, machine);
        if (way && 2 * way->clusters >= product.row_tiles * product.column_tiles) all.push_back({variant, parts, 1});
      }
    }
  }
  const Choice model = by_model(problem, sizes);
  if (std::find(all.begin(), all.end(), model) == all.end()) all.push_back(model);
  return all;
}

}  // namespace quern::ops::gemm
