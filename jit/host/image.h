// A compiled kernel as a shared object in memory: loaded without a file, bound to the executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jit/host/block.h"

namespace quern::jit::host {

class Image {
 public:
  // Throws Error(QUERN_UNSUPPORTED) when the image is not for this machine, executor or warp size, and
  // Error(QUERN_DRIVER) when the system refuses or `entry` is not in it.
  Image(std::string_view bytes, const std::string& entry, std::uint32_t warp_size, std::uint32_t max_dynamic_bytes);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  const Program& program() const { return program_; }

 private:
  void close_all() noexcept;
  void bind(const std::string& entry, std::uint32_t warp_size);

  int file_ = -1;  // stays open: its number is the name that the dynamic linker knows the object by
  void* handle_ = nullptr;
  Program program_;
};

}  // namespace quern::jit::host
