// A log's beginning and a ring of what came last.
// SPDX-License-Identifier: Apache-2.0
#include "jit/compile_log.h"

#include <algorithm>

namespace quern::jit {
namespace {

constexpr std::size_t kRing = kLogLine + kLogTail;

// A byte of a character in UTF-8 that is not its first.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

void CompileLog::append(std::string_view piece) {
  total_ += piece.size();
  const std::size_t first = std::min(piece.size(), kLogHead - head_.size());
  head_.append(piece.substr(0, first));
  piece.remove_prefix(first);
  if (piece.size() > kRing) piece.remove_prefix(piece.size() - kRing);
  const std::size_t grown = std::min(piece.size(), kRing - ring_.size());
  ring_.append(piece.substr(0, grown));
  piece.remove_prefix(grown);
  while (!piece.empty()) {
    const std::size_t some = std::min(piece.size(), kRing - oldest_);
    std::copy_n(piece.data(), some, ring_.begin() + static_cast<std::ptrdiff_t>(oldest_));
    oldest_ = (oldest_ + some) % kRing;
    piece.remove_prefix(some);
  }
}

std::string CompileLog::text() const {
  std::string end = ring_.substr(oldest_) + ring_.substr(0, oldest_);
  if (total_ == head_.size() + end.size()) return head_ + end;
  std::string begin = head_;
  // A character of several bytes at the cut is left out, since the cut may go through it.
  std::size_t at = begin.size();
  while (at > 0 && continues(begin[at - 1])) --at;
  if (at > 0 && static_cast<unsigned char>(begin[at - 1]) >= 0xC0) begin.resize(at - 1);
  std::size_t from = kLogLine;
  while (from < end.size() && continues(end[from])) ++from;
  end.erase(0, from);
  const std::uint64_t left_out = total_ - begin.size() - end.size();
  return begin + "\n... (" + std::to_string(left_out) + " bytes of the log are left out here)\n" + end;
}

void cap_log(std::string* log) {
  if (log->size() <= kLogLimit) return;
  CompileLog ends;
  ends.append(*log);
  *log = ends.text();
}

}  // namespace quern::jit
