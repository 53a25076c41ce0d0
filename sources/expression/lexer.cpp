// SPDX-License-Identifier: Apache-2.0
#include "sources/expression/lexer.h"

#include <algorithm>
#include <array>

#include "jit/error.h"

namespace quern::ops::expression {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The longer of two that begin alike comes first.
constexpr std::array<std::string_view, 23> kSymbols = {
    "||", "&&", "==", "!=", "<<", ">>", "<=", ">=", "<", ">", "+", "-",
    "*",  "/",  "%",  "|",  "^",  "&",  "!",  "~",  "(", ")", ","};

constexpr std::size_t kMostQuoted = 40;

}  // namespace

void refuse_at(std::size_t at, const std::string& reason) {
  throw Error(QUERN_INVALID, "expression, byte " + std::to_string(at) + ": " + reason);
}

std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kMostQuoted)) {
    if (c >= ' ' && c < 0x7f) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return result + (text.size() > kMostQuoted ? "...\"" : "\"");
}

std::size_t Lexer::number_end() const {
  std::size_t end = at_;
  const auto digits = [&] {
    while (end < text_.size() && is_digit(text_[end])) ++end;
  };
  digits();
  if (end < text_.size() && text_[end] == '.') {
    ++end;
    digits();
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    ++end;
    if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
    if (end == text_.size() || !is_digit(text_[end])) {
      refuse_at(at_, "the number " + quoted(text_.substr(at_, end - at_)) + " has no digits in its exponent");
    }
    digits();
  }
  return end;
}

Token Lexer::next() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  if (at_ == text_.size()) return {TokenKind::end, {}, at_};
  const std::size_t begin = at_;
  const char c = text_[begin];
  const bool fraction = c == '.' && begin + 1 < text_.size() && is_digit(text_[begin + 1]);
  const auto token = [&](TokenKind kind, std::size_t end) -> Token {
    at_ = end;
    return {kind, text_.substr(begin, end - begin), begin};
  };
  if (is_digit(c) || fraction) {
    const std::size_t end = number_end();
    if (end < text_.size() && (is_letter(text_[end]) || text_[end] == '.')) {
      refuse_at(end, quoted(text_.substr(end, 1)) + " right after the number " +
                         quoted(text_.substr(begin, end - begin)) + "; numbers are written 1, 0.5, 1e-3");
    }
    return token(TokenKind::number, end);
  }
  if (is_letter(c)) {
    const auto* const last = std::find_if_not(text_.begin() + static_cast<std::ptrdiff_t>(begin), text_.end(),
                                              [](char next) { return is_letter(next) || is_digit(next); });
    return token(TokenKind::name, static_cast<std::size_t>(last - text_.begin()));
  }
  for (const std::string_view symbol : kSymbols) {
    if (text_.substr(begin).starts_with(symbol)) return token(TokenKind::symbol, begin + symbol.size());
  }
  refuse_at(
      begin,
      quoted(text_.substr(begin, 1)) +
          " means nothing in an expression; allowed: numbers, names, + - * / % < <= > >= == != && || ! & | ^ ~ << >> "
          "( ) ,");
}

}  // namespace quern::ops::expression
