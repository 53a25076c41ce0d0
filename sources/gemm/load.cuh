// Asynchronous copies of a and b, one k step at a time, into a stage of shared memory. What lies outside of the operands
// arrives as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/tile.cuh"

namespace q {

// Each thread copies the same pieces of every step: a column of chunks of kCopyBytes, a pass apart. `Source` says where a line
// (a row of a, a column of the product for b) begins and whether it is there.
template <class T, class Staged, i32 lines, bool transposed>
class Loader {
  static constexpr i32 kPerCopy = kCopyBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kRowsAtOnce = kThreads / kRowCopies > 0 ? kThreads / kRowCopies : 1;
  static constexpr bool kIdle = kRowsAtOnce > Staged::kRows;  // some threads have nothing to copy
  static_assert(kThreads % kRowCopies == 0 && (kIdle || Staged::kRows % kRowsAtOnce == 0), "the threads cover whole rows");
  static constexpr i32 kPasses = kIdle ? 1 : Staged::kRows / kRowsAtOnce;
  // Lines that one thread has to do with.
  static constexpr i32 kLines = transposed ? 1 : kPasses;
  static_assert(kLines <= 64);

 public:
  // line_of(line) gives the line's index in the operand, or -1.
  template <class LineOf>
  QUERN_DEVICE void begin(const void* operand, i64 line_stride, i64 k_stride, i32 first_step, i32 k, LineOf line_of) {
    const i32 row = thread_index() / kRowCopies, column = thread_index() % kRowCopies * kPerCopy;
    to_ = row * Staged::kPitch + column;
    k_ = first_step * kStepK + (transposed ? row : column);
    k_end_ = k;
    there_ = 0;
    line_bytes_ = line_stride * static_cast<i64>(sizeof(T));
    k_bytes_ = k_stride * static_cast<i64>(sizeof(T));
    at_ = static_cast<const u8*>(operand) + k_ * k_bytes_;
    QUERN_UNROLL for (i32 i = 0; i < kLines; ++i) {
      const i32 index = idle() ? -1 : line_of(transposed ? column : row + i * kRowsAtOnce);
      line_[i] = index < 0 ? 0 : index;
      there_ |= static_cast<u64>(index >= 0) << i;
    }
  }
  // Starts the copies of the next step.
  QUERN_DEVICE void next(T* stage) {
    if (idle()) return;
    T* to = stage + to_;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      if constexpr (transposed) {
        const bool take = there_ != 0 && k_ + i * kRowsAtOnce < k_end_;
        copy(to + i * kRowsAtOnce * Staged::kPitch, at_ + line_[0] * line_bytes_ + i * kRowsAtOnce * k_bytes_, take);
      } else {
        const bool take = (there_ >> i & 1) != 0 && k_ < k_end_;
        copy(to + i * kRowsAtOnce * Staged::kPitch, at_ + line_[i] * line_bytes_, take);
      }
    }
    k_ += kStepK;
    at_ += kStepK * k_bytes_;
  }

 private:
  static QUERN_DEVICE bool idle() { return kIdle && thread_index() / kRowCopies >= Staged::kRows; }
  static QUERN_DEVICE void copy(T* to, const u8* from, bool take) {
    if constexpr (kCopyBytes == 16) {
      copy_async_16(to, from, take);
    } else {
      copy_async_4(to, from, take);
    }
  }

  const u8* at_;
  i64 line_bytes_, k_bytes_;
  u64 there_;
  i32 line_[kLines];
  i32 to_, k_, k_end_;
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

// The row of a that line `line` of the tile is made of; -1 where there is none.
QUERN_DEVICE i32 source_row(const GemmParams& p, const Work& work, i32 line) {
  const i32 row = work.row + line;
  if (row >= work.rows) return -1;
  if constexpr (kGrouping == kContiguous) {
    i32 from = static_cast<i32>(work.first_row) + row;
    if (p.indices) from = p.indices[from];
    return from >= 0 && from < p.a_rows ? from : -1;
  }
  return row;
}
// The row of b that line `line` of the tile is made of.
QUERN_DEVICE i32 source_column(const GemmParams& p, const Work& work, i32 line) {
  const i32 half = kGate && line >= kOutTileN ? 1 : 0;
  const i32 column = work.column + line - half * kOutTileN, columns = kGate ? p.n / 2 : p.n;
  return column < columns ? column + half * columns : -1;
}

// The copies of one tile's steps, in order, each into the stage after the last one's.
class Pipeline {
 public:
  QUERN_DEVICE Pipeline(const GemmParams& p, const Work& work, u8* shared) : p_(p), shared_(shared) {
    const auto row_of_line = [&](i32 line) { return source_row(p, work, line); };
    const auto column_of_line = [&](i32 line) { return source_column(p, work, line); };
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    a_.begin(static_cast<const ElementA*>(p.a) + group_of_a * p.a_group, p.a_row, p.a_k, work.first_step, p.k, row_of_line);
    b_.begin(static_cast<const ElementB*>(p.b) + work.group * p.b_group, p.b_row, p.b_k, work.first_step, p.k, column_of_line);
    if constexpr (kBlockScale) scales_.begin(p, work, row_of_line, column_of_line);
  }
  // Starts the next of `steps`; past the last it only counts.
  QUERN_DEVICE void load(i32 steps) {
    if (begun_ < steps) {
      u8* stage = shared_ + begun_ % kStages * kStageBytes;
      a_.next(reinterpret_cast<ElementA*>(stage));
      b_.next(reinterpret_cast<ElementB*>(stage + StagedA::kBytes));
      if constexpr (kBlockScale) scales_.next(p_, reinterpret_cast<f32*>(stage + StagedA::kBytes + StagedB::kBytes));
    }
    ++begun_;
    copy_async_commit();
  }
  // Until all but the youngest kStages - 2 steps that were begun have arrived.
  QUERN_DEVICE void wait() { copy_async_wait<(kStages > 2 ? kStages - 2 : 0)>(); }

 private:
  const GemmParams& p_;
  u8* shared_;
  Loader<ElementA, StagedA, kTileM, kTransposedA> a_;
  Loader<ElementB, StagedB, kTileN, kTransposedB> b_;
  ScaleLoader scales_;
  i32 begun_ = 0;
};

}  // namespace q
