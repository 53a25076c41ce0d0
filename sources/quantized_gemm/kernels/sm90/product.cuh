// Products of weights of 8 or 4 bits and many rows of activations of 16 bits, on Hopper: out^T = b a^T, whose operand A
// are weights that each warpgroup unpacks in registers, while the other warpgroup's products keep the tensor cores
// busy. A persistent kernel: a producer warpgroup (copies.cuh) and two consumer warpgroups, of 64 lines of b each,
// which multiply in turn.
//
// Nothing is rounded that the portable kernel does not round: sums of a group have accumulators of their own and are
// scaled in f32 before they are added to those of the groups before.
// SPDX-License-Identifier: Apache-2.0
#include "quantized_gemm/kernels/sm90/results.cuh"

namespace q {

// What is multiplied in one turn: a group where sums are scaled.
inline constexpr i32 kTurnK = kScaledSums && kGroup < kBlockK ? kGroup : kBlockK;
inline constexpr i32 kTurns = kBlockK / kTurnK, kSteps = kTurnK / 16;
// A warpgroup hands over when so many of its steps are left, so that the other's products follow without a gap.
inline constexpr i32 kStepsLeft = kSteps > 2 ? 2 : 1;

using Products = WarpgroupSums<div_up(kSumCount, 32), kSumCount>;  // of a group

// Whole k blocks of unpacked weights, two of them, take registers that the producer's loads of small groups would have.
inline constexpr i32 kProducerRegisters = kSteps < 8 ? 56 : 40, kConsumerRegisters = 252 - kProducerRegisters / 2;
static_assert((kConsumers * kConsumerRegisters + kProducerRegisters) * kGroupThreads == 168 * kThreads);

// Named barriers: kBegun until the mbarriers are initialised, then each consumer's own and its turn.
inline constexpr i32 kBegun = 1, kOwnBarrier = 2, kTurnBarrier = kOwnBarrier + kConsumers;
QUERN_DEVICE void take_turn(i32 consumer) { sync_named(kTurnBarrier + consumer, kConsumers * kGroupThreads); }
QUERN_DEVICE void hand_over(i32 consumer) { arrive_named(kTurnBarrier + (consumer ^ 1), kConsumers * kGroupThreads); }

// Where a thread finds its two lines in a stage.
struct OwnLines {
  i32 line;    // the first
  i32 turned;  // how pieces of 16 bytes have changed places, which is the same in both
  u32 selector;

  QUERN_DEVICE explicit OwnLines(i32 consumer) : line(own_line(consumer)) {
    turned =
        static_cast<i32>(swizzled(static_cast<u32>((lane() >> 2) * kLineBytes), kSwizzleB)) & 0x70 & (kLineBytes - 1);
    selector = WeightsOfB::selector(static_cast<u32>(lane() & 3));
  }
};

// What a thread reads of a stage for a turn: its weights as they are packed, and the words of their groups.
struct PackedTurn {
  static constexpr i32 kStepsOfPiece = kBitsOf<CodeB> == 4 ? 2 : 1, kPieces = kSteps / kStepsOfPiece;
  static constexpr i32 kStepsOfGroup = kGroup == 0 ? 8 : div_up(kGroup, 16), kGroups = div_up(kSteps, kStepsOfGroup);
  vec16 pieces[kPieces][2];
  u32 scales[kGroupsOfScaleB ? kGroups : 1][2];
  u32 zeros[kZeros ? kGroups : 1][2];

  template <i32 turn>
  QUERN_DEVICE void read(const OwnLines& own, const u8* of_b, const u32* words) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      QUERN_UNROLL for (i32 piece = 0; piece < kPieces; ++piece) {
        const i32 place = (turn * kPieces + piece) * 16;
        pieces[piece][h] = load16(of_b + own.line * kLineBytes + (place ^ own.turned) + h * (kLinesApart * kLineBytes));
      }
      QUERN_UNROLL for (i32 g = 0; g < kGroups; ++g) {
        const u32* const word = words + own.line + ((turn * kSteps / kStepsOfGroup + g) * kTileN + h * kLinesApart);
        if constexpr (kGroupsOfScaleB) scales[g][h] = word[0];
        if constexpr (kZeros) zeros[g][h] = word[kScaleWords];
      }
    }
  }
  QUERN_DEVICE void unpack(u32 selector, u32 (&to)[kSteps][1][4]) const {
    QUERN_UNROLL for (i32 step = 0; step < kSteps; ++step) {
      const i32 group = step / kStepsOfGroup, s = step % kStepsOfPiece;
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
        const vec16& v = pieces[step / kStepsOfPiece][h];
        u32 zero = WeightsOfB::zero_word(kBitsOf<CodeB> == 4 ? 8 : 128);
        if constexpr (kZeros) zero = zeros[group][h];
        QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
          const i32 first = kStepsOfPiece == 2 ? 2 * s + half : 2 * half;
          u32& pair = to[step][0][h + 2 * half];
          pair = WeightsOfB::pair(v.x[first], v.x[first | 1], selector, zero);
          if constexpr (kScaledWeights) pair = scaled_pair(pair, scales[group][h]);
        }
      }
    }
  }
};

