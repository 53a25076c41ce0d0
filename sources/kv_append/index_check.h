// Where tokens go, and what that is held against: their cache, the page table, the rope's table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/index_data.h"
#include "sources/kv_append/place_params.cuh"
#include "sources/rope/params.cuh"

namespace quern::ops::kv_append {

// How an op's errors name what its cache and its new tokens allow.
struct PlaceBounds {
  const char *pages, *places, *tokens;
};
inline constexpr PlaceBounds kKvBounds = {"k_cache's pages", "k_cache's places; a negative slot is skipped",
                                          "k's tokens"};
inline constexpr PlaceBounds kMlaBounds = {"cache's pages", "cache's places; a negative slot is skipped",
                                           "kv's tokens"};

void list_places(const q::TokenPlaces& places, const q::Rope& rope, std::int64_t tokens, const PlaceBounds& bounds,
                 IndexList* list);

}  // namespace quern::ops::kv_append
