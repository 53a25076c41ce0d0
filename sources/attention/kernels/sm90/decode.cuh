// Attention with few rows a KV head on Hopper: warps that copy keep memory busy across items, warps that multiply read
// what has come from shared memory as operands, codes of 8 bits without a step in between.
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/sm90/decode_copy.cuh"
#include "attention/kernels/sm90/decode_softmax.cuh"

namespace q {

// The parameters that there are.
template <bool coded_results>
struct UsedParams {
  using Type = AttentionParamsOfAll;
};
template <>
struct UsedParams<true> {
  using Type = AttentionParams;
};
QUERN_DEVICE void fetch_used_parameters(const AttentionParams& p) {
  fetch_parameters(static_cast<const UsedParams<kCodedResults>::Type&>(p));
}

// Results that are in shared memory and have not been joined yet, as a reader knows of them.
struct Left {
  bool any = false;
  i32 buffer = 0;  // the next one to be written; those before it, in turn, have been joined by all
  u32 phase = 0;
};

// One warp that multiplies.
struct StreamReader {
  const AttentionParams& p;
  Shared* shared;
  u8* stages;    // of its pipe
  f32* results;  // of all readers
  LanePlaces places;
  SharedArray<Mbarrier> full, empty;

  QUERN_DEVICE void attend(const Sequence& s, const TileRange& seen, const RowContext& rows, const Queries& q,
                           i32 stage, i32 key, RowSoftmax& softmax, Accumulator (&o)[kPairsV]) const {
    Accumulator x[2] = {};  // two chains of products
    QUERN_UNROLL for (int g = 0; g < kGroupsK; ++g) {
      const vec16 first = places.key(stage, g, false), last = places.key(stage, g, true);
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
    // Under way while scores become weights, where there are registers for them.
    ValueCodes codes;
    if constexpr (kCoded && !kManySums) codes.load(places, stage);
    u8* const values = stages + stage + kPipeKeys * kRowBytesK;
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
      if (bad != 0) {
        spoil_rows(p, s, rows, bad, key, softmax);
        if constexpr (kCoded && !kManySums) codes.load(places, stage);
      }
    }
    if constexpr (kCoded && kManySums) codes.load(places, stage);
    multiply_values<CacheElement>(to_operand<Product>(x[0]), codes, values, o);
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
  // comes last joins the item's slots. Few rows of a whole item are left there until all readers have come, which is
  // asked for when the next piece is done: so nobody waits for others. `stage` is the piece's task; is_last: there is
  // no next piece.
  QUERN_DEVICE void write_results(const Sequence& s, const Piece& piece, RowSoftmax& softmax, Accumulator (&o)[kPairsV],
                                  i32 stage, bool is_last, Left& left) const {
    if constexpr (kTokenScales) {
      QUERN_UNROLL for (int m = 0; m < kPairsV; ++m) {
        QUERN_UNROLL for (int i = 0; i < 8; ++i) o[m].x[i] *= softmax.values;
      }
    }
    QUERN_UNROLL for (int h = 0; h < 2; ++h) softmax.sum[h] = reduce_row_sum(softmax.sum[h]), softmax.max[h] -= kLift;
    f32* const slot = piece.count > 1 ? slot_at(p, piece, piece.index) : nullptr;
    const i32 of_tile = s.q_len * kGroup - piece.tile * kRows, rows = of_tile < kRows ? of_tile : kRows;
    const bool leave = kResultBuffers == 2 && rows <= kJoinedRows && !slot && !is_last;
    QUERN_ROLLED for (i32 first = left.any ? -1 : 0;;) {
      if (first >= 0) {
        f32* const own = results + (left.buffer * kPipes * kReaders + warp()) * kJoinedFloats;
        if (row_of(lane(), 0) / kJoinedRows == first % 8 / kJoinedRows) {
          if (first < 8) {
            stage_row<0>(softmax, o, own);
          } else {
            stage_row<1>(softmax, o, own);
          }
        }
        if (kResultBuffers == 2) left.buffer ^= 1;
        if (leave) {
          sync_warp();
          if (elect_one()) mbarrier_arrive(shared->left);
          break;
        }
        Readers::sync();
      } else {
        mbarrier_wait(shared->left, left.phase);
        left.phase ^= 1;
      }
      const bool is_earlier = first < 0;
      const i32 of = is_earlier ? (stage + kTasks - 1) % kTasks : stage;
      const f32* const all =
          results + (kResultBuffers == 2 ? (left.buffer ^ 1) * kPipes * kReaders : 0) * kJoinedFloats;
      const Parts parts{all, all + kJoinedFloats, kJoinedFloats, kPipes * kReaders, kJoinedRows};
      Sequence of_sequence = s;
      Piece of_piece = piece;
      if (is_earlier) of_sequence = shared->tasks[of].sequence, of_piece = shared->tasks[of].piece;
      join<4, 4, Readers, kJoinedRows>(p, of_sequence, of_piece, parts, is_earlier ? nullptr : slot,
                                       is_earlier ? 0 : first);
      if (kResultBuffers == 1) Readers::sync();
      if (is_earlier) release(of);
      first = is_earlier ? 0 : first + kJoinedRows;
      if (first >= rows) break;
    }
    left.any = leave;
    if (leave) return;
    if (slot && arrived_last<Readers>(p, piece, &shared->flag)) {
      const Parts slots{slot_at(p, piece, 0), slot_at(p, piece, 1), static_cast<i64>(piece.slot_step) * p.slot_floats,
                        piece.count, p.slot_rows};
      join<4, 4, Readers>(p, s, piece, slots, nullptr);
    }
    release(stage);
  }
  QUERN_DEVICE void release(i32 stage) const {
    sync_warp();
    if (elect_one()) mbarrier_arrive(shared->task.empty[stage]);
  }

  QUERN_DEVICE void run(int turn) const {
    const SharedArray<Mbarrier> told_full(shared->task.full);
    PipelineState<kTasks> told;
    PipelineState<kStages> state;
    state.stage = turn;
    i32 before = 0;  // blocks of keys of earlier pieces
    Left left;
    await(told_full, told);
    QUERN_ROLLED for (;;) {
      const i32 stage = told.stage;
      const Sequence s = shared->tasks[stage].sequence;
      const Piece piece = shared->tasks[stage].piece;
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
        attend(s, seen, rows, q, state.stage * kStageBytes, origin + block * kBlock, softmax, o);
        sync_warp();
        if (elect_one()) mbarrier_arrive(empty, state.stage);
        state.template advance<kReaders>();
      }
      before += piece.end - piece.begin;
      told.next();
      await(told_full, told);
      write_results(s, piece, softmax, o, stage, shared->tasks[told.stage].piece.count == 0, left);
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
    fetch_used_parameters(p);
    // What may be read early says what there is to copy; PipeCopies waits before it copies what may not.
    if (p.constant_past == 0) wait_for_previous_grid();
    copy_pieces(p, shared, memory);
  } else {
    shared->init();
    registers_grow<kReaderRegisters>();
    fetch_used_parameters(p);
    meet_named(kStartBarrier, THREADS);
    wait_for_previous_grid();
    const int pipe = w % kPipes;
    StreamReader{p,
                 shared,
                 stages_of(memory, pipe),
                 results_at(memory),
                 LanePlaces(stages_of(memory, pipe)),
                 SharedArray<Mbarrier>(shared->pipes[pipe].full),
                 SharedArray<Mbarrier>(shared->pipes[pipe].empty)}
        .run(w / kPipes);
  }
}
