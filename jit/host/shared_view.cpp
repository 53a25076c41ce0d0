// SPDX-License-Identifier: Apache-2.0
#include "jit/host/shared_view.h"

#include <algorithm>
#include <cstring>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {

void SharedView::begin_grid(std::uint64_t program, std::uint32_t blocks) {
  const Unwatched own;
  if (blocks > blocks_.size()) blocks_.resize(blocks);
  for (Block& b : blocks_) b.window = nullptr;
  if (program == program_) return;
  program_ = program;
  known_.clear();
  runs_.clear();
  runs_hold_ = true;
}

void SharedView::begin_block(std::uint32_t block, const unsigned char* window, std::uint64_t bytes) {
  const Unwatched own;
  Block& b = blocks_[block];
  b.window = window, b.bytes = bytes;
  if (b.seen.size() < bytes) b.seen.resize(bytes);
  if (known_.size() < bytes / kPiece) known_.resize(bytes / kPiece);
  show(block);
}

void SharedView::show(std::uint32_t block) {
  const Unwatched own;
  if (!runs_hold_) {
    runs_.clear();
    for (std::uint32_t piece = 0; piece < known_.size(); ++piece) {
      if (!known_[piece]) continue;
      if (runs_.empty() || runs_.back().piece + runs_.back().count != piece) runs_.push_back({piece, 0});
      ++runs_.back().count;
    }
    runs_hold_ = true;
  }
  Block& b = blocks_[block];
  for (const Run& run : runs_) {
    const std::uint64_t at = std::uint64_t{run.piece} * kPiece, bytes = std::uint64_t{run.count} * kPiece;
    if (at + bytes <= b.bytes) std::memcpy(b.seen.data() + at, b.window + at, bytes);
  }
}

void SharedView::landed(const unsigned char* to, std::uint32_t bytes) {
  const Unwatched own;
  for (Block& b : blocks_) {
    const auto at = static_cast<std::uint64_t>(to - b.window);
    if (b.window == nullptr || at >= b.bytes) continue;
    std::memcpy(b.seen.data() + at, to, std::min<std::uint64_t>(bytes, b.bytes - at));
  }
}

void SharedView::learn(std::uint32_t piece) {
  known_[piece] = true;
  runs_hold_ = false;
  for (Block& b : blocks_) {
    const std::uint64_t at = std::uint64_t{piece} * kPiece;
    if (b.window != nullptr && at + kPiece <= b.bytes) std::memcpy(b.seen.data() + at, b.window + at, kPiece);
  }
}

bool SharedView::sees(std::uint32_t block, std::uint32_t at, std::uint32_t bytes, std::uint32_t* where) {
  const Unwatched own;
  const Block& b = blocks_[block];
  for (std::uint32_t piece = at / kPiece; piece * kPiece < at + bytes; ++piece) {
    if (piece >= known_.size()) return true;  // the last bytes of an odd window
    if (!known_[piece]) {
      learn(piece);
      continue;
    }
    // Neighbours in a piece may be another's business.
    const std::uint32_t from = std::max(at, piece * kPiece), end = std::min(at + bytes, (piece + 1) * kPiece);
    const unsigned char* const now = b.window + from;
    if (std::memcmp(now, b.seen.data() + from, end - from) == 0) continue;
    *where = static_cast<std::uint32_t>(std::mismatch(now, b.window + end, b.seen.data() + from).first - b.window);
    return false;
  }
  return true;
}

}  // namespace quern::jit::host
