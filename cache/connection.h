// SQLite behind destructors: a connection with its prepared statements, a query, a transaction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace quern::cache {

// What one row may hold, all columns together. SQLite itself would go to 1 GB; an image or a log that large is a
// mistake.
inline constexpr int kLongestRow = 256 << 20;

class SqlError : public std::exception {
 public:
  SqlError(int code, std::string text) : code_(code), text_(std::move(text)) {}
  int code() const noexcept { return code_ & 0xff; }
  int extended_code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int code_;
  std::string text_;
};

// Used by one thread at a time.
class Connection {
 public:
  // The unlocked ones take none of SQLite's locks, for which the sidecar's do as long as only we open the file: where
  // even asking for a lock may hang, and where a fork must be able to pass in the middle of a statement. (A child would
  // inherit SQLite's belief that this process has a lock, and wait for it for good.)
  enum class Mode : std::uint8_t { write, read, read_unlocked, write_unlocked };
  // Throws SqlError. The file must exist; symbolic links anywhere in the path are refused.
  // With a key each row is sealed by a MAC under it, else by a checksum.
  Connection(const std::string& path, Mode mode, const std::optional<std::array<unsigned char, 32>>& mac_key = {});
  // In a process other than the one that opened it nothing is closed: the file's locks are the parent's business.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One statement without parameters or rows.
  void execute(const char* sql);
  // The first column of the first row; 0 without rows.
  std::int64_t number(const char* sql);
  // Compiled once; kept by the address of `sql`, which must be a literal.
  sqlite3_stmt* prepare(const char* sql);
  std::int64_t last_id() const;
  std::uint64_t changes() const;
  // For work that may sort or collect: nothing of ours in /var/tmp. A look-up by key needs none of it.
  void keep_temporaries_in_memory();
  // What only writing needs (journal mode, syncing), set on the first call: opening to read must be cheap.
  void prepare_to_write();
  Mode mode() const { return mode_; }
  const std::optional<std::array<unsigned char, 32>>& mac_key() const { return mac_key_; }
  // Where it may: to be called between two calls of SQLite.
  void let_fork_pass() const noexcept;
  [[noreturn]] void fail(int code) const;

 private:
  void close() noexcept;
  sqlite3* handle_ = nullptr;
  const Mode mode_;
  const std::optional<std::array<unsigned char, 32>> mac_key_;
  pid_t process_;
  bool ready_to_write_ = false;
  std::vector<std::pair<const char*, sqlite3_stmt*>> statements_;
};

// One run of a prepared statement. What is bound must outlive it; what it returns is valid until the next step.
class Query {
 public:
  Query(Connection& connection, const char* sql);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& bind(int index, std::int64_t value);
  Query& bind(int index, double value);
  Query& bind_text(int index, std::string_view value);
  Query& bind_blob(int index, std::string_view value);
  bool step();
  void run() {
    while (step()) {
    }
  }

  std::int64_t number(int column) const;
  double real(int column) const;
  // The bytes as stored, of a text or a blob.
  std::string_view bytes(int column) const;

 private:
  Connection& connection_;
  sqlite3_stmt* statement_;
};

// Rolled back unless committed.
class Transaction {
 public:
  enum class Begin : std::uint8_t { immediate, deferred };
  explicit Transaction(Connection& connection, Begin begin = Begin::immediate);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace quern::cache
