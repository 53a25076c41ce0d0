// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sources/verify/trial.h"

namespace quern::ops::verify {
namespace {

using expression::Node;
using expression::NodeKind;
using expression::Type;

double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Named {
  std::string_view name;
  double (*of)(double);
};
constexpr Named kOfOne[] = {{"abs", [](double x) { return std::fabs(x); }},
                            {"exp", [](double x) { return std::exp(x); }},
                            {"exp2", [](double x) { return std::exp2(x); }},
                            {"expm1", [](double x) { return std::expm1(x); }},
                            {"log", [](double x) { return std::log(x); }},
                            {"log2", [](double x) { return std::log2(x); }},
                            {"log1p", [](double x) { return std::log1p(x); }},
                            {"sqrt", [](double x) { return std::sqrt(x); }},
                            {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                            {"sin", [](double x) { return std::sin(x); }},
                            {"cos", [](double x) { return std::cos(x); }},
                            {"tanh", [](double x) { return std::tanh(x); }},
                            {"erf", [](double x) { return std::erf(x); }},
                            {"floor", [](double x) { return std::floor(x); }},
                            {"ceil", [](double x) { return std::ceil(x); }},
                            {"trunc", [](double x) { return std::trunc(x); }},
                            {"round", [](double x) { return std::nearbyint(x); }},
                            {"sigmoid", sigmoid},
                            {"relu", [](double x) { return x > 0 || std::isnan(x) ? x : 0; }},
                            {"silu", [](double x) { return x * sigmoid(x); }},
                            {"gelu", gelu},
                            {"gelu_tanh", gelu_tanh}};

constexpr struct {
  std::string_view name;
  Dtype dtype;
} kRounded[] = {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}};

constexpr struct {
  std::string_view name;
  Dtype dtype;
  std::int64_t least, most;
} kIntegers[] = {
    {"int8", Dtype::i8, -128, 127},
    {"uint8", Dtype::u8, 0, 255},
    {"int16", Dtype::i16, -32768, 32767},
    {"int32", Dtype::i32, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()},
    {"int64", Dtype::i64, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}};

std::int64_t cut(double x, std::int64_t least, std::int64_t most) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(least)) return least;
  return x >= static_cast<double>(most) ? most : static_cast<std::int64_t>(x);
}

// Unsigned, so that what overflows wraps around.
std::int64_t wrapped(std::string_view symbol, std::int64_t left, std::int64_t right) {
  const auto a = static_cast<std::uint64_t>(left), b = static_cast<std::uint64_t>(right);
  switch (symbol[0]) {
    case '+':
      return static_cast<std::int64_t>(a + b);
    case '-':
      return static_cast<std::int64_t>(a - b);
    default:
      return static_cast<std::int64_t>(a * b);
  }
}

}  // namespace

double as_stored(double value, Dtype dtype) {
  if (dtype == Dtype::boolean) return value != 0;
  if (dtype == Dtype::e4m3) return std::clamp(value, -448.0, 448.0);
  if (dtype == Dtype::e5m2) return std::clamp(value, -57344.0, 57344.0);
  for (const auto& each : kIntegers) {
    if (dtype == each.dtype) return static_cast<double>(cut(value, each.least, each.most));
  }
  return value;
}

double Formula::slack() const {
  double most = kF32Slack;
  for (const Node& node : tree_.nodes) {
    if (node.kind != NodeKind::call) continue;
    const std::string_view name = expression::kFunctions[node.which].name;
    for (const auto& each : kRounded) {
      if (name != each.name) continue;
      most = std::max(most, each.dtype == Dtype::f16 ? 0x1p-9 : each.dtype == Dtype::bf16 ? 0x1p-6 : 0x1p-1);
    }
  }
  return most;
}

double Formula::at(const Leaves& leaves) const { return of(tree_.root(), leaves).real(); }

