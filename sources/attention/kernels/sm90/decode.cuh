// Attention with few rows a KV head on Hopper: warps that copy keep memory busy across items, warps that multiply read
// what has come from shared memory as operands, codes of 8 bits without a step in between.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/sm90/decode_copy.cuh"
#include "attention/kernels/sm90/decode_softmax.cuh"

namespace q {

// One warp that multiplies.
struct StreamReader {
  const AttentionParams& p;
  Shared* shared;
  u8* stages;    // of its pipe
  f32* results;  // of all readers
  SharedArray<Mbarrier> full, empty;

  QUERN_DEVICE void attend(const Sequence& s, const TileRange& seen, const RowContext& rows, const Queries& q,
                           u8* stage, i32 key, RowSoftmax& softmax, Accumulator (&o)[kPairsV]) const {
    const int l = lane(), own_key = key_of_column(l >> 2);
    Accumulator x[2] = {};  // two chains of products
    QUERN_UNROLL for (int g = 0; g < kGroupsK; ++g) {
      const vec16 first = load16(stage + swizzled<kRowBytesK>(own_key, 4 * g + (l & 3)));
      const vec16 last = load16(stage + swizzled<kRowBytesK>(own_key + 8, 4 * g + (l & 3)));
      QUERN_UNROLL for (int j = 0; j < kStepsOfGroup; ++j) {
        mma(x[j & 1], q.steps[g * kStepsOfGroup + j], keys_of<CacheElement>(first, last, j));
      }
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) x[0].x[i] += x[1].x[i];

    const bool masked =
        key < seen.all.first || key + kPipeKeys > seen.all.last || (kCustomMask && key + kPipeKeys > rows.mask.first);
    // What no row sees was not copied.
    const bool check =
        masked && (kCustomMask || (key < seen.all.first && key + kPipeKeys > seen.any.first) ||
                   (key + kPipeKeys > seen.all.last && key < seen.any.last && seen.all.last < seen.any.last));
    u8* const values = stage + kPipeKeys * kRowBytesK;
    const f32* const scales = reinterpret_cast<const f32*>(values + kPipeKeys * kRowBytesV);
    mask_scores(p, s, rows, q.factor, key, masked, scales, x[0]);
    f32 rescale[2];
    if (ballot(weigh_scores(q.factor, scales + kPipeKeys, x[0], softmax, rescale))) {
      QUERN_UNROLL for (int m = 0; m < kPairsV; ++m) {
        QUERN_UNROLL for (int i = 0; i < 8; ++i) o[m].x[i] *= rescale[held_row(i)];
      }
    }
    if (!kIsInteger<CacheElement> && check) {
      const u32 bad = clear_values(values);
      if (bad != 0) spoil_rows(p, s, rows, bad, key, softmax);
    }
    multiply_values<CacheElement>(to_operand<Product>(x[0]), values, o);
  }

  // One of a lane's rows, half `h`, to where the readers' results are joined.
  template <int h>
  QUERN_DEVICE static void stage_row(const RowSoftmax& softmax, const Accumulator (&o)[kPairsV], f32* own) {
    const int row = row_of(lane(), 0) % kJoinedRows;
    store_row<h>(o, own + row * kSlotPitch);
    if ((lane() & 3) != 0) return;
    own[kJoinedRows * kSlotPitch + row] = softmax.max[h];
    own[kJoinedRows * (kSlotPitch + 1) + row] = softmax.sum[h];
  }

