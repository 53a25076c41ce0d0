// Matrix products of few rows on Hopper with split-K: the blocks of a cluster share a tile, each with a part of its k
// blocks. Without it tiles would have to be so narrow, for every multiprocessor to have one, that a would be read over
// and over. A cluster has one tile.
//
// At the end the blocks exchange partial sums. Every 8 columns of the tile have one block that finishes their results;
// with two blocks each finishes one half of a warpgroup's columns. Every warpgroup sends its sums from registers to the
// shared memory of the blocks that finish them, where an mbarrier counts the bytes that arrive. There are no requests
// and no acknowledgements: a block waits for the sums that are sent to it and for nothing else. They are added up in
// the order of the k blocks, whatever order they arrive in. Sums that a warpgroup finishes itself stay in registers
// with two blocks; with more they go where its rows of b were.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/interleaved_k.cuh"

namespace q {

static_assert(!kGate && kInterleaved == 1);

// Sums are exchanged in groups: 8 columns of 64 rows, of which each thread of a warpgroup has four sums.
inline constexpr i32 kGroupColumns = 8, kGroupSums = 4, kGroups = kTileN / kGroupColumns;
inline constexpr i32 kGroupBytes = kGroupThreads * kGroupSums * 4, kWarpBytes = kGroupBytes / 4;
// Groups whose sums a warpgroup computes.
inline constexpr i32 kOwnGroups = kGroups / kColumnGroups, kOwnSums = kOwnGroups * kGroupSums;
static_assert(kOwnSums == kSumCount && kOwnGroups % 2 == 0);
// Tiles of 128 rows are shared by two blocks (plan/tiling.cpp), others by two or more.
inline constexpr bool kTwoBlocks = kRowGroups == 2;
inline constexpr i32 kHalfGroups = kOwnGroups / 2, kHalfSums = kOwnSums / 2;
// Neighbouring lanes that store a row's results, one group each. With seven groups one lane has none.
inline constexpr i32 kRowLanes = kHalfGroups > 4 ? 8 : 4;
static_assert(kHalfGroups <= kRowLanes);
// How many groups fit in the place of a warpgroup's rows of b in one stage.
inline constexpr i32 kKeptGroups = kGroupN * 128 / kGroupBytes;
static_assert(kTwoBlocks || (kRowGroups == 1 && kOwnGroups <= kStages * kKeptGroups),
              "a warpgroup keeps its sums where no other warpgroup reads");

struct Barriers {
  Stages stages;
  Mbarrier received[kConsumers];  // counts the sums that other blocks send to a warpgroup
  Mbarrier vectors;               // the scales of the tile's rows and columns are written
};

// What lies in shared memory before the stages, which begin at a multiple of 1024 bytes. Received sums lie behind the
// stages.
struct Beside {
  Barriers barriers;
  alignas(16) f32 scales[kBlockScale ? kStagesOfA * kScaleCount
                         : kScaled   ? kTileM + kTileN
                                     : 4];  // of k blocks, or of the tile's rows and columns

  QUERN_DEVICE f32* row_scales() { return scales; }
  QUERN_DEVICE f32* column_scales() { return scales + (kScaled ? kTileM : 0); }
};

// This block among those that share the tile. With more than two blocks it finishes every count-th group of columns.
struct SplitKPart {
  Divisor parts;
  i32 number, count;

  QUERN_DEVICE explicit SplitKPart(const GemmParams& p)
      : parts(p.parts), number(block_index(0)), count(kTwoBlocks ? 2 : p.parts.value) {}
  QUERN_DEVICE i32 begin(i32 k_blocks, i32 part) const {
    return kTwoBlocks ? static_cast<i32>(static_cast<u32>(k_blocks * part) / 2) : k_blocks * part / parts;
  }
  QUERN_DEVICE void take_k_blocks(Work& work) const {
    const i32 k_blocks = work.end_k_block;
    work.first_k_block = begin(k_blocks, number);
    work.end_k_block = begin(k_blocks, number + 1);
  }
  // The number of groups that this block finishes among `groups` consecutive ones, the first of which it finishes.
  QUERN_DEVICE i32 own_of(i32 groups) const { return (groups + count - 1) / parts; }
};

// The cluster's tile and this block's k blocks of it.
QUERN_DEVICE Work own_work(const GemmParams& p, const SplitKPart& part) {
  Work work;
  DenseTiles(p, block_index(1), block_count(1)).next(work);
  part.take_k_blocks(work);
  return work;
}

// Where a warpgroup's groups of sums go and where this block receives, with more than two blocks. For each group that a
// block finishes it has a set of slots, one slot for each other block. Computed before there are any sums.
struct SumRoutes {
  i32 set_bytes;
  i32 to, sent;           // the block that finishes the first group, and the group's set of slots there
  i32 finished, arrived;  // the first group that this block finishes, and its set of slots here

