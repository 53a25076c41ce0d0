// What a pointwise kernel is specialised on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "sources/expression/expression.h"
#include "sources/op.h"
#include "sources/pointwise/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::pointwise {

// How a tensor lies along the innermost dimension: side by side, the same element for all, any distance apart; side by
// side where no vector is aligned; side by side along a tile's other dimension.
enum class Along : std::uint8_t { each, same, any, shifted, across };

// How elements are shared out: by vectors, or one by one by segments of rows, or by tiles of two dimensions.
enum class Span : std::uint8_t { none, rows, tiles };

struct Shape {
  int results = 1;
  int rank = 1;       // of the dimensions that are left
  int width = 1;      // elements that a thread takes at once
  bool wide = false;  // index arithmetic of 64 bits
  Span span = Span::none;
  bool tail = false;  // of more than one dimension: the innermost ends within a vector
  std::array<const quern_expression*, q::kResults> formulas{};
  std::array<Dtype, q::kOperands> operands = {Dtype::other, Dtype::other, Dtype::other, Dtype::other,
                                              Dtype::other, Dtype::other, Dtype::other, Dtype::other};
  std::array<Dtype, q::kResults> outs = {Dtype::other, Dtype::other, Dtype::other, Dtype::other};
  std::array<Along, q::kOperands> operands_along{};
  std::array<Along, q::kResults> outs_along{};

  bool uses(std::size_t operand) const { return kind(operand) != expression::OperandKind::unused; }
  // As the first formula that has it reads it.
  expression::OperandKind kind(std::size_t operand) const {
    for (const quern_expression* formula : formulas) {
      if (formula != nullptr && formula->operands[operand] != expression::OperandKind::unused)
        return formula->operands[operand];
    }
    return expression::OperandKind::unused;
  }
  std::uint32_t scalars() const {
    std::uint32_t all = 0;
    for (const quern_expression* formula : formulas) all |= formula != nullptr ? formula->scalars : 0;
    return all;
  }
  std::uint32_t indices() const {
    std::uint32_t all = 0;
    for (const quern_expression* formula : formulas) all |= formula != nullptr ? formula->indices : 0;
    return all;
  }
};

inline constexpr int kThreads = 256;  // of a block; where vectors are shared out, of the largest
// Vectors that a thread has on their way: some 64 bytes of operands.
int steps(const Shape& shape);

// Throws Error(QUERN_INVALID): formula number `which` asks for what this op has not, or reads an operand otherwise than
// those before it.
void check_formula(const Shape& shape, std::size_t which);
// That an operand which is read as integers has them.
void check_operand(const Shape& shape, std::size_t operand);

jit::Spec to_spec(const Shape& shape, jit::Target target);
jit::Unit unit(const jit::Spec& spec);
jit::Spec parse(const Constants& given, const jit::TargetInfo& target);
Constants constants(const jit::Spec& spec);

}  // namespace quern::ops::pointwise
