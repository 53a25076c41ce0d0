// From a unit to its identity: canonical text, and the XXH3-128 of that text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"
#include "jit/unit.h"

namespace quern::jit {

// Raised when the meaning of a cached image changes without any source changing (the launch convention, say).
inline constexpr int kFormat = 2;

// The canonical text, one fact a line:
//
//   quern 1                                the format
//   op attention
//   target sm_90a
//   entry quern_attention
//   const HEAD_DIM 128                     one line a constant, in the unit's order
//   shared 65536                           only where not zero
//   pass keep-operands                     only where the machine code's hints may be changed
//   pass checked                           only in the checked form
//   option -use_fast_math                  one line an option, in the unit's order; for `host`, a library built with a
//                                          sanitizer adds the option by which it compiles kernels (jit/sanitizer.h), so
//                                          that an ordinary process never meets such an image
//   source attention/attention.cuh <SHA-256 of its text, hexadecimal>
//   header common/tile.cuh <SHA-256>       one line a header that went in, sorted by name
//
// Values are percent-encoded where they hold a control character or '%'. No path, environment, time, driver or compiler
// version: a host without a compiler computes the same text.
// `used` are the files that go in, the source first: used_files(unit).
std::string canonical_text(const Unit& unit, std::vector<File> used);

cache::Key key_of(std::string_view canonical_text);

}  // namespace quern::jit
