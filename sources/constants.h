// Reading the constants of a manifest line, with errors that name the constant, what was given and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sources/op.h"

namespace quern::ops {

// Each constant is asked for once; finish() refuses those that nobody asked for. All throw Error(QUERN_INVALID).
class ConstantReader {
 public:
  ConstantReader(const char* op, const Constants& constants)
      : op_(op), constants_(constants), asked_(constants.size(), false) {}

  // The index of the value among `allowed`; `missing` where the constant is not given, or an error without one.
  std::size_t one_of(const char* name, std::span<const char* const> allowed, std::optional<std::size_t> missing = {});
  std::size_t one_of(const char* name, std::initializer_list<const char*> allowed,
                     std::optional<std::size_t> missing = {}) {
    return one_of(name, std::span(allowed.begin(), allowed.size()), missing);
  }

  // A multiple of `step` from `least` to `most`.
  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most, std::int64_t step,
                       std::optional<std::int64_t> missing = {});

  // Any text; `missing` where the constant is not given.
  std::string_view text(const char* name, std::string_view missing);

  void finish() const;

 private:
  const std::string* find(const char* name);
  [[noreturn]] void refuse(const std::string& text) const;

  const char* op_;
  const Constants& constants_;
  std::vector<bool> asked_;
};

}  // namespace quern::ops
