// What an epilogue reads beside the accumulator, and the storing of results: eight neighbouring columns of a row at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pointwise.cuh"
#include "gemm/params.cuh"

namespace q {

inline constexpr i32 kEight = 8;

struct Eight {
  f32 x[kEight];
};

// Where eight results lie: of `columns`, those from `column` on are within the tensor.
struct Place {
  i64 group, row;
  i32 column, columns;

  QUERN_DEVICE bool whole() const { return column + kEight <= columns; }
};

template <class T>
QUERN_DEVICE Eight load_eight(const T* from) {
  Eight v;
  if constexpr (sizeof(T) == 4) {
    const vec16 a = load16(from), b = load16(from + 4);
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) v.x[i] = f32_of(a.x[i]), v.x[4 + i] = f32_of(b.x[i]);
  } else if constexpr (sizeof(T) == 2) {
    const vec16 a = load16(from);
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) {
      const f32x2 pair = unpack<T>(a.x[i]);
      v.x[2 * i] = pair.x, v.x[2 * i + 1] = pair.y;
    }
  } else {
    const auto* pairs = reinterpret_cast<const u16*>(from);
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) {
      const f32x2 pair = unpack_fp8<T>(pairs[i]);
      v.x[2 * i] = pair.x, v.x[2 * i + 1] = pair.y;
    }
  }
  return v;
}

struct NoOperand {
  static QUERN_DEVICE Eight load(const GemmOperand&, const Place&) { return {}; }
};
template <class T>
struct RowOperand {
  static QUERN_DEVICE Eight load(const GemmOperand& o, const Place& at) {
    const f32 value = to_f32(static_cast<const T*>(o.data)[at.group * o.group + at.row * o.row]);
    Eight v;
    QUERN_UNROLL for (f32& x : v.x) x = value;
    return v;
  }
};
// Column vectors have a row stride of 0.
template <class T>
struct TensorOperand {
  static QUERN_DEVICE Eight load(const GemmOperand& o, const Place& at) {
    const T* from = static_cast<const T*>(o.data) + at.group * o.group + at.row * o.row + at.column * o.column;
    if (o.vectors != 0 && at.whole()) return load_eight(from);
    Eight v{};
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      if (at.column + i < at.columns) v.x[i] = to_f32(from[i * o.column]);
    }
    return v;
  }
};

template <class T>
QUERN_DEVICE void store_eight(T* to, const Eight& v, bool vectors, const Place& at) {
  if (vectors && at.whole()) {
    if constexpr (sizeof(T) == 4) {
      store16(to, {{bits_of(v.x[0]), bits_of(v.x[1]), bits_of(v.x[2]), bits_of(v.x[3])}});
      store16(to + 4, {{bits_of(v.x[4]), bits_of(v.x[5]), bits_of(v.x[6]), bits_of(v.x[7])}});
    } else if constexpr (sizeof(T) == 2) {
      store16(to, {{pack<T>(v.x[0], v.x[1]), pack<T>(v.x[2], v.x[3]), pack<T>(v.x[4], v.x[5]), pack<T>(v.x[6], v.x[7])}});
    } else {
      u64 codes = 0;
      QUERN_UNROLL for (i32 i = 0; i < 4; ++i) codes |= static_cast<u64>(pack_fp8<T>(v.x[2 * i], v.x[2 * i + 1])) << 16 * i;
      *reinterpret_cast<u64*>(to) = codes;
    }
  } else {
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      if (at.column + i < at.columns) to[i] = from_f32<T>(v.x[i]);
    }
  }
}

}  // namespace q
