// Normalises rows: a team of threads holds one in registers. A row that is longer than a team can hold is cut into
// pieces, whose moments one launch finds; the next one joins them, always in the same order, and writes the results.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "norm/params.cuh"
#include "norm/values.cuh"

namespace q {

using Element = ELEMENT;
using Out = OUT;
using Weight = WEIGHT;          // and bias
using Modulation = MODULATION;  // scale and shift
inline constexpr NormKind kKind = NormKind::KIND;
inline constexpr NormStage kStage = NormStage::STAGE;
inline constexpr bool kResidual = RESIDUAL, kHasWeight = HAS_WEIGHT, kHasBias = HAS_BIAS, kHasScale = HAS_SCALE,
                      kHasShift = HAS_SHIFT;
inline constexpr bool kGroups = kKind == NormKind::group, kCentred = kGroups || kKind == NormKind::layer;
// When parameters are loaded: beside the row; while the last sum is joined; or, for want of registers, when they are
// used.
inline constexpr bool kMiddle = MIDDLE, kLate = LATE;
// Of a group norm: at each place the channels lie beside each other, and not the places of each channel.
inline constexpr bool kChannelsLast = CHANNELS_LAST;

// Where a row of a tensor begins. The groups of a sample lie one behind the other.
QUERN_DEVICE i64 begin_of(const NormParams& p, i64 row, i64 stride) {
  if constexpr (!kGroups) return row * stride;
  const i32 sample = static_cast<i32>(row) / p.groups;
  const i64 group = row - static_cast<i64>(sample) * p.groups.value;
  return sample * stride + group * (kChannelsLast ? p.channels : p.n);
}

// A thread's vectors of a row. With the channels last they are whole where a place's channels are some of them; else
// each element is where it is.
QUERN_DEVICE bool has_whole_vectors(const NormParams& p) { return p.channels % kElements == 0; }
QUERN_DEVICE i64 offset_of(const NormParams& p, i32 column) {
  const i32 place = column / p.places;
  return place * p.place_stride + (column - place * p.channels);
}
template <class T>
QUERN_DEVICE RawValues<T> load_row(const NormParams& p, const T* row, const Columns& c) {
  if constexpr (!kChannelsLast) return load_values<Reuse::no>(row, c);
  RawValues<T> raw{};
  if (has_whole_vectors(p)) {
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      if (c.of(v) > 0) raw.v[v] = load_vector<Reuse::no>(row + offset_of(p, c.first + v * kStep), c.of(v));
    }
    return raw;
  }
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      if (i >= c.of(v)) continue;
      const u32 bits = bits_at(row + offset_of(p, c.first + v * kStep + i));
      raw.v[v].words[i * sizeof(T) / 4] |= bits << 8 * (i * sizeof(T) % 4);
    }
  }
  return raw;
}
// A vector that is whole.
template <class T>
QUERN_DEVICE void store_whole(T* to, const Vector& y) {
  const Raw<T> raw = narrow<T>(y);
  constexpr int kWords = sizeof(raw.words) / 4;
  if constexpr (kAccess == 16 && kWords % 4 == 0) {
    const u32(&w)[kWords] = raw.words;
    QUERN_UNROLL for (int i = 0; i < kWords; i += 4) {
      store16_global(reinterpret_cast<u8*>(to) + 4 * i, {{w[i], w[i + 1], w[i + 2], w[i + 3]}});
    }
  } else {
    store_words(to, raw.words);
  }
}
template <class T>
QUERN_DEVICE void store_row_values(const NormParams& p, T* row, const Columns& c, const Values& y) {
  if constexpr (!kChannelsLast) return store_values(row, c, y);
  if (has_whole_vectors(p)) {
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      if (c.of(v) > 0) store_whole(row + offset_of(p, c.first + v * kStep), y.v[v]);
    }
    return;
  }
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const Raw<T> raw = narrow<T>(y.v[v]);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      if (i >= c.of(v)) continue;
      T* const to = row + offset_of(p, c.first + v * kStep + i);
      *to = element_of<T>(raw.words[i * sizeof(T) / 4] >> 8 * (i * sizeof(T) % 4));
    }
  }
}