  QUERN_DEVICE SumRoutes(const Consumer& c, const SplitKPart& part) : set_bytes((part.count - 1) * kGroupBytes) {
    const i32 first = c.side * kOwnGroups, round = first / part.parts,
              ahead = part.number - (first - round * part.count);
    to = first - round * part.count;
    sent = (c.group * part.own_of(kGroups) + round) * set_bytes;
    finished = first + (ahead < 0 ? ahead + part.count : ahead);
    arrived = ahead < 0 ? sent + set_bytes : sent;
  }
};

// Warps of a consumer warpgroup that have rows of the matrix. The others have no sums to exchange.
QUERN_DEVICE i32 live_warps(const Work& work, const Consumer& c) {
  const i32 rows = work.rows - work.row - c.group * 64;
  return rows <= 0 ? 0 : rows >= 64 ? 4 : div_up(rows, 16);
}

// Tells the mbarriers how many bytes will be sent to this block. The rule for more than two blocks serves two blocks as
// well, where each finishes half of the groups. Bytes may arrive before this: the phase does not complete until it has
// been called.
QUERN_DEVICE void expect_sums(Barriers& barriers, const Work& work, const SplitKPart& part) {
  QUERN_ROLLED for (i32 i = 0; i < kConsumers; ++i) {
    const Consumer c(i);
    const i32 left = (c.side + 1) * kOwnGroups - SumRoutes(c, part).finished;
    const i32 groups = left > 0 ? part.own_of(left) : 0;
    mbarrier_arrive_expect(barriers.received[i],
                           static_cast<u32>(groups * (part.count - 1) * live_warps(work, c) * kWarpBytes));
  }
}

// Issues the first copies, into stages that are still unused. Called by one thread, as is copy_rest().
QUERN_DEVICE void begin_copies(const Copies& copies, const Work& work) {
  const i32 k_blocks = work.end_k_block - work.first_k_block, begun = k_blocks < kStages ? k_blocks : kStages;
  const bool early = (copies.p.flags & kConstantB) != 0;
  if (early) {
    QUERN_ROLLED for (i32 i = 0; i < begun; ++i) copies.b(work, work.first_k_block + i, i);
  }
  wait_for_previous_grid();
  QUERN_ROLLED for (i32 i = 0; i < begun; ++i) {
    if (!early) copies.b(work, work.first_k_block + i, i);
    if (i < kStagesOfA) copies.a(work, work.first_k_block + i, i, i);
  }
}
// Issues the remaining copies. The a of a k block and the b kAhead k blocks further on wait for the same earlier k
// block to be multiplied.
QUERN_DEVICE void copy_rest(const Copies& copies, const Work& work) {
  StageState state, state_of_b;
  state.skip(kStagesOfA);
  state_of_b.skip(kStages);
  StageStateOfA place;
  QUERN_ROLLED for (i32 k_block = work.first_k_block + kStagesOfA; k_block < work.end_k_block; ++k_block) {
    copies.await_empty(state_of_b.stage, state_of_b.phase ^ 1);
    if constexpr (kAhead == 0) {
      copies.b(work, k_block, state_of_b.stage);
      copies.a(work, k_block, state.stage, place.stage);
    } else {
      copies.a(work, k_block, state.stage, place.stage);
      if (k_block + kAhead < work.end_k_block) copies.b(work, k_block + kAhead, state_of_b.stage);
    }
    state.next(), state_of_b.next(), place.next();
  }
}

// The only tile of a block, in the form that copy_scales() iterates over.
struct OneTile {
  Work tile;
  bool taken = false;

  QUERN_DEVICE bool next(Work& work) {
    if (taken) return false;
    work = tile;
    taken = true;
    return true;
  }
};

QUERN_DEVICE vec16 sums_of_group(const f32* sums) {
  return {bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3])};
}

