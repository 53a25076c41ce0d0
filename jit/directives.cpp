// A scanner that knows just enough of C++'s lexical grammar to tell directives from look-alikes in comments and
// strings.
// SPDX-License-Identifier: Apache-2.0
#include "jit/directives.h"

#include <algorithm>
#include <array>

namespace quern::jit {
namespace {

// The characters of identifiers and numbers.
constexpr auto kWord = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0; c < 256; ++c) {
    table[c] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c >= 0x80;
  }
  return table;
}();
bool is_word(char c) { return kWord[static_cast<unsigned char>(c)]; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Directives run() {
    while (at_ < text_.size()) logical_line();
    found_.lines = line_;
    return std::move(found_);
  }

 private:
  // The length of a backslash and line break at `at`, 0 where there is none.
  std::size_t splice(std::size_t at) const {
    if (at >= text_.size() || text_[at] != '\\') return 0;
    if (at + 1 < text_.size() && text_[at + 1] == '\n') return 2;
    if (at + 2 < text_.size() && text_[at + 1] == '\r' && text_[at + 2] == '\n') return 3;
    return 0;
  }

  bool next_is(char c) const { return at_ + 1 < text_.size() && text_[at_ + 1] == c; }

  // Reads up to and with the next line break outside comments and raw strings. Only where the first visible character
  // is '#' is what it reads collected, less comments and splices: most lines are no directives, and this runs on every
  // cold start.
  void logical_line() {
    const std::size_t begin = at_;
    const std::size_t first_line = line_;
    collected_.clear();
    is_directive_ = false;
    bool only_space = true;
    bool ended = false;
    while (at_ < text_.size() && !ended) {
      const char c = text_[at_];
      if (is_word(c)) {
        only_space = false;
        word();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        collect(c);
        ++at_;
      } else if (c == '\n') {
        ++at_;
        ++line_;
        ended = true;
      } else if (c == '/' && next_is('/')) {
        line_comment();
      } else if (c == '/' && next_is('*')) {
        block_comment();
        collect(' ');
      } else if (const std::size_t skip = splice(at_); skip != 0) {
        at_ += skip;
        ++line_;
      } else {
        is_directive_ = is_directive_ || (only_space && c == '#');
        only_space = false;
        if (c == '"' || c == '\'') {
          literal();
        } else {
          collect(c);
          ++at_;
        }
      }
    }
    if (is_directive_) directive(begin, first_line, ended ? line_ - first_line : line_ - first_line + 1);
  }

  void collect(char c) {
    if (is_directive_) collected_ += c;
  }

  void line_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      at_ = std::min(text_.find_first_of("\\\n", at_), text_.size());
      if (const std::size_t skip = splice(at_); skip != 0) {
        at_ += skip;
        ++line_;
      } else if (at_ < text_.size() && text_[at_] == '\\') {
        ++at_;
      }
    }
  }

  void block_comment() {
    std::size_t end = text_.find("*/", at_ + 2);
    end = end == std::string_view::npos ? text_.size() : end + 2;
    count_lines(end);
  }

  void count_lines(std::size_t end) {
    line_ += static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  // A string or character literal; one that is not closed ends with its line, as in text skipped by #if 0.
  void literal() {
    const char quote = text_[at_];
    collect(text_[at_++]);
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (const std::size_t skip = splice(at_); skip != 0) {
        at_ += skip;
        ++line_;
        continue;
      }
      const char c = text_[at_];
      collect(text_[at_++]);
      if (c == quote) return;
      if (c == '\\' && at_ < text_.size() && text_[at_] != '\n' && splice(at_) == 0) collect(text_[at_++]);
    }
  }

  // An identifier or number as a whole, so that 1'000 opens no literal and R"( does open a raw string.
  void word() {
    const std::size_t begin = at_;
    const bool number = text_[at_] >= '0' && text_[at_] <= '9';
    while (at_ < text_.size()) {
      const bool separator = number && text_[at_] == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1]);
      if (!is_word(text_[at_]) && !separator) break;
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (is_directive_) collected_ += word;
    if (at_ == text_.size() || text_[at_] != '"' || word.back() != 'R') return;
    if (word == "R" || word == "u8R" || word == "uR" || word == "UR" || word == "LR") raw_string();
  }

  void raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 17) {
      ++at_;
      return;
    }
    const std::string close = ')' + std::string(text_.substr(at_ + 1, open - at_ - 1)) + '"';
    const std::size_t end = text_.find(close, open);
    count_lines(end == std::string_view::npos ? text_.size() : end + close.size());
  }

  static std::string_view next_word(std::string_view* rest) {
    const std::size_t begin = std::min(rest->find_first_not_of(" \t\r\f\v"), rest->size());
    std::size_t end = begin;
    while (end < rest->size() && is_word((*rest)[end])) ++end;
    const std::string_view word = rest->substr(begin, end - begin);
    rest->remove_prefix(end);
    return word;
  }

  void directive(std::size_t begin, std::size_t first_line, std::size_t lines) {
    std::string_view rest = std::string_view(collected_).substr(1);
    const std::string_view name = next_word(&rest);
    Directive made{Directive::Kind::include, begin, at_, first_line, lines, {}};
    if (name == "include") {
      const std::size_t open = rest.find_first_not_of(" \t");
      if (open == std::string_view::npos || rest[open] != '"') return;
      const std::size_t close = rest.find('"', open + 1);
      if (close == std::string_view::npos) return;
      made.name = rest.substr(open + 1, close - open - 1);
    } else if (name == "pragma") {
      if (next_word(&rest) != "once") return;
      made.kind = Directive::Kind::once;
      found_.once = true;
    } else if (name == "if" || name == "ifdef" || name == "ifndef") {
      made.kind = Directive::Kind::open;
    } else if (name == "else" || name == "elif" || name == "elifdef" || name == "elifndef") {
      made.kind = Directive::Kind::other_branch;
    } else if (name == "endif") {
      made.kind = Directive::Kind::close;
    } else {
      return;
    }
    found_.list.push_back(std::move(made));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  bool is_directive_ = false;
  std::string collected_;  // of a directive, from the '#' on
  Directives found_;
};

}  // namespace

Directives find_directives(std::string_view text) { return Scanner(text).run(); }

}  // namespace quern::jit
