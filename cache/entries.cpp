// The SQL over rows.
// SPDX-License-Identifier: Apache-2.0
#include "cache/entries.h"

#include <optional>
#include <string>

#include "cache/checksum.h"

namespace quern::cache {
namespace {

#define QUERN_ROW_COLUMNS                                                                              \
  R"(key, kind, text, op, target, entry_name, compiler_kind, compiler_build, compile_ms, registers, )" \
  R"(shared_bytes, local_bytes, created, image_size, checksum, log)"
// The order of QUERN_ROW_COLUMNS, and what follows them.
enum Column {
  kKey,
  kKind,
  kText,
  kOp,
  kTarget,
  kEntryName,
  kCompilerKind,
  kCompilerBuild,
  kCompileMs,
  kRegisters,
  kSharedBytes,
  kLocalBytes,
  kCreated,
  kImageSize,
  kChecksum,
  kLog,
  kImage,
  kTick
};

// From which tick on the clock starts anew: far from overflow, and far beyond what honest use reaches.
constexpr std::int64_t kLastTick = std::int64_t{1} << 62;

std::string text_of(const Query& query, int column) { return std::string(query.bytes(column)); }

// False where a number is out of the field's range, which no row that we wrote has.
bool narrow(std::int64_t value, std::int32_t* out) {
  *out = static_cast<std::int32_t>(value);
  return *out == value;
}

bool fill(const Query& query, Key* key, Entry* entry) {
  const std::string_view stored_key = query.bytes(kKey);
  if (stored_key.size() != 16) return false;
  *key = key_from_bytes(reinterpret_cast<const unsigned char*>(stored_key.data()));
  const std::int64_t kind = query.number(kKind);
  if (kind != static_cast<int>(Kind::image) && kind != static_cast<int>(Kind::tuning)) return false;
  entry->kind = static_cast<Kind>(kind);
  entry->text = text_of(query, kText);
  entry->op = text_of(query, kOp);
  entry->target = text_of(query, kTarget);
  entry->entry_name = text_of(query, kEntryName);
  entry->compiler_kind = text_of(query, kCompilerKind);
  entry->compiler_build = text_of(query, kCompilerBuild);
  entry->compile_ms = query.real(kCompileMs);
  entry->created = query.number(kCreated);
  entry->log = text_of(query, kLog);
  return narrow(query.number(kRegisters), &entry->registers) &&
         narrow(query.number(kSharedBytes), &entry->shared_bytes) &&
         narrow(query.number(kLocalBytes), &entry->local_bytes);
}

bool verifies(const Connection& connection, const Query& query, const Key& key, const Entry& entry) {
  return static_cast<std::uint64_t>(query.number(kImageSize)) == entry.image.size() &&
         same_sum(query.bytes(kChecksum), seal_entry(connection.mac_key(), key, entry));
}

bool read_current(const Connection& connection, const Query& query, Row* row) {
  const bool sound = fill(query, &row->key, &row->entry);
  row->entry.image = query.bytes(kImage);
  row->image_size = row->entry.image.size();
  row->last_use = static_cast<std::uint64_t>(query.number(kTick));
  row->verified = sound && verifies(connection, query, row->key, row->entry);
  return true;
}

std::optional<std::int64_t> row_id(Connection& connection, const Key& key) {
  static constexpr char kSql[] = R"(SELECT id FROM entries WHERE key = ?1)";
  const auto wanted = key_bytes(key);
  Query query(connection, kSql);
  if (!query.bind_blob(1, view(wanted)).step()) return std::nullopt;
  return query.number(0);
}

std::int64_t next_tick(Connection& connection) {
  static constexpr char kSql[] = R"(SELECT max(tick) FROM uses)";
  const std::int64_t last = connection.number(kSql);
  if (last >= 0 && last < kLastTick) return last + 1;
  // Only damage makes such a number; forgetting the order costs at most the wrong eviction.
  connection.execute(R"(UPDATE uses SET tick = 0)");
  return 1;
}

void insert(Connection& connection, const Key& key, const Entry& entry, std::int64_t tick, std::int64_t day) {
  static constexpr char kEntrySql[] = R"(
    INSERT INTO entries(key, kind, text, op, target, entry_name, compiler_kind, compiler_build, compile_ms, registers,
                        shared_bytes, local_bytes, created, image_size, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15))";
  static constexpr char kImageSql[] = R"(INSERT OR REPLACE INTO images(id, log, image) VALUES (?1, ?2, ?3))";
  static constexpr char kUseSql[] = R"(INSERT OR REPLACE INTO uses(id, tick, day) VALUES (?1, ?2, ?3))";
  remove_entry(connection, key);
  const auto stored_key = key_bytes(key);
  const Checksum sum = seal_entry(connection.mac_key(), key, entry);
  {
    Query query(connection, kEntrySql);
    query.bind_blob(1, view(stored_key)).bind(2, static_cast<std::int64_t>(entry.kind)).bind_text(3, entry.text);
    query.bind_text(4, entry.op).bind_text(5, entry.target).bind_text(6, entry.entry_name);
    query.bind_text(7, entry.compiler_kind).bind_text(8, entry.compiler_build).bind(9, entry.compile_ms);
    query.bind(10, std::int64_t{entry.registers}).bind(11, std::int64_t{entry.shared_bytes});
    query.bind(12, std::int64_t{entry.local_bytes}).bind(13, entry.created);
    query.bind(14, static_cast<std::int64_t>(entry.image.size())).bind_blob(15, view(sum)).run();
  }
  const std::int64_t id = connection.last_id();
  // OR REPLACE: a row that damage left without its entry must not stand in the way.
  Query(connection, kImageSql).bind(1, id).bind_text(2, entry.log).bind_blob(3, entry.image).run();
  Query(connection, kUseSql).bind(1, id).bind(2, tick).bind(3, day).run();
}

}  // namespace

