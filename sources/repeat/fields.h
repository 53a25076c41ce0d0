// each_field(args, visit): every field of an op's args, in order. What visit must have:
//   plain<from, to>(object)   bytes of numbers    stream(void*)           workspace(void*, bytes)
//   tensor(DLTensor*)         handle(pointer)     part(struct*)           tensors(array, count)   floats(array, count)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "capi/quern.h"

namespace quern::ops {

#define QUERN_PLAIN(type, first, last) \
  visit.template plain<offsetof(type, first), offsetof(type, last) + sizeof(type::last)>(&args)
#include "sources/repeat/fields.inc"
#undef QUERN_PLAIN

}  // namespace quern::ops
