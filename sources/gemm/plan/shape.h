// The compile-time choices that a matrix product kernel is specialised for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/expression/expression.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::gemm {

enum class Family : std::uint8_t {
#define QUERN_GEMM_FAMILY(name, file, entry) name,
#include "sources/gemm/plan/variants.def"
#undef QUERN_GEMM_FAMILY
};

// A kernel family with a tile.
enum class Variant : std::uint8_t {
#define QUERN_GEMM_VARIANT(name, family, rows, columns) name,
#include "sources/gemm/plan/variants.def"
#undef QUERN_GEMM_VARIANT
};

struct VariantFacts {
  const char* name;
  Family family;
  int rows, columns;  // of the tile
};
inline constexpr std::array kVariants = {
#define QUERN_GEMM_VARIANT(name, family, rows, columns) VariantFacts{#name, Family::family, rows, columns},
#include "sources/gemm/plan/variants.def"
#undef QUERN_GEMM_VARIANT
};
constexpr const VariantFacts& facts_of(Variant variant) { return kVariants[static_cast<std::size_t>(variant)]; }
constexpr bool is_a(Family family, Variant variant) { return facts_of(variant).family == family; }

// The variants of a family that the model chooses among, in the order of the table. The one with the overlapped
// epilogue is left out: it takes the place of the one with as many columns.
template <Family family>
constexpr auto variants_of() {
  constexpr auto is_in = [](std::size_t i) {
    return kVariants[i].family == family && static_cast<Variant>(i) != Variant::overlapped_128x256;
  };
  constexpr std::size_t kCount = [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kVariants.size(); ++i) count += is_in(i);
    return count;
  }();
  std::array<Variant, kCount> all{};
  for (std::size_t i = 0, to = 0; i < kVariants.size(); ++i) {
    if (is_in(i)) all[to++] = static_cast<Variant>(i);
  }
  return all;
}
inline constexpr auto kPersistent = variants_of<Family::persistent>();
inline constexpr auto kSwapAb = variants_of<Family::swap_ab>();
inline constexpr auto kSmallM = variants_of<Family::small_m>();
inline constexpr auto kSplitK = variants_of<Family::split_k>();
inline constexpr auto kTmaMma = variants_of<Family::tma_mma>();

const char* name_of(Variant variant);
std::optional<Variant> variant_named(std::string_view name);

enum class Grouping : std::uint8_t { dense, contiguous, masked };
enum class Scales : std::uint8_t { none, vectors, blocks };  // vectors: one for each row and column, or for all of them

struct Shape {
  Variant variant = Variant::tiny;
  Grouping grouping = Grouping::dense;
  Scales scales = Scales::none;
  Dtype a = Dtype::bf16, b = Dtype::bf16, out = Dtype::bf16;
  bool transposed_a = false;  // stored [k][m]
  bool transposed_b = false;
  bool gate = false;
  bool out_scale = false;
  int copy_bytes = 16;
  const quern_expression* epilogue = nullptr;
  // The dtypes of the epilogue's operands; `other` for those that it does not use.
  std::array<Dtype, expression::kOperands> operands = {Dtype::other, Dtype::other, Dtype::other, Dtype::other,
                                                       Dtype::other, Dtype::other, Dtype::other, Dtype::other};
};

// How many words of a Spec a shape fills.
inline constexpr std::size_t kSpecWords = 7;
jit::Spec to_spec(const Shape& shape, Tag op, jit::Target target);
Shape to_shape(const jit::Spec& spec);

// The three ops have the same constants; each op leaves out those in which it has no choice.
Constants to_constants(const Shape& shape, Tag op);
// The constants of a product whose variant is to be found, its extents first.
struct ProductExtents {
  std::int64_t n, k, batch = 1;
};
Constants product_constants(const Shape& shape, Tag op, const ProductExtents& extents);
// Throws Error(QUERN_INVALID) naming the constant, what was given and what is allowed.
Shape from_constants(const Constants& constants, Tag op);

// The compilation unit of a kernel. Throws Error(QUERN_UNSUPPORTED) where the target has no room for it.
jit::Unit to_unit(const Shape& shape, Tag op, jit::Target target);

}  // namespace quern::ops::gemm