// Named barriers, one for each side of the tile.
inline constexpr i32 kMultiplied = 2;

// Where a warpgroup keeps its sums of its group number i.
QUERN_DEVICE u8* kept_place(u8* shared, const Consumer& c, i32 i) {
  return shared + i / kKeptGroups * kBBytes + (c.side * kKeptGroups + i % kKeptGroups) * kGroupBytes;
}

// Sends each group of a warpgroup to the block that finishes it.
QUERN_DEVICE void send_sums(const f32 (&own)[kOwnSums], const Consumer& c, const SumRoutes& routes,
                            const SplitKPart& part, u8* shared, Mbarrier& barrier) {
  const i32 t = thread_index() % kGroupThreads * 16;
  u8* place = shared + kTileBytes + routes.sent + part.number * kGroupBytes + t;
  i32 to = routes.to;
  QUERN_UNROLL for (i32 i = 0; i < kOwnGroups; ++i) {
    const vec16 v = sums_of_group(own + i * kGroupSums);
    if (to == part.number) {
      store16(kept_place(shared, c, i) + t, v);
    } else {
      // A block has no slot for its own sums.
      const u8* slot = place - (to < part.number ? kGroupBytes : 0);
      const auto rank = static_cast<u32>(to);
      store_async(cluster_address(slot, rank), v, cluster_address(&barrier, rank));
    }
    if (++to == part.count) to = 0, place += routes.set_bytes;
  }
}

// Adds up a thread's four sums in each of two groups over all blocks, in their order: the kept ones and the received
// ones.
QUERN_DEVICE void add_parts(f32 (&sums)[2][kGroupSums], u8* const (&kept)[2], const u8* const (&incoming)[2],
                            const SplitKPart& own) {
  constexpr i32 kAtOnce = 4;  // loads that are issued together, without a branch between them
  QUERN_UNROLL for (i32 g = 0; g < 2; ++g) { QUERN_UNROLL for (f32& sum : sums[g]) sum = 0.0f; }
  QUERN_ROLLED for (i32 part = 0; part < own.count; part += kAtOnce) {
    vec16 v[2][kAtOnce];
    QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
      const i32 of = part + i < own.count ? part + i : own.number, slot = (of < own.number ? of : of - 1) * kGroupBytes;
      QUERN_UNROLL for (i32 g = 0; g < 2; ++g) v[g][i] = load16(of == own.number ? kept[g] : incoming[g] + slot);
    }
    QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
      QUERN_UNROLL for (i32 e = 0; e < 2 * kGroupSums; ++e) {
        f32& sum = sums[e / kGroupSums][e % kGroupSums];
        if (part + i < own.count) sum += f32_of(v[e / kGroupSums][i].x[e % kGroupSums]);
      }
    }
  }
}

// Where half of a row of a group lies after a warp's 16 rows of sums, four of each lane, have been transposed for lanes
// that read eight columns of a row. Groups that neighbouring lanes read have their numbers as `skew`, so that they lie
// in different banks.
QUERN_DEVICE f32* transposed_place(u8* staged, i32 skew, i32 row, i32 half) {
  const i32 exchanged = (kRowLanes == 8 ? skew >> 2 : row) & 1;
  return reinterpret_cast<f32*>(staged + (row + skew) % 16 * (kGroupColumns * 4) + (half ^ exchanged) * 16);
}
QUERN_DEVICE void transpose_group(u8* staged, i32 skew, const f32* sums) {
  const i32 l = lane();
  QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
    const u64 both = static_cast<u64>(bits_of(sums[2 * h + 1])) << 32 | bits_of(sums[2 * h]);
    *reinterpret_cast<u64*>(transposed_place(staged, skew, l / 4 + 8 * h, l % 4 / 2) + l % 2 * 2) = both;
  }
}
// Finishes a lane's eight results of one of the warp's rows.
QUERN_DEVICE void finish_transposed(const GemmParams& p, const Work& work, Beside& beside, bool there,
                                    const Consumer& c, i32 row, i32 group, u8* staged, i32 skew) {
  const i32 line = c.group * 64 + warp() % 4 * 16 + row, column = group * kGroupColumns;
  Eight v;
  QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
    const vec16 part = load16(transposed_place(staged, skew, row, half));
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) v.x[4 * half + i] = f32_of(part.x[i]);
  }
  if constexpr (kScaled) {
    const f32 of_row = beside.row_scales()[line];
    const Eight of_column = read_eight(beside.column_scales() + column);
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] *= of_row * of_column.x[i];
  }
  finish_eight(p, work, there, line, column, v, Eight{});
}