// What a row's numbers are multiplied by and what is added, as it lies in memory: loaded beside the row, so that it is
// there when the moments are, where there is room for it. A group norm's belongs to channels and is looked up later.
struct Parameters {
  RawValues<Weight> weight, bias;
  RawValues<Modulation> scale, shift;
};
template <class T>
QUERN_DEVICE RawValues<T> load_vector_of(const void* from, const Columns& c) {
  return load_values<Reuse::yes>(static_cast<const T*>(from), c);
}
QUERN_DEVICE RawValues<Modulation> load_modulation(const NormParams& p, const void* from, i64 stride, i64 row,
                                                   const Columns& c) {
  return load_values<Reuse::yes>(static_cast<const Modulation*>(from) + static_cast<i32>(row) / p.each * stride, c);
}
QUERN_DEVICE Parameters load_parameters(const NormParams& p, i64 row, const Columns& c) {
  Parameters parameters;
  if constexpr (!kGroups && !kLate) {
    if constexpr (kHasWeight) parameters.weight = load_vector_of<Weight>(p.weight, c);
    if constexpr (kHasBias) parameters.bias = load_vector_of<Weight>(p.bias, c);
    if constexpr (kHasScale) parameters.scale = load_modulation(p, p.scale, p.scale_stride, row, c);
    if constexpr (kHasShift) parameters.shift = load_modulation(p, p.shift, p.shift_stride, row, c);
  }
  return parameters;
}

// Numbers of 16 bits stay as they are until they are used, which takes half the registers; a sum is f32's.
inline constexpr bool kPacked = !kResidual && sizeof(Element) == 2;
struct PackedRow {
  RawValues<Element> raw;
  QUERN_DEVICE Values values() const { return widen(raw); }
};
struct WideRow {
  Values y;
  QUERN_DEVICE const Values& values() const { return y; }
};

// x, or x + residual in f32.
QUERN_DEVICE Values load_sum(const NormParams& p, i64 row, const Columns& c) {
  const auto x = load_row(p, static_cast<const Element*>(p.x) + begin_of(p, row, p.x_stride), c);
  if constexpr (kResidual) {
    const auto raw = load_row(p, static_cast<const Element*>(p.residual) + begin_of(p, row, p.residual_stride), c);
    Values y = widen(x);
    const Values other = widen(raw);
    each_value(y, [&](f32 value, int v, int i) { return value + other.v[v].x[i]; });
    return y;
  } else {
    return widen(x);
  }
}

QUERN_DEVICE auto load_held(const NormParams& p, i64 row, const Columns& c) {
  if constexpr (kPacked) {
    return PackedRow{load_row(p, static_cast<const Element*>(p.x) + begin_of(p, row, p.x_stride), c)};
  } else {
    return WideRow{load_sum(p, row, c)};
  }
}

// The moments of what the team holds, `count` elements. meanwhile() is called before the last sum is joined.
template <class Row, class Meanwhile>
QUERN_DEVICE NormMoments moments_of(const Row& row, const Columns& c, i32 count, Joiner& joiner,
                                    const Meanwhile& meanwhile) {
  f32 mean = 0.0f, own;
  if constexpr (kCentred) {
    mean = joiner.team(sum(row.values()), Plus()) / static_cast<f32>(count);
    own = sum_of_deviations(row.values(), c, mean);
  } else {
    own = sum_of_products(row.values(), row.values());
  }
  meanwhile();
  return {mean, joiner.team(own, Plus())};
}

QUERN_DEVICE f32 inverse_of(const NormParams& p, f32 squares) { return rsqrt(squares / p.divide + p.eps); }

