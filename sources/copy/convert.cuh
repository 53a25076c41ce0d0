// From elements of one type to those of another, as expressions store results. Where both are the same they are bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/elements.cuh"

namespace q {

using From = FROM;
using To = TO;
inline constexpr bool kCopies = kSameType<From, To>;

template <class Type>
inline constexpr bool kIsWhole = !kIsFloat<Type> && !kIsCode<Type>;
template <bool whole>
struct ValueOf {
  using Type = f32;
};
template <>
struct ValueOf<true> {
  using Type = i64;
};
// Between integers no number is rounded.
using Value = typename ValueOf<kIsWhole<From> && kIsWhole<To>>::Type;

template <class A, class B, int kWidth>
QUERN_DEVICE Elements<B, kWidth> converted(const Elements<A, kWidth>& v) {
  if constexpr (kSameType<A, B>) {
    return v;
  } else {
    Value values[kWidth];
    values_of<A>(v, values);
    return elements_of<B, kWidth>(values);
  }
}

}  // namespace q
