// Operands of one warp's products that are told apart by numbers known when a kernel is compiled, as numbered_sums.cuh has its sums.
//
// NumberedOperands<Operand, kFirst, kCount> holds operands 0 .. kCount - 1, each an OperandA<T> or OperandB<T>. It is constructed at the
// beginning of the kernel, outside of every loop and branch; kernels have more than one where their numbers kFirst .. kFirst +
// kCount - 1 differ. In each of these all lanes take part:
//
//   load<n>(reader, place...)   operand n is what one of common/shared_place.cuh's readers reads there
//   prepare<n>()                what was loaded becomes what is multiplied, unless kWidens<Operand>: once, before its first product. Of 16
//                               bits it is so already
//
// WideOperands<Operand, kFirst, kCount> is for those of which kWidens<Operand> is true: the target multiplies them only if they are
// made wider. Its numbers are of its own; it is constructed as the others are.
//
//   widen<m, n>(from)           multiplicand m is made of operand n of `from`, which is free then
//
// On NVIDIA's GPUs they are registers of PTX with names of their own, for the reason that common/registers/tile_sums.cuh gives.
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
