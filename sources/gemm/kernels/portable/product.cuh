// The main loop on tensor cores: the sums of a tile over its k blocks.
//
// kStages - 1 k blocks are in flight. Within a k block the operands of the next tensor-core step are read from shared
// memory while those of the present one are multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/portable/load.cuh"
#include "gemm/kernels/shared/warp_sums.cuh"

namespace q {

static_assert(!kBlockScale || kBlockK == 128, "a k block has one scale");

// Where a warp reads its operands: a stage, or some tensor-core steps into it.
struct Readers {
  ReaderOfA<ElementA, StagedA::kPitch, kTransposedA> a;
  ReaderOfB<ElementB, StagedB::kPitch, kTransposedB> b;

  static constexpr i32 kLineOfA = kTransposedA ? static_cast<i32>(sizeof(ElementA)) : StagedA::kPitchBytes;
  static constexpr i32 kLineOfB = kTransposedB ? static_cast<i32>(sizeof(ElementB)) : StagedB::kPitchBytes;
  static constexpr i32 kMmaStepOfA =
      kTileK<ElementA> * (kTransposedA ? StagedA::kPitchBytes : static_cast<i32>(sizeof(ElementA)));
  static constexpr i32 kMmaStepOfB =
      kTileK<ElementB> * (kTransposedB ? StagedB::kPitchBytes : static_cast<i32>(sizeof(ElementB)));

  // The first stage.
  QUERN_DEVICE explicit Readers(SharedPlace stages)
      : a(stages + warp_row() * kLineOfA), b(stages + (StagedA::kBytes + warp_column() * kLineOfB)) {}
  QUERN_DEVICE Readers at_stage(i32 offset) const { return moved(offset, offset); }
  QUERN_DEVICE Readers after(i32 mma_steps) const { return moved(mma_steps * kMmaStepOfA, mma_steps * kMmaStepOfB); }

 private:
  QUERN_DEVICE Readers moved(i32 of_a, i32 of_b) const {
    Readers r = *this;
    r.a = a + of_a, r.b = b + of_b;
    return r;
  }
};

// Operands that are widened before their product are free afterwards, so the next ones are loaded to the same
// registers. Others have two sets of registers, used alternately, except where they are multiplied as soon as they have
// been read.
inline constexpr bool kWidened = kWidens<OperandB<ElementB>>;
static_assert(kWidens<OperandA<ElementA>> == kWidened);
inline constexpr i32 kSets = kWidened || kBlockScale || kStages == 1 ? 1 : 2;
// Columns of tiles that are multiplied together.
inline constexpr i32 kColumns = kBlockScale ? kScaledN : kTilesN;

// The operands of one tensor-core step of a warp, or of some of its columns: a column of tiles of a, a row of tiles of
// b.
struct Fragments {
  using A = OperandA<ElementA>;
  using B = OperandB<ElementB>;
  static constexpr i32 kRaw = kSets * kTilesM;
  NumberedOperands<A, 0, kRaw> a;
  NumberedOperands<B, kRaw, kSets * kColumns> b;
  // Widened operands: the row of tiles that was prepared last, and all columns.
  WideOperands<A, 0, 1> wide_a;
  WideOperands<B, 1, kWidened ? kColumns : 1> wide_b;

  // Loads all rows from i on and then all columns; `first_n` is the column that counts as number 0.
  template <i32 set, i32 i = 0>
  QUERN_DEVICE void load(const Readers& from, i32 mma_step, i32 first_n = 0) {
    load_row<set, i>(from, mma_step);
    if constexpr (i + 1 < kTilesM) {
      load<set, i + 1>(from, mma_step, first_n);
    } else {
      load_columns<set, 0>(from, mma_step, first_n);
    }
  }
  template <i32 set, i32 i>
  QUERN_DEVICE void load_row(const Readers& from, i32 mma_step) {
    a.template load<set * kTilesM + i>(from.a, mma_step * Readers::kMmaStepOfA + 16 * i * Readers::kLineOfA);
  }
  template <i32 set, i32 j>
  QUERN_DEVICE void load_column(const Readers& from, i32 mma_step, i32 first_n = 0) {
    b.template load<set * kColumns + j>(from.b,
                                        mma_step * Readers::kMmaStepOfB + 16 * (first_n + j) * Readers::kLineOfB);
  }
  template <i32 set, i32 j>
  QUERN_DEVICE void load_columns(const Readers& from, i32 mma_step, i32 first_n = 0) {
    load_column<set, j>(from, mma_step, first_n);
    if constexpr (j + 1 < kColumns) load_columns<set, j + 1>(from, mma_step, first_n);
  }
  // Loads portion `portion` of `portions`, in the order in which they are multiplied.
  template <i32 set, i32 portion, i32 portions>
  QUERN_DEVICE void load_portion(const Readers& from, i32 mma_step) {
    load_some<set, kAll * portion / portions, kAll*(portion + 1) / portions>(from, mma_step);
  }

