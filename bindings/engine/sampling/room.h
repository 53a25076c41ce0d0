// How many tokens of a sequence penalties, biases and bans may name on a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quern.h"

namespace quern::engine {

// Of all its lists together, at most 4096. Throws std::runtime_error where a call of quern.h fails.
std::int64_t most_listed(quern_context* context, DLDevice device, std::int64_t vocabulary);

}  // namespace quern::engine
