// SPDX-License-Identifier: Apache-2.0
#include "jit/tensor_maps.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern::jit {

TensorMaps::TensorMaps(Driver& driver) : driver_(driver), slots_(std::make_unique<Slot[]>(kSets * kWays)) {}

TensorMaps::Key TensorMaps::key_of(const TensorMapDesc& desc) noexcept {
  const auto pair = [](auto low, auto high) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(low)) |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32;
  };
  Key key{};
  std::uint64_t* next = key.words;
  *next++ = pair(desc.data_type, desc.rank);
  *next++ = pair(desc.swizzle, desc.l2_promotion);
  *next++ = reinterpret_cast<std::uintptr_t>(desc.address);
  for (std::uint32_t d = 0; d < 5; ++d) *next++ = d < desc.rank ? desc.extent[d] : 0;
  for (std::uint32_t d = 0; d < 4; ++d) *next++ = d + 1 < desc.rank ? desc.stride[d] : 0;
  std::uint32_t box[6] = {};
  for (std::uint32_t d = 0; d < 5 && d < desc.rank; ++d) box[d] = desc.box[d];
  for (std::uint32_t d = 0; d < 6; d += 2) *next++ = pair(box[d], box[d + 1]);
  return key;
}

// Each word is read with acquire and written with release. A reader that meets a word of a write under way therefore
// also sees the odd version that was stored before it, and the last look at the version tells.
bool TensorMaps::read(const Slot& slot, const Key& key, TensorMap& map) noexcept {
  const std::uint64_t version = slot.version.load(std::memory_order_acquire);
  if (version == 0 || (version & 1) != 0) return false;
  for (std::size_t i = 0; i < kKeyWords; ++i) {
    if (slot.key[i].load(std::memory_order_acquire) != key.words[i]) return false;
  }
  std::uint64_t words[kMapWords];
  for (std::size_t i = 0; i < kMapWords; ++i) words[i] = slot.map[i].load(std::memory_order_acquire);
  if (slot.version.load(std::memory_order_relaxed) != version) return false;
  std::memcpy(&map, words, sizeof(map));
  return true;
}

void TensorMaps::write(Slot& slot, const Key& key, const TensorMap& map) noexcept {
  std::uint64_t version = slot.version.load(std::memory_order_relaxed);
  if ((version & 1) != 0) return;
  if (!slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
    return;
  }
  std::uint64_t words[kMapWords];
  std::memcpy(words, &map, sizeof(map));
  for (std::size_t i = 0; i < kKeyWords; ++i) slot.key[i].store(key.words[i], std::memory_order_release);
  for (std::size_t i = 0; i < kMapWords; ++i) slot.map[i].store(words[i], std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

void TensorMaps::get(const TensorMapDesc& desc, TensorMap& map) {
  const Key key = key_of(desc);
  Slot* const set = &slots_[(XXH3_64bits(&key, sizeof(key)) & (kSets - 1)) * kWays];
  for (std::size_t way = 0; way < kWays; ++way) {
    if (read(set[way], key, map)) return;
  }
  driver_.encode_tensor_map(desc, map);
  Slot* chosen = nullptr;
  for (std::size_t way = 0; way < kWays && chosen == nullptr; ++way) {
    if (set[way].version.load(std::memory_order_relaxed) == 0) chosen = &set[way];
  }
  if (chosen == nullptr) chosen = &set[turn_.fetch_add(1, std::memory_order_relaxed) % kWays];
  write(*chosen, key, map);
}

}  // namespace quern::jit
