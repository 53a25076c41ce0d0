// Trees as text: canonical, and as C++. What a tree's depth is limited to bounds the recursion.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "sources/expression/tree.h"

namespace quern::ops::expression {
namespace {

// The shortest decimal that reads back as the same f32, its exponent without plus and leading zeros.
std::string shortest(float value) {
  char buffer[32];
  const auto [end, status] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  std::size_t digits = exponent + 1;
  if (text[digits] == '+') text.erase(digits, 1);
  if (text[digits] == '-') ++digits;
  while (text[digits] == '0') text.erase(digits, 1);
  return text;
}

std::string place_name(const Node& node) {
  return node.which == kDimensions ? std::string(kPlace) : std::string(kIndex) + std::to_string(node.which);
}

int level_of(const Node& node) {
  if (node.kind == NodeKind::binary) return kBinary[node.which].level;
  if (node.kind == NodeKind::prefix) return kPrefixLevel;
  return kPrefixLevel + 1;
}

class Canonical {
 public:
  explicit Canonical(const Tree& tree) : tree_(tree) {}

  std::string of(const Node& node) const {
    switch (node.kind) {
      case NodeKind::number:
        return node.type == Type::integer ? std::to_string(node.whole) : shortest(node.value);
      case NodeKind::result:
        return std::string(kResults[node.which].name);
      case NodeKind::operand:
        return std::string(kOperandKinds[node.which].name) + std::to_string(node.index);
      case NodeKind::scalar:
        return std::string(kScalar) + std::to_string(node.which);
      case NodeKind::index:
        return place_name(node);
      case NodeKind::prefix:
        return std::string(kPrefix[node.which].text) + child(node, 0, kPrefixLevel);
      case NodeKind::binary: {
        const int level = kBinary[node.which].level;
        return child(node, 0, level) + std::string(kBinary[node.which].text) + child(node, 1, level + 1);
      }
      case NodeKind::call:
        break;
    }
    std::string text = std::string(kFunctions[node.which].name) + "(";
    for (std::size_t i = 0; i < node.child_count; ++i) text += (i == 0 ? "" : ",") + child(node, i, kLoosest);
    return text + ")";
  }

 private:
  // In brackets where it binds less tightly than `least`.
  std::string child(const Node& node, std::size_t i, int least) const {
    const Node& inner = tree_.nodes[node.children[i]];
    return level_of(inner) < least ? "(" + of(inner) + ")" : of(inner);
  }

  const Tree& tree_;
};

class Code {
 public:
  explicit Code(const Tree& tree) : tree_(tree) {}

  std::string of(const Node& node) const {
    switch (node.kind) {
      case NodeKind::number: {
        if (node.type == Type::integer) return std::to_string(node.whole) + "ll";
        const std::string text = shortest(node.value);
        return text + (text.find_first_of(".e") == std::string::npos ? ".0f" : "f");
      }
      case NodeKind::result:
        return std::string(kResults[node.which].name);
      case NodeKind::operand:
        return "x" + std::to_string(node.index);
      case NodeKind::scalar:
        return "s" + std::to_string(node.which);
      case NodeKind::index:
        return place_name(node);
      case NodeKind::prefix:
        if (const std::string_view name = integer_code(node, kPrefix[node.which]); !name.empty())
          return call(name, node);
        return "(" + std::string(kPrefix[node.which].text) + child(node, 0) + ")";
      case NodeKind::binary:
        if (const std::string_view name = integer_code(node, kBinary[node.which]); !name.empty())
          return call(name, node);
        return "(" + child(node, 0) + " " + std::string(kBinary[node.which].text) + " " + child(node, 1) + ")";
      case NodeKind::call:
        break;
    }
    if (kFunctions[node.which].name == kSelect) {
      return "(" + child(node, 0) + " ? " + child(node, 1) + " : " + child(node, 2) + ")";
    }
    const Function& function = kFunctions[node.which];
    return call(node.type == Type::integer ? function.integer_code : function.code, node);
  }

 private:
  static std::string_view integer_code(const Node& node, const Operator& symbol) {
    return node.type == Type::integer ? symbol.integer_code : std::string_view();
  }
  std::string call(std::string_view name, const Node& node) const {
    std::string text = std::string(name) + "(";
    for (std::size_t i = 0; i < node.child_count; ++i) text += (i == 0 ? "" : ", ") + child(node, i);
    return text + ")";
  }
  std::string child(const Node& node, std::size_t i) const { return of(tree_.nodes[node.children[i]]); }

  const Tree& tree_;
};

}  // namespace

std::string canonical(const Tree& tree) { return Canonical(tree).of(tree.root()); }

std::string code(const Tree& tree) { return Code(tree).of(tree.root()); }

}  // namespace quern::ops::expression
