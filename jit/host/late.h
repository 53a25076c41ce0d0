// What the launch in front of a programmatic one may still be writing: in a seeded run it holds something else until a
// thread has waited for that launch, so that who reads it before gets wrong numbers.
//
// All of it is there in truth, for launches are synchronous here. It is put aside before the first block begins and put
// back by the first wait, or at the end: nothing else may use that memory meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "jit/driver.h"

namespace quern::jit::host {

class Late {
 public:
  explicit Late(std::span<const LateMemory> memory) : memory_(memory) {}
  ~Late() { arrive(); }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

  // Memory that cannot be written stays as it is. Throws std::bad_alloc, before anything is put aside.
  void hide();
  void arrive() noexcept;

 private:
  std::span<const LateMemory> memory_;
  std::atomic<bool> hidden_{false};
  std::mutex mutex_;
  std::vector<std::vector<unsigned char>> kept_;  // as memory_; empty once it is back
};

}  // namespace quern::jit::host
