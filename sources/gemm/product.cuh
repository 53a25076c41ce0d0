// The main loop: a tile's sums over its k steps, on tensor cores.
//
// A pipeline of kStages - 1 steps under way. Within a step, what the next tensor-core step needs is read from shared memory
// while the present one is multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/load.cuh"
#include "gemm/warp_sums.cuh"

namespace q {

static_assert(!kBlockScale || kStepK == 128, "a step has one scale");

template <class T>
QUERN_DEVICE T copy_of(const T& v) {
  return v;
}

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

// The operands of one tensor-core step of a warp, or of some of its columns.
template <i32 tiles_n>
struct Fragments {
  OperandA<ElementA> a[kTilesM];
  OperandB<ElementB> b[tiles_n];

  QUERN_DEVICE void load(const Readers& from, i32 step, i32 first_n = 0) {
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) load_rows(from, step, i);
    load_columns(from, step, first_n);
  }
  QUERN_DEVICE void load_rows(const Readers& from, i32 step, i32 i) { a[i] = from.a.read(step * Readers::kStepOfA + 16 * i * Readers::kLineOfA); }
  QUERN_DEVICE void load_columns(const Readers& from, i32 step, i32 first_n = 0) {
    QUERN_UNROLL for (i32 j = 0; j < tiles_n; ++j) load_column(from, step, first_n, j);
  }
  QUERN_DEVICE void load_column(const Readers& from, i32 step, i32 first_n, i32 j) {
    b[j] = from.b.read(step * Readers::kStepOfB + 16 * (first_n + j) * Readers::kLineOfB);
  }
  // Part `part` of `parts`, in the order in which they are multiplied.
  QUERN_DEVICE void load_part(const Readers& from, i32 step, i32 part, i32 parts) {
    constexpr i32 kAll = kTilesM + tiles_n;
    QUERN_UNROLL for (i32 i = kAll * part / parts; i < kAll * (part + 1) / parts; ++i) {
      if (i == 0 || i > tiles_n) {
        load_rows(from, step, i == 0 ? 0 : i - tiles_n);
      } else {
        load_column(from, step, 0, i - 1);
      }
    }
  }
};

using WideRow = decltype(copy_of(multiplicand(OperandA<ElementA>{})));
using WideColumn = decltype(copy_of(multiplicand(OperandB<ElementB>{})));
// Operands that are widened before they are multiplied free their registers by it: the next ones go there at once.
inline constexpr bool kWidened = sizeof(WideColumn) > sizeof(OperandB<ElementB>);

