// The producer warps of product.cuh: one copies activations and packed weights by TMA, others load the scales and zero
// points of groups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "quantized_gemm/kernels/sm90/fragments.cuh"
#include "quantized_gemm/params.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = 2;  // warpgroups, of 64 lines of b each
static_assert(kTileM == 128 && kTileN == 64 * kConsumers && kBlockK == 128 &&
              kThreads == (kConsumers + 1) * kGroupThreads && sizeof(Multiplied) == 2);

// A stage: two boxes of 64 k of the tile's rows of a, then its lines of b, packed, in two boxes of lines.
inline constexpr i32 kSpan = 128;  // bytes of k of a row in a box
inline constexpr i32 kBoxABytes = kTileM * kSpan, kABytes = 2 * kBoxABytes;
inline constexpr i32 kLineBytes = kBlockK * kBitsOf<CodeB> / 8, kBoxLines = kTileN / 2;
inline constexpr i32 kStageSize = kABytes + kTileN * kLineBytes;
inline constexpr u64 kLayoutA = k_major_layout(Swizzle::bytes128);
// Within eight lines of b, which begin in different banks, pieces of 16 bytes change places.
inline constexpr Swizzle kSwizzleB = kLineBytes == 64 ? Swizzle::bytes64 : Swizzle::bytes128;

// Behind all stages there are words of each group of a k block and each line, of every stage: scales, then zero points.
inline constexpr i32 kGroupsOfBlock = kGroup == 0 || kGroup >= kBlockK ? 1 : kBlockK / kGroup;
inline constexpr i32 kScaleWords = kGroupsOfScaleB ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kZeroWords = kZeros ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kWordsOfStage = kScaleWords + kZeroWords;

// Warps of the producer warpgroup: what copies, what initialises the mbarriers, and two between them that load words.
inline constexpr i32 kWordWarps = kWordsOfStage > 0 ? 2 : 0, kBeginWarp = 4 * kConsumers + 3;

// The tiles of a block of threads. Whole ones it takes in turn with the other blocks, so that those that run at the
// same time find the same parts of a and b in L2; divided ones as stream-K shares them out.
class Tiles {
 public:
  QUERN_DEVICE explicit Tiles(const GemmParams& p) : p_(p), divided_(p), tile_(block_index(0)) {}
  QUERN_DEVICE bool next(Work& work) {
    if (p_.whole_tiles == 0) return divided_.next(work);
    if (tile_ >= p_.tiles) return false;
    work = divided_.at(tile_);
    // The next one may lie beyond the last of up to 2^31 - 1.
    tile_ = p_.tiles - tile_ > block_count(0) ? tile_ + block_count(0) : p_.tiles;
    return true;
  }
  QUERN_DEVICE StreamKSchedule schedule() const { return divided_.schedule(); }

 private:
  const GemmParams& p_;
  DenseTiles divided_;
  i32 tile_;
};

// Copies all tiles. Called by one thread.
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles tiles,
                             u8* shared, Stages& stages) {
  Work work;
  StageState state;
  const i32 box_lines = box_rows(p.m, kTileM);
  QUERN_ROLLED while (tiles.next(work)) {
    const i32 lines = copied_rows(work.rows - work.row, box_lines, kTileM);
    const i32 second = work.column + (kGate ? p.n / 2 : kBoxLines);
    QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
      mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
      Mbarrier& full = stages.full[state.stage];
      mbarrier_arrive_expect(full, static_cast<u32>(2 * lines * kSpan + kTileN * kLineBytes));
      u8* const to = shared + state.stage * kStageSize;
      const i32 k = k_block * kBlockK;
      QUERN_ROLLED for (i32 line = 0; line < lines; line += box_lines) {
        QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
          tma_load(to + half * kBoxABytes + line * kSpan, map_a, full, CacheHint::normal, k + half * (kBlockK / 2),
                   work.row + line);
        }
      }
      u8* const of_b = to + kABytes;
      tma_load(of_b, map_b, full, CacheHint::normal, k_block * kLineBytes, work.column);
      tma_load(of_b + kBoxLines * kLineBytes, map_b, full, CacheHint::normal, k_block * kLineBytes, second);
      state.next();
    }
  }
}

// The scales, or zero points, of a line in a k block's groups, as they lie in memory.
template <class T>
struct OfLine {
  static constexpr i32 kSize = static_cast<i32>(sizeof(T)), kBytes = kGroupsOfBlock * kSize;
  static constexpr i32 kAtOnce = kBytes < 16 ? kBytes : 16;  // bytes of a load
  u32 words[div_up(kBytes, 4)];

