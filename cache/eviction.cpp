// Which rows go, and how their pages return to the system.
// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction.h"

#include <algorithm>
#include <vector>

#include "cache/entries.h"
#include "cache/schema.h"

namespace quern::cache {
namespace {

// Pages that one transaction may touch or add besides those of the bytes it stores: a split up to the root in each of
// the five trees, page maps, a free-list trunk.
constexpr std::uint64_t kOverheadPages = 16;
// And those that every further entry may add.
constexpr std::uint64_t kPagesPerEntry = 3;
// Of a file without entries: the header, a page map, the roots of five trees.
constexpr std::uint64_t kEmptyPages = 7;
// Vacuumed at a time: each page may cost one in the journal.
constexpr std::uint64_t kVacuumPages = 32;
constexpr int kVacuumPiecesInCall = 4;

std::uint64_t pages_for(std::uint64_t bytes) { return (bytes + kPageSize - 5) / (kPageSize - 4); }

// Rows whose removal stays within the journal's share: each may touch a leaf in five trees and a few pages of
// bookkeeping.
std::size_t batch_rows(std::uint64_t limit_bytes) {
  return static_cast<std::size_t>(std::max<std::uint64_t>(1, journal_reserve(limit_bytes) / kPageSize / 8));
}

// Rows without a use go first: nothing is known in their favour.
std::vector<std::int64_t> oldest(Connection& connection, std::size_t count) {
  static constexpr char kUnused[] = R"(SELECT id FROM entries WHERE id NOT IN (SELECT id FROM uses) LIMIT ?1)";
  static constexpr char kByUse[] = R"(SELECT id FROM uses ORDER BY tick, id LIMIT ?1)";
  for (const char* sql : {kUnused, kByUse}) {
    std::vector<std::int64_t> ids;
    Query query(connection, sql);
    query.bind(1, static_cast<std::int64_t>(count));
    while (query.step()) ids.push_back(query.number(0));
    if (!ids.empty()) return ids;
  }
  return {};
}

// Removes up to `bytes` worth of the oldest rows, at least one; 0 when there is nothing left.
std::uint64_t evict_batch(Connection& connection, std::size_t most, std::uint64_t bytes) {
  static constexpr char kSize[] = R"(SELECT image_size FROM entries WHERE id = ?1)";
  std::uint64_t removed = 0, freed = 0;
  Transaction transaction(connection);
  for (const std::int64_t id : oldest(connection, most)) {
    {
      Query size(connection, kSize);
      if (size.bind(1, id).step()) freed += static_cast<std::uint64_t>(size.number(0));
    }
    remove_row(connection, id);
    ++removed;
    if (freed >= bytes) break;
  }
  transaction.commit();
  return removed;
}

void vacuum_piece(Connection& connection) {
  connection.prepare_to_write();
  static_assert(kVacuumPages == 32);
  connection.execute(R"(PRAGMA incremental_vacuum(32))");
}

}  // namespace

std::uint64_t footprint(const Entry& entry) {
  const std::uint64_t words = entry.text.size() + entry.op.size() + entry.target.size() + entry.entry_name.size() +
                              entry.compiler_kind.size() + entry.compiler_build.size();
  return (pages_for(entry.image.size() + entry.log.size()) + pages_for(words) + kPagesPerEntry) * kPageSize;
}

std::uint64_t journal_reserve(std::uint64_t limit_bytes) {
  return std::clamp<std::uint64_t>(limit_bytes / 8, kOverheadPages * kPageSize, std::uint64_t{1} << 20);
}

Space measure(Connection& connection) {
  static constexpr char kPages[] = R"(PRAGMA page_count)";
  static constexpr char kFree[] = R"(PRAGMA freelist_count)";
  const auto pages = static_cast<std::uint64_t>(connection.number(kPages));
  const auto free = static_cast<std::uint64_t>(connection.number(kFree));
  return {pages * kPageSize, (pages - std::min(pages, free)) * kPageSize};
}

bool make_room(Connection& connection, std::uint64_t limit_bytes, std::uint64_t needed) {
  const std::uint64_t reserve = journal_reserve(limit_bytes);
  needed += kOverheadPages * kPageSize;
  // Before anything is evicted for an entry that will not fit in the end.
  if (kEmptyPages * kPageSize + needed + reserve > limit_bytes) return false;
  const std::uint64_t allowed = limit_bytes - reserve - needed;
  for (Space space = measure(connection); space.used > allowed; space = measure(connection))
    if (evict_batch(connection, batch_rows(limit_bytes), space.used - allowed) == 0) return false;
  for (int piece = 0; piece < kVacuumPiecesInCall; ++piece) {
    const Space space = measure(connection);
    if (space.file + reserve <= limit_bytes || space.file == space.used) break;
    vacuum_piece(connection);
  }
  return true;
}

bool shrink_some(Connection& connection, std::uint64_t limit_bytes, std::uint64_t* removed) {
  const Space space = measure(connection);
  if (space.used > limit_bytes) {
    const std::uint64_t batch = evict_batch(connection, batch_rows(limit_bytes), space.used - limit_bytes);
    *removed += batch;
    if (batch != 0) return true;
  }
  if (space.file == space.used) return false;
  vacuum_piece(connection);
  return measure(connection).file < space.file;
}

}  // namespace quern::cache
