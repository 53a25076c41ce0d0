// Reading the structs of quern.h whatever their size: older callers pass shorter ones, newer callers longer ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "capi/quern.h"

namespace quern::ops {

// Every struct begins with two 32-bit fields; none comes near the upper bound.
inline constexpr std::uint32_t kSmallestStruct = 8;
inline constexpr std::uint32_t kLargestStruct = 65'536;

// Throws Error(QUERN_INVALID): "NAME is NULL".
[[noreturn]] void fail_null(const char* name);

// For a size that is not ours: throws Error(QUERN_INVALID) when it is absurd, or when a byte that we do not know is not
// zero.
void check_size(const char* name, const void* given, std::uint32_t size, std::size_t ours);

// A struct that the caller passes in. One of our own size is used in place; otherwise what there is of it is copied and
// followed by zeros.
template <class T>
class In {
 public:
  In(const T* given, const char* name) : used_(given) {
    if (given == nullptr) fail_null(name);
    if (given->size != sizeof(T)) [[unlikely]]
      adapt(name);
  }
  In(const In&) = delete;
  In& operator=(const In&) = delete;
  const T& operator*() const { return *used_; }
  const T* operator->() const { return used_; }

 private:
  void adapt(const char* name) {
    const std::uint32_t size = used_->size;
    check_size(name, used_, size, sizeof(T));
    const std::size_t known = std::min<std::size_t>(size, sizeof(T));
    std::memcpy(copy_, used_, known);
    std::memset(copy_ + known, 0, sizeof(T) - known);
    used_ = reinterpret_cast<const T*>(copy_);
  }

  const T* used_;
  alignas(T) unsigned char copy_[sizeof(T)];  // written only when the size is not ours
};

}  // namespace quern::ops
