// Saving what verifies from a file that may be damaged anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cache/connection.h"
#include "cache/file_lock.h"

namespace quern::cache {

struct Salvage {
  std::uint64_t kept = 0, lost = 0;
};
// Copies every row of `old` (null: none) whose checksum fits, the newest first, as far as it gets before the deadline.
// Damage in `old` costs the rows behind it and raises no error.
Salvage salvage_rows(Connection* old, Connection& fresh, Deadline deadline);
// "3 of 12 entries"; empty where nothing was lost. `readable`: something of the old file could be read at all.
std::string told(const Salvage& salvage, bool readable);

}  // namespace quern::cache
