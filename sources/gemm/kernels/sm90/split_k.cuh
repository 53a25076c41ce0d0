// Matrix products of few rows on Hopper of which the blocks of a cluster share a tile by its steps of k, where tiles narrow enough for
// every multiprocessor to have one would read a over and over. A cluster has one tile.
//
// At the end sums change hands: of each 8 columns one block finishes the results; of two blocks each one half of a warpgroup's columns.
// Every warpgroup sends its sums to those that finish them, out of its registers into their shared memory, where a barrier counts what
// has come. Nobody asks for anything or is told that it was read: a block waits for sums that it is sent, and for nothing else. They are
// added up in the order of the steps, whoever was faster. What a warpgroup finishes of its own sums it keeps where its rows of b were; of
// two blocks in registers.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/interleaved_k.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"

namespace q {

static_assert(!kGate && kInterleaved == 1);

// Sums change hands by groups: 8 columns of 64 rows, of which each thread of a warpgroup has four sums.
inline constexpr i32 kGroupColumns = 8, kGroupSums = 4, kGroups = kTileN / kGroupColumns;
inline constexpr i32 kGroupBytes = kGroupThreads * kGroupSums * 4, kWarpBytes = kGroupBytes / 4;
// A warpgroup has its block's sums of these.
inline constexpr i32 kOwnGroups = kGroups / kColumnGroups, kOwnSums = kOwnGroups * kGroupSums;
static_assert(kOwnSums == kSumCount && kOwnGroups % 2 == 0);
// Tiles of 128 rows are shared by two blocks (tiling.cpp), others by two or more.
inline constexpr bool kOfTwo = kRowGroups == 2;
inline constexpr i32 kHalfGroups = kOwnGroups / 2, kHalfSums = kOwnSums / 2;
// Lanes side by side that store the results of a row's groups: one has none where these are seven.
inline constexpr i32 kRowLanes = kHalfGroups > 4 ? 8 : 4;
static_assert(kHalfGroups <= kRowLanes);
// A step's rows of b of a warpgroup have room for so many groups.
inline constexpr i32 kKeptGroups = kGroupN * 128 / kGroupBytes;
static_assert(kOfTwo || (kRowGroups == 1 && kOwnGroups <= kStages * kKeptGroups), "what a warpgroup keeps, where no other reads");

struct Barriers {
  Stages stages;
  Mbarrier received[kConsumers];  // what the other blocks send to a warpgroup
  Mbarrier vectors;               // scales of the tile's rows and columns are there
};

// In shared memory before the stages, which begin at a multiple of 1024 bytes; received sums are behind these.
struct Beside {
  Barriers barriers;
  alignas(16) f32 scales[kBlockScale ? kStepsOfA * kScaleCount : kScaled ? kTileM + kTileN : 4];  // of steps; or of the tile

  QUERN_DEVICE f32* row_scales() { return scales; }
  QUERN_DEVICE f32* column_scales() { return scales + (kScaled ? kTileM : 0); }
};

// This block, of those that share the tile: of more than two it finishes every so many groups of columns.
struct Part {
  Divisor parts;
  i32 number, count;

  QUERN_DEVICE explicit Part(const GemmParams& p) : parts(p.parts), number(block_index(0)), count(kOfTwo ? 2 : p.parts.value) {}
  QUERN_DEVICE i32 begin(i32 steps, i32 part) const { return kOfTwo ? static_cast<i32>(static_cast<u32>(steps * part) / 2) : steps * part / parts; }
  QUERN_DEVICE void take_steps(Work& work) const {
    const i32 steps = work.last_step;
    work.first_step = begin(steps, number);
    work.last_step = begin(steps, number + 1);
  }
  // Of so many groups that begin with one of its own, its own.
  QUERN_DEVICE i32 own_of(i32 groups) const { return (groups + count - 1) / parts; }
};

// Its tile, which all blocks of the cluster have, and its steps of it.
QUERN_DEVICE Work own_work(const GemmParams& p, const Part& part) {
  Work work;
  DenseTiles(p, block_index(1), block_count(1)).next(work);
  part.take_steps(work);
  return work;
}

// A warpgroup's groups of columns, and where sums of them arrive where more than two blocks share: of each group that a block finishes a
// set of slots, one for each other block. Found before there are any sums.
struct Share {
  i32 set_bytes;
  i32 to, sent;           // of the first group: the block that finishes it, and its set there
  i32 finished, arrived;  // the first group that this block finishes, and its set here

