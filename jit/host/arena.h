// The shared memory of one block: the static arrays, then the dynamic part, with forbidden zones between and around.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

// What H100 and H200 let a block opt in to, so that a kernel that fits there fits here.
inline constexpr std::uint32_t kSharedLimit = 232448;  // bytes, static and dynamic together

// Gives every static array its offset. Returns the bytes they take, zones included: where the dynamic part begins, a
// multiple of 1024 as swizzled tiles need it.
std::uint64_t place(q::host::SharedArray* arrays);
// Without the zones: what the limit counts.
std::uint64_t static_bytes(const q::host::SharedArray* arrays);

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // For the image of this number, with these static arrays, and so much dynamic memory from now on. Throws
  // std::bad_alloc.
  void lay_out(std::uint64_t image, const q::host::SharedArray* arrays, std::uint64_t placed_bytes,
               std::uint32_t dynamic_bytes);
  // Before each block: everything 0xff, which is NaN in every floating-point type. Or, as a GPU has it, what looks like
  // another launch's: small numbers, by `seed`. An index that nobody has written is then one that could be right.
  void poison();
  void poison(std::uint64_t seed);
  // After each block: what was written into a zone, as a sentence; empty when nothing was.
  std::string overrun();

  // All of it, as a block addresses it: from the static arrays to the end of the dynamic part.
  unsigned char* window() const { return memory_; }
  std::uint32_t window_bytes() const { return static_cast<std::uint32_t>(placed_) + dynamic_bytes_; }
  unsigned char* dynamic_part() const { return memory_ + placed_; }

 private:
  struct Part {
    unsigned char* begin;
    std::uint64_t bytes;
    std::uint64_t zone;  // bytes behind it that nobody may touch
  };
  void allow_all();

  unsigned char* memory_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t placed_ = 0;
  std::uint64_t image_ = 0;  // 0: nothing is laid out
  std::uint32_t dynamic_bytes_ = 0;
  std::vector<Part> parts_;  // the dynamic one last
};

}  // namespace quern::jit::host
