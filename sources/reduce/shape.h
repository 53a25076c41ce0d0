// What of a reduction is a compile-time constant, and the units that follow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/unit.h"
#include "sources/expression/expression.h"
#include "sources/op.h"
#include "sources/reduce/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::reduce {

using q::Reduction;

// rows, columns, few: as the kernels of that name; join: what the pieces of rows have come to.
enum class Way : std::uint8_t { rows, columns, join, few };

// acc
const quern_expression* identity();

struct Shape {
  Way way = Way::rows;
  Dtype element = Dtype::f32;
  Reduction kind = Reduction::sum, kind1 = Reduction::none, kind2 = Reduction::none, kind3 = Reduction::none;
  Dtype out = Dtype::f32, out1 = Dtype::f32, out2 = Dtype::f32, out3 = Dtype::f32;
  const quern_expression *before = identity(), *after = identity(), *after1 = identity(), *after2 = identity(),
                         *after3 = identity();
  bool y = false;       // something reads it
  bool exact = false;   // sums are those of integers
  bool halves = false;  // sums are rounded to f16
  bool vectors = true;  // by rows: elements lie beside each other
  bool segments = false;
  // Threads of a row, by columns beside each other, of few elements a thread's columns; vectors that each has under
  // way.
  int team = 1, at_once = 1;

  std::array<Reduction, q::kReduceResults> kinds() const { return {kind, kind1, kind2, kind3}; }
};

constexpr bool is_place(Reduction kind) { return kind == Reduction::argmax || kind == Reduction::argmin; }
constexpr bool is_truth(Reduction kind) { return kind == Reduction::any || kind == Reduction::all; }
constexpr bool is_sum(Reduction kind) {
  return kind == Reduction::sum || kind == Reduction::mean || kind == Reduction::dot;
}

// Bytes of what a thread knows of a row.
std::int64_t state_bytes(const Shape& shape);
// Threads of a row that is taken in so many vectors, and how many of these each has under way.
void fit_team(Shape& shape, std::int64_t vectors);
// By columns: threads for so many neighbouring rows.
int threads_across(std::int64_t rows, std::int64_t vector);
int blocks_per_sm(const Shape& shape);
// For columns of few elements instead of those of `columns`. `narrow`: of few columns, too.
Shape of_few(Shape columns, bool narrow);
// The launch that joins the pieces of rows.
Shape joining(Shape shape);

// What before and after may read. Throws Error(QUERN_INVALID).
void expect_before(const quern_expression& formula, const char* name);
void expect_after(const quern_expression& formula, const char* name);

jit::Spec to_spec(const Shape& shape, jit::Target target);
Constants to_constants(const jit::Spec& spec);
jit::Spec parse(const Constants& constants, const jit::TargetInfo& target);
jit::Unit to_unit(const jit::Spec& spec);

}  // namespace quern::ops::reduce
