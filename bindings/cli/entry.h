// A cache entry as `list` and `inspect` show it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/command.h"

namespace quern::cli {

Json entry_to_json(const quern_entry& entry);

// "HEAD_DIM=128 PAGE=16": the constants of a canonical text.
std::string constants_of(std::string_view canonical_text);

// How many digits tell every key of the list from every other; 8 at least.
std::size_t distinct_digits(const std::vector<quern_entry>& entries);

// "cache", or the bundle's file name.
std::string layer_name(int layer, const std::vector<std::string>& bundles);

}  // namespace quern::cli
