// The preprocessor lines of a source text that matter for putting files together, and everything in it by which a
// compiler would reach for bytes that are not the caller's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jit {

struct Directive {
  enum class Kind : unsigned char {
    include,       // #include "name" or #include <name>
    once,          // #pragma once
    open,          // #if, #ifdef, #ifndef
    other_branch,  // #else, #elif, #elifdef, #elifndef
    close,         // #endif
    probe,         // __has_include, __has_embed: not a line but the word itself
    refused        // a line that no compiler may see: an #include by macro, #embed, #import, an unknown directive
  };
  Kind kind;
  std::size_t begin;    // where its first line (or the word) begins in the text
  std::size_t end;      // one past the line break of its last line (or the word)
  std::size_t line;     // of its first line, from 1
  std::size_t lines;    // physical lines, more than one where line breaks are spliced by a backslash
  std::string name;     // of an include; of a refused line what it is and why
  bool angled = false;  // an include of <name>
};

// What a text is refused for as a whole: compilers do not agree what it says, or what it says is not in it.
struct Objection {
  std::size_t line = 0;
  std::string text;  // empty: none
};

struct Macro {
  std::string name;
  bool pastes = false;             // with ##
  std::vector<std::string> words;  // of its body and parameters
};
struct Condition {  // of an #if or #elif
  std::size_t line = 0;
  std::vector<std::string> words;
};

struct Directives {
  std::vector<Directive> list;  // in order
  bool once = false;            // #pragma once is among them
  std::size_t lines = 0;        // of the whole text
  Objection objection;          // the first one
  std::vector<Macro> macros;
  std::vector<std::string> undefined;  // by #undef
  std::vector<Condition> conditions;
};

// Comments, string literals and raw strings are skipped: a directive inside them is none. The phases of translation are
// the standard's (line splices before tokens); where compilers are known to deviate from it or from each other
// (trigraphs, blanks behind a splice, carriage returns alone, literals that are not closed) the text is objected to.
Directives find_directives(std::string_view text);

// Whether a condition could make __has_include out of parts: it reaches a macro that pastes tokens. `texts` are all
// that go into one unit; on true, *which is the place of the text in it.
Objection find_pasted_condition(const std::vector<const Directives*>& texts, std::size_t* which);

}  // namespace quern::jit
