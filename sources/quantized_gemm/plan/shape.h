// What a kernel of quantized_gemm is specialised on, and a call as it has been read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "capi/quern.h"
#include "jit/target.h"
#include "sources/gemm/plan/choose.h"
#include "sources/gemm/problem.h"
#include "sources/quantized_gemm/params.cuh"

namespace quern::ops::quantized_gemm {

enum class Code : std::uint8_t { f16, bf16, int8, uint8, e4m3, int4, uint4, e2m1 };
enum class Scale : std::uint8_t { none, f32, f16, bf16, e4m3, ue8m0 };

// By the rows of a tile; few: those bound by memory; the last two for many rows on Hopper, of 16 bits and of int8.
enum class Variant : std::uint8_t { rows16, rows32, rows64, rows128, few8, few16, few32, warpgroups, integers };
inline constexpr int kVariants = 9;
constexpr bool is_few(Variant variant) { return variant >= Variant::few8 && variant <= Variant::few32; }

constexpr int rows_of(Variant few) { return few == Variant::few8 ? 8 : few == Variant::few16 ? 16 : 32; }

constexpr int bits_of(Code code) {
  if (code == Code::f16 || code == Code::bf16) return 16;
  return code == Code::int4 || code == Code::uint4 || code == Code::e2m1 ? 4 : 8;
}
constexpr bool is_unsigned(Code code) { return code == Code::uint8 || code == Code::uint4; }

// Of gemm's shape what results and the epilogue are, the gate and the alignment hold here, too.
struct Shape : gemm::Shape {
  Variant rows = Variant::rows16;
  int columns = 128;  // few, integers: lines of b in a tile
  Code code_a = Code::bf16, code_b = Code::int4;
  Scale scale_a = Scale::none, scale_b = Scale::none;
  int group = 0;                            // of k that share a scale; 0: all of k
  bool groups_a = false, groups_b = false;  // which scales are in groups
  bool zeros = false;                       // there is a tensor of zero points

  // Integers are multiplied as such; groups of 16 are scaled before they are multiplied, which leaves no integers.
  bool integers() const {
    const auto is_integer = [](Code code) { return code == Code::int8 || code == Code::int4 || code == Code::uint4; };
    return is_integer(code_a) && is_integer(code_b) && group != 16;
  }
};

struct Tiling {
  int tile_m, tile_n;  // tile_n counts rows of b: with a gate, twice out's columns
  int block_k, stages, stage_bytes;
  int warps_m, warps_n, threads;
  int blocks_per_sm;
  int chunk_blocks;  // few: k blocks of a chunk, whose buffer has stage_bytes
  std::uint32_t shared_bytes;

  std::uint64_t sums_bytes() const {
    // Of few rows every thread has four, though a narrow tile has fewer.
    const int sums = tile_m * tile_n, least = chunk_blocks > 0 ? 4 * threads : 0;
    return std::uint64_t{4} * static_cast<unsigned>(sums > least ? sums : least);
  }
};

// No tiling where the target has no room for it.
std::optional<Tiling> tile(const Shape& shape, const jit::TargetInfo& target);
// Likewise of Variant::warpgroups, and where it does not take the product.
std::optional<Tiling> tile_warpgroups(const Shape& shape, const jit::TargetInfo& target);
std::optional<Tiling> tile_integers(const Shape& shape, const jit::TargetInfo& target);
bool takes_integers(const Shape& shape, const jit::TargetInfo& target);
// What a call's tiles hang on.
struct Extents {
  std::int64_t rows, lines, k;  // of a; of b
  int sms;                      // the device's, whatever the call may use
  bool invariant;               // one of those that add up in the same order
  bool mapped;                  // tensor maps can describe a and b: no line stands for many
};
// Variant::integers: the width of tiles that is best for a call of more than a few rows, where it takes the call and is
// faster than the first kernel. Its sums are exact, so that a row's bits do not depend on the choice.
std::optional<Shape> choose_integers(Shape shape, const Extents& call, const jit::TargetInfo& target);
// The shape with the lowest tile that holds the rows, as far as there is room for it; where the choice may depend on
// the number of rows, many take Variant::warpgroups. Throws Error(QUERN_UNSUPPORTED) where there is room for none.
Shape choose(const Shape& shape, const Extents& call, const jit::TargetInfo& target);
// The shape itself, or what is taken instead where a target has no room for it. Throws Error(QUERN_UNSUPPORTED) where
// there is room for nothing.
Shape fitting(Shape shape, const jit::TargetInfo& target);
// Whether few rows are sooner done if blocks of threads divide the k of tiles.
bool pays_to_divide(const Shape& shape, const Extents& call);

std::optional<Variant> variant_named(std::string_view name);
jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);

struct Problem {
  gemm::Problem product;  // what reads the epilogue writes, and the call
  Shape shape;            // its variant is the one for the call's rows
  q::QuantizedParams params;

  Extents extents() const {
    const q::GemmParams& g = product.params;
    return {g.m,
            g.n,
            g.k,
            std::max(static_cast<int>(product.call.device->sm_count), 1),
            (product.flags & QUERN_CALL_BATCH_INVARIANT) != 0,
            gemm::takes_tensor_maps(product)};
  }
};
// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
Problem read_problem(const Runtime& runtime, const quern_quantized_gemm_args& args, bool may_lack_data);

// The workspace and the call of a product that one variant is to compute, with tiles of so many columns, where it can
// (not the variants for few rows): what a trial of that variant's kernel calls.
std::uint64_t workspace_as(const Runtime& runtime, const quern_quantized_gemm_args& args, Variant variant, int columns);
void run_as(const Runtime& runtime, const quern_quantized_gemm_args& args, Variant variant, int columns);

// Launches a kernel of Variant::warpgroups, or Variant::integers, whose grid and parameters are set.
void launch_warpgroups(const Runtime& runtime, Problem& problem, const jit::Kernel& kernel, const jit::Launch& launch);
void launch_integers(const Runtime& runtime, Problem& problem, const jit::Kernel& kernel, const jit::Launch& launch);

}  // namespace quern::ops::quantized_gemm