  // The readers' results, kJoinedRows rows at a time through shared memory, to `out` or to the piece's slot; whoever
  // comes last joins the item's slots.
  QUERN_DEVICE void write_results(const Sequence& s, const Piece& piece, RowSoftmax& softmax,
                                  Accumulator (&o)[kPairsV]) const {
    if constexpr (kTokenScales) {
      QUERN_UNROLL for (int m = 0; m < kPairsV; ++m) {
        QUERN_UNROLL for (int i = 0; i < 8; ++i) o[m].x[i] *= softmax.values;
      }
    }
    QUERN_UNROLL for (int h = 0; h < 2; ++h) softmax.sum[h] = reduce_row_sum(softmax.sum[h]), softmax.max[h] -= kLift;
    f32* const slot = piece.count > 1 ? slot_at(p, piece, piece.index) : nullptr;
    f32* const own = results + warp() * kJoinedFloats;
    const i32 left = s.q_len * kGroup - piece.tile * kRows, rows = left < kRows ? left : kRows;
    QUERN_ROLLED for (i32 first = 0; first < rows; first += kJoinedRows) {
      if (row_of(lane(), 0) / kJoinedRows == first % 8 / kJoinedRows) {
        if (first < 8) {
          stage_row<0>(softmax, o, own);
        } else {
          stage_row<1>(softmax, o, own);
        }
      }
      Readers::sync();
      const Parts parts{results, results + kJoinedFloats, kJoinedFloats, kPipes * kReaders, kJoinedRows};
      join<4, 4, Readers, kJoinedRows>(p, s, piece, parts, slot, first);
      Readers::sync();
    }
    if (!slot || !arrived_last<Readers>(p, piece, &shared->flag)) return;
    const Parts slots{slot_at(p, piece, 0), slot_at(p, piece, 1), static_cast<i64>(piece.slot_step) * p.slot_floats,
                      piece.count, p.slot_rows};
    join<4, 4, Readers>(p, s, piece, slots, nullptr);
  }

  QUERN_DEVICE void run(int turn) const {
    const SharedArray<Mbarrier> told_full(shared->task.full), told_empty(shared->task.empty);
    PipelineState<kTasks> told;
    PipelineState<kStages> state;
    state.stage = turn;
    i32 before = 0;  // blocks of keys of earlier pieces
    QUERN_ROLLED for (;;) {
      await(told_full, told);
      const Sequence s = shared->tasks[told.stage].sequence;
      const Piece piece = shared->tasks[told.stage].piece;
      if (piece.count == 0) break;
      Queries q;
      f32 factor = p.scale;
      if (kCoded && !kTokenScales && p.k_scale) factor *= p.k_scale[piece.head * p.k_scale_stride_head];
      load_queries(p, s, piece, factor, q);
      const TileRange seen = tile_range(p, s, piece.tile * kRows, kRows);
      const RowContext rows(p, s, piece);
      RowSoftmax softmax;
      Accumulator o[kPairsV] = {};
      const i32 origin = s.first + warp() % kPipes * kPipeKeys;
      QUERN_ROLLED for (i32 block = piece.begin + ((turn - before) & (kReaders - 1)); block < piece.end;
                        block += kReaders) {
        await(full, state);
        attend(s, seen, rows, q, stages + state.stage * kStageBytes, origin + block * kBlock, softmax, o);
        sync_warp();
        if (elect_one()) mbarrier_arrive(empty, state.stage);
        state.template advance<kReaders>();
      }
      before += piece.end - piece.begin;
      write_results(s, piece, softmax, o);
      sync_warp();
      if (elect_one()) mbarrier_arrive(told_empty, told.stage);
      told.next();
    }
  }
};

}  // namespace q

QUERN_KERNEL(quern_attention_streams, THREADS, 1, QUERN_PARAM q::AttentionParams p) {
  using namespace q;
  QUERN_SHARED(Shared, shared, 1);
  u8* const memory = dynamic_shared();
  launch_next_grid();
  const int w = shuffle(warp(), 0);
  if (w >= kPipes * kReaders) {
    registers_shrink<kCopyRegisters>();
    fetch_parameters(p);
    wait_for_previous_grid();
    copy_pieces(p, shared, memory);
  } else {
    shared->init();
    registers_grow<kReaderRegisters>();
    fetch_parameters(p);
    wait_for_previous_grid();
    meet_named(kStartBarrier, THREADS);
    const int pipe = w % kPipes;
    StreamReader{p,
                 shared,
                 stages_of(memory, pipe),
                 results_at(memory),
                 SharedArray<Mbarrier>(shared->pipes[pipe].full),
                 SharedArray<Mbarrier>(shared->pipes[pipe].empty)}
        .run(w / kPipes);
  }
}
