// A table of things that are found by a plain struct. Reading is wait-free while others insert and the table grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace quern::jit {

// The XXH3-64 of bytes.
std::uint64_t hash_bytes(const void* bytes, std::size_t size) noexcept;

// For tables that are looked into under a lock.
struct BytesHash {
  template <class Key>
  std::size_t operator()(const Key& key) const noexcept {
    static_assert(std::has_unique_object_representations_v<Key>);
    return hash_bytes(&key, sizeof(key));
  }
};

// `key` is the member of an Item that it is found by. Open addressing with linear probing, never more than half full. A
// slot goes from null to an item once and never changes again. Growth fills a larger array and publishes it; the old
// one stays until the table dies, since a reader may still be in it: such a reader can miss what was added meanwhile,
// which costs it the slow path and nothing else.
template <class Item, class Key, Key Item::* key>
class LookupTable {
 public:
  LookupTable() {
    slots_.push_back(std::make_unique<Slots>(64));
    current_.store(slots_.back().get(), std::memory_order_release);
  }
  LookupTable(const LookupTable&) = delete;
  LookupTable& operator=(const LookupTable&) = delete;

  const Item* find(const Key& wanted) const noexcept { return look(wanted); }
  Item* find(const Key& wanted) noexcept { return look(wanted); }

  // The item that the table holds for this key from now on: `item`, which is then the table's, or the one that was
  // there before, and `item` is left with the caller. Throws bad_alloc, and nothing has changed then.
  Item* insert(std::unique_ptr<Item>& item) {
    std::lock_guard lock(mutex_);
    if (Item* there = look((*item).*key)) return there;
    if (items_.size() == items_.capacity()) items_.reserve(2 * items_.size() + 32);
    Slots& now = *slots_.back();
    if (2 * (items_.size() + 1) > now.mask + 1) {
      auto larger = std::make_unique<Slots>(2 * (now.mask + 1));
      for (const auto& each : items_) place(*larger, each.get());
      slots_.push_back(std::move(larger));
      current_.store(slots_.back().get(), std::memory_order_release);
    }
    place(*slots_.back(), item.get());
    items_.push_back(std::move(item));
    size_.store(items_.size(), std::memory_order_relaxed);
    return items_.back().get();
  }

  // Takes away what `select` takes, after `end(item)` for each; how many there were. Whoever looked one up before still
  // has something to point to: the items live as long as the table. A reader of the old array may find one still, which
  // is why nobody may look for these meanwhile.
  template <class Select, class End>
  std::size_t remove(const Select& select, const End& end) {
    std::lock_guard lock(mutex_);
    const auto taken = std::stable_partition(items_.begin(), items_.end(),
                                             [&](const auto& item) { return !select(std::as_const(*item)); });
    const auto count = static_cast<std::size_t>(items_.end() - taken);
    if (count == 0) return 0;
    removed_.reserve(removed_.size() + count);
    auto fewer = std::make_unique<Slots>(slots_.back()->mask + 1);
    for (auto item = items_.begin(); item != taken; ++item) place(*fewer, item->get());
    slots_.push_back(std::move(fewer));
    current_.store(slots_.back().get(), std::memory_order_release);
    for (auto item = taken; item != items_.end(); ++item) {
      end(**item);
      removed_.push_back(std::move(*item));
    }
    items_.erase(taken, items_.end());
    size_.store(items_.size(), std::memory_order_relaxed);
    return count;
  }

  // For the destruction of what the items hold: nobody may call anything else at the same time.
  template <class Visit>
  void for_each(Visit visit) {
    for (auto& item : items_) visit(*item);
  }
  std::vector<Key> keys() const {
    std::lock_guard lock(mutex_);
    std::vector<Key> keys;
    keys.reserve(items_.size());
    for (const auto& item : items_) keys.push_back((*item).*key);
    return keys;
  }
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  struct Slots {
    explicit Slots(std::size_t count) : mask(count - 1), item(new std::atomic<Item*>[count]()) {}
    std::size_t mask;
    std::unique_ptr<std::atomic<Item*>[]> item;
  };
  Item* look(const Key& wanted) const noexcept {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    for (std::size_t at = BytesHash{}(wanted);; ++at) {
      Item* item = slots.item[at & slots.mask].load(std::memory_order_acquire);
      if (item == nullptr || item->*key == wanted) return item;
    }
  }
  static void place(Slots& slots, Item* item) noexcept {
    std::size_t at = BytesHash{}(item->*key);
    while (slots.item[at & slots.mask].load(std::memory_order_relaxed) != nullptr) ++at;
    slots.item[at & slots.mask].store(item, std::memory_order_release);
  }

  std::atomic<const Slots*> current_;
  std::atomic<std::size_t> size_{0};
  mutable std::mutex mutex_;  // writers, and keys()
  std::vector<std::unique_ptr<Slots>> slots_;
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<std::unique_ptr<Item>> removed_;  // found by nobody any more
};

}  // namespace quern::jit