// Finishes this block's groups, two at a time. Their sums are transposed in the place of the kept ones.
QUERN_DEVICE void finish_groups(const GemmParams& p, const Work& work, const Consumer& c, const SumRoutes& routes,
                                const SplitKPart& part, u8* shared, Beside& beside) {
  const i32 last = (c.side + 1) * kOwnGroups, l = lane(), w = warp() % 4;
  const u8* sets = shared + kTileBytes + routes.arrived + w * kWarpBytes;
  QUERN_ROLLED for (i32 group = routes.finished; group < last; group += 2 * part.count, sets += 2 * routes.set_bytes) {
    const bool two = group + part.count < last;
    const i32 next = two ? routes.set_bytes : 0, own = group - c.side * kOwnGroups;
    u8* const staged[2] = {kept_place(shared, c, own) + w * kWarpBytes,
                           kept_place(shared, c, two ? own + part.count : own) + w * kWarpBytes};
    f32 sums[2][kGroupSums];
    add_parts(sums, {staged[0] + l * 16, staged[1] + l * 16}, {sets + l * 16, sets + next + l * 16}, part);
    sync_warp();
    QUERN_UNROLL for (i32 i = 0; i < 2; ++i) transpose_group(staged[i], 0, sums[i]);
    sync_warp();
    const bool second = l >= 16;
    finish_transposed(p, work, beside, !second || two, c, l % 16, second && two ? group + part.count : group,
                      second ? staged[1] : staged[0], 0);
  }
}

// With two blocks: keeps the half of the sums that this block finishes and sends the other half.
QUERN_DEVICE void send_to_other(f32 (&kept)[kHalfSums], const f32 (&own)[kOwnSums], const SplitKPart& part, u8* slots,
                                Mbarrier& barrier) {
  const auto other = static_cast<u32>(1 - part.number);
  const u32 to = cluster_address(slots + thread_index() % kGroupThreads * 16, other),
            counted = cluster_address(&barrier, other);
  const auto keep_and_send = [&](const f32* keep, const f32* send) {
    QUERN_UNROLL for (i32 i = 0; i < kHalfGroups; ++i)
        store_async(to + i * kGroupBytes, sums_of_group(send + i * kGroupSums), counted);
    QUERN_UNROLL for (i32 i = 0; i < kHalfSums; ++i) kept[i] = keep[i];
  };
  if (part.number == 0) {
    keep_and_send(own, own + kHalfSums);
  } else {
    keep_and_send(own + kHalfSums, own);
  }
}
// With two blocks: adds the received sums to the kept ones and finishes them. Neighbouring lanes have one group each
// and store up to 32 or 64 results of a row.
QUERN_DEVICE void finish_kept(const GemmParams& p, const Work& work, const Consumer& c, const SplitKPart& part,
                              f32 (&kept)[kHalfSums], u8* slots, Beside& beside) {
  const i32 l = lane();
  const bool there = l % kRowLanes < kHalfGroups;
  const i32 i = there ? l % kRowLanes : 0;
  u8* incoming = slots + warp() % 4 * kWarpBytes;
  QUERN_UNROLL for (i32 g = 0; g < kHalfGroups; ++g) {
    const vec16 v = load16(incoming + g * kGroupBytes + l * 16);
    QUERN_UNROLL for (i32 e = 0; e < kGroupSums; ++e) kept[g * kGroupSums + e] += f32_of(v.x[e]);
  }
  sync_warp();
  QUERN_UNROLL for (i32 g = 0; g < kHalfGroups; ++g)
      transpose_group(incoming + g * kGroupBytes, g, kept + g * kGroupSums);
  sync_warp();
  QUERN_UNROLL for (i32 first = 0; first < 16; first += kWarp / kRowLanes) {
    finish_transposed(p, work, beside, there, c, first + l / kRowLanes,
                      c.side * kOwnGroups + part.number * kHalfGroups + i, incoming + i * kGroupBytes, i);
  }
}

