// Keeping file and journal together under the limit: least recently used first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cache/connection.h"
#include "cache/store.h"

namespace quern::cache {

// Bytes that the entry takes in the file, at most, whole pages.
std::uint64_t footprint(const Entry& entry);

// What is kept free for the journal of one transaction, out of a limit.
std::uint64_t journal_reserve(std::uint64_t limit_bytes);

struct Space {
  std::uint64_t file = 0;  // length of the file
  std::uint64_t used = 0;  // of it, pages that hold something
};
Space measure(Connection& connection);

// Removes the least recently used rows until what is used, `needed` more bytes and the journal fit the limit, in
// transactions small enough for the journal's share; gives a file that is longer than the limit back to the system a
// piece at a time. False when even an empty file would not do. Outside a transaction.
bool make_room(Connection& connection, std::uint64_t limit_bytes, std::uint64_t needed);

// The same without regard to time: the file itself ends up at most `limit_bytes` long, if it can, and without free
// pages. A piece a call, for as long as it returns true; adds to *removed how many rows went.
bool shrink_some(Connection& connection, std::uint64_t limit_bytes, std::uint64_t* removed);

}  // namespace quern::cache
