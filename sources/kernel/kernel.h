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
#include <mutex>
#include <set>
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

// While there is one, nothing that is interned is forgotten. Whoever interns has one, and has the Specs that last
// longer kept by somebody before it goes.
class Interning {
 public:
  Interning();
  ~Interning();
  Interning(const Interning&) = delete;
  Interning& operator=(const Interning&) = delete;
};

// Equal texts have equal Specs, as long as they are known. A number is never used for another text.
jit::Spec intern(Text text, jit::Target target);
// Throws Error(QUERN_INTERNAL) where nobody keeps it.
const Text& interned(const jit::Spec& spec);

// The texts that somebody's Specs stand for: they are known as long as this lives. Thread-safe.
class Kept {
 public:
  Kept() = default;
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  // Specs of other ops stand for themselves.
  void keep(const jit::Spec& spec);

 private:
  std::mutex mutex_;
  std::set<std::uint32_t> numbers_;
};

// How many are known, for tests.
std::size_t known_texts();

}  // namespace quern::ops::kernel
