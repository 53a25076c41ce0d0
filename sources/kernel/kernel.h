// A host's own kernels as an op like any other: text that the host brings, interned so that a Spec can stand for it.
//
// A Spec holds in words[0] the number under which the text was interned in this process. Manifest lines carry the whole
// text, so that a recorded line can be warmed by another process:
//
//   kernel TARGET entry=NAME [shared=BYTES] source.FILE=TEXT [header.FILE=TEXT ...] [define.NAME=VALUE ...]
//   [option.N=TEXT ...]
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "jit/spec.h"
#include "jit/target.h"
#include "sources/op.h"

namespace quern::ops::kernel {

extern const Op op;

struct Text {
  std::string entry;
  std::pair<std::string, std::string> source;  // name, text
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string> options;
  std::uint32_t max_shared_bytes = 0;
  // clang-tidy 14 takes the comparison of the result with 0 for a null pointer.
  friend auto operator<=>(const Text&, const Text&) = default;  // NOLINT(modernize-use-nullptr)
};

// Throws Error(QUERN_INVALID) naming the part that cannot be: an entry or constant that is no C identifier, a name or
// value with control characters, a header given twice or under a name that quern keeps for itself, an option by which
// files that are not in the key could get in.
void check(const Text& text);

// Equal texts have equal Specs. Interned texts are kept for the life of the process: a Spec may be held by any context.
jit::Spec intern(Text text, jit::Target target);
const Text& interned(const jit::Spec& spec);

}  // namespace quern::ops::kernel
