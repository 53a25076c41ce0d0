// Asynchronous copies of a and b, one k step at a time, into a stage of shared memory. What lies outside of the operands
// arrives as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/shared_place.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "gemm/kernels/shared/teams.cuh"

namespace q {

// A step's tensor-core steps, and the turns of the loop over them: less code, and what belongs together stays together.
inline constexpr i32 kProducts = kStepK / kTileK<ElementA>;
inline constexpr i32 kTurns = TENSOR_CORES != 0 && !kSpread && !kBlockScale && kStages > 1 && kProducts % 4 == 0 ? 2 : 1;
inline constexpr i32 kTurnProducts = kProducts / kTurns;

// Each thread copies the same pieces of every step: a column of chunks of kCopyBytes, a pass apart, so many of them in each turn
// of the loop over a step. `gathered` lines (rows of a) may lie anywhere; `halved` ones (columns of b behind a gate) in two runs;
// others in one. Addresses advance by additions: a step has few instructions to spare beside its products.
template <class T, class Staged, bool transposed, bool gathered, bool halved>
class Loader {
  static constexpr i32 kPerCopy = kCopyBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kRowsAtOnce = kTeamThreads / kRowCopies > 0 ? kTeamThreads / kRowCopies : 1;
  static constexpr bool kIdle = kRowsAtOnce > Staged::kRows;  // some threads have nothing to copy
  static_assert(kTeamThreads % kRowCopies == 0 && (kIdle || Staged::kRows % kRowsAtOnce == 0), "the threads cover whole rows");
  static constexpr i32 kPasses = kIdle ? 1 : Staged::kRows / kRowsAtOnce;
  static_assert(kPasses <= 32);
  // Runs of lines, each with an address of its own: a transposed operand's passes are k, not lines.
  static constexpr i32 kRuns = transposed ? 1 : gathered ? kPasses : halved && kPasses > 1 ? 2 : 1;
  static constexpr i32 kRunPasses = kPasses / kRuns;
  // Passes that cannot be divided are all the first turn's.
  static constexpr bool kDivided = kTurns == 2 && kPasses % 2 == 0;
  static_assert(kTurns <= 2);
  // Of one run the address goes on from turn to turn; of several each turn has some.
  static constexpr bool kAdvances = kDivided && kRuns == 1;
  // Lines that are not there come from nowhere; where rows are gathered and not few, from line 0 for results that nobody stores.
  static constexpr bool kAnyLine = gathered && !transposed && !kSpread;

 public:
  static constexpr i32 kTurnPasses = kDivided ? kPasses / 2 : kPasses;

  // line_of(line) gives the line's index in the operand, or -1. Of an operand without lines k is 0.
  template <class LineOf>
  QUERN_DEVICE void begin(const void* operand, i64 line_stride, i64 k_stride, i32 first_step, i32 k, LineOf line_of) {
    const i32 row = thread_of_team() / kRowCopies, column = thread_of_team() % kRowCopies * kPerCopy;
    in_stage_ = row * Staged::kPitchBytes + column * static_cast<i32>(sizeof(T));
    left_ = k - first_step * kStepK - (transposed ? row : column);
    const i64 line_bytes = line_stride * static_cast<i64>(sizeof(T)), k_bytes = k_stride * static_cast<i64>(sizeof(T));
    pass_bytes_ = kRowsAtOnce * (transposed ? k_bytes : line_bytes);
    step_bytes_ = kStepK * k_bytes - (kAdvances ? kPasses * pass_bytes_ : 0);
    const u8* from = static_cast<const u8*>(operand) + (k - left_) * k_bytes;
    const auto index_of = [&](i32 pass) { return kIdle && row >= Staged::kRows ? -1 : line_of(transposed ? column : row + pass * kRowsAtOnce); };
    there_ = 0;
    QUERN_UNROLL for (i32 run = 0; run < kRuns; ++run) {
      const i32 index = index_of(run * kRunPasses);
      at_[run] = from + (index < 0 ? 0 : index) * line_bytes;
      if (gathered && !transposed) there_ |= static_cast<u32>(index >= 0) << run;
    }
    if constexpr (transposed) {
      // Where threads are idle a pass takes what a step has.
      constexpr i32 kOfPass = kIdle ? Staged::kRows : kRowsAtOnce;
      here_ = index_of(0) < 0 ? 0 : (left_ + kOfPass - 1) / kOfPass;
    } else {
      here_ = 1;
      if constexpr (!gathered) {
        here_ = 0;
        QUERN_ROLLED for (i32 pass = 0; pass < kRunPasses; ++pass) here_ += index_of(pass) >= 0;
      }
      if (left_ <= 0) here_ = 0;
    }
  }
  QUERN_DEVICE void begin_step(i32 stage) { to_ = in_stage_ + stage; }
  // Starts copies of the present step: pass `first` of `turn` to the one before `last`.
  QUERN_DEVICE void copy(SharedPlace stages, i32 turn, i32 first, i32 last) const {
    if (!kDivided && turn != 0) return;
    const SharedPlace to = stages + to_;
    if constexpr (kSpread && !transposed && !gathered) {
      // As a rule all of a tile's step is there: fewer instructions.
      if (here_ == kRunPasses) {
        QUERN_UNROLL for (i32 i = first; i < last; ++i) copy(to + i * kPassBytes, from(turn, i), true);
        return;
      }
    }
    QUERN_UNROLL for (i32 i = first; i < last; ++i) {
      if (!kIdle || thread_of_team() / kRowCopies < Staged::kRows) copy(to + i * kPassBytes, from(turn, i), take(turn, i));
    }
  }
  // From now on copies bring zeros, until it begins again.
  QUERN_DEVICE void stop() { here_ = 0; }
  QUERN_DEVICE void end_turn() {
    if constexpr (kAdvances) at_[0] += kTurnPasses * pass_bytes_, here_ -= kTurnPasses;
    if constexpr (kDivided) to_ += kTurnPasses * kPassBytes;
  }
  QUERN_DEVICE void end_step() {
    QUERN_UNROLL for (i32 run = 0; run < kRuns; ++run) at_[run] += step_bytes_;
    if constexpr (transposed) {
      if constexpr (!kAdvances) here_ -= kPasses;
    } else {
      if constexpr (kAdvances) here_ += kPasses;
      left_ -= kStepK;
      if (left_ <= 0) here_ = 0;
    }
  }