QUERN_DEVICE void multiply_tile(const GemmParams& p, const Work& work, const Consumer& c, const Registers& registers,
                                const SplitKPart& part, u8* shared, Beside& beside) {
  Barriers& barriers = beside.barriers;
  const SumRoutes routes(c, part);
  f32 sums[kSumCount], kept[kHalfSums];
  u8* slots = shared + kTileBytes + c.number() * kHalfGroups * kGroupBytes;  // where sums arrive with two blocks
  const bool two_blocks = kTwoBlocks || part.count == 2;
  sum_k_blocks(registers, c, work, StageState(), StageStateOfA(), shared, beside.scales, barriers.stages);
  // All blocks of the cluster have begun and initialised their mbarriers.
  cluster_wait();
  // With more than two blocks the kept sums overwrite b, which the products of all four warps read.
  if (!two_blocks) sync_named(kMultiplied + c.side, kGroupThreads);
  if (warp() % 4 >= live_warps(work, c)) return;
  registers.sums.read_all(sums);
  Mbarrier& received = barriers.received[c.number()];
  if (two_blocks) {
    send_to_other(kept, sums, part, slots, received);
  } else {
    send_sums(sums, c, routes, part, shared, received);
  }
  if constexpr (kScaled) mbarrier_wait(barriers.vectors, 0);
  mbarrier_wait_cluster(received, 0);
  if (two_blocks) {
    finish_kept(p, work, c, part, kept, slots, beside);
  } else {
    finish_groups(p, work, c, routes, part, shared, beside);
  }
}

}  // namespace q

// The first dimension of the grid is one cluster, the second counts tiles.
QUERN_KERNEL(quern_gemm_split_k, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  Sums sums;
  FirstProducts first;
  SecondProducts second;
  QUERN_SHARED(Beside, beside, 1);
  Barriers& barriers = beside[0].barriers;
  u8* shared = tile_shared();
  launch_next_grid();
  // The shuffle tells the compiler that the value is equal in all threads of a warp, so that it uses uniform registers.
  const i32 w = shuffle(warp(), 0);
  if (laid_first(w == kCopyWarp)) {
    const bool one = elect_one();
    if (one) {
      begin_full<0, kStages>(barriers.stages);
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kBegun, kThreads);
    const Copies copies(p, map_a, map_b, shared, barriers.stages);
    const SplitKPart part(p);
    const Work work = own_work(p, part);
    if (one) begin_copies(copies, work);
    sync_warp();
    cluster_arrive_relaxed();
    sync_named(kMade, kMadeThreads);
    if (one) {
      expect_sums(barriers, work, part);
      copy_rest(copies, work);
    }
    sync_warp();
    cluster_wait();
    return;
  }
  if (w == kBeginWarp) {
    if (elect_one()) {
      begin_empty(barriers.stages);
      mbarrier_init(barriers.vectors, 1);
      QUERN_UNROLL for (i32 i = 0; i < kConsumers; ++i) mbarrier_init(barriers.received[i], 1);
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kMade, kMadeThreads);
  }
  // Tells the other blocks that this block's mbarriers are initialised, without waiting for theirs until there are sums
  // to send.
  cluster_arrive_relaxed();  // fence_mbarrier_init() orders the initialisation before this
  if (w == kMapWarp) fetch_maps(map_a, map_b);
  const SplitKPart part(p);
  const Work work = own_work(p, part);
  const auto meet = [] { meet_named(kBegun, kThreads); };
  fetch_parameters(p);
  if (w < kCopyWarp) {
    wait_for_previous_grid();
    meet();
    multiply_tile(p, work, Consumer(w / 4), {sums, first, second}, part, shared, beside[0]);
    return;
  }
  if constexpr (kBlockScale) {
    if (w == kFirstScaleWarp) fetch_scales_of_b(p, OneTile{work});
    wait_for_previous_grid();
    copy_scales<kScaleKBlocks, kScaleWarps, kStagesOfA>(p, OneTile{work}, w - kFirstScaleWarp, beside[0].scales,
                                                        barriers.stages, meet);
  } else {
    meet();
    if constexpr (kScaled) {
      if (w == kFirstScaleWarp) {
        wait_for_previous_grid();
        VectorScales(p, work).store(beside[0].row_scales(), beside[0].column_scales());
        sync_warp();
        if (lane() == 0) mbarrier_arrive(barriers.vectors);
      }
    }
  }
  cluster_wait();
}
