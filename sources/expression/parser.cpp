// A recursive-descent parser that knows every node's type as it makes it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "jit/error.h"
#include "sources/expression/lexer.h"
#include "sources/expression/tree.h"

namespace quern::ops::expression {
namespace {

constexpr const char* kOperandsAllowed =
    "a number, acc, gate, up, row0 to row7, col0 to col7, tensor0 to tensor7, integer0 to integer7, scalar0 to "
    "scalar7, "
    "index0 to index5, place, a function, (, -, !, ~";

std::string function_names() {
  std::string names;
  for (const Function& function : kFunctions) names += (names.empty() ? "" : " ") + std::string(function.name);
  return names;
}

// A node and the text it was made of.
struct Part {
  std::uint32_t node;
  std::size_t begin;
  std::size_t end;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text), token_(lexer_.next()) {}

  Tree run() {
    const Part whole = binary(kLoosest);
    if (token_.kind != TokenKind::end) fail("an operator or the end");
    refuse_truth(whole, "the expression", "a number: select(condition, x, y) makes one of a truth value");
    return std::move(tree_);
  }

 private:
  [[noreturn]] void fail(const std::string& allowed) const {
    const std::string found = token_.kind == TokenKind::end ? "the text ends here" : "found " + quoted(token_.text);
    refuse_at(token_.at, found + "; allowed: " + allowed);
  }

  void advance() {
    previous_end_ = token_.at + token_.text.size();
    token_ = lexer_.next();
  }

  bool accept(std::string_view symbol) {
    if (token_.kind != TokenKind::symbol || token_.text != symbol) return false;
    advance();
    return true;
  }

  Type type_of(const Part& part) const { return tree_.nodes[part.node].type; }

  [[noreturn]] void refuse(const Part& part, const std::string& who, const std::string& what) const {
    constexpr const char* kNames[] = {"number", "truth value", "integer"};
    const Type given = type_of(part);
    refuse_at(part.begin, quoted(text_.substr(part.begin, part.end - part.begin)) +
                              (given == Type::integer ? " is an " : " is a ") + kNames[static_cast<int>(given)] + "; " +
                              who + " takes " + what);
  }
  void refuse_truth(const Part& part, const std::string& who, const std::string& what) const {
    if (type_of(part) == Type::truth) refuse(part, who, what);
  }

  // That it can be what an operator or function takes.
  void check(const Part& part, Takes takes, std::string_view name) const {
    const Type given = type_of(part);
    if (takes == Takes::truths && given != Type::truth)
      refuse(part, quoted(name), "truth values (comparisons, && || !)");
    if (takes != Takes::truths && given == Type::truth)
      refuse(part, quoted(name), takes == Takes::integers ? "integers" : "numbers");
    if (takes == Takes::integers && given == Type::number && !is_whole(part.node))
      refuse(part, quoted(name), "integers: int64(x) makes one of a number");
  }

  // Makes the arguments of an operator or function what it takes, and says which type they now have.
  Type agree(std::span<Part> parts, Takes takes, std::string_view name) {
    for (const Part& part : parts) check(part, takes, name);
    if (takes == Takes::truths) return Type::truth;
    bool all = true, any = false;  // integers; numbers that are written as integers can be either
    for (const Part& part : parts) {
      const bool is = type_of(part) == Type::integer;
      any |= is;
      all = all && (is || is_whole(part.node));
    }
    const bool integers = takes == Takes::integers || (takes == Takes::either && any && all);
    for (Part& part : parts) {
      if (integers) {
        make_whole(part.node);
      } else if (type_of(part) == Type::integer) {
        part = to_number(part);
      }
    }
    return integers ? Type::integer : Type::number;
  }

  // Whether a number is made of integers as they are written, by what gives the same with integers.
  bool is_whole(std::uint32_t at) const {
    const Node& node = tree_.nodes[at];
    if (node.type != Type::number) return false;
    if (node.kind == NodeKind::number) return node.whole >= 0;
    const bool keeps =
        node.kind == NodeKind::prefix || (node.kind == NodeKind::binary && kBinary[node.which].text != "/");
    if (!keeps) return false;
    for (std::uint8_t i = 0; i < node.child_count; ++i) {
      if (!is_whole(node.children[i])) return false;
    }
    return true;
  }
  void make_whole(std::uint32_t at) {
    Node& node = tree_.nodes[at];
    if (node.type == Type::integer) return;
    node.type = Type::integer;
    for (std::uint8_t i = 0; i < node.child_count; ++i) make_whole(node.children[i]);
  }
  Part to_number(const Part& part) {
    Node node{.kind = NodeKind::call, .which = kToNumber, .child_count = 1};
    node.children = {part.node};
    Part made = add(node, part.begin);
    made.end = part.end;
    return made;
  }

