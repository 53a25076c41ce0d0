// The border: how the structs of quern.h are read and written whatever their size, and where exceptions stop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "capi/quern.h"
#include "jit/error.h"
#include "sources/args.h"

namespace quern::capi {

// Turns the exception being handled into a status and, where `error` is given, its text. Call within a catch block
// only. A quern_error whose size is not set, or absurd, is left alone; text that does not fit loses its middle, at
// whole characters.
std::int32_t report_current_exception(quern_error* error) noexcept;

// Runs what returns a status or throws.
template <class F>
std::int32_t guarded(quern_error* error, F&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return report_current_exception(error);
  }
}

// Copies into a fixed buffer with its NUL, cut at a whole UTF-8 character when it is too long.
void copy_text(std::string_view text, char* buffer, std::size_t size) noexcept;

// Throws Error(QUERN_INVALID) naming the bits that are not among `known`.
void check_flags(const char* field, std::uint32_t given, std::uint32_t known);

// A path that the caller gives: throws Error(QUERN_INVALID) unless it is absolute. A relative one would mean another
// file after a chdir, and could be planted in the working directory.
const char* path_parameter(const char* path, const char* name = "path");

using ops::check_size;
using ops::fail_null;
using ops::In;

// A struct that the caller has filled in, its own size left in it. Checked on construction, written at the very end.
template <class T>
class Out {
 public:
  Out(T* given, const char* name) : given_(given) {
    if (given == nullptr) fail_null(name);
    if (given->size != sizeof(T)) check_size(name, given, given->size, sizeof(T));
  }
  void set(T value) const noexcept {
    value.size = given_->size;
    std::memcpy(given_, &value, std::min<std::size_t>(given_->size, sizeof(T)));
  }

 private:
  T* given_;
};

// A pointer through which a result goes out.
template <class T>
T& out_parameter(T* given, const char* name) {
  if (given == nullptr) fail_null(name);
  return *given;
}

}  // namespace quern::capi
