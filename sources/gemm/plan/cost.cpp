// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/cost.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sources/clusters.h"

namespace quern::ops::gemm {
namespace {

constexpr double kKBlockBytes = 128.0;  // bytes of a row in a k block

constexpr Costs kCosts[][kCostKinds] = {
#define QUERN_GEMM_COSTS(family, ...) {__VA_ARGS__},
#include "sources/gemm/plan/costs.def"
#undef QUERN_GEMM_COSTS
};

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Two limits that hold at the same time; where both are about equal it takes a little longer than either.
double both(double a, double b) {
  const double more = std::max(a, b), less = std::min(a, b), ratio = less / std::max(more, 1e-9);
  const double fourth = ratio * ratio * ratio * ratio;
  return more * std::sqrt(std::sqrt(1.0 + fourth));
}

// All tiles of tma_mma, with an incomplete last wave divided by stream-K or not, as measured on an H200.
// Multiprocessors that wait for others leave them their power, so stream-K saves less than the time of waiting, and it
// costs writing and reading partial sums.
double cost_of_tma_mma(const Problem& problem, const Tiling& t, const Choice& choice, const Sizes& sizes, int sms) {
  constexpr double kResults = 4.0, kSaved = 0.75;  // microseconds of a tile's results; part of the time of waiting
  const bool high = choice.variant == Variant::tma_mma_256x192;
  const double of_k_block = high ? 1.53 : 1.15, sums = high ? 50.0 : 15.0;
  const double products = static_cast<double>(div_up(problem.params.k, t.block_k)) * of_k_block;
  const std::int64_t tiles = tiles_of(problem, t, sizes), rest = tiles % sms;
  const double whole = static_cast<double>(div_up(tiles, sms)) * (products + kResults);
  if (choice.parts != kLastWave || rest == 0) return whole;
  return whole - kSaved * products * static_cast<double>(sms - rest) / sms + sums;
}

// The portable variants for few rows, bound by reading b. Those of `tiny` divide k blocks evenly among all
// multiprocessors and wait for each other's sums; where tiles, or parts of them, keep multiprocessors about as busy,
// sliced_k has few blocks wait, or none. Each number of rows counts as one row of tiles, since the order of sums must
// not depend on it.
double cost_of_few_portable(const Problem& problem, const Tiling& t, const Choice& choice, const Sizes& sizes,
                            int sms) {
  constexpr double kMemory = 32e3, kExchange = 7.5;  // bytes in a microsecond of each multiprocessor; microseconds
  const double k_block_bytes =
      static_cast<double>(t.tile_n) * t.block_k * static_cast<double>(bytes_of(problem.shape.a));
  const std::int64_t tiles = tiles_of(problem, t, {1, sizes.groups}), k_blocks = div_up(problem.params.k, t.block_k);
  if (choice.variant == Variant::tiny)
    return static_cast<double>(tiles * k_blocks) / sms * k_block_bytes / kMemory + kExchange;
  if (tiles == 0 || tiles > sms) return 1e30;
  return static_cast<double>(div_up(k_blocks, parts_of_sliced(t, tiles, k_blocks, sms))) * k_block_bytes / kMemory;
}

// The kernels for few rows copy b, where nobody writes it, before the launch in front of theirs has finished; the
// others begin then, and memory has nothing to do meanwhile. In microseconds, as an H200 had it in a model's steps.
double waiting(const Problem& problem, Variant variant) {
  constexpr double kFirstCopy = 2.0;
  const bool waits = is_a(Family::persistent, variant) || is_a(Family::fitted, variant);
  return waits && (problem.flags & kEarlyCopies) == kEarlyCopies ? kFirstCopy : 0.0;
}

}  // namespace

const Costs& costs_of(Variant variant, Scales scales) {
  // The overlapped epilogue has a line of its own, behind the families.
  const std::size_t line = variant == Variant::overlapped_128x256 ? std::size(kCosts) - 1
                                                                  : static_cast<std::size_t>(facts_of(variant).family);
  return kCosts[line][cost_kind(scales)];
}

double microseconds(const Costs& c, const Work& w) {
  const double area = w.rows * w.columns;
  const double slower = 1.0 + c.unaligned * w.unaligned;
  const double k_block = both(c.k_block + c.products * area / (128 * 128), slower * w.copied / c.copies);
  const double multiplied = w.rounds * w.k_blocks * (k_block + c.cluster * w.sharing);
  const double exchanged = w.parts > 1 ? c.share + c.part * (w.parts - 2) + c.sums * w.sums / 1024 : 0.0;
  const double read =
      both(both(w.read / (c.memory * w.sms), slower * w.from_l2 / (c.l2 * w.sms)), w.far / (c.far * w.sms));
  return c.launch + c.meeting * w.clustered + both(multiplied, read) +
         w.rounds * (c.round + c.results * area / 1024 + exchanged);
}

Work work_of(const Problem& problem, const Tiling& t, const Choice& choice, const Sizes& sizes, int sms) {
  const q::GemmParams& p = problem.params;
  const Shape& shape = problem.shape;
  const Family family = facts_of(choice.variant).family;
  const std::int64_t row_tiles =
      std::max<std::int64_t>(div_up(sizes.rows, std::int64_t{t.tile_m} * choice.twins) * choice.twins, 1);
  std::int64_t columns = div_up(columns_of(problem), t.out_tile_n(shape.gate));
  if (family == Family::fitted) columns = div_up(columns, choice.peers) * choice.peers;
  const std::int64_t tiles = sizes.groups * row_tiles * columns;
  const std::int64_t k_blocks = div_up(p.k, t.block_k);
  const auto bytes = static_cast<double>(bytes_of(shape.a));
  const auto m = static_cast<double>(sizes.groups * sizes.rows), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  Work w{};
  w.sms = sms;
  // Of few rows small_m and split_k copy those that there are; tensor cores multiply whole tiles.
  const bool copies_rows = family == Family::small_m || family == Family::split_k;
  const double rows = copies_rows ? static_cast<double>(std::min<std::int64_t>(sizes.rows, t.tile_m)) : t.tile_m;
  w.rows = t.tile_m, w.columns = t.tile_n;
  const double of_a = family == Family::swap_ab || family == Family::fitted ? rows / choice.peers : rows;
  const double of_b = static_cast<double>(t.tile_n) / (family == Family::persistent ? choice.peers : choice.twins);
  w.copied = (of_a + of_b) * kKBlockBytes;
  w.read = (m * k + static_cast<double>(p.b_group == 0 && p.groups > 1 ? 1 : sizes.groups) * n * k) * bytes +
           m * static_cast<double>(columns_of(problem)) * static_cast<double>(bytes_of(shape.out));
  const double b_bytes =
      w.read - m * k * bytes - m * static_cast<double>(columns_of(problem)) * static_cast<double>(bytes_of(shape.out));
  w.far = b_bytes * (row_tiles > choice.twins ? 2 : 1) + m * k * bytes * (columns > choice.peers ? 2 : 1);
  w.unaligned = p.k * static_cast<std::int64_t>(bytes_of(shape.a)) % 32 != 0;
  w.parts = choice.parts;
  w.clustered = choice.parts * choice.peers * choice.twins > 1;
  w.sharing = family == Family::fitted ? choice.peers + choice.twins - 2 : 0;
  w.k_blocks = static_cast<double>(div_up(k_blocks, choice.parts));
  const std::int64_t shared = std::int64_t{choice.twins} * choice.peers, blocks = choice.parts * shared;
  const std::int64_t room = blocks > 1 ? most_clusters(static_cast<int>(blocks), sms) * shared
                                       : std::int64_t{sms} * (family == Family::swap_ab ? 1 : t.blocks_per_sm);
  w.rounds = static_cast<double>(div_up(tiles, std::max<std::int64_t>(room, 1)));
  if (family == Family::small_m && shape.out_scale) {  // whole runs
    const std::int64_t runs = runs_of(problem, t, sizes), each = 128 / t.out_tile_n(shape.gate);
    w.rounds = static_cast<double>(div_up(runs, std::max<std::int64_t>(room, 1)) * each);
  }
  w.from_l2 = static_cast<double>(tiles * k_blocks) * w.copied;
  w.sums = static_cast<double>(choice.parts - 1) / choice.parts * rows * t.tile_n;
  return w;
}

double cost_of(const Problem& problem, const Tiling& t, const Choice& choice, const Sizes& sizes, int sms) {
  if (is_a(Family::tma_mma, choice.variant)) return cost_of_tma_mma(problem, t, choice, sizes, sms);
  if (choice.variant == Variant::tiny || choice.variant == Variant::sliced_k)
    return cost_of_few_portable(problem, t, choice, sizes, sms);
  return microseconds(costs_of(choice.variant, problem.shape.scales), work_of(problem, t, choice, sizes, sms)) +
         waiting(problem, choice.variant);
}

}  // namespace quern::ops::gemm