QUERN_DEVICE void affine(const NormParams& p, i64 row, const Columns& c, const Parameters& early, Values& y) {
  if constexpr (kHasWeight) {
    const Values weight = widen(kLate ? load_vector_of<Weight>(p.weight, c) : early.weight);
    each_value(y, [&](f32 value, int v, int i) { return value * (weight.v[v].x[i] + p.weight_offset); });
  }
  if constexpr (kHasBias) {
    const Values bias = widen(kLate ? load_vector_of<Weight>(p.bias, c) : early.bias);
    each_value(y, [&](f32 value, int v, int i) { return value + bias.v[v].x[i]; });
  }
  if constexpr (kHasScale) {
    const Values scale = widen(kLate ? load_modulation(p, p.scale, p.scale_stride, row, c) : early.scale);
    each_value(y, [&](f32 value, int v, int i) { return value * (scale.v[v].x[i] + p.scale_offset); });
  }
  if constexpr (kHasShift) {
    const Values shift = widen(kLate ? load_modulation(p, p.shift, p.shift_stride, row, c) : early.shift);
    each_value(y, [&](f32 value, int v, int i) { return value + shift.v[v].x[i]; });
  }
}

// By the channel of each element; a vector that lies in one channel asks once.
QUERN_DEVICE void affine_by_channel(const NormParams& p, i64 row, const Columns& c, Values& y) {
  const i32 sample = static_cast<i32>(row) / p.groups;
  const i64 first = (row - static_cast<i64>(sample) * p.groups.value) * p.channels;
  const Weight* weight = static_cast<const Weight*>(p.weight) + first;
  const Weight* bias = static_cast<const Weight*>(p.bias) + first;
  const bool whole = kChannelsLast ? has_whole_vectors(p) : p.places.value % kElements == 0;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    if (c.of(v) <= 0) continue;
    const i32 column = c.first + v * kStep, last = column + c.of(v) - 1;
    if (kChannelsLast && whole) {
      const i32 channel = column - column / p.places * p.channels;
      if constexpr (kHasWeight) {
        const Vector by = widen(load_vector<Reuse::yes>(weight + channel, kElements));
        QUERN_UNROLL for (int i = 0; i < kElements; ++i) y.v[v].x[i] *= by.x[i] + p.weight_offset;
      }
      if constexpr (kHasBias) {
        const Vector and_bias = widen(load_vector<Reuse::yes>(bias + channel, kElements));
        QUERN_UNROLL for (int i = 0; i < kElements; ++i) y.v[v].x[i] += and_bias.x[i];
      }
      continue;
    }
    i32 channel = -1;
    f32 by = 1.0f, and_bias = 0.0f;
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      if (i == 0 || !whole) {
        const i32 at = column + i < last ? column + i : last, quotient = at / p.places;
        const i32 here = kChannelsLast ? at - quotient * p.channels : quotient;
        if (here != channel) {
          channel = here;
          if constexpr (kHasWeight) by = to_f32(weight[channel]) + p.weight_offset;
          if constexpr (kHasBias) and_bias = to_f32(bias[channel]);
        }
      }
      f32 value = y.v[v].x[i];
      if constexpr (kHasWeight) value *= by;
      if constexpr (kHasBias) value += and_bias;
      y.v[v].x[i] = value;
    }
  }
}

QUERN_DEVICE void store_row(const NormParams& p, i64 row, const Columns& c, Values& y, const NormMoments& moments,
                            const Parameters& parameters) {
  if (kResidual && p.residual_out) {
    store_row_values(p, static_cast<Element*>(p.residual_out) + begin_of(p, row, p.residual_out_stride), c, y);
  }
  const f32 inverse = inverse_of(p, moments.squares);
  each_value(y, [&](f32 value, int, int) { return (kCentred ? value - moments.mean : value) * inverse; });
  if constexpr (kGroups) {
    if constexpr (kHasWeight || kHasBias) affine_by_channel(p, row, c, y);
  } else {
    affine(p, row, c, parameters, y);
  }
  store_row_values(p, static_cast<Out*>(p.out) + begin_of(p, row, p.out_stride), c, y);
}

