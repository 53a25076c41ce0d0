// Asynchronous copies of a and b, one k step at a time, into a stage of shared memory. What lies outside of the operands
// arrives as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/source.cuh"

namespace q {

// Each thread copies the same pieces of every step: a column of chunks of kCopyBytes, a pass apart. `gathered` lines (rows of a)
// may lie anywhere; `halved` ones (columns of b behind a gate) in two runs; others in one. Addresses advance by additions: a step
// has few instructions to spare beside its products.
template <class T, class Staged, bool transposed, bool gathered, bool halved>
class Loader {
  static constexpr i32 kPerCopy = kCopyBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kRowsAtOnce = kThreads / kRowCopies > 0 ? kThreads / kRowCopies : 1;
  static constexpr bool kIdle = kRowsAtOnce > Staged::kRows;  // some threads have nothing to copy
  static_assert(kThreads % kRowCopies == 0 && (kIdle || Staged::kRows % kRowsAtOnce == 0), "the threads cover whole rows");
  static constexpr i32 kPasses = kIdle ? 1 : Staged::kRows / kRowsAtOnce;
  static_assert(kPasses <= 32);
  // Runs of lines, each with an address of its own: a transposed operand's passes are k, not lines.
  static constexpr i32 kRuns = transposed ? 1 : gathered ? kPasses : halved && kPasses > 1 ? 2 : 1;
  static constexpr i32 kRunPasses = kPasses / kRuns;

 public:
  // line_of(line) gives the line's index in the operand, or -1: its zeros are copied from nowhere.
  template <class LineOf>
  QUERN_DEVICE void begin(const void* operand, i64 line_stride, i64 k_stride, i32 first_step, i32 k, LineOf line_of) {
    const i32 row = thread_index() / kRowCopies, column = thread_index() % kRowCopies * kPerCopy;
    to_ = row * Staged::kPitchBytes + column * static_cast<i32>(sizeof(T));
    left_ = k - first_step * kStepK - (transposed ? row : column);
    const i64 line_bytes = line_stride * static_cast<i64>(sizeof(T)), k_bytes = k_stride * static_cast<i64>(sizeof(T));
    step_bytes_ = kStepK * k_bytes;
    pass_bytes_ = kRowsAtOnce * (transposed ? k_bytes : line_bytes);
    const u8* from = static_cast<const u8*>(operand) + (k - left_) * k_bytes;
    there_ = 0;
    QUERN_UNROLL for (i32 i = 0; i < (transposed ? 1 : kPasses); ++i) {
      const i32 index = kIdle && row >= Staged::kRows ? -1 : line_of(transposed ? column : row + i * kRowsAtOnce);
      if (i % kRunPasses == 0) at_[i / kRunPasses] = from + (index < 0 ? 0 : index) * line_bytes;
      there_ |= static_cast<u32>(index >= 0) << i;
    }
  }
  // Starts part `part` of `parts` of the copies of the present step.
  template <i32 part, i32 parts>
  QUERN_DEVICE void copy_part(u8* stage) const {
    constexpr i32 kFirst = kPasses * part / parts, kLast = kPasses * (part + 1) / parts;
    u8* to = stage + to_;
    if constexpr (kSpread && !transposed) {
      // As a rule all of a tile's step is there: fewer instructions.
      constexpr u32 kAll = static_cast<u32>((u64{1} << kPasses) - 1);
      if (there_ == kAll && left_ > 0) {
        QUERN_UNROLL for (i32 i = kFirst; i < kLast; ++i) copy(to, i, true);
        return;
      }
    }
    QUERN_UNROLL for (i32 i = kFirst; i < kLast; ++i) {
      const bool take = transposed ? there_ != 0 && i * kRowsAtOnce < left_ : (there_ & 1u << i) != 0 && left_ > 0;
      if (!kIdle || thread_index() / kRowCopies < Staged::kRows) copy(to, i, take);
    }
  }
  QUERN_DEVICE void advance() {
    left_ -= kStepK;
    QUERN_UNROLL for (i32 run = 0; run < kRuns; ++run) at_[run] += step_bytes_;
  }

 private:
  QUERN_DEVICE void copy(u8* stage, i32 pass, bool take) const {
    u8* to = stage + pass * kRowsAtOnce * Staged::kPitchBytes;
    const u8* from = at_[pass / kRunPasses] + pass % kRunPasses * pass_bytes_;
    if constexpr (kCopyBytes == 16) {
      copy_async_16(to, from, take);
    } else {
      copy_async_4(to, from, take);
    }
  }

