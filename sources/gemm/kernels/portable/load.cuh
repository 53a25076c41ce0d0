// Asynchronous copies of a and b into the stages of shared memory, one k block at a time. Elements outside of the
// operands arrive as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/shared_place.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "gemm/kernels/shared/teams.cuh"

namespace q {

// A k block has kMmaSteps tensor-core steps. The loop over them has one or two sections, each an iteration with the
// same code: less code, in which reads and products that belong together stay together.
inline constexpr i32 kMmaSteps = kBlockK / kTileK<ElementA>;
inline constexpr i32 kSections =
    TENSOR_CORES != 0 && !kSpread && !kBlockScale && kStages > 1 && kMmaSteps % 4 == 0 ? 2 : 1;
inline constexpr i32 kSectionMmaSteps = kMmaSteps / kSections;

// The copies of one operand. A thread copies the same pieces of every k block: one chunk of kCopyBytes in each pass, a
// fixed number of rows apart; the passes are divided among the sections. `gathered` lines (rows of a) may lie anywhere,
// `halved` ones (columns of b with a gate) in two runs, others in one run. Addresses advance by additions, since a k
// block leaves few instructions beside its products.
template <class T, class Staged, bool transposed, bool gathered, bool halved>
class Loader {
  static constexpr i32 kPerCopy = kCopyBytes / static_cast<i32>(sizeof(T));
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kRowsAtOnce = kTeamThreads / kRowCopies > 0 ? kTeamThreads / kRowCopies : 1;
  static constexpr bool kIdle = kRowsAtOnce > Staged::kRows;  // some threads have nothing to copy
  static_assert(kTeamThreads % kRowCopies == 0 && (kIdle || Staged::kRows % kRowsAtOnce == 0),
                "the threads cover whole rows");
  static constexpr i32 kPasses = kIdle ? 1 : Staged::kRows / kRowsAtOnce;
  static_assert(kPasses <= 32);
  // Runs of lines, each with an address of its own. The passes of a transposed operand go along k, not along lines.
  static constexpr i32 kRuns = transposed ? 1 : gathered ? kPasses : halved && kPasses > 1 ? 2 : 1;
  static constexpr i32 kRunPasses = kPasses / kRuns;
  // Passes that cannot be divided evenly all belong to the first section.
  static constexpr bool kDivided = kSections == 2 && kPasses % 2 == 0;
  static_assert(kSections <= 2);
  // With one run its address advances from section to section; with several each section has some of them.
  static constexpr bool kAdvances = kDivided && kRuns == 1;
  // Lines that do not exist arrive as zeros. Gathered rows, unless rows are few, copy line 0 instead: their results are
  // not stored.
  static constexpr bool kAnyLine = gathered && !transposed && !kSpread;

 public:
  static constexpr i32 kSectionPasses = kDivided ? kPasses / 2 : kPasses;

