// Flags of calls and of ops combine as C++26 demands it, where two enums have no arithmetic: compiled with that as an error.
// SPDX-License-Identifier: Apache-2.0
#include "quern.h"

static_assert((QUERN_ATTENTION_CAUSAL | QUERN_CALL_PROGRAMMATIC) == 0x10002u);
static_assert((QUERN_CALL_BATCH_INVARIANT | QUERN_ATTENTION_CAUSAL | QUERN_ATTENTION_WINDOW_LEFT) == 0x30001u);
static_assert((QUERN_CALL_PROGRAMMATIC | QUERN_GEMM_CONSTANT_B) == 0x20002u);
static_assert((QUERN_QUANTIZE_POWER_OF_TWO | QUERN_CALL_CACHED_ONLY) == 0x10004u);
static_assert((QUERN_CALL_BACKGROUND | QUERN_MOE_SIGMOID) == 0x10008u);
