// The main loop: a tile's sums over its k steps, on tensor cores.
//
// A pipeline of kStages - 1 steps under way. Within a step, what the next tensor-core step needs is read from shared memory
// while the present one is multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/portable/load.cuh"
#include "gemm/kernels/shared/warp_sums.cuh"

namespace q {

static_assert(!kBlockScale || kStepK == 128, "a step has one scale");

// Where a warp reads its operands: a stage, or some steps into it.
struct Readers {
  ReaderOfA<ElementA, StagedA::kPitch, kTransposedA> a;
  ReaderOfB<ElementB, StagedB::kPitch, kTransposedB> b;

  static constexpr i32 kLineOfA = kTransposedA ? static_cast<i32>(sizeof(ElementA)) : StagedA::kPitchBytes;
  static constexpr i32 kLineOfB = kTransposedB ? static_cast<i32>(sizeof(ElementB)) : StagedB::kPitchBytes;
  static constexpr i32 kStepOfA = kTileK<ElementA> * (kTransposedA ? StagedA::kPitchBytes : static_cast<i32>(sizeof(ElementA)));
  static constexpr i32 kStepOfB = kTileK<ElementB> * (kTransposedB ? StagedB::kPitchBytes : static_cast<i32>(sizeof(ElementB)));

  // The first stage.
  QUERN_DEVICE explicit Readers(SharedPlace stages) : a(stages + warp_row() * kLineOfA), b(stages + (StagedA::kBytes + warp_column() * kLineOfB)) {}
  QUERN_DEVICE Readers at_stage(i32 offset) const { return moved(offset, offset); }
  QUERN_DEVICE Readers after(i32 steps) const { return moved(steps * kStepOfA, steps * kStepOfB); }

 private:
  QUERN_DEVICE Readers moved(i32 of_a, i32 of_b) const {
    Readers r = *this;
    r.a = a + of_a, r.b = b + of_b;
    return r;
  }
};

// Operands that are widened before they are multiplied are free by it: the next ones go there at once. Others have two sets that
// change places, but for those that are multiplied as soon as they have been read.
inline constexpr bool kWidened = kWidens<OperandB<ElementB>>;
static_assert(kWidens<OperandA<ElementA>> == kWidened);
inline constexpr i32 kSets = kWidened || kBlockScale || kStages == 1 ? 1 : 2;
// Columns that are multiplied together.
inline constexpr i32 kColumns = kBlockScale ? kScaledN : kTilesN;

// The operands of one tensor-core step of a warp, or of some of its columns: each a row or a column of tiles.
struct Fragments {
  using A = OperandA<ElementA>;
  using B = OperandB<ElementB>;
  static constexpr i32 kRaw = kSets * kTilesM;
  NumberedOperands<A, 0, kRaw> a;
  NumberedOperands<B, kRaw, kSets * kColumns> b;
  // If widened: the row prepared last, and all columns.
  WideOperands<A, 0, 1> wide_a;
  WideOperands<B, 1, kWidened ? kColumns : 1> wide_b;

