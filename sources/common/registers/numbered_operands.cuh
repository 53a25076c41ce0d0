// Operands of one warp's products, numbered at compile time, as numbered_sums.cuh numbers accumulators.
//
// NumberedOperands<Operand, kFirst, kCount> holds operands 0 .. kCount - 1, each an OperandA<T> or OperandB<T>. It is
// constructed at the beginning of the kernel, outside of every loop and branch; a kernel may have several with
// different numbers kFirst .. kFirst + kCount - 1. All lanes must call each of these:
//
//   load<n>(reader, place...)   loads operand n by one of the readers of common/shared_place.cuh
//   prepare<n>()                makes a loaded operand ready for products: once, before its first product, unless
//                               kWidens<Operand>. 16-bit operands are ready as loaded
//
// WideOperands<Operand, kFirst, kCount> is for operands with kWidens<Operand>, which the target multiplies only after
// they have been widened. It has numbers of its own and is constructed in the same way.
//
//   widen<m, n>(from)           makes wide operand m from operand n of `from`, whose registers are free afterwards
//
// On NVIDIA's GPUs they are PTX registers with names of their own, for the reason that common/registers/tile_sums.cuh
// gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/registers/numbered_operands_cuda.cuh"
#else

namespace q {

template <class T>
QUERN_DEVICE T copy_of(const T& v) {
  return v;
}
template <class Operand>
inline constexpr bool kWidens = sizeof(decltype(copy_of(multiplicand(Operand{})))) > sizeof(Operand);

template <class Operand, int kFirst, int kCount>
class NumberedOperands {
 public:
  QUERN_DEVICE NumberedOperands() {}
  NumberedOperands(const NumberedOperands&) = delete;
  NumberedOperands& operator=(const NumberedOperands&) = delete;

  template <int n, class Reader, class... Place>
  QUERN_DEVICE void load(const Reader& from, Place... place) {
    x_[n] = from.read(place...);
  }
  template <int n>
  QUERN_DEVICE void prepare() {
    x_[n] = multiplicand(x_[n]);
  }
  QUERN_DEVICE const Operand& operand(int n) const { return x_[n]; }

 private:
  Operand x_[kCount];
};

template <class Operand, int kFirst, int kCount>
class WideOperands {
 public:
  QUERN_DEVICE WideOperands() {}
  WideOperands(const WideOperands&) = delete;
  WideOperands& operator=(const WideOperands&) = delete;

  template <int m, int n, class From>
  QUERN_DEVICE void widen(const From& from) {
    x_[m] = multiplicand(from.operand(n));
  }
  QUERN_DEVICE const auto& operand(int m) const { return x_[m]; }

 private:
  decltype(copy_of(multiplicand(Operand{}))) x_[kCount];
};

}  // namespace q

#endif