// Row i of products from column j on; between(number) comes before each of them, once their row of a has been widened.
template <i32 tiles_n, i32 i, i32 j, class To, class Between>
QUERN_DEVICE void multiply_row(To& to, const WideRow& a, const WideColumn* b, const Between& between) {
  constexpr i32 n = i * tiles_n + j;
  between(n);
  to.template add<n>(a, b[j]);
  if constexpr (j + 1 < tiles_n) multiply_row<tiles_n, i, j + 1>(to, a, b, between);
}
template <i32 tiles_n, i32 i, class To, class Between>
QUERN_DEVICE void multiply_rows(To& to, const Fragments<tiles_n>& f, const WideColumn* b, const Between& between) {
  const WideRow a = multiplicand(f.a[i]);
  multiply_row<tiles_n, i, 0>(to, a, b, between);
  if constexpr (i + 1 < kTilesM) multiply_rows<tiles_n, i + 1>(to, f, b, between);
}
template <i32 tiles_n>
QUERN_DEVICE void widen_columns(const Fragments<tiles_n>& f, WideColumn* b) {
  QUERN_UNROLL for (i32 j = 0; j < tiles_n; ++j) b[j] = multiplicand(f.b[j]);
}
struct Nothing {
  QUERN_DEVICE void operator()(i32) const {}
};
template <i32 tiles_n, class To>
QUERN_DEVICE void multiply(To& to, const Fragments<tiles_n>& f) {
  WideColumn b[tiles_n];
  widen_columns(f, b);
  multiply_rows<tiles_n, 0>(to, f, b, Nothing{});
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

// One step of which the products have a scale of their own.
template <i32 first_n>
QUERN_DEVICE void scaled_step(Sums& sums, const Readers& from, const u8* stage) {
  sums.part.clear();
  QUERN_UNROLL for (i32 k = 0; k < kProducts; ++k) {
    Fragments<kScaledN> f;
    f.load(from, k, first_n);
    multiply(sums.part, f);
  }
  add_scaled<first_n>(sums, reinterpret_cast<const f32*>(stage + StagedA::kBytes + StagedB::kBytes));
  if constexpr (first_n + kScaledN < kTilesN) scaled_step<first_n + kScaledN>(sums, from, stage);
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
  Fragments<kTilesN>* f;
  Pipe& pipeline;
  const Readers& next;
  i32 turn;

  static constexpr i32 kSlots = kTilesM * kTilesN, kNext = (s + 1) % kTurnProducts;
  QUERN_DEVICE void copy(i32 part, i32 parts) const {
    if constexpr (s + 1 < kTurnProducts) pipeline.load_part(turn, s * parts + part, (kTurnProducts - 1) * parts);
  }
  QUERN_DEVICE void operator()(i32 slot) const {
    if constexpr (kWidened) {
      if (slot % kTilesN == 0) f->load_rows(next, kNext, slot / kTilesN);
      if (slot < kTilesN) f->load_column(next, kNext, 0, slot);
      copy(slot, kSlots);
    } else {
      constexpr i32 kReads = kSlots > 1 ? kSlots / 2 : 1;
      if (slot < kReads) {
        f[(s + 1) & 1].load_part(next, kNext, slot, kReads);
      } else {
        copy(slot - kReads, kSlots - kReads);
      }
    }
  }
};

// Tensor-core step s of a turn and those after it.
template <i32 s, class Pipe>
QUERN_DEVICE Readers multiply_turn(Sums& sums, Fragments<kTilesN>* f, Pipe& pipeline, const Readers& readers, i32 turn, const Readers& from) {
  const Fragments<kTilesN>& now = f[kWidened ? 0 : s & 1];
  WideColumn b[kTilesN];
  widen_columns(now, b);
  const Readers next = after<s>(pipeline, readers, turn, from);
  multiply_rows<kTilesN, 0>(sums.x, now, b, Between<s, Pipe>{f, pipeline, next, turn});
  if constexpr (s + 1 < kTurnProducts) return multiply_turn<s + 1>(sums, f, pipeline, readers, turn, next);
  return next;
}

// Few rows, of operands that are widened.
struct ReadRows {
  Fragments<kTilesN>* f;
  const Readers& from;
  i32 step;
  QUERN_DEVICE void operator()(i32 slot) const {
    if (slot % kTilesN == 0) f->load_rows(from, step, slot / kTilesN);
  }
};

// Few rows: a step's copies are spread over its tensor-core steps, and the barrier at its beginning is for the stage after.
template <i32 k, class Pipe>
QUERN_DEVICE void spread_step(Sums& sums, Fragments<kTilesN>* f, Pipe& pipeline, const Readers& stage, const Readers& next) {
  constexpr i32 kNext = (k + 1) % kProducts;
  const Readers& from = k + 1 < kProducts ? stage : next;
  if constexpr (k == 0) {
    pipeline.wait_for_two();
    sync_team();
    pipeline.begin_step();
  }
  if constexpr (k + 1 < kProducts) pipeline.load_part(0, k, kProducts - 1);
  if constexpr (k + 2 == kProducts) pipeline.end_step();
  if constexpr (kWidened) {
    WideColumn b[kTilesN];
    widen_columns(*f, b);
    f->load_columns(from, kNext);
    multiply_rows<kTilesN, 0>(sums.x, *f, b, ReadRows{f, from, kNext});
  } else {
    f[(k + 1) & 1].load(from, kNext);
    multiply(sums.x, f[k & 1]);
  }
  if constexpr (k + 1 < kProducts) spread_step<k + 1>(sums, f, pipeline, stage, next);
}

// The next `steps` steps of the pipeline, which has been filled. Where there is one stage only it is filled here.
template <class Pipe>
QUERN_DEVICE void product(Pipe& pipeline, i32 steps, Sums& sums) {
  static_assert(kStages == 1 || kStages >= (kBlockScale ? 2 : 3));
  static_assert(kStages == 1 || kWidened || kTurnProducts % 2 == 0, "the two sets of fragments change places");
  sums.clear();
  const Readers readers(pipeline.place());
  if constexpr (kStages == 1) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.load();
      pipeline.wait();
      sync_team();
      if constexpr (kBlockScale) {
        scaled_step<0>(sums, readers, pipeline.stage());
      } else {
        QUERN_UNROLL for (i32 k = 0; k < kProducts; ++k) {
          Fragments<kTilesN> f;
          f.load(readers, k);
          multiply(sums.x, f);
        }
      }
      sync_team();
    }
  } else if constexpr (kBlockScale) {
    QUERN_ROLLED for (i32 step = 0; step < steps; ++step) {
      pipeline.wait();
      sync_team();
      pipeline.load();
      scaled_step<0>(sums, readers.at_stage(pipeline.stage_offset()), pipeline.stage());
      pipeline.take();
    }
  } else {
    pipeline.wait();
    sync_team();
    Fragments<kTilesN> f[kWidened ? 1 : 2];
    Readers from = readers.at_stage(pipeline.stage_offset());
    f[0].load(from, 0);
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
