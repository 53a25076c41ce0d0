// The causal depthwise convolution, bound by memory: an item is a chunk of channels over a run of tokens, its window in
// registers, with the next few tokens on their way.
//
// A sequence's state is read and written in one call. So whoever has its first token also computes the few after it
// that look back into the old state, even those of the next run, and stores the new one: nobody else reads the old.
// SPDX-License-Identifier: Apache-2.0
#include "common/pointwise.cuh"
#include "conv1d/params.cuh"
#include "rope/vectors.cuh"

namespace q {

using Element = ELEMENT;
using Weight = WEIGHT;
using State = STATE;
inline constexpr int kTaps = TAPS, kBefore = kTaps - 1;
inline constexpr int kWidth = WIDTH;  // channels of a chunk
inline constexpr int kAtOnce = 4;     // tokens
// Whether a chunk's taps, where they lie side by side, are whole accesses of 16 bytes.
inline constexpr bool kWholeTaps = kWidth * kTaps * static_cast<int>(sizeof(Weight)) % 16 == 0;

struct Sequence {
  i32 begin, end;
  State* state;  // of this chunk; null: none
  bool fresh;    // zeros stand for what is there
};

QUERN_DEVICE i32 begin_of(const Conv1dParams& p, i32 sequence) { return p.offsets ? p.offsets[sequence] : sequence; }

// The sequence of a token: the last that begins at or before it. -1: the token lies before all.
QUERN_DEVICE i32 sequence_of(const Conv1dParams& p, i32 token) {
  if (!p.offsets) return token;
  i32 low = -1, high = p.batch;
  QUERN_ROLLED while (high - low > 1) {
    const i32 middle = (low + high) / 2;
    if (p.offsets[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

QUERN_DEVICE Sequence read_sequence(const Conv1dParams& p, i32 sequence, i32 channel) {
  Sequence s{begin_of(p, sequence), begin_of(p, sequence + 1), nullptr, false};
  if (p.state) {
    const i32 slot = p.state_ids ? p.state_ids[sequence] : sequence;
    if (slot >= 0) s.state = static_cast<State*>(p.state) + slot * p.slot_stride + channel * p.channel_stride;
    s.fresh = p.has_state && p.has_state[sequence] == 0;
  }
  return s;
}

QUERN_DEVICE const Element* x_at(const Conv1dParams& p, i32 token, i32 channel) {
  return static_cast<const Element*>(p.x) + token * p.x_stride + channel;
}
QUERN_DEVICE void load_x(const Conv1dParams& p, i32 token, i32 channel, f32* to) {
  widen_packed<Element, kWidth>(load_packed<Element, kWidth>(x_at(p, token, channel)), to);
}
QUERN_DEVICE void load_state(const Conv1dParams& p, const Sequence& s, i32 row, f32* to) {
  if (!s.state || s.fresh) {
    QUERN_UNROLL for (int c = 0; c < kWidth; ++c) to[c] = 0.0f;
    return;
  }
  const State* from = s.state + row * p.row_stride;
  if (p.state_vectors) {
    widen_packed<State, kWidth>(load_packed<State, kWidth>(from), to);
  } else {
    QUERN_UNROLL for (int c = 0; c < kWidth; ++c) to[c] = to_f32(from[c * p.channel_stride]);
  }
}
QUERN_DEVICE void store_state(const Conv1dParams& p, const Sequence& s, i32 row, const f32* from) {
  State* to = s.state + row * p.row_stride;
  if (p.state_vectors) {
    store_packed<State, kWidth>(to, narrow_packed<State, kWidth>(from));
  } else {
    QUERN_UNROLL for (int c = 0; c < kWidth; ++c) to[c * p.channel_stride] = from_f32<State>(from[c]);
  }
}

// The last inputs of a sequence, into its state. `old` is what the state was.
QUERN_DEVICE void leave_state(const Conv1dParams& p, const Sequence& s, i32 channel, const f32 (*old)[kWidth]) {
  if (!s.state) return;
  const i32 length = s.end - s.begin;
  QUERN_UNROLL for (int i = 0; i < kBefore; ++i) {
    f32 row[kWidth];
    if (length + i >= kBefore) {
      load_x(p, s.end - kBefore + i, channel, row);
    } else {
      QUERN_UNROLL for (int j = i + 1; j < kBefore; ++j) {
        if (j != length + i) continue;
        QUERN_UNROLL for (int c = 0; c < kWidth; ++c) row[c] = old[j][c];
      }
    }
    store_state(p, s, i, row);
  }
}

struct Taps {
  f32 weight[kTaps][kWidth], bias[kWidth];
};
// Elements that lie side by side, aligned to 16 bytes or to all of them together.
template <int count>
QUERN_DEVICE void load_weights(const Weight* from, f32* to) {
  constexpr int kAtATime =
      count * static_cast<int>(sizeof(Weight)) < 16 ? count : 16 / static_cast<int>(sizeof(Weight));
  QUERN_UNROLL for (int i = 0; i < count; i += kAtATime)
      widen_packed<Weight, kAtATime>(load_packed<Weight, kAtATime>(from + i), to + i);
}
QUERN_DEVICE Taps load_taps(const Conv1dParams& p, i32 channel) {
  Taps taps;
  const Weight* weight = static_cast<const Weight*>(p.weight) + channel * p.weight_stride;
  const Weight* bias = p.bias ? static_cast<const Weight*>(p.bias) + channel : nullptr;
  QUERN_UNROLL for (int c = 0; c < kWidth; ++c) taps.bias[c] = 0.0f;
  if (kWholeTaps && p.weight_vectors) {
    f32 all[kWidth * kTaps];
    if constexpr (kWholeTaps) load_weights<kWidth * kTaps>(weight, all);
    QUERN_UNROLL for (int c = 0; c < kWidth; ++c) {
      QUERN_UNROLL for (int j = 0; j < kTaps; ++j) taps.weight[j][c] = all[c * kTaps + j];
    }
    if (bias) load_weights<kWidth>(bias, taps.bias);
  } else {
    QUERN_UNROLL for (int c = 0; c < kWidth; ++c) {
      QUERN_UNROLL for (int j = 0; j < kTaps; ++j) taps.weight[j][c] =
          to_f32(weight[c * p.weight_stride + j * p.tap_stride]);
      if (bias) taps.bias[c] = to_f32(bias[c]);
    }
  }
  return taps;
}

QUERN_DEVICE void store_result(const Conv1dParams& p, const Taps& taps, i32 token, i32 channel,
                               const f32 (*window)[kWidth]) {
  f32 y[kWidth];
  QUERN_UNROLL for (int c = 0; c < kWidth; ++c) {
    y[c] = taps.bias[c];
    QUERN_UNROLL for (int j = 0; j < kTaps; ++j) y[c] = fma(taps.weight[j][c], window[j][c], y[c]);
    if (p.silu) y[c] = silu(y[c]);
  }
  store_packed<Element, kWidth>(static_cast<Element*>(p.out) + token * p.out_stride + channel,
                                narrow_packed<Element, kWidth>(y));
}

// The tokens `first` to `end` - 1 of a sequence.
QUERN_DEVICE void convolve(const Conv1dParams& p, const Taps& taps, const Sequence& s, i32 first, i32 end,
                           i32 channel) {
  f32 window[kBefore + kAtOnce][kWidth];
  QUERN_UNROLL for (int j = 0; j < kBefore; ++j) {
    const i32 token = first - kBefore + j;
    if (token >= s.begin) {
      load_x(p, token, channel, window[j]);
    } else {
      load_state(p, s, kBefore - (s.begin - token), window[j]);
    }
  }
  if (first == s.begin) leave_state(p, s, channel, window);
  QUERN_ROLLED for (i32 token = first; token < end; token += kAtOnce) {
    Packed<Element, kWidth> held[kAtOnce]{};  // as they come: half as many registers as in f32
    QUERN_UNROLL for (int k = 0; k < kAtOnce; ++k) {
      if (token + k < end) held[k] = load_packed<Element, kWidth>(x_at(p, token + k, channel));
    }
    QUERN_UNROLL for (int k = 0; k < kAtOnce; ++k) {
      widen_packed<Element, kWidth>(held[k], window[kBefore + k]);
      if (token + k < end) store_result(p, taps, token + k, channel, window + k);
    }
    QUERN_UNROLL for (int j = 0; j < kBefore; ++j) {
      QUERN_UNROLL for (int c = 0; c < kWidth; ++c) window[j][c] = window[j + kAtOnce][c];
    }
  }
}

QUERN_DEVICE void convolve_item(const Conv1dParams& p, i32 item) {
  const i32 run = item / p.chunks, channel = (item - run * p.chunks.value) * kWidth;
  const i32 begin = run * p.run, end = p.tokens - begin < p.run ? p.tokens : begin + p.run;
  const Taps taps = load_taps(p, channel);
  i32 sequence = sequence_of(p, begin);
  if (sequence < 0) sequence = 0;
  QUERN_ROLLED for (; sequence < p.batch; ++sequence) {
    const i32 starts = begin_of(p, sequence);
    if (starts >= end) break;
    const Sequence s = read_sequence(p, sequence, channel);
    const bool mine = starts >= begin;
    // Those that look back into the state are whose the first token is.
    const i32 look_back = s.end - starts < kBefore ? s.end : starts + kBefore;
    const i32 first = mine ? starts : begin < look_back ? look_back : begin;
    i32 last = s.end < end ? s.end : end;
    if (mine && last < look_back) last = look_back;
    if (first < last) convolve(p, taps, s, first, last, channel);
  }
}

}  // namespace q

QUERN_KERNEL(quern_conv1d, q::kConvThreads, BLOCKS_PER_SM, QUERN_PARAM q::Conv1dParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  const q::i64 step = q::i64{q::block_count(0)} * q::kConvThreads;
  QUERN_ROLLED for (q::i64 item = q::i64{q::block_index(0)} * q::kConvThreads + q::thread_index(); item < p.items;
                    item += step) q::convolve_item(p, static_cast<q::i32>(item));
}