 private:
  static constexpr i32 kPassBytes = kRowsAtOnce * Staged::kPitchBytes;

  static QUERN_DEVICE void copy(SharedPlace to, const u8* from, bool take) {
    if constexpr (kCopyBytes == 16) {
      copy_async_16(to, from, take);
    } else {
      copy_async_4(to, from, take);
    }
  }
  QUERN_DEVICE bool take(i32 turn, i32 i) const {
    if constexpr (gathered && !transposed && !kAnyLine) return (there_ >> (turn * kTurnPasses + i) & 1) != 0 && here_ != 0;
    return i % kRunPasses < here_;
  }
  QUERN_DEVICE const u8* from(i32 turn, i32 i) const {
    const u8* run = at_[i / kRunPasses];
    // Registers have no index.
    if constexpr (kDivided && !kAdvances) run = turn == 0 ? run : at_[(kTurnPasses + i) / kRunPasses];
    return run + i % kRunPasses * pass_bytes_;
  }

  // Who never begins copies nothing to its stages' beginning.
  const u8* at_[kRuns] = {};
  i64 step_bytes_ = 0, pass_bytes_ = 0;
  u32 there_ = 0;              // of gathered rows, a bit for each
  i32 here_ = 0;               // passes of each run that there are
  i32 in_stage_ = 0, to_ = 0;  // bytes from a stage's beginning; from the first stage's, of this turn
  i32 left_ = 0;               // k from this thread's first on
};

// Scales of one step, [kTileM] for rows of a, then one for each 16 columns of b.
class ScaleLoader {
 public:
  template <class RowOf, class ColumnOf>
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, RowOf row_of_line, ColumnOf column_of_line) {
    step_ = work.first_step;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      const i32 line = thread_of_team() + i * kTeamThreads;
      there_[i] = false;
      if (line < kTileM) {
        const i32 row = row_of_line(line);
        there_[i] = row >= 0;
        at_[i] = p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group + (there_[i] ? row * p.scale_a_row : 0) + work.first_step * p.scale_a_k;
      } else if (line < kTileM + kTileN / 16) {
        const i32 column = column_of_line((line - kTileM) * 16);
        there_[i] = column >= 0;
        at_[i] = p.scale_b + work.group * p.scale_b_group + (there_[i] ? column / 128 * p.scale_b_row : 0) + work.first_step * p.scale_b_k;
      }
    }
  }
  QUERN_DEVICE void next(const GemmParams& p, f32* stage) {
    const bool more = step_ * kStepK < p.k;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      const i32 line = thread_of_team() + i * kTeamThreads;
      if (line < kTileM + kTileN / 16) {
        copy_async_4(stage + line, at_[i], there_[i] && more);
        at_[i] += line < kTileM ? p.scale_a_k : p.scale_b_k;
      }
    }
    ++step_;
  }

 private:
  static constexpr i32 kPasses = div_up(kTileM + kTileN / 16, kTeamThreads);
  const f32* at_[kPasses];
  bool there_[kPasses];
  i32 step_;
};

