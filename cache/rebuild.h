// Saving what verifies from a file that may be damaged anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cache/connection.h"

namespace quern::cache {

struct Salvage {
  std::uint64_t kept = 0, lost = 0;
};
// Copies every row of `old` (null: none) whose checksum fits. Damage in `old` costs the rows behind it and raises no
// error.
Salvage salvage_rows(Connection* old, Connection& fresh);

}  // namespace quern::cache