// Issues the products of a turn; those of all but the last steps are a group of their own. `a` is the lower word of the
// descriptor of the stage's activations.
template <i32 turn, bool fresh, class D>
QUERN_DEVICE void multiply_turn(D& d, u32 a, const u32 (&weights)[kSteps][1][4]) {
  constexpr u64 kUpper = kLayoutA >> 32 << 32;
  const auto at = [&](i32 step) {
    const i32 k = turn * kSteps + step;
    return kUpper | (a + static_cast<u32>(k / 4 * kBoxABytes + k % 4 * 32 >> 4));
  };
  d.template multiply_steps<Multiplied, Multiplied, Major::k, 0, 0, kSumCount, fresh>(weights[0], at(0));
  if (kSteps - kStepsLeft == 1) wgmma_commit();
  QUERN_UNROLL for (i32 step = 1; step < kSteps; ++step) {
    d.template multiply_steps<Multiplied, Multiplied, Major::k, 0>(weights[step], at(step));
    if (step + 1 == kSteps - kStepsLeft) wgmma_commit();
  }
  wgmma_commit();
}

struct Consumer {
  i32 number;
  OwnLines own;
  u32 a;  // the lower word of the first stage's descriptor
  const u8* shared;
  const u32* words;
  Stages& stages;
  Sums& sums;
  Products& products;

  template <i32 turn>
  QUERN_DEVICE void read(i32 stage, PackedTurn& to) const {
    to.template read<turn>(own, shared + stage * kStageSize + kABytes, words + stage * kWordsOfStage);
  }
  // Waits for a stage and reads its first turn.
  QUERN_DEVICE void begin(const StageState& at, PackedTurn& to) const {
    mbarrier_wait(stages.full[at.stage], at.phase);
    read<0>(at.stage, to);
  }
  // Multiplies the turns of a stage from `turn` on, of which `packed` has been read. The next turn is read while the
  // products of this one are under way, and unpacked during the other warpgroup's: unpacked sooner, it would keep this
  // one from handing over. Afterwards `packed` is the first turn of the next stage, if there is one (`more`).
  template <i32 turn = 0>
  QUERN_DEVICE void multiply(const StageState& at, const StageState& next, bool more, PackedTurn& packed) const {
    u32 weights[kSteps][1][4];
    packed.unpack(own.selector, weights);
    [[maybe_unused]] f32 scales[2];
    if constexpr (kScaledSums) scales[0] = f32_of(packed.scales[0][0]), scales[1] = f32_of(packed.scales[0][1]);
    const u32 first = a + static_cast<u32>(at.stage) * (kStageSize >> 4);
    // The compiler would unpack some of them behind the barrier, in this warpgroup's turn.
    u32 any = 0;
    QUERN_UNROLL for (i32 step = 0; step < kSteps; ++step) {
      QUERN_UNROLL for (i32 i = 0; i < 4; ++i) any |= weights[step][0][i];
    }
    settle(f32_of(any & 0x7fffffffu));
    take_turn(number);
    wgmma_fence();
    if constexpr (kScaledSums) {
      multiply_turn<turn, true>(products, first, weights);
    } else {
      multiply_turn<turn, false>(sums, first, weights);
    }
    if constexpr (turn + 1 < kTurns) {
      read<turn + 1>(at.stage, packed);
    } else {
      if (more) begin(next, packed);
    }
    wgmma_wait<1>();
    hand_over(number);
    wgmma_wait<0>();
    if constexpr (kScaledSums) sums.template add_scaled<0>(products, [&](i32, i32 h) { return scales[h]; });
    if (turn + 1 == kTurns) {
      sync_warp();  // all lanes have read the stage's weights
      if (lane() == 0) mbarrier_arrive(stages.empty[at.stage]);
    }
    if constexpr (turn + 1 < kTurns) multiply<turn + 1>(at, next, more, packed);
  }
  // Multiplies `count` k blocks, at least one, and goes on to the stage behind them.
  QUERN_DEVICE void multiply_all(StageState& at, i32 count) const {
    PackedTurn packed;
    begin(at, packed);
    QUERN_ROLLED for (; count > 0; --count) {
      StageState next = at;
      next.next();
      multiply(at, next, count > 1, packed);
      at = next;
    }
  }
};