  QUERN_DEVICE Share(const Consumer& c, const Part& part) : set_bytes((part.count - 1) * kGroupBytes) {
    const i32 first = c.side * kOwnGroups, round = first / part.parts, ahead = part.number - (first - round * part.count);
    to = first - round * part.count;
    sent = (c.group * part.own_of(kGroups) + round) * set_bytes;
    finished = first + (ahead < 0 ? ahead + part.count : ahead);
    arrived = ahead < 0 ? sent + set_bytes : sent;
  }
};

// Warps of a warpgroup whose rows are there.
QUERN_DEVICE i32 live_warps(const Work& work, const Consumer& c) {
  const i32 rows = work.rows - work.row - c.group * 64;
  return rows <= 0 ? 0 : rows >= 64 ? 4 : div_up(rows, 16);
}

// What will be sent to this block: by the rule of more than two, which gives each of two blocks half of the groups as well. Some of it
// may have come by then: a phase does not end before this.
QUERN_DEVICE void expect_sums(Barriers& barriers, const Work& work, const Part& part) {
  QUERN_ROLLED for (i32 i = 0; i < kConsumers; ++i) {
    const Consumer c(i);
    const i32 left = (c.side + 1) * kOwnGroups - Share(c, part).finished;
    const i32 groups = left > 0 ? part.own_of(left) : 0;
    mbarrier_arrive_expect(barriers.received[i], static_cast<u32>(groups * (part.count - 1) * live_warps(work, c) * kWarpBytes));
  }
}

// Into all stages, which nothing was in. By one thread, as what follows.
QUERN_DEVICE void begin_copies(const Copies& copies, const Work& work) {
  const i32 steps = work.last_step - work.first_step, begun = steps < kStages ? steps : kStages;
  const bool early = (copies.p.flags & kConstantB) != 0;
  if (early) {
    QUERN_ROLLED for (i32 i = 0; i < begun; ++i) copies.b(work, work.first_step + i, i);
  }
  wait_for_previous_grid();
  QUERN_ROLLED for (i32 i = 0; i < begun; ++i) {
    if (!early) copies.b(work, work.first_step + i, i);
    if (i < kStepsOfA) copies.a(work, work.first_step + i, i, i);
  }
}
// A step's a, and b so many steps further on, wait for the same step before.
QUERN_DEVICE void copy_rest(const Copies& copies, const Work& work) {
  StageState state, state_of_b;
  state.skip(kStepsOfA);
  state_of_b.skip(kStages);
  StageStateOfA place;
  QUERN_ROLLED for (i32 step = work.first_step + kStepsOfA; step < work.last_step; ++step) {
    copies.await_empty(state_of_b.stage, state_of_b.phase ^ 1);
    if constexpr (kAhead == 0) {
      copies.b(work, step, state_of_b.stage);
      copies.a(work, step, state.stage, place.stage);
    } else {
      copies.a(work, step, state.stage, place.stage);
      if (step + kAhead < work.last_step) copies.b(work, step + kAhead, state_of_b.stage);
    }
    state.next(), state_of_b.next(), place.next();
  }
}

// The only tile of a block.
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

QUERN_DEVICE vec16 sums_of_group(const f32* sums) { return {bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3])}; }

// Barriers by number, of each warpgroup.
inline constexpr i32 kMultiplied = 2;

// Where a warpgroup keeps this of its groups.
QUERN_DEVICE u8* kept_place(u8* shared, const Consumer& c, i32 i) {
  return shared + i / kKeptGroups * kBBytes + (c.side * kKeptGroups + i % kKeptGroups) * kGroupBytes;
}

// A warpgroup's groups, each to the block that finishes it.
QUERN_DEVICE void send_sums(const f32 (&own)[kOwnSums], const Consumer& c, const Share& share, const Part& part, u8* shared, Mbarrier& barrier) {
  const i32 t = thread_index() % kGroupThreads * 16;
  u8* place = shared + kTileBytes + share.sent + part.number * kGroupBytes + t;
  i32 to = share.to;
  QUERN_UNROLL for (i32 i = 0; i < kOwnGroups; ++i) {
    const vec16 v = sums_of_group(own + i * kGroupSums);
    if (to == part.number) {
      store16(kept_place(shared, c, i) + t, v);
    } else {
      // There is no slot of the receiver's own.
      const u8* slot = place - (to < part.number ? kGroupBytes : 0);
      const auto rank = static_cast<u32>(to);
      store_async(cluster_address(slot, rank), v, cluster_address(&barrier, rank));
    }
    if (++to == part.count) to = 0, place += share.set_bytes;
  }
}