  // Whether the groups of each line lie side by side and aligned. Single loads of many lines take a multiprocessor as
  // long as a k block's products where groups are small.
  static QUERN_DEVICE bool may_load_at_once(const QuantizedScales& from) {
    return kGroupsOfBlock > 1 && from.group == 1 && reinterpret_cast<u64>(from.data) % kAtOnce == 0 &&
           from.line * kSize % kAtOnce == 0;
  }
  // Those from group number `first` on, of which the line has `left`.
  QUERN_DEVICE void load(const T* from, i64 first, i64 stride, i32 left, bool at_once) {
    QUERN_UNROLL for (u32& word : words) word = 0;
    if (at_once && left >= kGroupsOfBlock) {
      from += first;
      if constexpr (kAtOnce == 16) {
        QUERN_UNROLL for (i32 i = 0; i < kBytes / 16; ++i) {
          const vec16 v = load16(reinterpret_cast<const u8*>(from) + 16 * i);
          QUERN_UNROLL for (i32 e = 0; e < 4; ++e) words[4 * i + e] = v.x[e];
        }
      } else if constexpr (kAtOnce == 8) {
        const u64 v = *reinterpret_cast<const u64*>(from);
        words[0] = static_cast<u32>(v), words[1] = static_cast<u32>(v >> 32);
      } else if constexpr (kAtOnce == 4) {
        words[0] = *reinterpret_cast<const u32*>(from);
      } else if constexpr (kAtOnce == 2) {
        words[0] = *reinterpret_cast<const u16*>(from);
      }
      return;
    }
    QUERN_UNROLL for (i32 g = 0; g < kGroupsOfBlock; ++g) {
      if (g >= left) continue;
      const T* const one = from + (first + g) * stride;
      const u32 bits = kSize == 4   ? *reinterpret_cast<const u32*>(one)
                       : kSize == 2 ? *reinterpret_cast<const u16*>(one)
                                    : *reinterpret_cast<const u8*>(one);
      words[g * kSize / 4] |= bits << g * kSize % 4 * 8;
    }
  }
  QUERN_DEVICE u32 bits(i32 g) const {
    const u32 from = words[g * kSize / 4] >> g * kSize % 4 * 8;
    return kSize == 4 ? from : from & ((1u << 8 * kSize % 32) - 1);
  }
};
template <class T>
QUERN_DEVICE f32 scale_of(u32 bits) {
  if constexpr (sizeof(T) == 4) {
    return f32_of(bits);
  } else if constexpr (sizeof(T) == 2) {
    return to_f32(T{static_cast<u16>(bits)});
  } else {
    return to_f32(T{static_cast<u8>(bits)});
  }
}

// The loop of warp number `number` of those that load words, each of 64 lines. Words are loaded some k blocks before
// they are stored, since a load may take longer than the products of a k block.
QUERN_DEVICE void copy_words(const QuantizedParams& p, Tiles tiles, i32 number, u32* words, Stages& stages) {
  constexpr i32 kAhead = OfLine<ScaleB>::kBytes > 8 || kZeros ? 2 : 4, kSize = kGroup > 0 ? kGroup : 1;
  struct Words {
    OfLine<ScaleB> scale[2];
    OfLine<u8> zero[2];
  };
  const i32 line = number * 64 + lane(), groups = kGroup == 0 ? 1 : p.product.k / kSize;
  const bool scales_at_once = OfLine<ScaleB>::may_load_at_once(p.scale_b),
             zeros_at_once = OfLine<u8>::may_load_at_once(p.zero_b);
  Work work;
  StageState state;
  QUERN_ROLLED while (tiles.next(work)) {
    const ScaleB* scales[2];
    const u8* zeros[2];
    QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
      // Lines that there are not may have any scale.
      const i32 source = source_column(p.product, work, line + e * kWarp), from = source < 0 ? 0 : source;
      scales[e] = static_cast<const ScaleB*>(p.scale_b.data) + from * p.scale_b.line;
      zeros[e] = static_cast<const u8*>(p.zero_b.data) + from * p.zero_b.line;
    }
    // Beyond the last k sums are 0, which only finite scales leave as they are: those are 0, too.
    const auto load = [&](Words& to, i32 k_block) {
      const i32 first = kGroup == 0 ? 0 : k_block * kGroupsOfBlock;
      QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
        if constexpr (kGroupsOfScaleB)
          to.scale[e].load(scales[e], first, p.scale_b.group, groups - first, scales_at_once);
        if constexpr (kZeros) to.zero[e].load(zeros[e], first, p.zero_b.group, groups - first, zeros_at_once);
      }
    };
    Words ahead[kAhead];
    const i32 begin = work.first_k_block, end = work.end_k_block;
    // The round with first < begin only loads; each later one stores what it has and loads the next by the same code.
    QUERN_ROLLED for (i32 first = begin - kAhead; first < end; first += kAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
        if (first >= begin && first + i < end) {
          mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
          u32* const to = words + state.stage * kWordsOfStage + line;
          QUERN_UNROLL for (i32 e = 0; e < 2; ++e) {
            QUERN_UNROLL for (i32 g = 0; g < kGroupsOfBlock; ++g) {
              const i32 at = g * kTileN + e * kWarp;
              if constexpr (kGroupsOfScaleB) to[at] = scale_word(scale_of<ScaleB>(ahead[i].scale[e].bits(g)));
              if constexpr (kZeros)
                to[kScaleWords + at] = WeightsOfB::zero_word(static_cast<i32>(ahead[i].zero[e].bits(g)));
            }
          }
          sync_warp();
          if (lane() == 0) mbarrier_arrive(stages.full[state.stage]);
          state.next();
        }
        if (first + i + kAhead < end) load(ahead[i], first + i + kAhead);
      }
    }
  }
}

}  // namespace q
