// What a kernel for matrix products is specialised for.
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

// Which tile: by the rows that there are. Few rows whose tiles are no more than multiprocessors are `sliced_k`: a
// block's warps have its k between them. `plain` multiplies f32 without tensor cores. Hopper's are `warpgroups`, whose
// tiles have 128 columns, those with more, of which `late` has room for all results of a tile, and, for so many rows at
// most, those that go by the place of the second operand, those of so many rows by few columns, and those that blocks
// share by the steps of k. `mapped` are for what else copies by tensor map.
enum class Form : std::uint8_t {
  tiny,
  sliced_k,
  small,
  medium,
  large,
  plain,
  warpgroups,
  warpgroups_176,
  warpgroups_192,
  warpgroups_256,
  warpgroups_late,
  swapped_16,
  swapped_32,
  swapped_64,
  swapped_128,
  narrow_64x16,
  narrow_64x32,
  narrow_64x64,
  narrow_128x32,
  narrow_128x64,
  shared_64x128,
  shared_128x112,
  shared_128x128,
  mapped_256x192,
  mapped_128x256
};
inline constexpr int kForms = 25;
// But for the late one, which stands in for that of as many columns.
inline constexpr Form kWarpgroups[] = {Form::warpgroups, Form::warpgroups_176, Form::warpgroups_192,
                                       Form::warpgroups_256};
inline constexpr Form kSwapped[] = {Form::swapped_16, Form::swapped_32, Form::swapped_64, Form::swapped_128};
inline constexpr Form kNarrow[] = {Form::narrow_64x16, Form::narrow_64x32, Form::narrow_64x64, Form::narrow_128x32,
                                   Form::narrow_128x64};
inline constexpr Form kMapped[] = {Form::mapped_256x192, Form::mapped_128x256};
inline constexpr Form kSharedK[] = {Form::shared_64x128, Form::shared_128x112, Form::shared_128x128};
constexpr bool of_warpgroups(Form form) { return form >= Form::warpgroups && form <= Form::warpgroups_late; }
constexpr bool of_swapped(Form form) { return form >= Form::swapped_16 && form <= Form::swapped_128; }
constexpr bool of_narrow(Form form) { return form >= Form::narrow_64x16 && form <= Form::narrow_128x64; }
constexpr bool of_shared_k(Form form) { return form >= Form::shared_64x128 && form <= Form::shared_128x128; }
constexpr bool of_mapped(Form form) { return form >= Form::mapped_256x192; }
constexpr int rows_of_swapped(Form form) { return 16 << (static_cast<int>(form) - static_cast<int>(Form::swapped_16)); }
// Of narrow and of shared tiles.
constexpr int rows_of_tile(Form form) { return form < Form::narrow_128x32 || form == Form::shared_64x128 ? 64 : 128; }
constexpr int columns_of_tile(Form form) {
  switch (form) {
    case Form::narrow_64x16:
      return 16;
    case Form::narrow_64x32:
    case Form::narrow_128x32:
      return 32;
    case Form::shared_64x128:
    case Form::shared_128x128:
      return 128;
    case Form::shared_128x112:
      return 112;
    default:
      return 64;
  }
}

const char* name_of(Form form);
std::optional<Form> form_named(std::string_view name);

enum class Grouping : std::uint8_t { dense, contiguous, masked };
enum class Scales : std::uint8_t { none, vectors, blocks };  // vectors: one for each row and column, or for all of them

struct Shape {
  Form form = Form::tiny;
  Grouping grouping = Grouping::dense;
  Scales scales = Scales::none;
  Dtype a = Dtype::bf16, b = Dtype::bf16, out = Dtype::bf16;
  bool transposed_a = false;  // stored [k][m]
  bool transposed_b = false;
  bool gate = false;
  bool out_scale = false;
  int copy_bytes = 16;
  const quern_expression* epilogue = nullptr;
  // Of the operands that the epilogue uses; `other` for the rest.
  std::array<Dtype, expression::kOperands> operands = {Dtype::other, Dtype::other, Dtype::other, Dtype::other,
                                                       Dtype::other, Dtype::other, Dtype::other, Dtype::other};
};

// Words of a Spec that a shape fills.
inline constexpr std::size_t kSpecWords = 5;
jit::Spec to_spec(const Shape& shape, Tag op, jit::Target target);
Shape to_shape(const jit::Spec& spec);

// The three ops have the same constants, of which each leaves out those that it has no choice in.
Constants to_constants(const Shape& shape, Tag op);
// Those of a product whose form is to be found, its extents in front.
struct ProductExtents {
  std::int64_t n, k, batch = 1;
};
Constants product_constants(const Shape& shape, Tag op, const ProductExtents& extents);
// Throws Error(QUERN_INVALID) naming the constant, what was given and what is allowed.
Shape from_constants(const Constants& constants, Tag op);

// Throws Error(QUERN_UNSUPPORTED) where the target has no room for it.
jit::Unit to_unit(const Shape& shape, Tag op, jit::Target target);

}  // namespace quern::ops::gemm
