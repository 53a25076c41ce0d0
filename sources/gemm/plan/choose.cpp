// Which variant a product takes: what tuning has measured, or else the choice of least cost.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/choose.h"

#include <algorithm>
#include <array>

#include "sources/gemm/plan/cost.h"
#include "sources/gemm/plan/maps.h"
#include "sources/gemm/plan/tunings.h"

namespace quern::ops::gemm {
namespace {

// The most rows of the portable variants `tiny` and `small`.
constexpr std::int64_t kMostTiny = 16, kMostSmall = 64;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool invariant(const Problem& problem) { return (problem.flags & QUERN_CALL_BATCH_INVARIANT) != 0; }

// With block scales and a gate a tile of `columns` columns of out must have one scale of b in each half.
bool scales_fit(const Problem& problem, int columns) {
  return problem.shape.scales != Scales::blocks || !problem.shape.gate || problem.params.n / 2 % columns == 0;
}

// Whether a kernel can do the product at all: one rule for the least cost, for what prepare readies and for tuning.
bool is_legal(const Problem& problem, Variant variant, const Tiling& t) {
  const jit::TargetInfo& target = problem.call.device->limits;
  if (problem.precise != (variant == Variant::plain)) return false;
  switch (facts_of(variant).family) {
    case Family::portable:
      // Batch-invariant sums must not depend on the number of blocks that divide a tile's k.
      return variant != Variant::sliced_k || !invariant(problem);
    case Family::tma_mma:
      return target.tensor_maps && !target.warpgroups && takes_tensor_maps(problem);
    case Family::persistent:
    case Family::fitted:
    case Family::swap_ab:
    case Family::small_m:
    case Family::split_k:
      break;
  }
  // TMA copies whole boxes: no rows by index. With block scales the columns of a tile must share one scale of b.
  if (problem.params.indices != nullptr || !takes_tensor_maps(problem)) return false;
  if (!scales_fit(problem, t.out_tile_n(problem.shape.gate))) return false;
  if (facts_of(variant).family == Family::fitted && problem.params.k == 0)
    return false;  // its sums begin with products
  // The overlapped epilogue needs a k block to overlap with. Whether this call's out can have a tensor map is not asked
  // here: what is measured and kept must not depend on it.
  return variant != Variant::overlapped_128x256 || (problem.params.k > 0 && columns_of(problem) % 8 == 0);
}

// What of a call limits its choices. The set of kernels must not depend on max_sms, so variants are chosen for the
// whole device, and only split-K follows the multiprocessors that the call may use.
struct Limits {
  int usable;    // multiprocessors
  bool split_k;  // whether the variants of split_k may be taken
};

// Split-K needs all clusters on the device at once, so a call that may not use every multiprocessor does not take it;
// nor does a batch, which has tiles enough.
Limits limits_of(const Problem& problem, const Sizes& sizes) {
  return {all_sms(problem), problem.call.sms >= all_sms(problem) && sizes.groups == 1};
}

// The variants that can do a product, and every choice that they offer.
class Options {
 public:
  explicit Options(const Problem& problem) : problem_(problem) {
    for (std::size_t i = 0; i < kVariants.size(); ++i) {
      const auto variant = static_cast<Variant>(i);
      const std::optional<Tiling> t = offered(problem.shape, variant, problem.call.device->limits);
      if (!t || !is_legal(problem, variant, *t)) continue;
      legal_[count_++] = {variant, *t};
      hopper_ = hopper_ || variant == Variant::persistent_128x128;
      swap_ab_ = swap_ab_ || variant == Variant::swap_ab_128;
      few_ = few_ || is_a(Family::small_m, variant);
    }
  }

