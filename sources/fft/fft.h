// What a Fourier transform's kernel is specialised on, and how its work is laid out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "jit/spec.h"
#include "jit/target.h"
#include "sources/tensor.h"

namespace quern::ops::fft {

enum class Kind : std::uint8_t { forward, inverse, real, to_real };  // enum quern_fft_kind
enum class Result : std::uint8_t { complex, power, magnitude };      // enum quern_fft_result
inline constexpr std::int32_t kMostNumbers = 16384;  // of a transform; real rows of an even length have twice as many

struct Shape {
  std::int32_t n = 1;
  Kind kind = Kind::forward;
  Result result = Result::complex;
  Dtype x = Dtype::f32, out = Dtype::f32;
  bool window = false, framed = false;
  bool x_pairs = true, out_pairs = true;  // two neighbouring real elements are one access
};

constexpr bool of_reals(const Shape& s) { return s.kind == Kind::real || s.kind == Kind::to_real; }
constexpr bool takes_complex(const Shape& s) { return s.kind != Kind::real; }
constexpr bool makes_complex(const Shape& s) { return s.kind != Kind::to_real && s.result == Result::complex; }
constexpr bool is_halved(const Shape& s) { return of_reals(s) && s.n % 2 == 0; }
// The numbers of the transform that is done.
constexpr std::int32_t length_of(const Shape& s) { return is_halved(s) ? s.n / 2 : s.n; }
// Whether pairs are a matter at all.
constexpr bool may_pair_x(const Shape& s) { return takes_complex(s) || (is_halved(s) && !s.framed); }
constexpr bool may_pair_out(const Shape& s) { return makes_complex(s) || (s.kind == Kind::to_real && is_halved(s)); }

inline constexpr std::size_t kMostPasses = 16;  // 3^8 x 2 has 9
struct Plan {
  std::array<std::int32_t, kMostPasses> radices{};  // of the passes, in their order; 1 alone of one number
  std::int32_t passes = 0;
  std::int32_t team = 1, teams = 1;  // threads of a row, rows of a block
  bool padded = true;
  std::int32_t pitch = 1;  // numbers of shared memory that a row takes
  std::int32_t threads() const { return team * teams; }
  std::uint32_t shared_bytes() const { return static_cast<std::uint32_t>(teams * pitch) * 8; }
};
// Throws Error(QUERN_INVALID) where the target has too little shared memory for the transform.
Plan plan_of(const Shape& shape, const jit::TargetInfo& target);

std::int32_t blocks_per_sm(const Plan& plan);  // that registers are shared out for

jit::Spec to_spec(const Shape& shape, jit::Target target);

}  // namespace quern::ops::fft
