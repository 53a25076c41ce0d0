// A call's arguments, checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/call.h"
#include "sources/moe_route/params.cuh"
#include "sources/moe_route/shape.h"

namespace quern::ops::moe_route {

struct Problem {
  Shape shape;
  q::MoeRouteParams params;  // all but the workspace's, the chunk and how far to sort
  int sms;
  bool sorts;   // any of the sorted part is asked for
  bool places;  // indices or positions are
};

// Throws Error(QUERN_INVALID).
Problem read_problem(const quern_moe_route_args& args, const Runtime& runtime, bool may_lack_data);

}  // namespace quern::ops::moe_route
