// A KV cache in pages.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/paged_cache.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace quern::demo {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;  // bf16
constexpr std::int64_t kSparePages = 8;

std::int64_t pages_for(std::int64_t tokens) { return (tokens + PagedCache::kPageSize - 1) / PagedCache::kPageSize; }

std::int64_t longest(const Layer& layer) {
  std::int64_t most = 0;
  for (const Sequence& sequence : layer.sequences) most = std::max(most, pages_for(sequence.tokens));
  return most;
}

std::int64_t total(const Layer& layer) {
  std::int64_t sum = kSparePages;
  for (const Sequence& sequence : layer.sequences) sum += pages_for(sequence.tokens);
  return sum;
}

}  // namespace

PagedCache::PagedCache(Memory& memory, const Activations& shape, const Layer& layer, unsigned seed)
    : layer_(layer),
      row_(shape.kv_heads * shape.dim),
      max_pages_(longest(layer)),
      pages_(total(layer)),
      k_(memory, static_cast<std::size_t>(pages_ * kPageSize * row_), kNan),
      v_(memory, static_cast<std::size_t>(pages_ * kPageSize * row_), kNan),
      table_(memory, layer.sequences.size() * static_cast<std::size_t>(max_pages_)) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages_));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  // What lies beyond a sequence's pages must be a page too, but is never looked at: one of those that nobody has.
  std::fill(table_.host.begin(), table_.host.end(), order.back());
  auto next = order.begin();
  for (std::size_t s = 0; s < layer.sequences.size(); ++s) {
    const std::int64_t count = pages_for(layer.sequences[s].tokens);
    std::copy_n(next, count, table_.host.begin() + static_cast<std::ptrdiff_t>(s) * max_pages_);
    next += count;
  }
  table_.upload();
}

void PagedCache::write(std::size_t sequence, std::int64_t from, std::int64_t to) {
  const Sequence& tokens = layer_.sequences[sequence];
  for (std::int64_t t = from; t < to; ++t) {
    const std::size_t entry = sequence * static_cast<std::size_t>(max_pages_) + static_cast<std::size_t>(t / kPageSize);
    const std::ptrdiff_t slot = (table_.host[entry] * kPageSize + t % kPageSize) * row_;
    std::copy_n(tokens.k.begin() + t * row_, row_, k_.host.begin() + slot);
    std::copy_n(tokens.v.begin() + t * row_, row_, v_.host.begin() + slot);
  }
}

void PagedCache::upload() {
  k_.upload();
  v_.upload();
}

}  // namespace quern::demo