  // All from row i and column j on; `first_n` is the column that is number 0.
  template <i32 set, i32 i = 0>
  QUERN_DEVICE void load(const Readers& from, i32 step, i32 first_n = 0) {
    load_row<set, i>(from, step);
    if constexpr (i + 1 < kTilesM) {
      load<set, i + 1>(from, step, first_n);
    } else {
      load_columns<set, 0>(from, step, first_n);
    }
  }
  template <i32 set, i32 i>
  QUERN_DEVICE void load_row(const Readers& from, i32 step) {
    a.template load<set * kTilesM + i>(from.a, step * Readers::kStepOfA + 16 * i * Readers::kLineOfA);
  }
  template <i32 set, i32 j>
  QUERN_DEVICE void load_column(const Readers& from, i32 step, i32 first_n = 0) {
    b.template load<set * kColumns + j>(from.b, step * Readers::kStepOfB + 16 * (first_n + j) * Readers::kLineOfB);
  }
  template <i32 set, i32 j>
  QUERN_DEVICE void load_columns(const Readers& from, i32 step, i32 first_n = 0) {
    load_column<set, j>(from, step, first_n);
    if constexpr (j + 1 < kColumns) load_columns<set, j + 1>(from, step, first_n);
  }
  // Part `part` of `parts`, in the order in which they are multiplied.
  template <i32 set, i32 part, i32 parts>
  QUERN_DEVICE void load_part(const Readers& from, i32 step) {
    load_some<set, kAll * part / parts, kAll * (part + 1) / parts>(from, step);
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
  QUERN_DEVICE void load_some(const Readers& from, i32 step) {
    if constexpr (i < end) {
      if constexpr (i == 0 || i > kColumns) {
        load_row<set, i == 0 ? 0 : i - kColumns>(from, step);
      } else {
        load_column<set, i - 1>(from, step);
      }
      load_some<set, i + 1, end>(from, step);
    }
  }
};

// Row i of products from column j on; between.at<number>() comes before each of them, once their row of a has been prepared.
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
// Those from row i on, whose columns have been prepared.
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

// Products of a step, from tile n of those in columns first_n and after it on, times the scales of their rows and columns.
template <i32 first_n, i32 n = 0>
QUERN_DEVICE void add_scaled(Sums& sums, const f32* scales) {
  constexpr i32 i = n / kScaledN, j = n % kScaledN, to = i * kTilesN + first_n + j;
  const f32 of_column = scales[kTileM + warp_column() / 16 + first_n + j];
  f32 scale[kRowsHeld];
  QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) scale[h] = scales[warp_row() + 16 * i + row_of(lane(), h)] * of_column;
  sums.x.add_scaled<to, n>(sums.part, scale);
  if constexpr (n + 1 < kTilesM * kScaledN) add_scaled<first_n, n + 1>(sums, scales);
}

// A step's products from tensor-core step k on, each read when it is multiplied.
template <i32 k, class To>
QUERN_DEVICE void multiply_step(To& to, Fragments& f, const Readers& from, i32 first_n) {
  f.template load<0>(from, k, first_n);
  multiply<0>(to, f);
  if constexpr (k + 1 < kProducts) multiply_step<k + 1>(to, f, from, first_n);
}

// One step of which the products have a scale of their own.
template <i32 first_n>
QUERN_DEVICE void scaled_step(Sums& sums, Fragments& f, const Readers& from, const u8* stage) {
  sums.part.clear();
  multiply_step<0>(sums.part, f, from, first_n);
  add_scaled<first_n>(sums, reinterpret_cast<const f32*>(stage + StagedA::kBytes + StagedB::kBytes));
  if constexpr (first_n + kScaledN < kTilesN) scaled_step<first_n + kScaledN>(sums, f, from, stage);
}

// Where the tensor-core step after step `s` of a turn reads. Before the last ones of a step are multiplied, a barrier shows the next
// stage to all and frees the one before.
template <i32 s, class Pipe>
QUERN_DEVICE Readers after(Pipe& pipeline, const Readers& readers, i32 turn, const Readers& from) {
  if constexpr (s + 1 < kTurnProducts) return from;
  if (kTurns > 1 && turn + 1 < kTurns) return from.after(kTurnProducts);
  pipeline.wait_for_two();
  sync_team();
  return readers.at_stage(pipeline.next_offset());
}

// What the next tensor-core step reads, and copies, come one after the other between products: all at once they would wait for
// each other, and products for them.
template <i32 s, class Pipe>
struct Between {
  Fragments& f;
  Pipe& pipeline;
  const Readers& next;
  i32 turn;

  static constexpr i32 kSlots = kTilesM * kTilesN, kNext = (s + 1) % kTurnProducts;
  QUERN_DEVICE void copy(i32 part, i32 parts) const {
    if constexpr (s + 1 < kTurnProducts) pipeline.load_part(turn, s * parts + part, (kTurnProducts - 1) * parts);
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
        f.template load_part<(s + 1) % kSets, slot, kReads>(next, kNext);
      } else {
        copy(slot - kReads, kSlots - kReads);
      }
    }
  }
};