bool pinned(std::string_view pin, std::string_view kind, std::string_view build) {
  return pin.empty() || (pin.size() == kind.size() + 1 + build.size() && pin.starts_with(kind) &&
                         pin[kind.size()] == ' ' && pin.ends_with(build));
}

Found find_entry(Connection& connection, const Key& key, std::string_view text, std::string_view pin, Entry* entry) {
  static constexpr char kSql[] = R"(
    SELECT )" QUERN_ROW_COLUMNS R"(, image
    FROM entries LEFT JOIN images USING (id) WHERE key = ?1)";
  const auto wanted = key_bytes(key);
  Query query(connection, kSql);
  query.bind_blob(1, view(wanted));
  if (!query.step()) return Found::absent;
  if (query.bytes(kText) != text) return Found::other_text;
  Key stored;
  Entry read;
  if (!fill(query, &stored, &read)) return Found::damaged;
  read.image = query.bytes(kImage);
  if (stored != key || !verifies(connection, query, key, read)) return Found::damaged;
  if (!pinned(pin, read.compiler_kind, read.compiler_build)) return Found::other_compiler;
  *entry = std::move(read);
  return Found::yes;
}

bool read_row(Connection& connection, const Key& key, Row* row) {
  static constexpr char kSql[] = R"(
    SELECT )" QUERN_ROW_COLUMNS R"(, image, tick
    FROM entries LEFT JOIN images USING (id) LEFT JOIN uses USING (id) WHERE key = ?1)";
  const auto wanted = key_bytes(key);
  Query query(connection, kSql);
  query.bind_blob(1, view(wanted));
  if (!query.step()) return false;
  read_current(connection, query, row);
  row->verified = row->verified && row->key == key;
  return true;
}

bool read_row_by_id(Connection& connection, std::int64_t id, Row* row) {
  static constexpr char kSql[] = R"(
    SELECT )" QUERN_ROW_COLUMNS R"(, image, NULL
    FROM entries LEFT JOIN images USING (id) WHERE id = ?1)";
  static constexpr char kUse[] = R"(SELECT tick FROM uses WHERE id = ?1)";
  {
    Query query(connection, kSql);
    query.bind(1, id);
    if (!query.step()) return false;
    read_current(connection, query, row);
  }
  try {
    Query use(connection, kUse);
    if (use.bind(1, id).step()) row->last_use = static_cast<std::uint64_t>(use.number(0));
  } catch (const SqlError&) {
    // An entry without its place in the order of use is worth as much.
  }
  return true;
}

