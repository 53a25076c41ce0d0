// The preprocessor lines of a source text that matter for putting files together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jit {

struct Directive {
  enum class Kind : unsigned char {
    include,       // #include "name"; <name> and macros are left to the compiler
    once,          // #pragma once
    open,          // #if, #ifdef, #ifndef
    other_branch,  // #else, #elif, #elifdef, #elifndef
    close          // #endif
  };
  Kind kind;
  std::size_t begin;  // where its first line begins in the text
  std::size_t end;    // one past the line break of its last line
  std::size_t line;   // of its first line, from 1
  std::size_t lines;  // physical lines, more than one where line breaks are spliced by a backslash
  std::string name;   // of an include
};

struct Directives {
  std::vector<Directive> list;  // in order
  bool once = false;            // #pragma once is among them
  std::size_t lines = 0;        // of the whole text
};

// Comments, string literals and raw strings are skipped: a directive inside them is none.
Directives find_directives(std::string_view text);

}  // namespace quern::jit
