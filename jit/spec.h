// The compile-time constants of one kernel, in a form that a look-up can hash and compare without building a string.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace quern::jit {

// `words` mean what the op says they mean; unused ones are zero. Text (a host's own source) is interned by its op first
// and stands here as its number.
struct Spec {
  std::uint32_t op = 0;      // the op's tag
  std::uint32_t target = 0;  // Target::tag()
  std::array<std::uint32_t, 14> words{};

  friend bool operator==(const Spec& a, const Spec& b) { return std::memcmp(&a, &b, sizeof(Spec)) == 0; }
};
static_assert(sizeof(Spec) == 64 && std::has_unique_object_representations_v<Spec>);

}  // namespace quern::jit