Formula::Value Formula::of(const Node& node, const Leaves& leaves) const {
  const auto child = [&](std::size_t i) { return of(tree_.nodes[node.children[i]], leaves); };
  const auto number = [](double value) { return Value{value, 0, false}; };
  switch (node.kind) {
    case NodeKind::number:
      return node.type == Type::integer ? Value{0, node.whole, true} : number(node.value);
    case NodeKind::result:
      return number(node.which == 0 ? leaves.acc : node.which == 1 ? leaves.gate : leaves.up);
    case NodeKind::operand: {
      const double value = leaves.operand(node.index);
      return node.type == Type::integer ? Value{0, static_cast<std::int64_t>(value), true} : number(value);
    }
    case NodeKind::scalar:
      return number(leaves.scalars[node.which]);
    case NodeKind::index:
      return {0, leaves.indices[node.which], true};
    case NodeKind::prefix: {
      const Value value = child(0);
      const std::string_view symbol = expression::kPrefix[node.which].text;
      if (symbol == "!") return {0, value.real() == 0, true};
      if (symbol == "~") return {0, ~value.whole, true};
      return value.is_whole ? Value{0, wrapped("-", 0, value.whole), true} : number(-value.number);
    }
    case NodeKind::binary:
      return operation(expression::kBinary[node.which].text, child(0), child(1));
    case NodeKind::call:
      break;
  }
  std::array<Value, 3> given{};
  for (std::size_t i = 0; i < node.child_count; ++i) given[i] = child(i);
  return function(expression::kFunctions[node.which].name, given);
}

Formula::Value Formula::operation(std::string_view symbol, Value a, Value b) const {
  const bool whole = a.is_whole && b.is_whole;
  const double x = a.real(), y = b.real();
  const auto truth = [](bool value) { return Value{0, value, true}; };
  if (symbol == "||") return truth(x != 0 || y != 0);
  if (symbol == "&&") return truth(x != 0 && y != 0);
  if (symbol == "==") return truth(whole ? a.whole == b.whole : x == y);
  if (symbol == "!=") return truth(whole ? a.whole != b.whole : x != y);
  if (symbol == "<") return truth(whole ? a.whole < b.whole : x < y);
  if (symbol == "<=") return truth(whole ? a.whole <= b.whole : x <= y);
  if (symbol == ">") return truth(whole ? a.whole > b.whole : x > y);
  if (symbol == ">=") return truth(whole ? a.whole >= b.whole : x >= y);
  if (!whole) return {symbol == "+" ? x + y : symbol == "-" ? x - y : symbol == "*" ? x * y : x / y, 0, false};
  const std::int64_t n = a.whole, m = b.whole;
  if (symbol == "|") return {0, n | m, true};
  if (symbol == "^") return {0, n ^ m, true};
  if (symbol == "&") return {0, n & m, true};
  if (symbol == "+" || symbol == "-" || symbol == "*") return {0, wrapped(symbol, n, m), true};
  // What these do beyond their ranges is the library's own to say: its tests hold that.
  if (symbol == "<<" || symbol == ">>") {
    if (m < 0 || m > 63) return {kUnknown, 0, false};
    return {0, symbol == "<<" ? static_cast<std::int64_t>(static_cast<std::uint64_t>(n) << m) : n >> m, true};
  }
  if (m == 0 || m == -1) return {kUnknown, 0, false};
  return {0, symbol == "/" ? n / m : n % m, true};
}

Formula::Value Formula::function(std::string_view name, const std::array<Value, 3>& given) const {
  const auto& [a, b, c] = given;
  const double x = a.real(), y = b.real();
  for (const auto& each : kIntegers) {
    if (name != each.name) continue;
    return {0, a.is_whole ? std::clamp(a.whole, each.least, each.most) : cut(a.number, each.least, each.most), true};
  }
  if (name == "select") return x != 0 ? b : c;
  if (name == "min" || name == "max" || name == "clamp") {
    const bool whole = a.is_whole && b.is_whole && (name != "clamp" || c.is_whole);
    double value = name == "min"   ? std::fmin(x, y)
                   : name == "max" ? std::fmax(x, y)
                                   : std::fmin(std::fmax(x, y), c.real());
    if (name == "clamp" && std::isnan(x)) value = x;
    return {value, whole ? static_cast<std::int64_t>(value) : 0, whole};
  }
  if (name == "abs" && a.is_whole) return {0, a.whole < 0 ? wrapped("-", 0, a.whole) : a.whole, true};
  if (name == "number") return {x, 0, false};
  if (name == "pow") return {std::pow(x, y), 0, false};
  if (name == "atan2") return {std::atan2(x, y), 0, false};
  for (const auto& each : kRounded) {
    if (name != each.name) continue;
    Field one(each.dtype, {1});
    one.set(0, x);
    return {one.get(0), 0, false};
  }
  for (const Named& each : kOfOne)
    if (name == each.name) return {each.of(x), 0, false};
  return {kUnknown, 0, false};
}

}  // namespace quern::ops::verify