  // Calls visit(choice, tiling) for every choice that is worth a look for so many rows. `tuning` looks further around
  // among the portable variants, which the rows choose otherwise.
  template <class Visit>
  void for_each(const Sizes& sizes, const Limits& limits, bool tuning, Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const auto& [variant, t] = legal_[i];
      if (is_a(Family::portable, variant) || is_a(Family::tma_mma, variant)) {
        // Of few rows small_m is by far the faster, which nobody fitted their costs to.
        if (few_ && facts_of(variant).rows <= kMostSmall && !invariant(problem_)) continue;
        if (hopper_ || !(tuning ? may_tune_portable(variant, t, sizes) : takes_portable(variant, t, sizes))) continue;
        visit(Choice{variant, 1, 1}, t);
        if (is_a(Family::tma_mma, variant)) visit(Choice{variant, kLastWave, 1}, t);
        continue;
      }
      // Each kernel has its own order of sums, so rows that must not depend on their number take one kernel.
      if (invariant(problem_)) {
        if (variant == Variant::persistent_128x128) visit(Choice{variant, 1, 1}, t);
        continue;
      }
      if (problem_.shape.grouping == Grouping::dense) {
        // What small_m cannot do was not measured: there the rows choose, as among experts.
        if (!tuning && swap_ab_ && !takes_groups(variant, sizes)) continue;
        for_each_split(variant, t, sizes, limits, tuning, visit);
      } else if (tuning || takes_groups(variant, sizes)) {
        visit(Choice{variant, 1, 1}, t);
        if (may_pair(problem_, variant)) visit(Choice{variant, 1, 2}, t);
      }
    }
  }

  Choice least(const Sizes& given, const Limits& limits) const {
    const Sizes sizes = alike(given);
    Choice best;
    double least = -1.0;
    const int sms = all_sms(problem_);
    for_each(sizes, limits, false, [&](const Choice& choice, const Tiling& t) {
      const double cost = cost_of(problem_, t, choice, sizes, sms);
      if (least < 0.0 || cost < least) best = choice, least = cost;
    });
    return best;
  }
  // The best split-K of a variant on fewer multiprocessors.
  Choice split_for(const Choice& chosen, const Sizes& given, int usable) const {
    const Sizes sizes = alike(given);
    Choice best{chosen.variant, 1, 1};
    double least = -1.0;
    for_each(sizes, {usable, false}, false, [&](const Choice& choice, const Tiling& t) {
      if (choice.variant != chosen.variant) return;
      const double cost = cost_of(problem_, t, choice, sizes, usable);
      if (least < 0.0 || cost < least) best = choice, least = cost;
    });
    return best;
  }

 private:
  struct Legal {
    Variant variant;
    Tiling tiling;
  };

  // Sizes that are treated alike have the same choice.
  Sizes alike(const Sizes& sizes) const {
    return problem_.shape.grouping == Grouping::dense ? Sizes{row_class(sizes.rows), group_class(sizes.groups)}
                                                      : Sizes{row_class(sizes.rows), sizes.groups};
  }

 public:
  // Numbers of groups that are treated alike: a power of two, or one and a half of it. Returns the largest of them.
  static std::int64_t group_class(std::int64_t groups) {
    std::int64_t power = 1;
    while (2 * power <= groups) power *= 2;
    return groups <= power ? power : 2 * groups <= 3 * power ? 3 * power / 2 : 2 * power;
  }

 private:
  // Whether there are tiles enough for one multiprocessor in `share`.
  bool fills(const Tiling& t, const Sizes& sizes, int share) const {
    return tiles_of(problem_, t, sizes) * share >= all_sms(problem_);
  }
  bool any_fills(const Sizes& sizes, bool (*is_one)(Variant)) const {
    return std::any_of(legal_.begin(), legal_.begin() + static_cast<std::ptrdiff_t>(count_),
                       [&](const Legal& one) { return is_one(one.variant) && fills(one.tiling, sizes, 1); });
  }

