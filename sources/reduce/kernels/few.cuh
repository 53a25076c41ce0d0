// Reduces a few elements of each column, neighbouring columns' elements lying beside each other: a thread takes sixteen
// bytes of these, or, where that makes too few threads, 4 or 8, and goes through what is reduced alone; nothing is
// joined.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/kernels/elements.cuh"

namespace q {

inline constexpr int kAtOnce = kHasY || sizeof(State) > 8 ? 4 : 8;  // vectors that a thread has under way
inline constexpr int kBytes = kVector * static_cast<int>(sizeof(Element));
inline constexpr int kWidened = 16 / static_cast<int>(sizeof(Element));  // elements of sixteen bytes

QUERN_DEVICE vec16 load_own(const Element* at) {
  if constexpr (kBytes == 16) return load16_once(at);
  if constexpr (kBytes == 4) return {{*reinterpret_cast<const u32*>(at), 0, 0, 0}};
  const u64 both = *reinterpret_cast<const u64*>(at);
  return {{static_cast<u32>(both), static_cast<u32>(both >> 32), 0, 0}};
}

// A vector of columns' results: at once where they are numbers of one reduction that lie beside each other.
// A template, so that places, which are no numbers, are not compiled as such.
template <class S>
QUERN_DEVICE void store_vector(const ReduceParams& p, RowPlace at, const S (&states)[kVector]) {
  constexpr Reduction kKind = Reduction::KIND0;
  constexpr bool kNumbers = Reduction::KIND1 == Reduction::none && Reduction::KIND2 == Reduction::none &&
                            Reduction::KIND3 == Reduction::none && kKind != Reduction::argmax &&
                            kKind != Reduction::argmin && kKind != Reduction::any && kKind != Reduction::all;
  if constexpr (kNumbers && !kIsInteger<OUT0>) {
    constexpr int kWords = kVector * static_cast<int>(sizeof(OUT0)) / 4;  // 1, 2 or a multiple of 4
    u8* const to = reinterpret_cast<u8*>(static_cast<OUT0*>(p.out) + at.out[0]);
    if (p.kept[0].out[0] == 1 && (reinterpret_cast<u64>(to) & (kWords < 4 ? 4 * kWords - 1 : 15)) == 0) {
      u32 words[kWords];
      QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
        if constexpr (sizeof(OUT0) == 4) {
          words[i] = bits_of(after<0>(p, states[i].first.result(p)));
        } else {
          words[i] =
              pack<OUT0>(after<0>(p, states[2 * i].first.result(p)), after<0>(p, states[2 * i + 1].first.result(p)));
        }
      }
      if constexpr (kWords == 1) {
        *reinterpret_cast<u32*>(to) = words[0];
      } else if constexpr (kWords == 2) {
        *reinterpret_cast<u64*>(to) = static_cast<u64>(words[1]) << 32 | words[0];
      } else {
        QUERN_UNROLL for (int i = 0; i < kWords; i += 4) {
          store16_global(to + 4 * i, {{words[i], words[i + 1], words[i + 2], words[i + 3]}});
        }
      }
      return;
    }
  }
  QUERN_UNROLL for (int i = 0; i < kVector; ++i) {
    store_results(p, at, states[i]);
    QUERN_UNROLL for (int r = 0; r < kReduceResults; ++r) at.out[r] += p.kept[0].out[r];
  }
}

QUERN_DEVICE void reduce_columns(const ReduceParams& p, i32 number) {
  const KeptDim &inner = p.kept[0], &outer = p.kept[1];
  const i32 of = number / inner.extent, column = number - of * inner.extent.value;
  RowPlace place{of * outer.x + column, of * outer.y + column, {}};
  QUERN_UNROLL for (int r = 0; r < kReduceResults; ++r) place.out[r] = column * inner.out[r] + of * outer.out[r];
  const Element* x = static_cast<const Element*>(p.x) + place.x;
  const Element* y = kHasY ? static_cast<const Element*>(p.y) + place.y : nullptr;
  State states[kVector];
  QUERN_UNROLL for (int i = 0; i < kVector; ++i) states[i] = State::none();
  QUERN_ROLLED for (i32 first = 0; first < p.length; first += kAtOnce) {
    Loaded loaded[kAtOnce];
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      if (first + j >= p.length) continue;
      loaded[j].x = load_own(x + j * p.reduced[0].x);
      if constexpr (kHasY) loaded[j].y = load_own(y + j * p.reduced[0].y);
    }
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      if (first + j >= p.length) continue;
      f32 v[kWidened], w[kWidened] = {};
      widen_vector(loaded[j].x, v);
      if constexpr (kHasY) widen_vector(loaded[j].y, w);
      QUERN_UNROLL for (int i = 0; i < kVector; ++i) take_one(p, v[i], w[i], first + j, states[i]);
    }
    x += kAtOnce * p.reduced[0].x;
    if constexpr (kHasY) y += kAtOnce * p.reduced[0].y;
  }
  store_vector(p, place, states);
}

QUERN_DEVICE void reduce_few(const ReduceParams& p) {
  const i64 step = static_cast<i64>(block_count(0)) * (THREADS * kVector);
  QUERN_ROLLED for (i64 number = (block_index(0) * THREADS + thread_index()) * kVector; number < p.rows;
                    number += step) {
    reduce_columns(p, static_cast<i32>(number));
  }
}

static_assert(sizeof(State) == STATE_BYTES, "the library makes room for what a kernel stores");

}  // namespace q

QUERN_KERNEL(quern_reduce_few, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::ReduceParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::reduce_few(p);
}