  // line_of(line) returns the line's index in the operand, or -1. `k` is 0 for an operand without lines.
  template <class LineOf>
  QUERN_DEVICE void begin(const void* operand, i64 line_stride, i64 k_stride, i32 first_k_block, i32 k,
                          LineOf line_of) {
    const i32 row = thread_of_team() / kRowCopies, column = thread_of_team() % kRowCopies * kPerCopy;
    in_stage_ = row * Staged::kPitchBytes + column * static_cast<i32>(sizeof(T));
    left_ = k - first_k_block * kBlockK - (transposed ? row : column);
    const i64 line_bytes = line_stride * static_cast<i64>(sizeof(T)), k_bytes = k_stride * static_cast<i64>(sizeof(T));
    pass_bytes_ = kRowsAtOnce * (transposed ? k_bytes : line_bytes);
    k_block_bytes_ = kBlockK * k_bytes - (kAdvances ? kPasses * pass_bytes_ : 0);
    const u8* from = static_cast<const u8*>(operand) + (k - left_) * k_bytes;
    const auto index_of = [&](i32 pass) {
      return kIdle && row >= Staged::kRows ? -1 : line_of(transposed ? column : row + pass * kRowsAtOnce);
    };
    there_ = 0;
    QUERN_UNROLL for (i32 run = 0; run < kRuns; ++run) {
      const i32 index = index_of(run * kRunPasses);
      at_[run] = from + (index < 0 ? 0 : index) * line_bytes;
      if (gathered && !transposed) there_ |= static_cast<u32>(index >= 0) << run;
    }
    if constexpr (transposed) {
      // Where some threads are idle one pass covers the k of a whole k block.
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
  QUERN_DEVICE void begin_k_block(i32 stage) { to_ = in_stage_ + stage; }
  // Issues passes `first` to `last` - 1 of a section of the present k block.
  QUERN_DEVICE void copy(SharedPlace stages, i32 section, i32 first, i32 last) const {
    if (!kDivided && section != 0) return;
    const SharedPlace to = stages + to_;
    if constexpr (kSpread && !transposed && !gathered) {
      // Mostly all lines and k exist, which takes fewer instructions.
      if (here_ == kRunPasses) {
        QUERN_UNROLL for (i32 i = first; i < last; ++i) copy(to + i * kPassBytes, from(section, i), true);
        return;
      }
    }
    QUERN_UNROLL for (i32 i = first; i < last; ++i) {
      if (!kIdle || thread_of_team() / kRowCopies < Staged::kRows)
        copy(to + i * kPassBytes, from(section, i), take(section, i));
    }
  }
  // Makes all further copies write zeros, until begin() is called again.
  QUERN_DEVICE void stop() { here_ = 0; }
  QUERN_DEVICE void finish_section() {
    if constexpr (kAdvances) at_[0] += kSectionPasses * pass_bytes_, here_ -= kSectionPasses;
    if constexpr (kDivided) to_ += kSectionPasses * kPassBytes;
  }
  QUERN_DEVICE void finish_k_block() {
    QUERN_UNROLL for (i32 run = 0; run < kRuns; ++run) at_[run] += k_block_bytes_;
    if constexpr (transposed) {
      if constexpr (!kAdvances) here_ -= kPasses;
    } else {
      if constexpr (kAdvances) here_ += kPasses;
      left_ -= kBlockK;
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
  QUERN_DEVICE bool take(i32 section, i32 i) const {
    if constexpr (gathered && !transposed && !kAnyLine)
      return (there_ >> (section * kSectionPasses + i) & 1) != 0 && here_ != 0;
    return i % kRunPasses < here_;
  }
  QUERN_DEVICE const u8* from(i32 section, i32 i) const {
    const u8* run = at_[i / kRunPasses];
    // Registers cannot be indexed at run time.
    if constexpr (kDivided && !kAdvances) run = section == 0 ? run : at_[(kSectionPasses + i) / kRunPasses];
    return run + i % kRunPasses * pass_bytes_;
  }

  // A loader that never began writes zeros to the beginning of its stages.
  const u8* at_[kRuns] = {};
  i64 k_block_bytes_ = 0, pass_bytes_ = 0;
  u32 there_ = 0;              // one bit for each gathered row: whether it exists
  i32 here_ = 0;               // passes of each run whose lines or k exist
  i32 in_stage_ = 0, to_ = 0;  // byte offset within a stage; from the first stage, for this section
  i32 left_ = 0;               // k that are left, from this thread's first on
};

// The block scales of a k block in a stage: [kTileM] for the rows of a, then one for each 16 columns of b.
class ScaleLoader {
 public:
  template <class RowOf, class ColumnOf>
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, RowOf row_of_line, ColumnOf column_of_line) {
    k_block_ = work.first_k_block;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      const i32 line = thread_of_team() + i * kTeamThreads;
      there_[i] = false;
      if (line < kTileM) {
        const i32 row = row_of_line(line);
        there_[i] = row >= 0;
        at_[i] = p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group +
                 (there_[i] ? row * p.scale_a_row : 0) + work.first_k_block * p.scale_a_k;
      } else if (line < kTileM + kTileN / 16) {
        const i32 column = column_of_line((line - kTileM) * 16);
        there_[i] = column >= 0;
        at_[i] = p.scale_b + work.group * p.scale_b_group + (there_[i] ? column / 128 * p.scale_b_row : 0) +
                 work.first_k_block * p.scale_b_k;
      }
    }
  }
  QUERN_DEVICE void next(const GemmParams& p, f32* stage) {
    const bool more = k_block_ * kBlockK < p.k;
    QUERN_UNROLL for (i32 i = 0; i < kPasses; ++i) {
      const i32 line = thread_of_team() + i * kTeamThreads;
      if (line < kTileM + kTileN / 16) {
        copy_async_4(stage + line, at_[i], there_[i] && more);
        at_[i] += line < kTileM ? p.scale_a_k : p.scale_b_k;
      }
    }
    ++k_block_;
  }

 private:
  static constexpr i32 kPasses = div_up(kTileM + kTileN / 16, kTeamThreads);
  const f32* at_[kPasses];
  bool there_[kPasses];
  i32 k_block_;
};

// Byte offset of the present stage; advances through the stages as through a ring.
class Ring {
 public:
  QUERN_DEVICE i32 offset() const { return offset_; }
  QUERN_DEVICE i32 next_offset() const { return offset_ == (kStages - 1) * kStageBytes ? 0 : offset_ + kStageBytes; }
  QUERN_DEVICE void next() { offset_ = next_offset(); }

 private:
  i32 offset_ = 0;
};

// The copies of both operands of a matrix product, as the pipeline takes them.
struct GemmOperands {
  using Params = GemmParams;
  Loader<ElementA, StagedA, kTransposedA, kGrouping == kContiguous, false> a;
  Loader<ElementB, StagedB, kTransposedB, false, kGate> b;

  QUERN_DEVICE void begin(const GemmParams& p, const Work& work) {
    const i64 group_of_a = kGrouping == kContiguous ? 0 : work.group;
    const i32 k_of_a = kGrouping == kContiguous && p.a_rows == 0 ? 0 : p.k;
    a.begin(static_cast<const ElementA*>(p.a) + group_of_a * p.a_group, p.a_row, p.a_k, work.first_k_block, k_of_a,
            [&](i32 line) { return source_row(p, work, line); });
    b.begin(static_cast<const ElementB*>(p.b) + work.group * p.b_group, p.b_row, p.b_k, work.first_k_block, p.k,
            [&](i32 line) { return source_column(p, work, line); });
  }
};

// The pipeline over a sequence of tiles: copies of one k block after the other, each into the next stage. `Tiles` is
// the sequence; next(work) returns false after the last one.
template <class Tiles, class Operands = GemmOperands>
class Pipeline {
 public:
  using Params = typename Operands::Params;

  QUERN_DEVICE Pipeline(const Params& p, const Tiles& tiles, u8* shared)
      : p_(p), shared_(shared), place_(shared), tiles_(tiles) {}

  // Issues the copies of the first k blocks.
  QUERN_DEVICE void fill() {
    if constexpr (!kContinuous) begin();
    QUERN_ROLLED for (i32 i = 0; i < kStages - 1; ++i) load();
  }
  // Issues the copies of the next k block; after the last one it only counts.
  QUERN_DEVICE void load() {
    begin_k_block();
    QUERN_ROLLED for (i32 section = 0; section < kSections; ++section) {
      load_portion(section, 0, 1);
      finish_section();
    }
    finish_k_block();
  }
  // load() in portions: between begin_k_block() and finish_k_block() all portions of every section, in order.
  QUERN_DEVICE void begin_k_block() {
    if constexpr (kContinuous) {
      if (left_ == 0) begin();
    }
    operands_.a.begin_k_block(filled_.offset());
    operands_.b.begin_k_block(filled_.offset() + StagedA::kBytes);
    if constexpr (kBlockScale) {
      if (left_ > 0)
        scales_.next(p_, reinterpret_cast<f32*>(shared_ + filled_.offset() + StagedA::kBytes + StagedB::kBytes));
    }
  }
  QUERN_DEVICE void load_portion(i32 section, i32 portion, i32 portions) {
    // With few rows there is time for a branch, and blocks may have nothing to copy. Otherwise copies write zeros once
    // nothing is left.
    if (kSpread && left_ <= 0) return;
    constexpr i32 kOfA = decltype(operands_.a)::kSectionPasses, kOfB = decltype(operands_.b)::kSectionPasses,
                  kAll = kOfA + kOfB;
    const i32 first = kAll * portion / portions, last = kAll * (portion + 1) / portions;
    if (first < kOfA) operands_.a.copy(place_, section, first, last < kOfA ? last : kOfA);
    if (last > kOfA) operands_.b.copy(place_, section, first > kOfA ? first - kOfA : 0, last - kOfA);
  }
  QUERN_DEVICE void finish_section() {
    operands_.a.finish_section();
    operands_.b.finish_section();
  }
  QUERN_DEVICE void finish_k_block() {
    if (left_ > 0) {
      operands_.a.finish_k_block();
      operands_.b.finish_k_block();
      if (--left_ == 0) {
        operands_.a.stop();
        operands_.b.stop();
      }
    }
    filled_.next();
    copy_async_commit();
  }
  // Waits until the next stage to be multiplied has arrived; wait_for_two(): that one and the one after it.
  QUERN_DEVICE void wait() { copy_async_wait<(kStages > 2 ? kStages - 2 : 0)>(); }
  QUERN_DEVICE void wait_for_two() { copy_async_wait<(kStages > 3 ? kStages - 3 : 0)>(); }

  // The next stage to be multiplied, and the one after it.
  QUERN_DEVICE u8* stage() const { return shared_ + taken_.offset(); }
  QUERN_DEVICE i32 stage_offset() const { return taken_.offset(); }
  QUERN_DEVICE i32 next_offset() const { return taken_.next_offset(); }
  QUERN_DEVICE SharedPlace place() const { return place_; }
  QUERN_DEVICE void take() { taken_.next(); }

 private:
  QUERN_DEVICE void begin() {
    Work work;
    if (!tiles_.next(work)) return;
    left_ = work.end_k_block - work.first_k_block;
    operands_.begin(p_, work);
    if constexpr (kBlockScale) {
      scales_.begin(
          p_, work, [&](i32 line) { return source_row(p_, work, line); },
          [&](i32 line) { return source_column(p_, work, line); });
    }
  }

  const Params& p_;
  u8* shared_;
  SharedPlace place_;
  Tiles tiles_;
  Operands operands_;
  ScaleLoader scales_;
  Ring filled_, taken_;
  i32 left_ = 0;
};

}  // namespace q