  // The rows choose among the variants for every target; those for many rows need a tile for every multiprocessor, and
  // then take the place of the others.
  bool takes_portable(Variant variant, const Tiling& t, const Sizes& sizes) const {
    constexpr auto is_tma_mma = [](Variant v) { return is_a(Family::tma_mma, v); };
    constexpr auto is_large = [](Variant v) { return v == Variant::large; };
    switch (variant) {
      case Variant::plain:
        return true;
      case Variant::tiny:
      case Variant::sliced_k:
        return sizes.rows <= kMostTiny;
      case Variant::small:
        return sizes.rows > kMostTiny && sizes.rows <= kMostSmall;
      default:
        break;
    }
    if (sizes.rows <= kMostSmall) return false;
    if (is_a(Family::tma_mma, variant)) return fills(t, sizes, 1);
    if (any_fills(sizes, is_tma_mma)) return false;
    return (variant == Variant::large) == any_fills(sizes, is_large);
  }
  // Tiles a quarter as high as the rows would read b several times; much higher ones compute rows that do not exist.
  bool may_tune_portable(Variant variant, const Tiling& t, const Sizes& sizes) const {
    if (is_a(Family::tma_mma, variant)) return fills(t, sizes, 1);
    const std::int64_t high = facts_of(variant).rows;
    return variant == Variant::plain || (sizes.rows <= 8 * high && (high <= 64 || 8 * sizes.rows > high));
  }

  // The rows of an expert are known on the device only, so an expected number counts: the lowest tile that has room for
  // it, or the persistent kernel where there are more than a few and that leaves few multiprocessors idle. Experts of
  // 33 to 128 rows fill its tiles where they are padded, as DeepGEMM's layout has them: by swap_ab they had 0.6 to 0.83
  // of its speed on an H200, and have all of it so (tests/bench/results/2026-11-28_log.md).
  bool takes_groups(Variant variant, const Sizes& sizes) const {
    if (is_a(Family::swap_ab, variant)) {
      const std::int64_t rows = facts_of(variant).rows;
      if (sizes.rows > most_swapped() && persistent_fills(sizes)) return false;
      if (sizes.rows <= rows) return rows == 16 || sizes.rows > rows / 2;
      return variant == Variant::swap_ab_128;
    }
    return is_a(Family::persistent, variant) && sizes.rows > most_swapped() && persistent_fills(sizes);
  }
  std::int64_t most_swapped() const { return problem_.shape.grouping == Grouping::dense ? 128 : 32; }
  bool persistent_fills(const Sizes& sizes) const {
    const std::optional<Tiling> t = tiling_of(problem_, Variant::persistent_128x128);
    return t && fills(*t, sizes, 2);
  }