// The stages in turn, by where they begin.
class Ring {
 public:
  QUERN_DEVICE i32 offset() const { return offset_; }
  QUERN_DEVICE i32 next_offset() const { return offset_ == (kStages - 1) * kStageBytes ? 0 : offset_ + kStageBytes; }
  QUERN_DEVICE void next() { offset_ = next_offset(); }

 private:
  i32 offset_ = 0;
};

// The copies of a sequence of tiles, step after step, each into the stage after the last one's. `Tiles` gives one piece of work
// after the other: next(work) is false when there is none left.
template <class Tiles>
class Pipeline {
 public:
  QUERN_DEVICE Pipeline(const GemmParams& p, const Tiles& tiles, u8* shared) : p_(p), shared_(shared), place_(shared), tiles_(tiles) {}

  // Starts the first steps.
  QUERN_DEVICE void fill() {
    if constexpr (!kContinuous) begin();
    QUERN_ROLLED for (i32 i = 0; i < kStages - 1; ++i) load();
  }
  // Starts the next step; past the last it only counts.
  QUERN_DEVICE void load() {
    begin_step();
    QUERN_ROLLED for (i32 turn = 0; turn < kTurns; ++turn) {
      load_part(turn, 0, 1);
      end_turn();
    }
    end_step();
  }
  // The same in pieces: every turn's parts, in order, between the two.
  QUERN_DEVICE void begin_step() {
    if constexpr (kContinuous) {
      if (left_ == 0) begin();
    }
    a_.begin_step(filled_.offset());
    b_.begin_step(filled_.offset() + StagedA::kBytes);
    if constexpr (kBlockScale) {
      if (left_ > 0) scales_.next(p_, reinterpret_cast<f32*>(shared_ + filled_.offset() + StagedA::kBytes + StagedB::kBytes));
    }
  }
  QUERN_DEVICE void load_part(i32 turn, i32 part, i32 parts) {
    // Few rows have steps to spare for a branch, and blocks with little to do. Others copy nothing once there is no more.
    if (kSpread && left_ <= 0) return;
    constexpr i32 kOfA = decltype(a_)::kTurnPasses, kOfB = decltype(b_)::kTurnPasses, kAll = kOfA + kOfB;
    const i32 first = kAll * part / parts, last = kAll * (part + 1) / parts;
    if (first < kOfA) a_.copy(place_, turn, first, last < kOfA ? last : kOfA);
    if (last > kOfA) b_.copy(place_, turn, first > kOfA ? first - kOfA : 0, last - kOfA);
  }
  QUERN_DEVICE void end_turn() {
    a_.end_turn();
    b_.end_turn();
  }
  QUERN_DEVICE void end_step() {
    if (left_ > 0) {
      a_.end_step();
      b_.end_step();
      if (--left_ == 0) {
        a_.stop();
        b_.stop();
      }
    }
    filled_.next();
    copy_async_commit();
  }
  // Until the stage that is multiplied next has arrived; or the one after it too.
  QUERN_DEVICE void wait() { copy_async_wait<(kStages > 2 ? kStages - 2 : 0)>(); }
  QUERN_DEVICE void wait_for_two() { copy_async_wait<(kStages > 3 ? kStages - 3 : 0)>(); }

  // The stage that is to be multiplied next, and the one after it.
  QUERN_DEVICE u8* stage() const { return shared_ + taken_.offset(); }
  QUERN_DEVICE i32 stage_offset() const { return taken_.offset(); }
  QUERN_DEVICE i32 next_offset() const { return taken_.next_offset(); }
  QUERN_DEVICE SharedPlace place() const { return place_; }
  QUERN_DEVICE void take() { taken_.next(); }

 private:
  QUERN_DEVICE void begin() {
    Work work;
    if (!tiles_.next(work)) return;
    left_ = work.last_step - work.first_step;
    const auto row_of_line = [&](i32 line) { return source_row(p_, work, line); };
    const auto column_of_line = [&](i32 line) { return source_column(p_, work, line); };
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    const i32 k_of_a = kGrouping == kContiguous && p_.a_rows == 0 ? 0 : p_.k;
    a_.begin(static_cast<const ElementA*>(p_.a) + group_of_a * p_.a_group, p_.a_row, p_.a_k, work.first_step, k_of_a, row_of_line);
    b_.begin(static_cast<const ElementB*>(p_.b) + work.group * p_.b_group, p_.b_row, p_.b_k, work.first_step, p_.k, column_of_line);
    if constexpr (kBlockScale) scales_.begin(p_, work, row_of_line, column_of_line);
  }

  const GemmParams& p_;
  u8* shared_;
  SharedPlace place_;
  Tiles tiles_;
  Loader<ElementA, StagedA, kTransposedA, kGrouping == kContiguous, false> a_;
  Loader<ElementB, StagedB, kTransposedB, false, kGate> b_;
  ScaleLoader scales_;
  Ring filled_, taken_;
  i32 left_ = 0;
};

}  // namespace q