  const u8* at_[kRuns];
  i64 step_bytes_, pass_bytes_;
  u32 there_;
  i32 to_, left_;  // bytes from a stage's beginning; k from this thread's first on
};

// Scales of one step, [kTileM] for rows of a, then one for each 16 columns of b.
class ScaleLoader {
 public:
  template <class RowOf, class ColumnOf>
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, RowOf row_of_line, ColumnOf column_of_line) {
    step_ = work.first_step;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      const i32 line = thread_index() + i * kThreads;
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
      const i32 line = thread_index() + i * kThreads;
      if (line < kTileM + kTileN / 16) {
        copy_async_4(stage + line, at_[i], there_[i] && more);
        at_[i] += line < kTileM ? p.scale_a_k : p.scale_b_k;
      }
    }
    ++step_;
  }

 private:
  static constexpr i32 kPasses = div_up(kTileM + kTileN / 16, kThreads);
  const f32* at_[kPasses];
  bool there_[kPasses];
  i32 step_;
};

// The copies of a sequence of tiles, step after step, each into the stage after the last one's. `Tiles` gives one piece of work
// after the other: next(work) is false when there is none left.
template <class Tiles>
class Pipeline {
 public:
  QUERN_DEVICE Pipeline(const GemmParams& p, const Tiles& tiles, u8* shared) : p_(p), shared_(shared), tiles_(tiles) {}

  // Starts the first steps.
  QUERN_DEVICE void fill() {
    QUERN_ROLLED for (i32 i = 0; i < kStages - 1; ++i) load();
  }
  // Starts the next step; past the last it only counts.
  QUERN_DEVICE void load() { load_part<0, 1>(); }
  // The same in parts, in order.
  template <i32 part, i32 parts>
  QUERN_DEVICE void load_part() {
    if constexpr (part == 0) {
      if (left_ == 0) begin();
    }
    if (left_ > 0) {
      u8* stage = shared_ + begun_ % kStages * kStageBytes;
      a_.template copy_part<part, parts>(stage);
      b_.template copy_part<part, parts>(stage + StagedA::kBytes);
      if constexpr (part == 0 && kBlockScale) scales_.next(p_, reinterpret_cast<f32*>(stage + StagedA::kBytes + StagedB::kBytes));
      if constexpr (part == parts - 1) {
        a_.advance();
        b_.advance();
        --left_;
      }
    }
    if constexpr (part == parts - 1) {
      ++begun_;
      copy_async_commit();
    }
  }
  // Until the stage that is multiplied next has arrived; or the one after it too.
  QUERN_DEVICE void wait() { copy_async_wait<(kStages > 2 ? kStages - 2 : 0)>(); }
  QUERN_DEVICE void wait_for_two() { copy_async_wait<(kStages > 3 ? kStages - 3 : 0)>(); }

  // The stage that is to be multiplied next, and the one after it.
  QUERN_DEVICE u8* stage() const { return shared_ + taken_ % kStages * kStageBytes; }
  QUERN_DEVICE u8* next_stage() const { return shared_ + (taken_ + 1) % kStages * kStageBytes; }
  QUERN_DEVICE void take() { ++taken_; }

 private:
  QUERN_DEVICE void begin() {
    Work work;
    if (!tiles_.next(work)) return;
    left_ = work.last_step - work.first_step;
    const auto row_of_line = [&](i32 line) { return source_row(p_, work, line); };
    const auto column_of_line = [&](i32 line) { return source_column(p_, work, line); };
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    a_.begin(static_cast<const ElementA*>(p_.a) + group_of_a * p_.a_group, p_.a_row, p_.a_k, work.first_step, p_.k, row_of_line);
    b_.begin(static_cast<const ElementB*>(p_.b) + work.group * p_.b_group, p_.b_row, p_.b_k, work.first_step, p_.k, column_of_line);
    if constexpr (kBlockScale) scales_.begin(p_, work, row_of_line, column_of_line);
  }

  const GemmParams& p_;
  u8* shared_;
  Tiles tiles_;
  Loader<ElementA, StagedA, kTransposedA, kGrouping == kContiguous, false> a_;
  Loader<ElementB, StagedB, kTransposedB, false, kGate> b_;
  ScaleLoader scales_;
  i32 left_ = 0, begun_ = 0, taken_ = 0;
};

}  // namespace q