// Four sums of a thread in each of two groups, of all parts: what was kept, and what has come.
QUERN_DEVICE void add_parts(f32 (&sums)[2][kGroupSums], u8* const (&kept)[2], const u8* const (&come)[2], const Part& own) {
  constexpr i32 kAtOnce = 4;  // without a branch, so that loads overlap
  QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
    QUERN_UNROLL for (f32& sum : sums[g]) sum = 0.0f;
  }
  QUERN_ROLLED for (i32 part = 0; part < own.count; part += kAtOnce) {
    vec16 v[2][kAtOnce];
    QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
      const i32 of = part + i < own.count ? part + i : own.number, slot = (of < own.number ? of : of - 1) * kGroupBytes;
      QUERN_UNROLL for (i32 g = 0; g < 2; ++g) v[g][i] = load16(of == own.number ? kept[g] : come[g] + slot);
    }
    QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
      QUERN_UNROLL for (i32 e = 0; e < 2 * kGroupSums; ++e) {
        f32& sum = sums[e / kGroupSums][e % kGroupSums];
        if (part + i < own.count) sum += f32_of(v[e / kGroupSums][i].x[e % kGroupSums]);
      }
    }
  }
}

// Where half of a row of a group lies, once a warp's 16 rows of its sums, four of each lane, are turned round for lanes that read eight
// columns of a row. Of groups that lanes read side by side each has its number as `skew`, so that these lie in different banks.
QUERN_DEVICE f32* turned(u8* staged, i32 skew, i32 row, i32 half) {
  const i32 exchanged = (kRowLanes == 8 ? skew >> 2 : row) & 1;
  return reinterpret_cast<f32*>(staged + (row + skew) % 16 * (kGroupColumns * 4) + (half ^ exchanged) * 16);
}
QUERN_DEVICE void turn_round(u8* staged, i32 skew, const f32* sums) {
  const i32 l = lane();
  QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
    const u64 both = static_cast<u64>(bits_of(sums[2 * h + 1])) << 32 | bits_of(sums[2 * h]);
    *reinterpret_cast<u64*>(turned(staged, skew, l / 4 + 8 * h, l % 4 / 2) + l % 2 * 2) = both;
  }
}
// A lane's eight of these, of one of the warp's rows.
QUERN_DEVICE void finish_turned(const GemmParams& p, const Work& work, Beside& beside, bool there, const Consumer& c, i32 row, i32 group, u8* staged,
                                i32 skew) {
  const i32 line = c.group * 64 + warp() % 4 * 16 + row, column = group * kGroupColumns;
  Eight v;
  QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
    const vec16 part = load16(turned(staged, skew, row, half));
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) v.x[4 * half + i] = f32_of(part.x[i]);
  }
  if constexpr (kScaled) {
    const f32 of_row = beside.row_scales()[line];
    const Eight of_column = read_eight(beside.column_scales() + column);
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] *= of_row * of_column.x[i];
  }
  finish_eight(p, work, there, line, column, v, Eight{});
}

// Two groups at a time, for which sums are turned round where those of this block lay.
QUERN_DEVICE void finish_groups(const GemmParams& p, const Work& work, const Consumer& c, const Share& share, const Part& part, u8* shared, Beside& beside) {
  const i32 last = (c.side + 1) * kOwnGroups, l = lane(), w = warp() % 4;
  const u8* sets = shared + kTileBytes + share.arrived + w * kWarpBytes;
  QUERN_ROLLED for (i32 group = share.finished; group < last; group += 2 * part.count, sets += 2 * share.set_bytes) {
    const bool two = group + part.count < last;
    const i32 next = two ? share.set_bytes : 0, own = group - c.side * kOwnGroups;
    u8* const staged[2] = {kept_place(shared, c, own) + w * kWarpBytes, kept_place(shared, c, two ? own + part.count : own) + w * kWarpBytes};
    f32 sums[2][kGroupSums];
    add_parts(sums, {staged[0] + l * 16, staged[1] + l * 16}, {sets + l * 16, sets + next + l * 16}, part);
    sync_warp();
    QUERN_UNROLL for (i32 i = 0; i < 2; ++i) turn_round(staged[i], 0, sums[i]);
    sync_warp();
    const bool second = l >= 16;
    finish_turned(p, work, beside, !second || two, c, l % 16, second && two ? group + part.count : group, second ? staged[1] : staged[0], 0);
  }
}

