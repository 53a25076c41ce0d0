// Pointwise expressions: text to a checked, canonical formula that is part of a kernel's specialisation. The grammar
// and the leaves are in capi/quern.h, the functions in sources/common/pointwise.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "capi/quern.h"

namespace quern::ops::expression {

inline constexpr int kOperands = 8;
inline constexpr int kScalars = 8;
inline constexpr int kDimensions = 6;

// How an operand is read for the element in a row and column of the result; `integer` is a tensor read as integers.
enum class OperandKind : std::uint8_t { unused, row, column, tensor, integer };

// What a formula asks of an op, as bits: each op says which it offers. An integer operand, a place (indexN and place)
// and an integer as the formula's value are offered by pointwise alone.
enum Leaf : std::uint32_t {
  leaf_acc = 1u << 0,
  leaf_gate = 1u << 1,
  leaf_up = 1u << 2,
  leaf_integer_operand = 1u << 3,
  leaf_place = 1u << 4,
  leaf_integer_value = 1u << 5
};

}  // namespace quern::ops::expression

// Interned: equal formulas are one object, which lives as long as the process.
struct quern_expression {
  std::uint32_t number;  // its place in the table of this process; for Specs
  std::string text;      // canonical: what intern() reads as the same formula; for keys and manifests
  // The same as C++ on f32 and i64: results by their names (acc, gate, up), operand N as xN (i64 where it is read as
  // integers), scalar N as sN, indexN and place as i64 of these names, functions as in common/pointwise.cuh and
  // common/whole.cuh.
  std::string code;
  std::array<quern::ops::expression::OperandKind, quern::ops::expression::kOperands> operands;
  std::uint32_t scalars;  // bit N: scalar N is used
  std::uint32_t leaves;   // what it asks for, enum Leaf
  std::uint32_t indices;  // bit N: indexN is used; bit kDimensions: place
  std::uint32_t cost;     // how much code it is, very roughly: an operator is 1
};

namespace quern::ops::expression {

// A formula is a number or an integer, never a truth value, and reads at least one result, operand, scalar or place. An
// operand is read as a row, a column, a tensor or a tensor of integers, not as two of them. At most 4096 bytes, 100
// levels and 512 numbers, leaves, operators and functions. Throws Error(QUERN_INVALID) naming the place (in bytes from
// 0), what stands there and what is allowed.
const quern_expression& intern(std::string_view text);
// Throws Error(QUERN_INTERNAL) for a number that was never given.
const quern_expression& interned(std::uint32_t number);

}  // namespace quern::ops::expression
