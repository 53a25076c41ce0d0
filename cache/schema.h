// The tables of the cache file, and telling by its first bytes whether a file is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cache/connection.h"

namespace quern::cache {

// The version is part of the name: another version is another file beside this one, and nothing is ever migrated.
inline constexpr int kSchemaVersion = 1;
inline constexpr char kFileName[] = "cache-1.db";
inline constexpr char kSidecarName[] = "cache-1.lock";
inline constexpr char kFlightName[] = "cache-1.flights";
inline constexpr char kRebuildName[] = "cache-1.rebuild.db";
inline constexpr char kDamagedName[] = "cache-1.damaged.db";    // what the newest damaged file is kept as
inline constexpr std::uint32_t kApplicationId = 0x51'75'65'72;  // "Quer", in the header field that SQLite leaves to us
inline constexpr std::uint64_t kPageSize = 16384;

enum class FileKind : std::uint8_t {
  empty,       // made but never filled
  ours,        // this schema
  newer,       // ours by a later version
  foreign,     // somebody else's file
  damaged,     // ours, but the header is not whole
  unreadable,  // errno tells
};
// What a file is, by its first page: the tables in it as much as any word of its header, since each of them may be the
// one that is damaged. Reads by itself: SQLite must not be let near a file in another journal mode, whose shared-memory
// file it would map.
FileKind inspect_file(const std::string& path) noexcept;

// Writes the header fields that are the same in every file of ours, and the page count that the file's length gives, so
// that SQLite reads what is left of a file whose header is damaged or whose end is missing. Only for a file about to be
// replaced.
bool repair_header(const std::string& path) noexcept;

// In an empty file, in one transaction: a file is seen empty or complete.
void create_schema(Connection& connection);

}  // namespace quern::cache
