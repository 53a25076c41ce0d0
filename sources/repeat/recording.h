// What a call launches, written down while it does, or instead of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "jit/driver.h"
#include "jit/tensor_maps.h"
#include "sources/op.h"

namespace quern::ops {

// Without an allocation, and none of it is set before it is used.
class Recording {
 public:
  static constexpr std::size_t kMostLaunches = 8, kMostArguments = 24, kMostBytes = 6 * 1024, kMostMaps = 6;
  // Two of the words of a tensor map that stands for its description: this, and the description's number.
  static constexpr std::uint64_t kMapMark = 0x6d61702d6d61726bu;

  struct Launched {
    const jit::Kernel* kernel;
    jit::Launch how;
    const char* what;
    std::size_t first, count;  // of the arguments
  };
  struct Argument {
    std::size_t at, bytes;
  };

  // `dry`: nothing is launched, and tensor maps are descriptions.
  explicit Recording(bool dry) : dry_(dry) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  bool dry() const { return dry_; }
  void note(const jit::Kernel& kernel, const jit::Launch& how, const char* what, void* const* arguments,
            const std::size_t* sizes, std::size_t count) noexcept;
  void note_map(const jit::TensorMapDesc& desc, jit::TensorMap& map) noexcept;
  // The same call might launch something else next time.
  void spoil() noexcept { whole_ = false; }
  // False: it does not tell all.
  bool whole() const { return whole_; }

  std::array<Launched, kMostLaunches> launches;
  std::array<Argument, kMostArguments> arguments;
  std::array<jit::TensorMapDesc, kMostMaps> maps;
  alignas(64) std::array<unsigned char, kMostBytes> bytes;
  std::size_t launch_count = 0, argument_count = 0, map_count = 0, byte_count = 0;

 private:
  const bool dry_;
  bool whole_ = true;
};

// Where a dry call asks for tensor maps.
class NotedMaps final : public jit::TensorMaps {
 public:
  NotedMaps(jit::Driver& driver, Recording& recording) : TensorMaps(driver, Without::table), recording_(recording) {}
  void get(const jit::TensorMapDesc& desc, jit::TensorMap& map) override { recording_.note_map(desc, map); }

 private:
  Recording& recording_;
};

}  // namespace quern::ops
