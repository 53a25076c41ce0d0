// One call of attention, read and checked: its kernel's shape but for the variant, and the run-time arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "jit/driver.h"
#include "sources/attention/params.cuh"
#include "sources/attention/plan.h"
#include "sources/index_data.h"

namespace quern::ops::attention {

struct Problem {
  Shape shape;  // variant not yet chosen
  q::AttentionParams params;
  std::int64_t total_q = 0;
  std::int64_t max_rows = 0;  // rows of one KV head of one sequence, at most
  std::int64_t max_keys = 0;  // of a sequence, by the maximum given and by what the cache can hold
  bool invariant = false;
  std::int64_t pages = 1;  // of the keys' pool, 1 where it is ragged
  std::int64_t value_pages = 1;
  std::int64_t page_tokens = 0;  // tokens of a page, or of the whole ragged cache
};

// Throws Error(QUERN_INVALID) naming the argument, what was given and what is allowed. With `may_lack_data` (workspace,
// prepare) data may be NULL: shapes and maxima count.
Problem read_problem(const quern_attention_args& args, const jit::DeviceInfo& device, bool may_lack_data,
                     LateTensors* late = nullptr);

// What lengths, offsets and the pages that are followed are held against: the tensors and the maxima.
void list_index_data(const quern_attention_args& args, const Problem& problem, IndexList* list);

// What the launch before may still be writing with QUERN_ATTENTION_CONSTANT_PAST: the keys, values and scales of this
// call's tokens, whose indices have been checked.
void note_present(const Problem& problem, LateTensors* late);

}  // namespace quern::ops::attention
