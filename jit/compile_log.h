// What a compiler has said, with a bound on what is kept of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::jit {

// Of a longer log the beginning and the end are kept, and between them a line says how many bytes were left out: the
// first mistake is where the others come from, and what a compiler dies of it says last.
inline constexpr std::size_t kLogHead = std::size_t{16} * 1024;
inline constexpr std::size_t kLogTail = std::size_t{48} * 1024;
// Room for that line: what is no longer than a cut log with its line stays whole, so a log that was cut is not cut
// again.
inline constexpr std::size_t kLogLine = 64;
inline constexpr std::size_t kLogLimit = kLogHead + kLogLine + kLogTail;

// A log as it comes, in pieces and perhaps without end: what is held of it is bounded.
class CompileLog {
 public:
  void append(std::string_view piece);
  // Cut between whole characters.
  std::string text() const;

 private:
  std::string head_;
  std::string ring_;         // of what follows the head the last kLogLine + kLogTail bytes
  std::size_t oldest_ = 0;   // where the ring begins, once it is full
  std::uint64_t total_ = 0;  // bytes that came
};

// The same for a log that is there as a whole.
void cap_log(std::string* log);

}  // namespace quern::jit