QUERN_DEVICE void normalise_row(const NormParams& p, i64 row, Joiner& joiner) {
  // A team past the last row joins the others' sums with nothing.
  const Columns c = columns_from(0, row < p.rows ? p.n : -kPass);
  if (row >= p.rows) row = p.rows - 1;
  const auto held = load_held(p, row, c);
  Parameters parameters;
  if constexpr (!kMiddle) parameters = load_parameters(p, row, c);
  const NormMoments moments = moments_of(held, c, p.n, joiner, [&] {
    if constexpr (kMiddle) parameters = load_parameters(p, row, c);
  });
  Values y = held.values();
  store_row(p, row, c, y, moments, parameters);
}

// Chan, Golub and LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
QUERN_DEVICE void find_moments(const NormParams& p, i64 row, i32 piece, Joiner& joiner) {
  const i32 first = piece * p.piece, end = p.n - first < p.piece ? p.n : first + p.piece;
  NormMoments all{};
  QUERN_ROLLED for (i32 at = first; at < end; at += kPass) {
    const i32 count = end - at < kPass ? end - at : kPass;
    const Columns c = columns_from(at, end);
    const NormMoments here = moments_of(load_held(p, row, c), c, count, joiner, [] {});
    if constexpr (kCentred) {
      const f32 share = static_cast<f32>(count) / static_cast<f32>(at - first + count), apart = here.mean - all.mean;
      all.squares += here.squares + apart * apart * share * static_cast<f32>(at - first);
      all.mean = fma(apart, share, all.mean);
    } else {
      all.squares += here.squares;
    }
  }
  if (thread_index() == 0) p.moments[row * p.pieces + piece] = all;
}

// Those of a row from those of its pieces.
QUERN_DEVICE NormMoments join_moments(const NormParams& p, i64 row, Joiner& joiner) {
  static_assert(kStage == NormStage::whole || kNormPieces <= kThreads, "a thread has one piece at most");
  const i32 piece = thread_index();
  const bool own = piece < p.pieces;
  const NormMoments here = own ? p.moments[row * p.pieces + piece] : NormMoments{};
  if constexpr (!kCentred) return {0.0f, joiner.team(here.squares, Plus())};
  const i32 left = p.n - piece * p.piece;
  const f32 count = own ? static_cast<f32>(left < p.piece ? left : p.piece) : 0.0f;
  const f32 mean = joiner.team(here.mean * count, Plus()) / static_cast<f32>(p.n), apart = here.mean - mean;
  return {mean, joiner.team(fma(apart * apart, count, here.squares), Plus())};
}

QUERN_DEVICE void apply_moments(const NormParams& p, i64 row, i32 piece, Joiner& joiner) {
  const NormMoments moments = join_moments(p, row, joiner);
  const i32 first = piece * p.piece, end = p.n - first < p.piece ? p.n : first + p.piece;
  QUERN_ROLLED for (i32 at = first; at < end; at += kPass) {
    const Columns c = columns_from(at, end);
    Values y = load_sum(p, row, c);
    store_row(p, row, c, y, moments, load_parameters(p, row, c));
  }
}

QUERN_DEVICE void normalise(const NormParams& p) {
  QUERN_SHARED(f32, shared, 2 * Joiner::kWarps);
  Joiner joiner(shared);
  if constexpr (kStage == NormStage::whole) {
    const i64 step = static_cast<i64>(block_count(0)) * kTeams;
    QUERN_ROLLED for (i64 row = static_cast<i64>(block_index(0)) * kTeams; row < p.rows; row += step) {
      normalise_row(p, row + team_index(), joiner);
    }
  } else {
    const i64 units = static_cast<i64>(p.rows) * p.pieces;
    QUERN_ROLLED for (i64 unit = block_index(0); unit < units; unit += block_count(0)) {
      const i64 row = unit / p.pieces;
      const i32 piece = static_cast<i32>(unit - row * p.pieces);
      if constexpr (kStage == NormStage::moments) {
        find_moments(p, row, piece, joiner);
      } else {
        apply_moments(p, row, piece, joiner);
      }
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_norm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::NormParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::normalise(p);
}
