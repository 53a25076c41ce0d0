// Findings about the cache, as `verify` and `doctor` tell them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"
#include "capi/list.h"
#include "capi/quern.h"

namespace quern::capi {

quern_cache_state state_number(cache::State state);

// "1.5 MiB", for people.
std::string size_text(std::uint64_t bytes);

// Every entry of every layer. Throws Error: QUERN_IO, QUERN_DAMAGED.
std::vector<cache::Listed> list_store(cache::Store& store);
// Whether an entry is meant by the `prefix` of quern_cache_list.
bool selected(const cache::Listed& listed, std::string_view prefix);

FindingRow make_finding_row(cache::Finding finding);

// The cache file's place and state, with what to do where it cannot be used.
FindingRow cache_finding(const cache::StoreStats& stats);

}  // namespace quern::capi
