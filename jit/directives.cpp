// A scanner that knows just enough of C++'s lexical grammar to tell directives from look-alikes in comments and
// strings. What a kernel is made of is found here and nowhere else: a spelling that it missed would let a file into a
// kernel that is no part of the kernel's key.
// SPDX-License-Identifier: Apache-2.0
#include "jit/directives.h"

#include <algorithm>
#include <array>
#include <set>

namespace quern::jit {
namespace {

// The characters of identifiers and numbers.
constexpr auto kWord = [] {
  std::array<bool, 256> table{};
  for (unsigned c = 0; c < 256; ++c) {
    table[c] =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c >= 0x80;
  }
  return table;
}();
bool is_word(char c) { return kWord[static_cast<unsigned char>(c)]; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_foreign(char c) { return static_cast<unsigned char>(c) >= 0x80; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_probe(std::string_view word) {
  return one_of(word, {"__has_include", "__has_include_next", "__has_include__", "__has_include_next__", "__has_embed",
                       "__has_embed__"});
}

// What they stand for is in no source.
bool is_clock(std::string_view word) { return one_of(word, {"__DATE__", "__TIME__", "__TIMESTAMP__"}); }

// The text with its spliced lines joined, as translation begins with, and the way back.
class Joined {
 public:
  explicit Joined(std::string_view text) : text_(text), joined_(text) {
    if (text.find('\\') == std::string_view::npos) return;
    for (std::size_t at = 0;;) {
      const std::size_t backslash = std::min(text.find('\\', at), text.size());
      kept_ += text.substr(at, backslash - at);
      if (backslash == text.size()) break;
      std::size_t end = text[std::min(backslash + 1, text.size() - 1)] == '\r' ? backslash + 2 : backslash + 1;
      if (end < text.size() && text[end] == '\n') {
        at = end + 1;
        splices_.push_back({kept_.size(), at - kept_.size()});
      } else {
        kept_ += '\\';
        at = backslash + 1;
      }
    }
    joined_ = kept_;
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

  std::string_view text() const { return joined_; }
  // Where the character at `at` of the joined text stands in the given one.
  std::size_t origin(std::size_t at) const {
    const std::size_t before = splices_up_to(at);
    return before == 0 ? at : at + splices_[before - 1].shift;
  }
  // How many splices stand before the character at `at`.
  std::size_t splices_up_to(std::size_t at) const {
    const auto after = std::upper_bound(splices_.begin(), splices_.end(), at,
                                        [](std::size_t place, const Splice& splice) { return place < splice.at; });
    return static_cast<std::size_t>(after - splices_.begin());
  }
  bool spliced_within(std::size_t begin, std::size_t end) const {
    return end > begin && splices_up_to(end - 1) != splices_up_to(begin);
  }

 private:
  struct Splice {
    std::size_t at;     // of the first character behind it, in the joined text
    std::size_t shift;  // to add from there on
  };
  std::string_view text_;
  std::string kept_;
  std::string_view joined_;
  std::vector<Splice> splices_;
};

class Scanner {
 public:
  explicit Scanner(std::string_view given) : joined_(given), text_(joined_.text()) { check_bytes(given); }

  Directives run() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark: what follows begins the first line
    while (at_ < text_.size()) logical_line();
    found_.lines = line_number();
    return std::move(found_);
  }

 private:
  // What compilers read differently, looked for in the text as it is.
  void check_bytes(std::string_view given) {
    for (const std::string_view trigraph : {"?\?/", "?\?="}) {
      if (const std::size_t at = given.find(trigraph); at != std::string_view::npos)
        object_at(given, at, "holds the trigraph " + std::string(trigraph) + ", which some compilers replace");
    }
    if (ends_spliced(given)) object_at(given, given.size(), "ends in a backslash, which would join what follows it");
    for (std::size_t at = given.find('\r'); at != std::string_view::npos; at = given.find('\r', at + 1)) {
      if (at + 1 < given.size() && given[at + 1] == '\n') continue;
      return object_at(given, at, "holds a carriage return without a line feed, which some compilers take for both");
    }
    for (std::size_t at = given.find('\\'); at != std::string_view::npos; at = given.find('\\', at + 1)) {
      const std::size_t next = given.find_first_not_of(" \t\f\v", at + 1);
      if (next == at + 1 || next == std::string_view::npos) continue;
      if (given[next] == '\n' || given.substr(next, 2) == "\r\n")
        return object_at(given, at,
                         "has blanks between a backslash and the end of its line, which some compilers join");
    }
  }

  static bool ends_spliced(std::string_view given) {
    return given.ends_with('\\') || given.ends_with("\\\n") || given.ends_with("\\\r\n");
  }

  void object_at(std::string_view given, std::size_t at, std::string text) {
    const auto line = 1 + std::count(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    object(static_cast<std::size_t>(line), std::move(text));
  }
  void object(std::size_t line, std::string text) {
    if (found_.objection.text.empty()) found_.objection = {line, std::move(text)};
  }

  // Of the character at at_, in the text as it was given.
  std::size_t line_number() const { return line_ + joined_.splices_up_to(at_); }

  bool next_is(char c) const { return at_ + 1 < text_.size() && text_[at_ + 1] == c; }

  // Reads up to and with the next line break outside comments and raw strings. Only where the first visible character
  // is '#' is what it reads collected, less comments: most lines are no directives, and this runs on every cold start.
  void logical_line() {
    const std::size_t begin = at_;
    const std::size_t first_line = line_number();
    collected_.clear();
    is_directive_ = false;
    bool only_space = true;
    bool ended = false;
    odd_start_ = false;
    while (at_ < text_.size() && !ended) {
      const char c = text_[at_];
      if (is_word(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
        // Some compilers take what looks like blanks beyond ASCII for blanks.
        const bool foreign = only_space && word();
        if (!only_space) word();
        only_space = foreign;
        odd_start_ = odd_start_ || foreign;
      } else if (is_blank(c)) {
        collect(c);
        ++at_;
      } else if (c == '\n') {
        ++at_;
        ++line_;
        ended = true;
      } else if (c == '/' && next_is('/')) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '/' && next_is('*')) {
        block_comment();
        collect(' ');
      } else {
        if (only_space && (c == '#' || (c == '%' && next_is(':')))) {
          is_directive_ = true;
          collected_ = "#";
          at_ += c == '#' ? 1 : 2;
        } else if (c == '"' || c == '\'') {
          literal();
        } else {
          collect(c);
          ++at_;
        }
        only_space = false;
      }
    }
    const std::size_t lines = line_number() - first_line + (ended ? 0 : 1);
    if (is_directive_) directive(joined_.origin(begin), first_line, lines);
  }

  void collect(char c) {
    if (is_directive_) collected_ += c;
  }

  void block_comment() {
    std::size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) object(line_number(), "opens a comment that is never closed");
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
    const std::size_t begin = at_;
    collect(text_[at_++]);
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_];
      collect(text_[at_++]);
      if (c == quote) return;
      if (c == '\\' && at_ < text_.size() && text_[at_] != '\n') collect(text_[at_++]);
    }
    // Were the quote alone taken for a token, what follows it could open something that goes on for lines.
    const std::string_view rest = text_.substr(begin, at_ - begin);
    if (rest.find("/*") != std::string_view::npos || rest.find("R\"") != std::string_view::npos)
      object(line_number(), "has a quote that its line does not close before a comment or raw string");
  }

  // An identifier or number as a whole, so that 1'000 opens no literal and R"( does open a raw string.
  // True when none of its characters is of ASCII.
  bool word() {
    const std::size_t begin = at_;
    const bool number = is_digit(text_[at_]) || text_[at_] == '.';
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool separator = number && c == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1]);
      const bool sign = number && (c == '+' || c == '-') && at_ > begin &&
                        std::string_view("eEpP").find(text_[at_ - 1]) != std::string_view::npos;
      if (!is_word(c) && !separator && !sign && !(number && c == '.')) break;
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (is_directive_) collected_ += word;
    if (word.starts_with("__")) {
      if (is_probe(word)) {
        const std::size_t from = joined_.origin(begin), to = joined_.origin(at_ - 1) + 1;
        found_.list.push_back({Directive::Kind::probe, from, to, line_number(), 0, std::string(word)});
      }
      if (is_clock(word)) object(line_number(), "uses " + std::string(word) + ", which is no part of a kernel's key");
    }
    if (at_ < text_.size() && text_[at_] == '"' && word.back() == 'R' && !number) {
      if (one_of(word, {"R", "u8R", "uR", "UR", "LR"}))
        raw_string(begin);
      else if (std::any_of(word.begin(), word.end(), [](char c) { return is_foreign(c) || c == '$'; }))
        object(line_number(), "has a raw string or none, as characters before it are taken for letters or not");
    }
    return std::all_of(word.begin(), word.end(), is_foreign);
  }

