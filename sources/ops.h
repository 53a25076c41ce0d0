// What the folder of each op defines, declared from the list of them all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/op.h"

#define QUERN_OP(name, ...)                                                         \
  namespace quern::ops::name {                                                      \
  extern const Op op;                                                               \
  std::uint64_t workspace(const Runtime& runtime, const quern_##name##_args& args); \
  void prepare(const Runtime& runtime, const quern_##name##_args& args);            \
  void run(const Runtime& runtime, const quern_##name##_args& args);                \
  }
#include "sources/ops.def"
#undef QUERN_OP