std::int64_t list_rows(Connection& connection, std::int64_t after, std::size_t most,
                       const std::function<void(Row&)>& visit) {
  static constexpr char kSql[] = R"(
    SELECT )" QUERN_ROW_COLUMNS R"(, NULL, tick, entries.id
    FROM entries LEFT JOIN images USING (id) LEFT JOIN uses USING (id)
    WHERE entries.id > ?1 ORDER BY entries.id LIMIT ?2)";
  Query query(connection, kSql);
  query.bind(1, after).bind(2, static_cast<std::int64_t>(most));
  while (query.step()) {
    Row row;
    fill(query, &row.key, &row.entry);
    row.image_size = static_cast<std::uint64_t>(query.number(kImageSize));
    row.last_use = static_cast<std::uint64_t>(query.number(kTick));
    after = query.number(kTick + 1);
    visit(row);
  }
  return after;
}

void insert_entry(Connection& connection, const Key& key, const Entry& entry, std::int64_t day) {
  insert(connection, key, entry, next_tick(connection), day);
}

void insert_row(Connection& connection, const Row& row) {
  const auto tick = static_cast<std::int64_t>(row.last_use);
  insert(connection, row.key, row.entry, tick >= 0 && tick < kLastTick ? tick : 0, 0);
}

std::vector<Key> keys_between(Connection& connection, const Key& first, const Key& last, std::size_t most) {
  static constexpr char kSql[] = R"(SELECT key FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3)";
  const auto from = key_bytes(first), to = key_bytes(last);
  std::vector<Key> keys;
  Query query(connection, kSql);
  query.bind_blob(1, view(from)).bind_blob(2, view(to)).bind(3, static_cast<std::int64_t>(most));
  while (query.step()) {
    const std::string_view key = query.bytes(0);
    if (key.size() == 16) keys.push_back(key_from_bytes(reinterpret_cast<const unsigned char*>(key.data())));
  }
  return keys;
}

bool has_entry(Connection& connection, const Key& key) { return row_id(connection, key).has_value(); }

bool remove_entry(Connection& connection, const Key& key) {
  const std::optional<std::int64_t> id = row_id(connection, key);
  if (id) remove_row(connection, *id);
  return id.has_value();
}

void remove_row(Connection& connection, std::int64_t id) {
  static constexpr char kEntry[] = R"(DELETE FROM entries WHERE id = ?1)";
  static constexpr char kImage[] = R"(DELETE FROM images WHERE id = ?1)";
  static constexpr char kUse[] = R"(DELETE FROM uses WHERE id = ?1)";
  for (const char* sql : {kEntry, kImage, kUse}) Query(connection, sql).bind(1, id).run();
}

std::vector<Key> stale_uses(Connection& connection, std::span<const Key> keys, std::int64_t day) {
  static constexpr char kSql[] = R"(
    SELECT 1 FROM entries LEFT JOIN uses USING (id) WHERE key = ?1 AND day IS NOT ?2)";
  std::vector<Key> stale;
  for (const Key& key : keys) {
    const auto wanted = key_bytes(key);
    Query query(connection, kSql);
    query.bind_blob(1, view(wanted)).bind(2, day);
    if (query.step()) stale.push_back(key);
  }
  return stale;
}

void touch_rows(Connection& connection, std::span<const Key> keys, std::int64_t day) {
  static constexpr char kSql[] = R"(
    INSERT OR REPLACE INTO uses(id, tick, day) SELECT id, ?2, ?3 FROM entries WHERE key = ?1)";
  const std::int64_t tick = next_tick(connection);
  for (const Key& key : keys) {
    const auto wanted = key_bytes(key);
    Query(connection, kSql).bind_blob(1, view(wanted)).bind(2, tick).bind(3, day).run();
  }
}

Totals count_rows(Connection& connection) {
  static constexpr char kSql[] = R"(SELECT count(*), total(kind = 1), total(image_size) FROM entries)";
  Query query(connection, kSql);
  if (!query.step()) return {};
  return {static_cast<std::uint64_t>(query.number(0)), static_cast<std::uint64_t>(query.number(1)),
          static_cast<std::uint64_t>(query.number(2))};
}

}  // namespace quern::cache
