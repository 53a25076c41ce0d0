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

  RowShape rows() const { return {tail, access, team}; }
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
