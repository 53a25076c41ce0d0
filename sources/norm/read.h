// What a norm's kernel is specialised on, and a call as it has been read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/norm/params.cuh"
#include "sources/norm/rows.h"
#include "sources/op.h"
#include "sources/tensor.h"
#include "sources/workspace.h"

namespace quern::ops::norm {

struct Shape {
  Dtype element = Dtype::bf16, out = Dtype::bf16;
  q::NormKind kind = q::NormKind::layer;
  q::NormStage stage = q::NormStage::whole;
  Dtype weight = Dtype::other, bias = Dtype::other;  // other: none
  Dtype scale = Dtype::other, shift = Dtype::other;
  bool residual = false, tail = false;
  bool channels_last = false;  // of a group norm
  int access = 16;
  int team = 0;
  bool twice = false;

  RowShape rows() const { return {tail, access, team, twice}; }
  // Without a residual numbers of 16 bits are held as they are, and parameters wait until they are used: many threads
  // hide what that takes.
  bool lean() const { return !residual; }
  bool modulated() const { return scale != Dtype::other || shift != Dtype::other; }
  // Whether a thread has twice as many elements: more of them are then under way, and fewer threads are joined, but a
  // single row takes longer. So it is where rows are long, or come in numbers, and take few registers: vectors are
  // whole, and what modulates is no f32.
  bool may_take_twice() const {
    return stage == q::NormStage::whole && lean() && bytes_of(element) == 2 && !tail && access == 16 &&
           scale != Dtype::f32 && shift != Dtype::f32;
  }
  bool takes_twice(std::int64_t n) const {
    return may_take_twice() && (n > 4096 || modulated() || kind == q::NormKind::group);
  }
};

// A call, read; what is another op's kernel is told apart from what is this one's.
enum class Way { own, rmsnorm, quantize, own_then_quantize };
struct Problem {
  Shape shape;
  q::NormParams params;
  Way way;
  int sms;
  std::uint64_t moments;  // bytes of the workspace behind the counters for pieces' moments,
  std::uint64_t between;  // and for rows that are still to be quantised

  std::uint64_t workspace() const { return moments + between > 0 ? kCounterBytes + moments + between : 0; }
};

// Throws Error(QUERN_INVALID) naming the argument.
Problem read_problem(const quern_norm_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::norm
