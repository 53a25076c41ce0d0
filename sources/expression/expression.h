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

// How an operand is read for the element in a row and column of the result.
enum class OperandKind : std::uint8_t { unused, row, column, tensor };

// The results that an op offers, as bits: each op says which it has.
enum Leaf : std::uint32_t { leaf_acc = 1u << 0, leaf_gate = 1u << 1, leaf_up = 1u << 2 };

}  // namespace quern::ops::expression

// Interned: equal formulas are one object, which lives as long as the process.
struct quern_expression {
  std::uint32_t number;  // its place in the table of this process; for Specs
  std::string text;      // canonical: what intern() reads as the same formula; for keys and manifests
  // The same as C++ on f32: results by their names (acc, gate, up), operand N as xN, scalar N as sN, functions as in
  // common/pointwise.cuh.
  std::string code;
  std::array<quern::ops::expression::OperandKind, quern::ops::expression::kOperands> operands;
  std::uint32_t scalars;  // bit N: scalar N is used
  std::uint32_t leaves;   // the results used, enum Leaf
};

namespace quern::ops::expression {

// A formula is a number, never a truth value, and reads at least one result, operand or scalar. An operand is read as a
// row, a column or a tensor, not as two of them. At most 4096 bytes, 100 levels and 512 numbers, leaves, operators and
// functions. Throws Error(QUERN_INVALID) naming the place (in bytes from 0), what stands there and what is allowed.
const quern_expression& intern(std::string_view text);
// Throws Error(QUERN_INTERNAL) for a number that was never given.
const quern_expression& interned(std::uint32_t number);

}  // namespace quern::ops::expression
