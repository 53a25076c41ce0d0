// What a Spec stands for: everything that goes into one compilation, and nothing else. Made on a miss only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/target.h"

namespace quern::jit {

struct Constant {
  std::string name;
  std::string value;
  friend bool operator==(const Constant&, const Constant&) = default;
};

// A source text with the name by which #include finds it. The views outlive the unit (embedded or interned).
struct File {
  std::string_view name;
  std::string_view text;
  // What is known of the text beforehand, so that a key can be had without reading it; nothing where `sha256` is empty.
  std::string_view sha256 = {};                     // hexadecimal
  std::span<const std::string_view> includes = {};  // the names that its #include "name" directives ask for, in order
};

struct Unit {
  std::string op;  // "attention"
  Target target;
  std::string spec;   // the constants as a manifest has them, so that an entry of the cache can be asked for again
  std::string entry;  // the kernel's extern "C" name
  std::vector<Constant> constants;  // become  #define name value, in this order
  File source;
  std::vector<File> headers;           // what may be included; only those that are go into the key
  std::vector<std::string> options;    // further compiler options
  std::uint32_t max_shared_bytes = 0;  // dynamic shared memory a launch may ask for
  bool keep_operands = false;          // the machine code's hints may be changed (jit/operand_reuse.h)
  bool checked = false;                // in the checked form: QUERN_CHECKED is defined, each kernel begins by QUERN_ENTER
};

// One translation unit: the constants as #defines (QUERN_CHECKED before them), then the source with every #include "name" replaced by the text of
// that header (#pragma once honoured, #line directives kept so that logs name the real file). Compiling it needs no
// include path.
struct Rendered {
  std::string text;
  std::vector<File> used;  // the source first, then the headers that went in, in order of first inclusion
};
// Throws Error(QUERN_INVALID) when an include is not among the headers, naming it and the file and line that asks for
// it.
Rendered render(const Unit& unit);

// render(unit).used, without reading any text where every file's digest and includes are known beforehand: nothing is
// checked then.
std::vector<File> used_files(const Unit& unit);

}  // namespace quern::jit
