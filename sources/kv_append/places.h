// Reading where tokens go in a paged cache, as every op that appends takes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/kv_append/place_params.cuh"
#include "sources/tensor.h"

namespace quern::ops::kv_append {

// Throws Error(QUERN_INVALID): `name` is given, and must be NULL `when`.
void refuse_unless_null(const DLTensor* given, const char* name, const char* when);

struct PlaceTensors {
  const DLTensor *slots, *page_table, *page_indptr, *page_indices, *cu_q, *lengths, *positions;
};
// Fills all of *places but for what the cache says. `turns`: positions are needed for rope. Throws
// Error(QUERN_INVALID) naming the argument, what was given and what is allowed.
void read_places(const PlaceTensors& given, std::int64_t tokens, bool turns, const Place& place,
                 q::TokenPlaces* places);
template <class Args>
void read_places(const Args& args, std::int64_t tokens, bool turns, const Place& place, q::TokenPlaces* places) {
  read_places(PlaceTensors{args.slots, args.page_table, args.page_indptr, args.page_indices, args.cu_q, args.lengths,
                           args.positions},
              tokens, turns, place, places);
}

}  // namespace quern::ops::kv_append