  template <class Visit>
  void for_each_split(Variant variant, const Tiling& t, const Sizes& sizes, const Limits& limits, bool tuning,
                      Visit visit) const {
    const Family family = facts_of(variant).family;
    if (family == Family::persistent) {
      visit(Choice{variant, 1, 1}, t);
      // Pairs were the faster in so few cases that tuning alone looks.
      if (tuning && may_pair(problem_, variant)) visit(Choice{variant, 1, 2}, t);
      return;
    }
    if (family == Family::fitted) return for_each_height(variant, t, sizes, limits, visit);
    const Tiles tiles = tiles_to_split(problem_, t, sizes);
    if (!suits(variant, sizes.rows, tiles)) return;
    if (family == Family::small_m) return visit(Choice{variant, 1, 1}, t);
    const bool one_tile = family == Family::split_k;
    if (one_tile && !limits.split_k) return;
    const Machine machine{all_sms(problem_), limits.usable, most_blocks(problem_, t)};
    const int least_parts = family == Family::split_k ? 2 : 1,
              most_peers = family == Family::split_k ? 1 : kMostColumnPeers;
    for (int peers = 1; peers <= most_peers; ++peers) {
      for (int parts = least_parts; parts * peers <= machine.most_blocks; ++parts) {
        const std::optional<Split> split = split_into(parts, peers, tiles, machine);
        if (!split) continue;
        // Where a cluster has one tile more than two rounds of clusters lose what dividing tiles gains.
        if (one_tile && parts > 1 && 2 * split->clusters * peers < tiles.rows * tiles.columns) continue;
        visit(Choice{variant, parts, peers}, t);
      }
    }
  }
  static constexpr int kMostSharing = 4;  // blocks of a cluster that share copies
  // fitted: every number of tiles that makes other rows, each also with pairs and, where tiles are few, with split-K.
  template <class Visit>
  void for_each_height(Variant variant, const Tiling& t, const Sizes& sizes, const Limits& limits, Visit visit) const {
    constexpr std::int64_t kFewestRows = 33, kMostOutside = 16;
    if (sizes.rows < kFewestRows) return;
    int before = 0;
    for (std::int32_t rows = t.tile_m; rows >= q::fitted_least(t.tile_m); rows -= 8) {
      Choice choice{variant, 1, 1, static_cast<int>(div_up(sizes.rows, rows))};
      const Tiling fitted = fitted_to(t, choice, sizes.rows);
      if (fitted.tile_m == before || fitted.tile_m > rows) continue;
      // TMA takes longer to fill rows outside of a matrix with zeros than to copy rows.
      if (fitted.tile_m >= sizes.rows + kMostOutside) break;
      before = fitted.tile_m;
      const Tiles tiles = tiles_to_split(problem_, fitted, {sizes.rows, 1});
      const Machine machine{all_sms(problem_), limits.usable, most_blocks(problem_, fitted.threads)};
      for (choice.twins = 1; choice.twins <= 2 && choice.twins <= tiles.rows; ++choice.twins) {
        for (choice.peers = 1; choice.peers * choice.twins <= kMostSharing && choice.peers <= tiles.columns;
             choice.peers *= 2) {
          const int shared = choice.peers * choice.twins;
          for (choice.parts = 1; choice.parts * shared <= machine.most_blocks; ++choice.parts) {
            const std::int64_t clusters = clusters_of(problem_, fitted, choice, sizes),
                               room = most_clusters_of(choice.parts * shared, machine);
            if (room == 0) break;
            // Split-K is for few tiles, of which each has a cluster of its own.
            if (choice.parts > 1 && (choice.parts > t.most_parts || !limits.split_k || shared > 2 || clusters > room ||
                                     tiles.k_blocks < 2 * choice.parts))
              break;
            visit(choice, fitted);
          }
        }
      }
    }
  }
  // Tiles with far fewer rows than the product read b once for each row of tiles, which few columns allow; those with
  // far more compute rows that do not exist.
  bool suits(Variant variant, std::int64_t rows, const Tiles& tiles) const {
    const std::int64_t high = facts_of(variant).rows;
    const bool of_split_k = is_a(Family::split_k, variant), of_small_m = is_a(Family::small_m, variant);
    const std::int64_t most_tiles = of_small_m ? 4 : !of_split_k && high < 128 ? 2 : 8;
    if (tiles.rows > most_tiles && tiles.rows * tiles.columns > all_sms(problem_)) return false;
    return high > 64 ? rows > high / 2 : of_split_k || of_small_m || high <= 16 || rows > high / 4;
  }

  const Problem& problem_;
  std::array<Legal, kVariants.size()> legal_{};
  std::size_t count_ = 0;
  bool hopper_ = false, swap_ab_ = false, few_ = false;
};

// Corrects a choice that was made for an out that has a tensor map for an out that has none.
Choice for_this_out(const Problem& problem, Choice choice) {
  if (choice.variant == Variant::overlapped_128x256 && !takes_map_of_out(problem))
    choice.variant = Variant::persistent_128x256;
  return choice;
}

}  // namespace

Choice by_model(const Problem& problem, const Sizes& sizes) {
  const Options options(problem);
  Choice choice = options.least(sizes, limits_of(problem, sizes));
  // A cluster has no room on one multiprocessor. Every other choice is the same on fewer.
  if (is_a(Family::fitted, choice.variant) && problem.call.sms < 2) choice.peers = choice.twins = 1;
  if (is_a(Family::swap_ab, choice.variant) && problem.call.sms < all_sms(problem))
    return options.split_for(choice, sizes, problem.call.sms);
  return choice;
}

Choice choose(const Runtime& runtime, const Problem& problem, const Sizes& sizes) {
  const Choice choice = runtime.tunings->choice_or(problem, sizes.rows, [&] { return by_model(problem, sizes); });
  return for_this_out(problem, choice);
}

