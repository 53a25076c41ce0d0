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

enum class Type : std::uint8_t { number, truth };

// `level` binds the tighter the larger it is; all binary operators group from the left.
struct Operator {
  std::string_view text;
  int level;
  Type operands;
  Type result;
};
inline constexpr std::array kBinary = {
    Operator{"||", 1, Type::truth, Type::truth},  Operator{"&&", 2, Type::truth, Type::truth},
    Operator{"==", 3, Type::number, Type::truth}, Operator{"!=", 3, Type::number, Type::truth},
    Operator{"<", 4, Type::number, Type::truth},  Operator{"<=", 4, Type::number, Type::truth},
    Operator{">", 4, Type::number, Type::truth},  Operator{">=", 4, Type::number, Type::truth},
    Operator{"+", 5, Type::number, Type::number}, Operator{"-", 5, Type::number, Type::number},
    Operator{"*", 6, Type::number, Type::number}, Operator{"/", 6, Type::number, Type::number},
};
inline constexpr int kLoosest = 1;
inline constexpr int kPrefixLevel = 7;  // above every binary operator
inline constexpr std::array kPrefix = {
    Operator{"-", kPrefixLevel, Type::number, Type::number},
    Operator{"!", kPrefixLevel, Type::truth, Type::truth},
};

// All take numbers and give a number, but for the first argument of select.
struct Function {
  std::string_view name;
  std::size_t arguments;
};
inline constexpr std::array kFunctions = {
    Function{"abs", 1},   Function{"exp", 1},       Function{"log", 1},     Function{"sqrt", 1}, Function{"rsqrt", 1},
    Function{"tanh", 1},  Function{"erf", 1},       Function{"sigmoid", 1}, Function{"relu", 1}, Function{"silu", 1},
    Function{"gelu", 1},  Function{"gelu_tanh", 1}, Function{"min", 2},     Function{"max", 2},  Function{"pow", 2},
    Function{"clamp", 3}, Function{"select", 3},
};
inline constexpr std::string_view kSelect = "select";

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
inline constexpr std::array kOperandKinds = {NamedOperand{"row", OperandKind::row},
                                             NamedOperand{"col", OperandKind::column},
                                             NamedOperand{"tensor", OperandKind::tensor}};
inline constexpr std::string_view kScalar = "scalar";

enum class NodeKind : std::uint8_t { number, result, operand, scalar, prefix, binary, call };

struct Node {
  NodeKind kind;
  Type type = Type::number;
  std::uint8_t which = 0;  // index into the table of its kind above; of a scalar, the scalar's number
  std::uint8_t index = 0;  // of an operand
  std::uint8_t child_count = 0;
  float value = 0.0f;                       // of a number: finite, not negative
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
// C++ on f32, every operation in brackets.
std::string code(const Tree& tree);

}  // namespace quern::ops::expression
