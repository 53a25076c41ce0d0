// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "bindings/cli/bench/element.h"
#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"
#include "quern.h"

namespace quern::cli {
namespace {

constexpr int kDeepest = 40;  // of names that stand for names, and of parentheses

const std::map<std::string, double, std::less<>>& constants() {
  static const std::map<std::string, double, std::less<>> all = {
#define QUERN_CONSTANT(name) {#name, static_cast<double>(name)},
#include "bindings/described/ops.inc"
#undef QUERN_CONSTANT
  };
  return all;
}

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// QUERN_NORM_RMS for "rms" of the op norm, and of norm_backward too.
// QUERN_FRONT_RMSNORM for "rmsnorm" where the field `front` is spoken of.
std::optional<double> constant(std::string word, const std::string& op, const std::string& where) {
  const auto upper = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
    return text;
  };
  word = upper(word);
  std::vector<std::string> candidates = {word, "QUERN_" + word, "QUERN_" + upper(where) + '_' + word};
  for (std::string prefix = upper(op); !prefix.empty();) {
    candidates.push_back("QUERN_" + prefix + '_' + word);
    const std::size_t bar = prefix.rfind('_');
    prefix = bar == std::string::npos ? "" : prefix.substr(0, bar);
  }
  for (const std::string& name : candidates) {
    if (const auto found = constants().find(name); found != constants().end()) return found->second;
  }
  return {};
}

}  // namespace

// One expression, from left to right.
class Evaluation {
 public:
  Evaluation(const Names& names, std::string_view text, const std::string& where, int depth)
      : names_(names), whole_(text), rest_(text), where_(where), depth_(depth) {
    if (depth > kDeepest) fail("is too deep, or stands for itself");
  }

  double all() {
    const double value = alternatives();
    if (!rest_.empty()) fail("goes on with '" + printable(rest_.substr(0, 20)) + "', where an operator is allowed");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure(QUERN_INVALID, where_ + ": '" + shorten(printable(whole_), 60) + "' " + what);
  }
  bool accept(std::string_view sign) {
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }
  void expect(std::string_view sign) {
    if (!accept(sign)) fail("lacks '" + std::string(sign) + "'");
  }

  double alternatives() {
    double value = comparison();
    while (accept("|"))
      value = static_cast<double>(static_cast<std::int64_t>(value) | static_cast<std::int64_t>(comparison()));
    return value;
  }
  double comparison() {
    const double left = sum();
    if (accept("==")) return left == sum() ? 1 : 0;
    if (accept(">=")) return left >= sum() ? 1 : 0;
    if (accept("<=")) return left <= sum() ? 1 : 0;
    if (accept(">")) return left > sum() ? 1 : 0;
    if (accept("<")) return left < sum() ? 1 : 0;
    return left;
  }
  double sum() {
    double value = product();
    while (true) {
      if (accept("+")) {
        value += product();
      } else if (accept("-")) {
        value -= product();
      } else {
        return value;
      }
    }
  }
  double product() {
    double value = factor();
    while (true) {
      if (accept("*")) {
        value *= factor();
      } else if (accept("/")) {
        value /= divisor();
      } else if (accept("%")) {
        value = std::fmod(value, divisor());
      } else {
        return value;
      }
    }
  }
  double divisor() {
    const double value = factor();
    if (value == 0) fail("divides by zero");
    return value;
  }
  double factor() {
    if (++nesting_ > kDeepest) fail("is nested too deeply");
    double value = 0;
    if (accept("-")) {
      value = -factor();
    } else if (accept("(")) {
      value = alternatives();
      expect(")");
    } else if (!rest_.empty() && (digit(rest_.front()) || rest_.front() == '.')) {
      const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (failed != std::errc()) fail("holds no number where one begins");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    } else {
      const std::string name = take_name();
      value = accept("(") ? function(name) : named(name);
    }
    --nesting_;
    return value;
  }
  std::string take_name() {
    std::size_t length = 0;
    while (length < rest_.size() && (letter(rest_[length]) || (length != 0 && digit(rest_[length])))) ++length;
    if (length == 0) fail("lacks a number or a name where '" + printable(rest_.substr(0, 20)) + "' stands");
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  double named(const std::string& name) {
    if (const auto found = names_.texts_.find(name); found != names_.texts_.end()) {
      return Evaluation(names_, found->second, name, depth_ + 1).all();
    }
    if (const std::optional<double> value = constant(name, names_.op_, where_)) return *value;
    fail("names '" + name + "', which is no name of this op and no constant of quern.h");
  }

  double function(const std::string& name) {
    if (name == "is" || name == "size") {
      const std::string first = names_.word(take_name());
      double value = static_cast<double>(element_size(first));
      if (name == "is") {
        expect(",");
        value = first == take_name() ? 1 : 0;
      } else if (value == 0) {
        fail("asks for the size of '" + first + "', which is no type");
      }
      expect(")");
      return value;
    }
    std::vector<double> values = {alternatives()};
    while (accept(",")) values.push_back(alternatives());
    expect(")");
    const auto of = [&](std::size_t count) { return values.size() == count; };
    if (name == "ceil" && of(1)) return std::ceil(values[0]);
    if (name == "floor" && of(1)) return std::floor(values[0]);
    if (name == "min" && of(2)) return std::min(values[0], values[1]);
    if (name == "max" && of(2)) return std::max(values[0], values[1]);
    if (name == "has" && of(2))
      return (static_cast<std::int64_t>(values[0]) & static_cast<std::int64_t>(values[1])) != 0;
    if (name == "if" && of(3)) return values[0] != 0 ? values[1] : values[2];
    fail("calls '" + name +
         "' so; allowed: ceil(x), floor(x), min(x,y), max(x,y), if(x,then,else), has(flags,flag), "
         "is(name,word), size(TYPE)");
  }

  const Names& names_;
  const std::string_view whole_;
  std::string_view rest_;
  const std::string& where_;
  const int depth_;
  int nesting_ = 0;
};

double Names::number(std::string_view expression, const std::string& where) const {
  return Evaluation(*this, expression, where, 0).all();
}

std::string Names::word(const std::string& name) const {
  std::string word = name;
  for (int i = 0; i < kDeepest; ++i) {
    const auto found = texts_.find(word);
    if (found == texts_.end() || found->second == word) return word;
    word = found->second;
  }
  throw Failure(QUERN_INVALID, name + ": stands for itself");
}

}  // namespace quern::cli
