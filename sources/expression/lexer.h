// The words of an expression's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::ops::expression {

enum class TokenKind { number, name, symbol, end };

struct Token {
  TokenKind kind;
  std::string_view text;  // within the expression's
  std::size_t at;         // its first byte, from 0
};

// Throws Error(QUERN_INVALID): "expression, byte AT: REASON".
[[noreturn]] void refuse_at(std::size_t at, const std::string& reason);
// As an error cites it: in quotes, cut when it is long, bytes that cannot be shown as hexadecimal.
std::string quoted(std::string_view text);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  // The next token; of kind `end` for ever after the last. Throws Error(QUERN_INVALID) at a byte that begins none.
  Token next();

 private:
  std::size_t number_end() const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace quern::ops::expression
