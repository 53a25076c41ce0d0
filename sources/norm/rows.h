// How a norm's kernels, and those of its gradients, share out a row among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/target.h"
#include "jit/unit.h"
#include "sources/call.h"
#include "sources/norm/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::norm {

inline constexpr int kMostThreads = 1024;
inline constexpr std::int64_t kMostHeld = std::int64_t{kMostThreads} * q::kNormHeld;  // columns of a row in registers

struct RowShape {
  bool tail = false;   // rows end within a vector
  int access = 16;     // bytes that an access takes: 16, 8, 4 or 2
  int team = 0;        // threads of a row
  bool twice = false;  // each of them has twice kNormHeld elements
  int held() const { return twice ? 2 * q::kNormHeld : q::kNormHeld; }
};

// For rows of n elements that are aligned to `alignment` bytes, cut into pieces where they are longer than kMostHeld.
RowShape fit(std::int64_t n, int alignment, std::uint32_t warp, bool twice = false);

// Threads of a block.
int threads_of(const RowShape& shape, std::uint32_t warp);

// A manifest's team is what a call could ask for. Throws Error(QUERN_INVALID).
void expect_team(const char* op, const RowShape& shape, Dtype element, int most, std::uint32_t warp);

// TEAM, VECTORS and THREADS.
void define_rows(const RowShape& shape, std::uint32_t warp, jit::Unit* unit);

// The bytes that all rows of all tensors of a call are aligned to.
class Alignment {
 public:
  explicit Alignment(const Call& call) : promised_(call.alignment), access_(call.alignment) {}

  // Data keep what was promised of them; rows lie where they lie, `step` elements apart.
  void take(const Tensor& t, const char* name, std::int64_t step, bool several);
  int access() const { return access_; }

 private:
  int promised_, access_;
};

// Where one is written over the other, each element must be where it was read.
void expect_same_place(const Tensor& t, const char* name, const Tensor& other, const char* other_name);

}  // namespace quern::ops::norm
