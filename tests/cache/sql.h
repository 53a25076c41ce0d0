// SQL on a cache file from outside, as an accident or a curious user would do it, or a process that dies of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <string>

#include "tests/cache/fixture.h"

namespace quern::cache::testing {

// Runs the statements; returns the first column of the last row, 0 without one.
inline std::int64_t sql(const std::string& path, const char* statements) {
  sqlite3* handle = nullptr;
  std::int64_t result = 0;
  EXPECT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  const auto take = [](void* out, int, char** values, char**) {
    if (values[0] != nullptr) *static_cast<std::int64_t*>(out) = std::strtoll(values[0], nullptr, 10);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(handle, statements, take, &result, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle) << ": " << statements;
  sqlite3_close(handle);
  return result;
}

// Beside the file there is a hot journal now: a process that was changing all entries has spilled half of that into the
// file and ended.
inline void leave_hot_journal(const std::string& path) {
  const int status = in_child([&] {
    sqlite3* handle = nullptr;
    if (sqlite3_open(path.c_str(), &handle) != SQLITE_OK) return 1;
    return sqlite3_exec(handle, R"(
      PRAGMA cache_size = 3; BEGIN IMMEDIATE; UPDATE images SET image = zeroblob(20000);
      UPDATE entries SET text = 'half'; INSERT INTO images VALUES (50, '', zeroblob(400000));)",
                        nullptr, nullptr, nullptr);
  });
  ASSERT_EQ(status, 0);
}

}  // namespace quern::cache::testing