// Of two blocks: what the other one finishes, to it.
QUERN_DEVICE void send_to_other(f32 (&kept)[kHalfSums], const f32 (&own)[kOwnSums], const Part& part, u8* slots, Mbarrier& barrier) {
  const auto other = static_cast<u32>(1 - part.number);
  const u32 to = cluster_address(slots + thread_index() % kGroupThreads * 16, other), counted = cluster_address(&barrier, other);
  const auto share_out = [&](const f32* keep, const f32* send) {
    QUERN_UNROLL for (i32 i = 0; i < kHalfGroups; ++i) store_async(to + i * kGroupBytes, sums_of_group(send + i * kGroupSums), counted);
    QUERN_UNROLL for (i32 i = 0; i < kHalfSums; ++i) kept[i] = keep[i];
  };
  if (part.number == 0) {
    share_out(own, own + kHalfSums);
  } else {
    share_out(own + kHalfSums, own);
  }
}
// Lanes side by side, with a group each, store up to 32 or 64 results of a row.
QUERN_DEVICE void finish_kept(const GemmParams& p, const Work& work, const Consumer& c, const Part& part, f32 (&kept)[kHalfSums], u8* slots, Beside& beside) {
  const i32 l = lane();
  const bool there = l % kRowLanes < kHalfGroups;
  const i32 i = there ? l % kRowLanes : 0;
  u8* come = slots + warp() % 4 * kWarpBytes;
  QUERN_UNROLL for (i32 g = 0; g < kHalfGroups; ++g) {
    const vec16 v = load16(come + g * kGroupBytes + l * 16);
    QUERN_UNROLL for (i32 e = 0; e < kGroupSums; ++e) kept[g * kGroupSums + e] += f32_of(v.x[e]);
  }
  sync_warp();
  QUERN_UNROLL for (i32 g = 0; g < kHalfGroups; ++g) turn_round(come + g * kGroupBytes, g, kept + g * kGroupSums);
  sync_warp();
  QUERN_UNROLL for (i32 first = 0; first < 16; first += kWarp / kRowLanes) {
    finish_turned(p, work, beside, there, c, first + l / kRowLanes, c.side * kOwnGroups + part.number * kHalfGroups + i, come + i * kGroupBytes, i);
  }
}

QUERN_DEVICE void multiply_tile(const GemmParams& p, const Work& work, const Consumer& c, const Registers& registers, const Part& part, u8* shared,
                                Beside& beside) {
  Barriers& barriers = beside.barriers;
  const Share share(c, part);
  f32 sums[kSumCount], kept[kHalfSums];
  u8* slots = shared + kTileBytes + c.number() * kHalfGroups * kGroupBytes;  // of two blocks
  const bool of_two = kOfTwo || part.count == 2;
  sum_steps(registers, c, work, StageState(), StageStateOfA(), shared, beside.scales, barriers.stages);
  // All blocks have begun, and their barriers are there.
  cluster_wait();
  // What is kept of sums for more than two blocks lies where all four warps' products read b.
  if (!of_two) sync_named(kMultiplied + c.side, kGroupThreads);
  if (warp() % 4 >= live_warps(work, c)) return;
  registers.sums.read_all(sums);
  Mbarrier& received = barriers.received[c.number()];
  if (of_two) {
    send_to_other(kept, sums, part, slots, received);
  } else {
    send_sums(sums, c, share, part, shared, received);
  }
  if constexpr (kScaled) mbarrier_wait(barriers.vectors, 0);
  mbarrier_wait_cluster(received, 0);
  if (of_two) {
    finish_kept(p, work, c, part, kept, slots, beside);
  } else {
    finish_groups(p, work, c, share, part, shared, beside);
  }
}

}  // namespace q

// The grid is a cluster along the first dimension for each tile.
QUERN_KERNEL(quern_gemm_split_k, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  Sums sums;
  FirstProducts first;
  SecondProducts second;
  QUERN_SHARED(Beside, beside, 1);
  Barriers& barriers = beside[0].barriers;
  u8* shared = tile_shared();
  launch_next_grid();
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
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
    const Part part(p);
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
  // The other blocks are told that this one's barriers are there, and do not wait before they have something to send.
  cluster_arrive_relaxed();  // the fence orders
  if (w == kMapWarp) fetch_maps(map_a, map_b);
  const Part part(p);
  const Work work = own_work(p, part);
  const auto meet = [] { meet_named(kBegun, kThreads); };
  if (w < kCopyWarp) {
    wait_for_previous_grid();
    meet();
    multiply_tile(p, work, Consumer(w / 4), {sums, first, second}, part, shared, beside[0]);
    return;
  }
  if constexpr (kBlockScale) {
    wait_for_previous_grid();
    copy_scales<kScaleSteps, kScaleWarps, kStepsOfA>(p, OneTile{work}, w - kFirstScaleWarp, beside[0].scales, barriers.stages, meet);
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