  void raw_string(std::size_t begin) {
    const std::size_t open = text_.find('(', at_);
    const std::string_view delimiter =
        open == std::string_view::npos ? std::string_view() : text_.substr(at_ + 1, open - at_ - 1);
    if (open == std::string_view::npos || delimiter.size() > 16 ||
        delimiter.find_first_of(" ()\\\t\v\f\n\r\"") != std::string_view::npos) {
      object(line_number(), "has a raw string whose delimiter is none");
      ++at_;
      return;
    }
    const std::string close = ')' + std::string(delimiter) + '"';
    const std::size_t found = text_.find(close, open);
    if (found == std::string_view::npos) object(line_number(), "opens a raw string that is never closed");
    const std::size_t end = found == std::string_view::npos ? text_.size() : found + close.size();
    // Joining lines is undone within raw strings, which moves their ends.
    if (joined_.spliced_within(begin, end)) object(line_number(), "has a backslash at a line's end in a raw string");
    check_raw_lines(text_.substr(at_, end - at_));
    collect('"');
    collect('"');
    count_lines(end);
  }

  // A compiler that skips a branch by lines would take these for what they look like.
  void check_raw_lines(std::string_view text) {
    for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
      std::string_view line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      line.remove_prefix(std::min(line.find_first_not_of(" \t\r\f\v"), line.size()));
      if (!line.starts_with('#') && !line.starts_with("%:")) continue;
      line.remove_prefix(line.starts_with('#') ? 1 : 2);
      const std::string_view name = next_word(&line);
      if (name.starts_with("include") || name == "embed" || name == "import")
        object(line_number(), "has a raw string with a line that looks like #" + std::string(name));
    }
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
    Directive made{Directive::Kind::include, begin, joined_.origin(at_ - 1) + 1, first_line, lines, {}};
    if (odd_start_) {
      refuse(&made, "a directive behind characters that only some compilers take for blanks");
    } else if (name == "include") {
      include(rest, &made);
    } else if (name == "pragma") {
      if (!pragma(rest, &made)) return;
    } else if (name == "if" || name == "ifdef" || name == "ifndef") {
      made.kind = Directive::Kind::open;
      if (name == "if") found_.conditions.push_back({first_line, words_of(rest)});
    } else if (name == "elif" || name == "else" || name == "elifdef" || name == "elifndef") {
      made.kind = Directive::Kind::other_branch;
      if (name == "elif") found_.conditions.push_back({first_line, words_of(rest)});
    } else if (name == "endif") {
      made.kind = Directive::Kind::close;
    } else if (name == "define") {
      define(rest);
      return;
    } else if (name == "undef") {
      found_.undefined.emplace_back(next_word(&rest));
      return;
    } else if (one_of(name, {"line", "error", "warning", "ident"}) || is_number(name) ||
               (name.empty() && rest.find_first_not_of(" \t\r\f\v") == std::string_view::npos)) {
      return;
    } else {
      refuse(&made, '#' + std::string(name) + " is not a directive that kernels may use");
    }
    // A line that is replaced takes the words in it along.
    const bool replaced = made.kind == Directive::Kind::include || made.kind == Directive::Kind::refused ||
                          made.kind == Directive::Kind::once;
    while (replaced && !found_.list.empty() && found_.list.back().begin >= begin) found_.list.pop_back();
    found_.list.push_back(std::move(made));
  }

  static bool is_number(std::string_view word) {  // a line marker
    return !word.empty() && std::all_of(word.begin(), word.end(), is_digit);
  }

  static void refuse(Directive* made, std::string why) {
    made->kind = Directive::Kind::refused;
    made->name = std::move(why);
  }

  static void include(std::string_view rest, Directive* made) {
    const std::size_t open = rest.find_first_not_of(" \t\r\f\v");
    const char quote = open == std::string_view::npos ? '\0' : rest[open];
    if (quote != '"' && quote != '<')
      return refuse(made, "#include by a macro: a header is included by its name alone, so that it can be found");
    const std::size_t close = rest.find(quote == '<' ? '>' : '"', open + 1);
    if (close == std::string_view::npos) return refuse(made, "#include of a name that is not closed");
    made->name = rest.substr(open + 1, close - open - 1);
    made->angled = quote == '<';
  }

  // False where the line may stay as it is.
  bool pragma(std::string_view rest, Directive* made) {
    const std::string_view first = next_word(&rest);
    if (first == "once") {
      made->kind = Directive::Kind::once;
      found_.once = true;
      return true;
    }
    const std::string_view second = next_word(&rest);
    const bool reaches = one_of(first, {"include_alias", "hdrstop", "comment", "import"}) ||
                         (first == "GCC" && one_of(second, {"dependency", "pch_preprocess"})) ||
                         (first == "clang" && second == "module");
    if (reaches) refuse(made, "#pragma " + std::string(first) + ' ' + std::string(second) + " reaches for other files");
    return reaches;
  }

  static std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && is_word(text[end])) ++end;
      if (end > at) words.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    return words;
  }

  void define(std::string_view rest) {
    Macro macro;
    macro.name = next_word(&rest);
    macro.pastes = rest.find("##") != std::string_view::npos || rest.find("%:%:") != std::string_view::npos;
    macro.words = words_of(rest);
    found_.macros.push_back(std::move(macro));
  }

  const Joined joined_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;  // but for splices
  bool is_directive_ = false;
  bool odd_start_ = false;
  std::string collected_;  // of a directive, from the '#' on
  Directives found_;
};

}  // namespace

Directives find_directives(std::string_view text) { return Scanner(text).run(); }

Objection find_pasted_condition(const std::vector<const Directives*>& texts, std::size_t* which) {
  std::set<std::string_view> pasting;
  const auto pastes = [&](const std::vector<std::string>& words) {
    return std::find_if(words.begin(), words.end(), [&](const std::string& word) { return pasting.contains(word); });
  };
  for (bool more = true; more;) {
    more = false;
    for (const Directives* text : texts) {
      for (const Macro& macro : text->macros) {
        const bool reaches = macro.pastes || pastes(macro.words) != macro.words.end();
        if (reaches) more = pasting.insert(macro.name).second || more;
      }
    }
  }
  if (pasting.empty()) return {};
  for (*which = 0; *which < texts.size(); ++*which) {
    for (const Condition& condition : texts[*which]->conditions) {
      if (const auto word = pastes(condition.words); word != condition.words.end())
        return {condition.line,
                "has a condition on " + *word + ", a macro that pastes tokens: what it asks for cannot be seen"};
    }
  }
  return {};
}

}  // namespace quern::jit