  Part add(Node node, std::size_t begin) {
    for (std::uint8_t i = 0; i < node.child_count; ++i) {
      node.depth = std::max(node.depth, tree_.nodes[node.children[i]].depth + 1);
    }
    if (node.depth > kMostDepth) refuse_depth(begin);
    if (tree_.nodes.size() == kMostNodes) {
      refuse_at(begin, "more than " + std::to_string(kMostNodes) + " numbers, leaves, operators and functions");
    }
    tree_.nodes.push_back(node);
    return {static_cast<std::uint32_t>(tree_.nodes.size() - 1), begin, previous_end_};
  }

  [[noreturn]] static void refuse_depth(std::size_t at) {
    refuse_at(at, "nested more than " + std::to_string(kMostDepth) + " deep");
  }

  // Counts the recursion, which brackets deepen without making a node.
  class Level {
   public:
    Level(Parser& parser) : parser_(parser) {
      if (++parser_.level_ > kMostDepth) refuse_depth(parser_.token_.at);
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  std::optional<std::uint8_t> binary_operator(int level) const {
    if (token_.kind != TokenKind::symbol) return {};
    for (std::size_t i = 0; i < kBinary.size(); ++i) {
      if (kBinary[i].level == level && kBinary[i].text == token_.text) return static_cast<std::uint8_t>(i);
    }
    return {};
  }

  Part binary(int level) {
    if (level == kPrefixLevel) return prefix();
    Part left = binary(level + 1);
    while (const std::optional<std::uint8_t> which = binary_operator(level)) {
      const Operator& symbol = kBinary[*which];
      check(left, symbol.takes, symbol.text);
      advance();
      std::array<Part, 2> sides = {left, binary(level + 1)};
      Node node{.kind = NodeKind::binary, .which = *which, .child_count = 2};
      node.type = result_of(symbol, agree(sides, symbol.takes, symbol.text));
      node.children = {sides[0].node, sides[1].node};
      left = add(node, left.begin);
    }
    return left;
  }

  // Of what takes either, integers give an integer, but for comparisons.
  static Type result_of(const Operator& symbol, Type taken) {
    return taken == Type::integer && symbol.result == Type::number ? Type::integer : symbol.result;
  }

  Part prefix() {
    const Level level(*this);
    const std::size_t begin = token_.at;
    for (std::size_t i = 0; i < kPrefix.size(); ++i) {
      if (!accept(kPrefix[i].text)) continue;
      std::array<Part, 1> operand = {prefix()};
      Node node{.kind = NodeKind::prefix, .which = static_cast<std::uint8_t>(i), .child_count = 1};
      node.type = result_of(kPrefix[i], agree(operand, kPrefix[i].takes, kPrefix[i].text));
      node.children = {operand[0].node};
      return add(node, begin);
    }
    return primary();
  }

  Part primary() {
    const std::size_t begin = token_.at;
    if (token_.kind == TokenKind::number) return number();
    if (token_.kind == TokenKind::name) return name();
    if (!accept("(")) fail(kOperandsAllowed);
    Part inner = binary(kLoosest);
    if (!accept(")")) fail("an operator or )");
    inner.begin = begin;
    inner.end = previous_end_;
    return inner;
  }

  Part number() {
    const Token token = token_;
    Node node{.kind = NodeKind::number};
    const auto [stop, status] = std::from_chars(token.text.begin(), token.text.end(), node.value);
    if (status == std::errc::result_out_of_range) {
      refuse_at(token.at,
                "the number " + quoted(token.text) + " is beyond f32: 0 and 1e-45 to 3.4028235e38 are allowed");
    }
    if (status != std::errc() || stop != token.text.end()) {
      refuse_at(token.at, quoted(token.text) + " is not a number; numbers are written 1, 0.5, 1e-3");
    }
    if (token.text.find_first_not_of("0123456789") == std::string_view::npos &&
        std::from_chars(token.text.begin(), token.text.end(), node.whole).ec != std::errc())
      node.whole = -1;
    advance();
    return add(node, token.at);
  }

  Part name() {
    const Token token = token_;
    for (std::size_t i = 0; i < kFunctions.size(); ++i) {
      if (kFunctions[i].name == token.text) return call(static_cast<std::uint8_t>(i));
    }
    Node node{.kind = NodeKind::result};
    if (!leaf(token.text, &node)) {
      refuse_at(token.at, "there is no " + quoted(token.text) + "; allowed: " + kOperandsAllowed + "; functions are " +
                              function_names());
    }
    if (node.kind == NodeKind::operand) note_kind(token, node);
    advance();
    return add(node, token.at);
  }

  static bool leaf(std::string_view text, Node* node) {
    for (std::size_t i = 0; i < kResults.size(); ++i) {
      if (kResults[i].name != text) continue;
      node->which = static_cast<std::uint8_t>(i);
      return true;
    }
    if (text == kPlace) {
      *node = {.kind = NodeKind::index, .type = Type::integer, .which = kDimensions};
      return true;
    }
    const char digit = text.back();
    const std::string_view word = text.substr(0, text.size() - 1);
    if (word == kScalar && digit >= '0' && digit < '0' + kScalars) {
      node->kind = NodeKind::scalar;
      node->which = static_cast<std::uint8_t>(digit - '0');
      return true;
    }
    if (word == kIndex && digit >= '0' && digit < '0' + kDimensions) {
      *node = {.kind = NodeKind::index, .type = Type::integer, .which = static_cast<std::uint8_t>(digit - '0')};
      return true;
    }
    for (std::size_t i = 0; i < kOperandKinds.size(); ++i) {
      if (word != kOperandKinds[i].name || digit < '0' || digit >= '0' + kOperands) continue;
      node->kind = NodeKind::operand;
      if (kOperandKinds[i].kind == OperandKind::integer) node->type = Type::integer;
      node->which = static_cast<std::uint8_t>(i);
      node->index = static_cast<std::uint8_t>(digit - '0');
      return true;
    }
    return false;
  }

  // An operand is read in one way only.
  void note_kind(const Token& token, const Node& node) {
    std::string_view& known = operands_[node.index];
    if (!known.empty() && known != token.text) {
      refuse_at(token.at, quoted(token.text) + " and " + quoted(known) + " are the same operand, number " +
                              std::to_string(node.index) +
                              ", which is a row, a column, a tensor or integers, not two of them");
    }
    known = token.text;
  }

  Part call(std::uint8_t which) {
    const Function& function = kFunctions[which];
    const std::size_t begin = token_.at;
    advance();
    const std::string takes = " (" + std::string(function.name) + " takes " + std::to_string(function.arguments) +
                              (function.arguments == 1 ? " argument)" : " arguments)");
    if (!accept("(")) fail("(" + takes);
    Node node{.kind = NodeKind::call, .type = function.result, .which = which};
    std::array<Part, 3> arguments{};
    const bool selects = function.name == kSelect;
    for (std::size_t i = 0; i < function.arguments; ++i) {
      if (i > 0 && !accept(",")) fail("an operator or a comma" + takes);
      arguments[i] = binary(kLoosest);
      if (selects && i == 0) {
        if (type_of(arguments[0]) != Type::truth)
          refuse(arguments[0], "the first argument of select", "truth values (comparisons, && || !)");
      } else if (function.takes != Takes::anything) {
        refuse_truth(arguments[i], quoted(function.name), "numbers");
      }
    }
    const std::size_t first = selects ? 1 : 0;
    const std::span<Part> alike(&arguments[first], function.arguments - first);
    if (function.takes != Takes::anything && agree(alike, function.takes, function.name) == Type::integer)
      node.type = Type::integer;
    for (std::size_t i = 0; i < function.arguments; ++i) node.children[node.child_count++] = arguments[i].node;
    if (!accept(")")) fail("an operator or )" + takes);
    return add(node, begin);
  }

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  std::size_t previous_end_ = 0;  // of the last token taken
  std::uint32_t level_ = 0;
  std::array<std::string_view, kOperands> operands_;
  Tree tree_;
};

}  // namespace

Tree parse(std::string_view text) {
  if (text.size() > kMostBytes) {
    throw Error(QUERN_INVALID, "expression has " + std::to_string(text.size()) + " bytes; at most " +
                                   std::to_string(kMostBytes) + " are allowed");
  }
  return Parser(text).run();
}

}  // namespace quern::ops::expression
