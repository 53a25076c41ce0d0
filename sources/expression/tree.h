// A checked formula as a tree, and the operators and functions that one may hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sources/expression/expression.h"

namespace quern::ops::expression {

// Deeper than any formula that people write. The deepest tree still nests its brackets less deeply than compilers
// allow.
inline constexpr std::size_t kMostBytes = 4096;
inline constexpr std::uint32_t kMostDepth = 100;
inline constexpr std::size_t kMostNodes = 512;

// Numbers are f32, integers have 64 bits. Where a number is wanted an integer becomes one.
enum class Type : std::uint8_t { number, truth, integer };

// What an operator or function takes: `either` numbers or integers, and of integers alone its result is one. A cast
// takes whatever there is.
enum class Takes : std::uint8_t { numbers, integers, truths, either, anything };

// `level` binds the tighter the larger it is; all binary operators group from the left. Of what takes either, `result`
// is that of numbers. `code`: the function that does it with integers, where C++'s operator would not wrap around or
// leaves cases undefined.
struct Operator {
  std::string_view text;
  int level;
  Takes takes;
  Type result;
  std::string_view integer_code = {};
};
inline constexpr std::array kBinary = {
    Operator{"||", 1, Takes::truths, Type::truth},
    Operator{"&&", 2, Takes::truths, Type::truth},
    Operator{"==", 3, Takes::either, Type::truth},
    Operator{"!=", 3, Takes::either, Type::truth},
    Operator{"<", 4, Takes::either, Type::truth},
    Operator{"<=", 4, Takes::either, Type::truth},
    Operator{">", 4, Takes::either, Type::truth},
    Operator{">=", 4, Takes::either, Type::truth},
    Operator{"|", 5, Takes::integers, Type::integer},
    Operator{"^", 6, Takes::integers, Type::integer},
    Operator{"&", 7, Takes::integers, Type::integer},
    Operator{"<<", 8, Takes::integers, Type::integer, "shifted_left"},
    Operator{">>", 8, Takes::integers, Type::integer, "shifted_right"},
    Operator{"+", 9, Takes::either, Type::number, "whole_sum"},
    Operator{"-", 9, Takes::either, Type::number, "whole_difference"},
    Operator{"*", 10, Takes::either, Type::number, "whole_product"},
    Operator{"/", 10, Takes::either, Type::number, "whole_quotient"},
    Operator{"%", 10, Takes::integers, Type::integer, "whole_remainder"},
};
inline constexpr int kLoosest = 1;
inline constexpr int kPrefixLevel = 11;  // above every binary operator
inline constexpr std::array kPrefix = {
    Operator{"-", kPrefixLevel, Takes::either, Type::number, "whole_negative"},
    Operator{"!", kPrefixLevel, Takes::truths, Type::truth},
    Operator{"~", kPrefixLevel, Takes::integers, Type::integer},
};

// The first argument of select is a truth value. `code`: as common/ calls it where that is not `name`, `integer_code`:
// what takes integers.
struct Function {
  std::string_view name;
  std::size_t arguments;
  Takes takes = Takes::numbers;
  Type result = Type::number;
  std::string_view code = name;
  std::string_view integer_code = code;
};
inline constexpr std::array kFunctions = {
    Function{"abs", 1, Takes::either, Type::number, "abs", "whole_abs"},
    Function{"exp", 1},
    Function{"log", 1},
    Function{"sqrt", 1},
    Function{"rsqrt", 1},
    Function{"tanh", 1},
    Function{"erf", 1},
    Function{"sigmoid", 1},
    Function{"relu", 1},
    Function{"silu", 1},
    Function{"gelu", 1},
    Function{"gelu_tanh", 1},
    Function{"min", 2, Takes::either},
    Function{"max", 2, Takes::either},
    Function{"pow", 2},
    Function{"clamp", 3, Takes::either, Type::number, "clamp", "whole_clamp"},
    Function{"select", 3, Takes::either},
    Function{"exp2", 1, Takes::numbers, Type::number, "exp_of_two"},
    Function{"expm1", 1},
    Function{"log2", 1, Takes::numbers, Type::number, "log_of_two"},
    Function{"log1p", 1},
    Function{"sin", 1},
    Function{"cos", 1},
    Function{"atan2", 2},
    Function{"floor", 1},
    Function{"ceil", 1},
    Function{"trunc", 1},
    Function{"round", 1},
    Function{"f16", 1, Takes::numbers, Type::number, "rounded_to<f16>"},
    Function{"bf16", 1, Takes::numbers, Type::number, "rounded_to<bf16>"},
    Function{"e4m3", 1, Takes::numbers, Type::number, "rounded_to<e4m3>"},
    Function{"e5m2", 1, Takes::numbers, Type::number, "rounded_to<e5m2>"},
    Function{"number", 1, Takes::anything, Type::number, "number_of"},
    Function{"int8", 1, Takes::anything, Type::integer, "integer_of<i8>"},
    Function{"uint8", 1, Takes::anything, Type::integer, "integer_of<u8>"},
    Function{"int16", 1, Takes::anything, Type::integer, "integer_of<i16>"},
    Function{"int32", 1, Takes::anything, Type::integer, "integer_of<i32>"},
    Function{"int64", 1, Takes::anything, Type::integer, "integer_of<i64>"},
};
inline constexpr std::string_view kSelect = "select";
inline constexpr std::uint8_t kToNumber = 32;  // the function that turns an integer into a number
static_assert(kFunctions[kToNumber].name == "number");

struct NamedResult {
  std::string_view name;
  Leaf leaf;
};
inline constexpr std::array kResults = {NamedResult{"acc", leaf_acc}, NamedResult{"gate", leaf_gate},
                                        NamedResult{"up", leaf_up}};

struct NamedOperand {
  std::string_view name;  // before its number
  OperandKind kind;
};
inline constexpr std::array kOperandKinds = {
    NamedOperand{"row", OperandKind::row}, NamedOperand{"col", OperandKind::column},
    NamedOperand{"tensor", OperandKind::tensor}, NamedOperand{"integer", OperandKind::integer}};
inline constexpr std::string_view kScalar = "scalar";
inline constexpr std::string_view kIndex = "index", kPlace = "place";

enum class NodeKind : std::uint8_t { number, result, operand, scalar, index, prefix, binary, call };

struct Node {
  NodeKind kind;
  Type type = Type::number;
  std::uint8_t which = 0;  // index into the table of its kind above; of a scalar or an index its number, kDimensions of
                           // place
  std::uint8_t index = 0;  // of an operand
  std::uint8_t child_count = 0;
  float value = 0.0f;                       // of a number: finite, not negative
  std::int64_t whole = -1;                  // the same as an integer where it is written as one, else -1
  std::array<std::uint32_t, 3> children{};  // places in Tree::nodes, all before this one's
  std::uint32_t depth = 1;
};

struct Tree {
  std::vector<Node> nodes;  // the root is the last
  const Node& root() const { return nodes.back(); }
};

// Throws Error(QUERN_INVALID).
Tree parse(std::string_view text);

// The one text of a tree: no spaces, no bracket that precedence makes needless, numbers as the shortest decimal that
// reads back as the same f32.
std::string canonical(const Tree& tree);
// C++ on f32 and i64, every operation in brackets.
std::string code(const Tree& tree);

}  // namespace quern::ops::expression
