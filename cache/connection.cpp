// The calls into SQLite.
// SPDX-License-Identifier: Apache-2.0
#include "cache/connection.h"

#include <sqlite3.h>
#include <unistd.h>

#include "cache/fork_guard.h"

namespace quern::cache {
Connection::Connection(const std::string& path, Mode mode, const std::optional<std::array<unsigned char, 32>>& mac_key)
    : mode_(mode), mac_key_(mac_key), process_(getpid()) {
  const bool writes = mode == Mode::write || mode == Mode::write_unlocked;
  const bool unlocked = mode == Mode::read_unlocked || mode == Mode::write_unlocked;
  const int flags = (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &handle_, flags, unlocked ? "unix-none" : nullptr);
  if (code != SQLITE_OK) {
    const std::string text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    close();
    throw SqlError(code, text);
  }
  try {
    // Whatever stands in the file's schema beside our tables must not run.
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kLongestRow);
    // The sidecar lock has settled who may go; only a stranger with the sqlite3 tool can be in the way here.
    sqlite3_busy_timeout(handle_, 20);
    sqlite3_int64 none = 0;  // a file cut short under a mapping would be a SIGBUS
    sqlite3_file_control(handle_, "main", SQLITE_FCNTL_MMAP_SIZE, &none);
    execute(R"(PRAGMA cell_size_check = ON)");
    // A statement that walks through the whole file must not hold up a fork meanwhile.
    if (unlocked) {
      sqlite3_progress_handler(
          handle_, 1000,
          [](void*) {
            SqliteSection::let_fork_pass();
            return 0;
          },
          nullptr);
    }
  } catch (...) {
    close();
    throw;
  }
}

Connection::~Connection() { close(); }

void Connection::close() noexcept {
  if (process_ != getpid()) return;
  for (const auto& statement : statements_) sqlite3_finalize(statement.second);
  statements_.clear();
  sqlite3_close(handle_);
  handle_ = nullptr;
}

void Connection::keep_temporaries_in_memory() { execute(R"(PRAGMA temp_store = MEMORY)"); }

void Connection::prepare_to_write() {
  if (ready_to_write_) return;
  keep_temporaries_in_memory();
  // TRUNCATE spares the folder an entry made and removed at every write. FULL, since NORMAL syncs neither a journal's
  // header apart from what it heads nor the journal's end: a disk that keeps some sectors and not others then leaves a
  // file that is malformed, in 2 to 3 of 100 power failures.
  execute(R"(PRAGMA journal_mode = TRUNCATE)");
  execute(R"(PRAGMA synchronous = FULL)");
  execute(R"(PRAGMA secure_delete = OFF)");  // else every evicted page is journalled and written once more
  execute(R"(PRAGMA cache_size = -2048)");   // KiB: larger transactions spill into the file
  ready_to_write_ = true;
}

void Connection::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Connection::number(const char* sql) {
  Query query(*this, sql);
  return query.step() ? query.number(0) : 0;
}

sqlite3_stmt* Connection::prepare(const char* sql) {
  for (const auto& [text, statement] : statements_)
    if (text == sql) return statement;
  statements_.reserve(statements_.size() + 1);
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) fail(code);
  statements_.emplace_back(sql, statement);
  return statement;
}

std::int64_t Connection::last_id() const { return sqlite3_last_insert_rowid(handle_); }

std::uint64_t Connection::changes() const { return static_cast<std::uint64_t>(sqlite3_changes64(handle_)); }

void Connection::fail(int code) const {
  throw SqlError(code, std::string(sqlite3_errmsg(handle_)) + " (SQLite " + std::to_string(code) + ")");
}

Query::Query(Connection& connection, const char* sql) : connection_(connection), statement_(connection.prepare(sql)) {}

Query::~Query() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Query& Query::bind(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_, index, value);
  if (code != SQLITE_OK) connection_.fail(code);
  return *this;
}

Query& Query::bind(int index, double value) {
  const int code = sqlite3_bind_double(statement_, index, value);
  if (code != SQLITE_OK) connection_.fail(code);
  return *this;
}

Query& Query::bind_text(int index, std::string_view value) {
  const char* data = value.empty() ? "" : value.data();  // a null pointer would bind NULL
  const int code = sqlite3_bind_text64(statement_, index, data, value.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) connection_.fail(code);
  return *this;
}

Query& Query::bind_blob(int index, std::string_view value) {
  const char* data = value.empty() ? "" : value.data();
  const int code = sqlite3_bind_blob64(statement_, index, data, value.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) connection_.fail(code);
  return *this;
}

void Connection::let_fork_pass() const noexcept {
  if (mode_ == Mode::read_unlocked || mode_ == Mode::write_unlocked) SqliteSection::let_fork_pass();
}

bool Query::step() {
  connection_.let_fork_pass();
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  connection_.fail(code);
}

std::int64_t Query::number(int column) const { return sqlite3_column_int64(statement_, column); }

double Query::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Query::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) {
    // Either nothing is stored or SQLite had no memory to fetch it: only the former is an empty value.
    if (sqlite3_column_bytes(statement_, column) != 0 || sqlite3_errcode(sqlite3_db_handle(statement_)) == SQLITE_NOMEM)
      connection_.fail(SQLITE_NOMEM);
    return {};
  }
  return {static_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Transaction::Transaction(Connection& connection, Begin begin) : connection_(connection) {
  connection_.prepare_to_write();
  connection_.execute(begin == Begin::immediate ? R"(BEGIN IMMEDIATE)" : R"(BEGIN)");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    connection_.execute(R"(ROLLBACK)");
  } catch (...) {
    // SQLite rolls back by itself on the graver errors, and says here that there is nothing left to do.
  }
}

void Transaction::commit() {
  connection_.execute(R"(COMMIT)");
  open_ = false;
}

}  // namespace quern::cache
