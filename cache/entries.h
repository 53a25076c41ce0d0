// Rows: one an entry, over three tables. Everything here runs inside a caller's lock (and transaction, where it
// writes).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cache/connection.h"
#include "cache/store.h"

namespace quern::cache {

enum class Found : std::uint8_t {
  yes,
  absent,
  other_text,      // another text under this key: damage, or a collision that nobody will ever see
  other_compiler,  // not the one that was pinned
  damaged          // the checksum does not fit
};

// Fills *entry only for `yes`. The text is compared first, the checksum is over the bytes in *entry.
Found find_entry(Connection& connection, const Key& key, std::string_view text, std::string_view pin, Entry* entry);

// The row whatever its text; `verified` says whether its checksum fits. False where there is none.
struct Row {
  Key key;
  Entry entry;
  std::uint64_t image_size = 0;
  std::uint64_t last_use = 0;
  bool verified = false;
};
bool read_row(Connection& connection, const Key& key, Row* row);

// One row by its number; used where the index over keys is not to be trusted.
bool read_row_by_id(Connection& connection, std::int64_t id, Row* row);

// Rows without their images, in the order of ids, at most so many behind the id `after`; `verified` is not computed.
// Returns the last one's id, or `after`.
std::int64_t list_rows(Connection& connection, std::int64_t after, std::size_t most,
                       const std::function<void(Row&)>& visit);

// Replaces whatever stands under the key. `day` as in touch_rows.
void insert_entry(Connection& connection, const Key& key, const Entry& entry, std::int64_t day);
// Keeps the place in the order of use that the row had elsewhere.
void insert_row(Connection& connection, const Row& row);
// At most so many keys from `first` to `last`, in order, by the index over keys.
std::vector<Key> keys_between(Connection& connection, const Key& first, const Key& last, std::size_t most);
bool has_entry(Connection& connection, const Key& key);
bool remove_entry(Connection& connection, const Key& key);
void remove_row(Connection& connection, std::int64_t id);

// Those of `keys` whose rows were last marked on another day than `day` (days since 1970; only compared for equality,
// so that a clock set back does no harm).
std::vector<Key> stale_uses(Connection& connection, std::span<const Key> keys, std::int64_t day);
void touch_rows(Connection& connection, std::span<const Key> keys, std::int64_t day);

struct Totals {
  std::uint64_t entries = 0, images = 0, image_bytes = 0;  // `images` of the entries are none of tunings
};
Totals count_rows(Connection& connection);

// Whether "kind build" of the entry's compiler is what was pinned; an empty pin takes any.
bool pinned(std::string_view pin, std::string_view kind, std::string_view build);

}  // namespace quern::cache
