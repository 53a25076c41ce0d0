// Operands of an epilogue and the stores of its results: eight neighbouring columns of a row at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/eight.cuh"
#include "common/pointwise.cuh"
#include "gemm/params.cuh"

namespace q {

inline constexpr i32 kEight = 8;

// Where eight results lie in out: columns column .. column + 7 of a row, of which those below `columns` exist.
struct Place {
  i64 group, row;
  i32 column, columns;

  QUERN_DEVICE bool whole() const { return column + kEight <= columns; }
};

// Reads eight elements as f32. `from` is aligned to 16 bytes, or to 8 bytes for 8-bit elements.
template <class T>
QUERN_DEVICE Eight read_eight(const T* from) {
  if constexpr (sizeof(T) == 1) {
    Eight v;
    const auto* pairs = reinterpret_cast<const u16*>(from);
    QUERN_UNROLL for (i32 i = 0; i < 4; ++i) {
      const f32x2 pair = unpack_fp8<T>(pairs[i]);
      v.x[2 * i] = pair.x, v.x[2 * i + 1] = pair.y;
    }
    return v;
  } else {
    return widen(load_eight(from));
  }
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
// A tensor of the result's shape, or a vector over the columns, whose row stride is 0.
template <class T>
struct TensorOperand {
  static QUERN_DEVICE Eight load(const GemmOperand& o, const Place& at) {
    const T* from = static_cast<const T*>(o.data) + at.group * o.group + at.row * o.row + at.column * o.column;
    if (o.vectors != 0 && at.whole()) return read_eight(from);
    Eight v{};
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      if (at.column + i < at.columns) v.x[i] = to_f32(from[i * o.column]);
    }
    return v;
  }
};

template <class T>
QUERN_DEVICE void write_eight(T* to, const Eight& v, bool vectors, const Place& at) {
  const PackedEight<T> packed = narrow<T>(v);
  if (vectors && at.whole()) {
    store_eight(to, packed);
  } else {
    store_first(to, packed, at.columns - at.column);
  }
}

}  // namespace q
