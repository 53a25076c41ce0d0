// SPDX-License-Identifier: Apache-2.0
#include "jit/host/async_view.h"

#include <algorithm>
#include <cstring>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

// A kernel whose boxes wander is looked at in these alone.
constexpr std::size_t kMostRegions = 64;

}  // namespace

void AsyncView::begin_grid(std::uint64_t program, std::uint32_t blocks) {
  if (blocks > blocks_.size()) blocks_.resize(blocks);
  if (program == program_) return;
  program_ = program;
  regions_.clear();
}

void AsyncView::begin_block(std::uint32_t block, const unsigned char* window, std::uint64_t bytes) {
  const Unwatched own;
  blocks_[block].window = window, blocks_[block].bytes = bytes;
  blocks_[block].seen.resize(regions_.size());
  fence(block);
}

void AsyncView::see(Block& block, std::size_t region) {
  const Region& r = regions_[region];
  block.seen[region].assign(block.window + r.at, block.window + r.at + r.bytes);
}

void AsyncView::fence(std::uint32_t block) {
  if (regions_.empty()) return;
  const Unwatched own;
  Block& b = blocks_[block];
  for (std::size_t i = 0; i < b.seen.size(); ++i) see(b, i);
}

void AsyncView::landed(const unsigned char* to, std::uint32_t bytes) {
  if (regions_.empty()) return;
  const Unwatched own;
  for (Block& b : blocks_) {
    const auto at = static_cast<std::uint64_t>(to - b.window);
    if (b.window == nullptr || at >= b.bytes) continue;
    for (std::size_t i = 0; i < b.seen.size(); ++i) {
      const Region& r = regions_[i];
      const std::uint64_t from = std::max<std::uint64_t>(r.at, at),
                          end = std::min<std::uint64_t>(std::uint64_t{r.at} + r.bytes, at + bytes);
      if (from < end) std::memcpy(b.seen[i].data() + (from - r.at), b.window + from, end - from);
    }
  }
}

const char* AsyncView::read(std::uint32_t block, std::uint32_t at, std::uint32_t bytes, std::uint32_t* where) {
  const Unwatched own;
  Block& b = blocks_[block];
  const auto known = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const Region& r) { return r.at == at && r.bytes == bytes; });
  const auto region = static_cast<std::size_t>(known - regions_.begin());
  if (known == regions_.end()) {
    if (regions_.size() == kMostRegions) return nullptr;
    regions_.push_back({at, bytes});
  }
  // Learned since this block began.
  if (region >= b.seen.size()) {
    for (std::size_t i = b.seen.size(); i < regions_.size(); ++i) {
      b.seen.emplace_back();
      see(b, i);
    }
    return nullptr;
  }
  const unsigned char* const now = b.window + at;
  const auto differ = std::mismatch(b.seen[region].begin(), b.seen[region].end(), now).first;
  if (differ == b.seen[region].end()) return nullptr;
  *where = at + static_cast<std::uint32_t>(differ - b.seen[region].begin());
  return "it reads what was written there after the last fence_async(), and need not see it";
}

}  // namespace quern::jit::host
