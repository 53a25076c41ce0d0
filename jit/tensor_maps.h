// The tensor maps of a device, by what they describe: encoding one takes about a microsecond, and a call needs several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "jit/driver.h"

namespace quern::jit {

// A table of fixed size, filled as maps are asked for and overwritten when it is full. The key is the whole
// description, so memory that is used again with another shape is another map, and nothing ever has to be dropped. From
// any thread, without an allocation or a lock: each slot has a version, odd while somebody writes it, and whoever meets
// a slot in the midst of being written encodes for himself.
class TensorMaps {
 public:
  // Throws std::bad_alloc.
  explicit TensorMaps(Driver& driver);
  virtual ~TensorMaps() = default;
  TensorMaps(const TensorMaps&) = delete;
  TensorMaps& operator=(const TensorMaps&) = delete;

  // Dimensions from `rank` on are not looked at. Throws what Driver::encode_tensor_map throws; such a description is
  // not kept.
  virtual void get(const TensorMapDesc& desc, TensorMap& map);

 protected:
  // For one that answers in another way.
  enum class Without : std::uint8_t { table };
  TensorMaps(Driver& driver, Without) noexcept : driver_(driver) {}

 private:
  static constexpr std::size_t kWays = 4;    // slots that a description may be in
  static constexpr std::size_t kSets = 256;  // a power of two
  static constexpr std::size_t kKeyWords = 15;
  static constexpr std::size_t kMapWords = sizeof(TensorMap) / sizeof(std::uint64_t);
  struct Key {
    std::uint64_t words[kKeyWords];
  };
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> version{0};  // 0: never written
    std::atomic<std::uint64_t> key[kKeyWords];
    std::atomic<std::uint64_t> map[kMapWords];
  };
  static_assert(sizeof(Slot) == 256);

  static Key key_of(const TensorMapDesc& desc) noexcept;
  static bool read(const Slot& slot, const Key& key, TensorMap& map) noexcept;
  static void write(Slot& slot, const Key& key, const TensorMap& map) noexcept;

  Driver& driver_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint32_t> turn_{0};  // which way of a full set is overwritten next
};

}  // namespace quern::jit