std::optional<Choice> choice_as(const Problem& problem, const Sizes& sizes, Variant variant) {
  std::optional<Choice> best;
  double least = 0.0;
  Options(problem).for_each(sizes, limits_of(problem, sizes), true, [&](const Choice& choice, const Tiling& t) {
    if (choice.variant != variant || for_this_out(problem, choice).variant != variant) return;
    const double cost = cost_of(problem, t, choice, sizes, all_sms(problem));
    if (!best || cost < least) best = choice, least = cost;
  });
  return best;
}

std::vector<Variant> reachable_by_model(const Problem& problem) {
  std::vector<Variant> variants;
  const auto add = [&](Variant variant) {
    if (std::find(variants.begin(), variants.end(), variant) == variants.end()) variants.push_back(variant);
  };
  const Sizes most = sizes_of(problem);
  const bool dense = problem.shape.grouping == Grouping::dense;
  // Calls that may copy b early, and those that may not.
  Problem called = problem;
  for (const std::uint32_t early : {std::uint32_t{0}, kEarlyCopies}) {
    called.flags = (problem.flags & ~kEarlyCopies) | early;
    const Options options(called);
    for (std::int64_t rows = 1;; rows = row_class(rows) + 1) {
      // Of calls that expect rows the number of experts' pieces is any up to this one's, and that of calls that say
      // nothing is the experts'.
      if (problem.expected_rows != 0) {
        for (const std::int64_t groups : {std::int64_t{1}, most.groups, std::int64_t{problem.params.groups}}) {
          options.for_each({rows, groups}, {all_sms(problem), false}, false,
                           [&](const Choice& choice, const Tiling&) { add(choice.variant); });
        }
      }
      for (std::int64_t groups = dense ? 1 : most.groups;; groups = Options::group_class(groups) + 1) {
        for (const bool split_k : {false, true}) {
          if (!split_k || groups == 1) add(options.least({rows, groups}, {all_sms(problem), split_k}).variant);
        }
        if (Options::group_class(groups) >= most.groups) break;
      }
      if (row_class(rows) >= row_class(most.rows)) break;
    }
  }
  // Another call's out may have no tensor map.
  if (std::find(variants.begin(), variants.end(), Variant::overlapped_128x256) != variants.end())
    add(Variant::persistent_128x256);
  return variants;
}

std::vector<Variant> reachable(const Runtime& runtime, const Problem& problem) {
  std::vector<Variant> variants = reachable_by_model(problem);
  const Sizes sizes = sizes_of(problem);
  for (const TunedRows& tuned : runtime.tunings->all(problem)) {
    if (tuned.batch > sizes.groups || tuned.rows > row_class(sizes.rows)) continue;
    const auto add = [&](Variant variant) {
      if (std::find(variants.begin(), variants.end(), variant) == variants.end()) variants.push_back(variant);
    };
    add(tuned.choice.variant);
    if (tuned.choice.variant == Variant::overlapped_128x256) add(Variant::persistent_128x256);
  }
  return variants;
}

std::vector<Choice> candidates(const Problem& problem, const Sizes& sizes) {
  std::vector<Choice> all;
  // Of tiles of so many heights those are left out that are expected to take much longer than the best of them.
  constexpr double kWorthTiming = 1.2;
  const Sizes alike{row_class(sizes.rows), Options::group_class(sizes.groups)};
  std::vector<double> costs;
  double least = -1.0;
  Options(problem).for_each(sizes, limits_of(problem, sizes), true, [&](const Choice& choice, const Tiling& t) {
    const bool fitted = is_a(Family::fitted, choice.variant);
    const double cost = fitted ? cost_of(problem, t, choice, alike, all_sms(problem)) : 0.0;
    if (fitted && (least < 0.0 || cost < least)) least = cost;
    all.push_back(choice), costs.push_back(cost);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (costs[i] <= kWorthTiming * least || costs[i] == 0.0) all[kept++] = all[i];
  }
  all.resize(kept);
  return all;
}

}  // namespace quern::ops::gemm
