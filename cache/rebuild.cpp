// Row by row, over every tree that may still know of a row.
// SPDX-License-Identifier: Apache-2.0
#include "cache/rebuild.h"

#include <set>

#include "cache/entries.h"

namespace quern::cache {
namespace {

// Adds what one walk finds before it runs into damage.
void collect_ids(Connection& old, const char* sql, std::set<std::int64_t>& ids) {
  try {
    Query query(old, sql);
    while (query.step()) ids.insert(query.number(0));
  } catch (const SqlError&) {
    // What lies behind the damage may still be reached by the next walk.
  }
}

}  // namespace

Salvage salvage_rows(Connection* old, Connection& fresh, Deadline deadline) {
  Salvage salvage;
  if (old == nullptr) return salvage;
  old->keep_temporaries_in_memory();
  std::set<std::int64_t> ids;
  // From both ends of the table, and through its index, which names the rows as well.
  for (const char* sql :
       {R"(SELECT id FROM entries NOT INDEXED ORDER BY id)", R"(SELECT id FROM entries NOT INDEXED ORDER BY id DESC)",
        R"(SELECT id FROM entries INDEXED BY sqlite_autoindex_entries_1 ORDER BY key)",
        R"(SELECT id FROM entries INDEXED BY sqlite_autoindex_entries_1 ORDER BY key DESC)"})
    collect_ids(*old, sql, ids);
  Transaction transaction(fresh);
  // The newest first, should there not be time for all.
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    Row row;
    bool found = false;
    if (std::chrono::steady_clock::now() < deadline) {
      try {
        found = read_row_by_id(*old, *id, &row) && row.verified;
      } catch (const SqlError&) {
        // This row is behind damage.
      }
    }
    if (!found) {
      ++salvage.lost;
      continue;
    }
    insert_row(fresh, row);
    ++salvage.kept;
  }
  transaction.commit();
  return salvage;
}

std::string told(const Salvage& salvage, bool readable) {
  if (!readable) return "every entry";
  if (salvage.lost == 0) return "";
  return std::to_string(salvage.lost) + " of " + std::to_string(salvage.lost + salvage.kept) + " entries";
}

}  // namespace quern::cache