  template <i32 set, i32 i>
  QUERN_DEVICE void prepare_row() {
    if constexpr (kWidened) {
      wide_a.template widen<0, set * kTilesM + i>(a);
    } else {
      a.template prepare<set * kTilesM + i>();
    }
  }
  template <i32 set, i32 j = 0>
  QUERN_DEVICE void prepare_columns() {
    if constexpr (kWidened) {
      wide_b.template widen<j, set * kColumns + j>(b);
    } else {
      b.template prepare<set * kColumns + j>();
    }
    if constexpr (j + 1 < kColumns) prepare_columns<set, j + 1>();
  }

 private:
  static constexpr i32 kAll = kTilesM + kColumns;
  template <i32 set, i32 i, i32 end>
  QUERN_DEVICE void load_some(const Readers& from, i32 mma_step) {
    if constexpr (i < end) {
      if constexpr (i == 0 || i > kColumns) {
        load_row<set, i == 0 ? 0 : i - kColumns>(from, mma_step);
      } else {
        load_column<set, i - 1>(from, mma_step);
      }
      load_some<set, i + 1, end>(from, mma_step);
    }
  }
};

// The products of row i from column j on. between.at<number>() is called before each of them, after its row of a has
// been prepared.
template <i32 set, i32 i, i32 j, class To, class Between>
QUERN_DEVICE void multiply_row(To& to, const Fragments& f, const Between& between) {
  constexpr i32 n = i * kColumns + j;
  between.template at<n>();
  if constexpr (kWidened) {
    to.template add<n, 0, j>(f.wide_a, f.wide_b);
  } else {
    to.template add<n, set * kTilesM + i, set * kColumns + j>(f.a, f.b);
  }
  if constexpr (j + 1 < kColumns) multiply_row<set, i, j + 1>(to, f, between);
}
// The products of all rows from i on; the columns have been prepared.
template <i32 set, i32 i, class To, class Between>
QUERN_DEVICE void multiply_rows(To& to, Fragments& f, const Between& between) {
  f.template prepare_row<set, i>();
  multiply_row<set, i, 0>(to, f, between);
  if constexpr (i + 1 < kTilesM) multiply_rows<set, i + 1>(to, f, between);
}
struct Nothing {
  template <i32>
  QUERN_DEVICE void at() const {}
};
template <i32 set, class To>
QUERN_DEVICE void multiply(To& to, Fragments& f) {
  f.template prepare_columns<set>();
  multiply_rows<set, 0>(to, f, Nothing{});
}

// Adds the products of a k block, times the scales of their rows and columns, to the accumulators: from tile n of the
// columns first_n .. first_n + kScaledN - 1 on.
template <i32 first_n, i32 n = 0>
QUERN_DEVICE void add_scaled(Sums& sums, const f32* scales) {
  constexpr i32 i = n / kScaledN, j = n % kScaledN, to = i * kTilesN + first_n + j;
  const f32 of_column = scales[kTileM + warp_column() / 16 + first_n + j];
  f32 scale[kRowsHeld];
  QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) scale[h] =
      scales[warp_row() + 16 * i + row_of(lane(), h)] * of_column;
  sums.x.add_scaled<to, n>(sums.part, scale);
  if constexpr (n + 1 < kTilesM * kScaledN) add_scaled<first_n, n + 1>(sums, scales);
}

// The products of a k block from tensor-core step k on, each read just before it is multiplied.
template <i32 k, class To>
QUERN_DEVICE void multiply_k_block(To& to, Fragments& f, const Readers& from, i32 first_n) {
  f.template load<0>(from, k, first_n);
  multiply<0>(to, f);
  if constexpr (k + 1 < kMmaSteps) multiply_k_block<k + 1>(to, f, from, first_n);
}

// Multiplies a k block whose products have block scales.
template <i32 first_n>
QUERN_DEVICE void multiply_scaled_k_block(Sums& sums, Fragments& f, const Readers& from, const u8* stage) {
  sums.part.clear();
  multiply_k_block<0>(sums.part, f, from, first_n);
  add_scaled<first_n>(sums, reinterpret_cast<const f32*>(stage + StagedA::kBytes + StagedB::kBytes));
  if constexpr (first_n + kScaledN < kTilesN) multiply_scaled_k_block<first_n + kScaledN>(sums, f, from, stage);
}

// Where the tensor-core step after step `s` of a section reads. Before the last products of a k block a barrier makes
// the next stage visible to all warps and frees the previous one.
template <i32 s, class Pipe>
QUERN_DEVICE Readers after(Pipe& pipeline, const Readers& readers, i32 section, const Readers& from) {
  if constexpr (s + 1 < kSectionMmaSteps) return from;
  if (kSections > 1 && section + 1 < kSections) return from.after(kSectionMmaSteps);
  pipeline.wait_for_two();
  sync_team();
  return readers.at_stage(pipeline.next_offset());
}

// Spreads the loads of the next tensor-core step and the copies of a later k block between the products: issued at once
// they would wait for each other, and products for them.
template <i32 s, class Pipe>
struct Between {
  Fragments& f;
  Pipe& pipeline;
  const Readers& next;
  i32 section;

