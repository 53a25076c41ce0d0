// A KV cache in pages: any page may belong to any sequence, and what nobody has written is NaN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/demo/activations.h"
#include "bindings/demo/memory.h"

namespace quern::demo {

class PagedCache {
 public:
  static constexpr std::int64_t kPageSize = 16;  // tokens

  // Pages for every token of the layer's sequences, handed out in an order shuffled by `seed`, and a few that nobody
  // has.
  PagedCache(Memory& memory, const Activations& shape, const Layer& layer, unsigned seed);

  // Puts tokens [from, to) of a sequence into their places.
  void write(std::size_t sequence, std::int64_t from, std::int64_t to);
  // Makes what was written visible to the device.
  void upload();

  std::int64_t pages() const { return pages_; }
  std::int64_t max_pages() const { return max_pages_; }
  void* keys() const { return k_.device(); }  // [pages, kPageSize, kv_heads, dim]
  void* values() const { return v_.device(); }
  void* page_table() const { return table_.device(); }  // [sequences, max_pages]

 private:
  const Layer& layer_;
  std::int64_t row_;  // elements of a token
  std::int64_t max_pages_, pages_;
  Mirrored<std::uint16_t> k_, v_;
  Mirrored<std::int32_t> table_;
};

}  // namespace quern::demo