// Scales that lines have for all of their k, and that of the tensor, into whole sums.
QUERN_DEVICE void scale_lines(const QuantizedParams& p, const Work& work, const OwnLines& own, Sums& sums) {
  f32 by[2];
  QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
    by[h] = p.tensor_scale_b ? *p.tensor_scale_b : 1.0f;
    const i32 source = source_column(p.product, work, own.line + h * kLinesApart);
    if (!kGroupsOfScaleB && p.scale_b.data != nullptr && source >= 0)
      by[h] *= to_f32(static_cast<const ScaleB*>(p.scale_b.data)[source * p.scale_b.line]);
  }
  sums.scale_rows(by);
}

QUERN_DEVICE void multiply_tiles(const QuantizedParams& p, const TensorMap& map_out, Tiles tiles, const Consumer& c,
                                 u8* staged, i32* flag) {
  Work work;
  StageState at;
  const i32 barrier = kOwnBarrier + c.number;
  if (c.number == 1) hand_over(1);
  QUERN_ROLLED while (tiles.next(work)) {
    // After results were stored by ordinary stores the compiler no longer knows that these values are equal in all
    // threads of a warp.
    sync_warp();
    at.stage = shuffle(at.stage, 0), work.end_k_block = shuffle(work.end_k_block, 0);
    work.first_k_block = shuffle(work.first_k_block, 0);
    c.sums.clear();
    c.multiply_all(at, work.end_k_block - work.first_k_block);
    // The schedule is computed where it is needed: registers are scarce.
    if (p.product.whole_tiles == 0 && !reduce_sums(p.product, tiles.schedule(), work, c.number, c.sums, flag, barrier))
      continue;
    scale_lines(p, work, c.own, c.sums);
    store_results(p.product, map_out, work, c.number, c.sums, staged, barrier);
  }
  if (c.number == 0) take_turn(0);  // the other warpgroup handed over last
  if constexpr (kPlainResults) {
    if (warp() % 4 == 0 && elect_one()) tma_wait<0>();
  }
}

}  // namespace q

QUERN_KERNEL(quern_quantized_gemm_warpgroups, THREADS, 1, QUERN_PARAM q::QuantizedParams p,
             QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b, QUERN_PARAM q::TensorMap map_out) {
  using namespace q;
  Sums sums;
  Products products;
  QUERN_SHARED(Stages, stages, 1);
  QUERN_SHARED(i32, flags, kConsumers);
  u8* const shared = tile_shared();
  u8* const staged = shared + kStages * kStageSize;
  auto* const words = reinterpret_cast<u32*>(staged + kConsumers * kStagedBytes);
  launch_next_grid();
  const i32 w = shuffle(warp(), 0), group = w / 4;
  if (w == kBeginWarp && elect_one()) {
    stages[0].init(1 + kWordWarps, kConsumers * 4);
    fence_mbarrier_init();
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if (p.product.out_mapped != 0) prefetch_tensor_map(map_out);
  }
  sync_block();
  wait_for_previous_grid();
  if (group == kConsumers) {
    registers_shrink<kProducerRegisters>();
    const Tiles tiles(p.product);
    const i32 number = w - 4 * kConsumers - 1;
    if (number < 0) {
      if (elect_one()) copy_tiles(p.product, map_a, map_b, tiles, shared, stages[0]);
    } else if (number < kWordWarps) {
      if constexpr (kWordWarps > 0) copy_words(p, tiles, number, words, stages[0]);
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    const Consumer consumer{group,  OwnLines(group), static_cast<u32>(matrix_descriptor(shared, kLayoutA)),
                            shared, words,           stages[0],
                            sums,   products};
    multiply_tiles(p, map_out, Tiles(p.product), consumer, staged + group * kStagedBytes, flags + group);
  }
}