  static constexpr i32 kSlots = kTilesM * kTilesN, kNext = (s + 1) % kSectionMmaSteps;
  QUERN_DEVICE void copy(i32 portion, i32 portions) const {
    if constexpr (s + 1 < kSectionMmaSteps)
      pipeline.load_portion(section, s * portions + portion, (kSectionMmaSteps - 1) * portions);
  }
  template <i32 slot>
  QUERN_DEVICE void at() const {
    if constexpr (kWidened) {
      if constexpr (slot % kTilesN == 0) f.template load_row<0, slot / kTilesN>(next, kNext);
      if constexpr (slot < kTilesN) f.template load_column<0, slot>(next, kNext);
      copy(slot, kSlots);
    } else {
      constexpr i32 kReads = kSlots > 1 ? kSlots / 2 : 1;
      if constexpr (slot < kReads) {
        f.template load_portion<(s + 1) % kSets, slot, kReads>(next, kNext);
      } else {
        copy(slot - kReads, kSlots - kReads);
      }
    }
  }
};

// Tensor-core step s of a section and those after it.
template <i32 s, class Pipe>
QUERN_DEVICE Readers multiply_section(Sums& sums, Fragments& f, Pipe& pipeline, const Readers& readers, i32 section,
                                      const Readers& from) {
  constexpr i32 kSet = s % kSets;
  f.template prepare_columns<kSet>();
  const Readers next = after<s>(pipeline, readers, section, from);
  multiply_rows<kSet, 0>(sums.x, f, Between<s, Pipe>{f, pipeline, next, section});
  if constexpr (s + 1 < kSectionMmaSteps) return multiply_section<s + 1>(sums, f, pipeline, readers, section, next);
  return next;
}

// Loads rows between the products, for few rows and operands that are widened.
template <i32 mma_step>
struct ReadRows {
  Fragments& f;
  const Readers& from;
  template <i32 slot>
  QUERN_DEVICE void at() const {
    if constexpr (slot % kTilesN == 0) f.template load_row<0, slot / kTilesN>(from, mma_step);
  }
};

// Few rows: the copies of a k block are spread over its tensor-core steps, and the barrier at its beginning is for the
// next stage.
template <i32 k, class Pipe>
QUERN_DEVICE void multiply_spread_k_block(Sums& sums, Fragments& f, Pipe& pipeline, const Readers& stage,
                                          const Readers& next) {
  constexpr i32 kNext = (k + 1) % kMmaSteps, kSet = k % kSets;
  const Readers& from = k + 1 < kMmaSteps ? stage : next;
  if constexpr (k == 0) {
    pipeline.wait_for_two();
    sync_team();
    pipeline.begin_k_block();
  }
  if constexpr (k + 1 < kMmaSteps) pipeline.load_portion(0, k, kMmaSteps - 1);
  if constexpr (k + 2 == kMmaSteps) pipeline.finish_k_block();
  if constexpr (kWidened) {
    f.template prepare_columns<0>();
    f.template load_columns<0, 0>(from, kNext);
    multiply_rows<0, 0>(sums.x, f, ReadRows<kNext>{f, from});
  } else {
    f.template load<(k + 1) % kSets>(from, kNext);
    multiply<kSet>(sums.x, f);
  }
  if constexpr (k + 1 < kMmaSteps) multiply_spread_k_block<k + 1>(sums, f, pipeline, stage, next);
}

// Multiplies the next `k_blocks` k blocks of the pipeline, whose first stages have been filled; with a single stage
// they are filled here.
template <class Pipe>
QUERN_DEVICE void product(Pipe& pipeline, i32 k_blocks, Sums& sums, Fragments& f) {
  static_assert(kStages == 1 || kStages >= (kBlockScale ? 2 : 3));
  static_assert(kSets == 1 || kSectionMmaSteps % 2 == 0, "the two sets of fragments alternate");
  sums.clear();
  const Readers readers(pipeline.place());
  if constexpr (kStages == 1) {
    QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
      pipeline.load();
      pipeline.wait();
      sync_team();
      if constexpr (kBlockScale) {
        multiply_scaled_k_block<0>(sums, f, readers, pipeline.stage());
      } else {
        multiply_k_block<0>(sums.x, f, readers, 0);
      }
      sync_team();
    }
  } else if constexpr (kBlockScale) {
    QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
      pipeline.wait();
      sync_team();
      pipeline.load();
      multiply_scaled_k_block<0>(sums, f, readers.at_stage(pipeline.stage_offset()), pipeline.stage());
      pipeline.take();
    }
  } else {
    pipeline.wait();
    sync_team();
    Readers from = readers.at_stage(pipeline.stage_offset());
    f.template load<0>(from, 0);
    QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
      if constexpr (kSpread) {
        const Readers next = readers.at_stage(pipeline.next_offset());
        multiply_spread_k_block<0>(sums, f, pipeline, from, next);
        from = next;
      } else {
        pipeline.begin_k_block();
        QUERN_ROLLED for (i32 section = 0; section < kSections; ++section) {
          from = multiply_section<0>(sums, f, pipeline, readers, section, from);
          pipeline.finish_section();
        }
        pipeline.finish_k_block();
      }
      pipeline.take();
    }
  }
}

}  // namespace q
