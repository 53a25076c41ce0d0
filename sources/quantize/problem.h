// A call's arguments, checked: what of them is a constant, and what a kernel is handed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/op.h"
#include "sources/quantize/params.cuh"
#include "sources/quantize/shape.h"

namespace quern::ops::quantize {

struct Problem {
  Shape shape;
  Shape few;  // of fewer rows that are no product's; not used with find_first
  q::QuantizeParams params;
  bool find_first;  // the tensor's scale, by a launch of its own: the shape's is then `given`
  bool all_sms;
  int sms;
};

// Throws Error(QUERN_INVALID).
Problem read_problem(const quern_quantize_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::quantize