// Tensor-core step s of a turn and those after it.
template <i32 s, class Pipe>
QUERN_DEVICE Readers multiply_turn(Sums& sums, Fragments& f, Pipe& pipeline, const Readers& readers, i32 turn, const Readers& from) {
  constexpr i32 kSet = s % kSets;
  f.template prepare_columns<kSet>();
  const Readers next = after<s>(pipeline, readers, turn, from);
  multiply_rows<kSet, 0>(sums.x, f, Between<s, Pipe>{f, pipeline, next, turn});
  if constexpr (s + 1 < kTurnProducts) return multiply_turn<s + 1>(sums, f, pipeline, readers, turn, next);
  return next;
}

// Few rows, of operands that are widened.
template <i32 step>
struct ReadRows {
  Fragments& f;
  const Readers& from;
  template <i32 slot>
  QUERN_DEVICE void at() const {
    if constexpr (slot % kTilesN == 0) f.template load_row<0, slot / kTilesN>(from, step);
  }
};

// Few rows: a step's copies are spread over its tensor-core steps, and the barrier at its beginning is for the stage after.
template <i32 k, class Pipe>
QUERN_DEVICE void spread_step(Sums& sums, Fragments& f, Pipe& pipeline, const Readers& stage, const Readers& next) {
  constexpr i32 kNext = (k + 1) % kProducts, kSet = k % kSets;
  const Readers& from = k + 1 < kProducts ? stage : next;
  if constexpr (k == 0) {
    pipeline.wait_for_two();
    sync_team();
    pipeline.begin_step();
  }
  if constexpr (k + 1 < kProducts) pipeline.load_part(0, k, kProducts - 1);
  if constexpr (k + 2 == kProducts) pipeline.end_step();
  if constexpr (kWidened) {
    f.template prepare_columns<0>();
    f.template load_columns<0, 0>(from, kNext);
    multiply_rows<0, 0>(sums.x, f, ReadRows<kNext>{f, from});
  } else {
    f.template load<(k + 1) % kSets>(from, kNext);
    multiply<kSet>(sums.x, f);
  }
  if constexpr (k + 1 < kProducts) spread_step<k + 1>(sums, f, pipeline, stage, next);
}

// The next `steps` steps of the pipeline, which has been filled. Where there is one stage only it is filled here.
template <class Pipe>
QUERN_DEVICE void product(Pipe& pipeline, i32 steps, Sums& sums, Fragments& f) {
  static_assert(kStages == 1 || kStages >= (kBlockScale ? 2 : 3));
  static_assert(kSets == 1 || kTurnProducts % 2 == 0, "the two sets of fragments change places");
  sums.clear();
  const Readers readers(pipeline.place());
  if constexpr (kStages == 1) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.load();
      pipeline.wait();
      sync_team();
      if constexpr (kBlockScale) {
        scaled_step<0>(sums, f, readers, pipeline.stage());
      } else {
        multiply_step<0>(sums.x, f, readers, 0);
      }
      sync_team();
    }
  } else if constexpr (kBlockScale) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.wait();
      sync_team();
      pipeline.load();
      scaled_step<0>(sums, f, readers.at_stage(pipeline.stage_offset()), pipeline.stage());
      pipeline.take();
    }
  } else {
    pipeline.wait();
    sync_team();
    Readers from = readers.at_stage(pipeline.stage_offset());
    f.template load<0>(from, 0);
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      if constexpr (kSpread) {
        const Readers next = readers.at_stage(pipeline.next_offset());
        spread_step<0>(sums, f, pipeline, from, next);
        from = next;
      } else {
        pipeline.begin_step();
        QUERN_ROLLED for (i32 turn = 0; turn < kTurns; ++turn) {
          from = multiply_turn<0>(sums, f, pipeline, readers, turn, from);
          pipeline.end_turn();
        }
        pipeline.end_step();
      }
      pipeline.take();
    }
  }
}

}  // namespace q
