// A cache entry as `list` and `inspect` show it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/command.h"

namespace quern::cli {

Json entry_to_json(const quern_entry& entry);

// Whether it is a kernel, and no result of tuning.
inline bool is_image(const quern_entry& entry) { return entry.kind != 2; }

// "attention sm_90a variant=decode dtype=bf16": the line of a manifest that asks for this entry. A host's own kernel,
// whose source the cache does not hold, as a comment of its constants: "# kernel sm_90a entry=scale BY=3".
std::string manifest_line(const quern_entry& entry);

// How many digits tell every key of the list from every other; 8 at least.
std::size_t distinct_digits(const std::vector<quern_entry>& entries);

// "cache", or the bundle's file name.
std::string layer_name(int layer, const std::vector<std::string>& bundles);

}  // namespace quern::cli
