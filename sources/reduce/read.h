// A call of reduce as it has been read: what is specialised on, what kernels are given, and how it is shared out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "sources/op.h"
#include "sources/reduce/shape.h"
#include "sources/workspace.h"

namespace quern::ops::reduce {

struct Problem {
  Shape shape;
  std::array<Shape, 4> others;  // that a call with fewer elements, or with other data, may have instead
  q::ReduceParams params;
  std::int64_t most_pieces;  // of a row, that the workspace has room for; 0: rows are whole
  std::int64_t units;        // of work
  int sms;

  std::uint64_t workspace() const {
    if (most_pieces == 0) return 0;
    return kCounterBytes + static_cast<std::uint64_t>(most_pieces) * static_cast<std::uint64_t>(params.rows) *
                               static_cast<std::uint64_t>(state_bytes(shape));
  }
};

// Throws Error(QUERN_INVALID) naming the argument.
Problem read_problem(const quern_reduce_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::reduce
