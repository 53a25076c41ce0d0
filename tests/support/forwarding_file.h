// A file of SQLite's that hands every call on to another file system's: what a test's file system is made of, which
// then replaces the calls that it fails, writes down or leaves out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdlib>
#include <string>

namespace quern::test {

struct ForwardingFile {
  sqlite3_file base;  // what SQLite sees
  sqlite3_file* inner;
  std::string* name;  // the last part of its path; empty of a file without one
};
inline ForwardingFile* forwarding(sqlite3_file* file) { return reinterpret_cast<ForwardingFile*>(file); }
inline sqlite3_file* inner(sqlite3_file* file) { return forwarding(file)->inner; }

inline sqlite3_io_methods forwarding_methods() {
  sqlite3_io_methods table = {};
  table.iVersion = 1;
  table.xClose = [](sqlite3_file* file) {
    sqlite3_file* const under = inner(file);
    const int code = under->pMethods != nullptr ? under->pMethods->xClose(under) : SQLITE_OK;
    std::free(under);
    delete forwarding(file)->name;
    return code;
  };
  table.xRead = [](sqlite3_file* file, void* out, int count, sqlite3_int64 offset) {
    return inner(file)->pMethods->xRead(inner(file), out, count, offset);
  };
  table.xWrite = [](sqlite3_file* file, const void* data, int count, sqlite3_int64 offset) {
    return inner(file)->pMethods->xWrite(inner(file), data, count, offset);
  };
  table.xTruncate = [](sqlite3_file* file, sqlite3_int64 size) {
    return inner(file)->pMethods->xTruncate(inner(file), size);
  };
  table.xSync = [](sqlite3_file* file, int flags) { return inner(file)->pMethods->xSync(inner(file), flags); };
  table.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
    return inner(file)->pMethods->xFileSize(inner(file), size);
  };
  table.xLock = [](sqlite3_file* file, int level) { return inner(file)->pMethods->xLock(inner(file), level); };
  table.xUnlock = [](sqlite3_file* file, int level) { return inner(file)->pMethods->xUnlock(inner(file), level); };
  table.xCheckReservedLock = [](sqlite3_file* file, int* out) {
    return inner(file)->pMethods->xCheckReservedLock(inner(file), out);
  };
  table.xFileControl = [](sqlite3_file* file, int what, void* argument) {
    return inner(file)->pMethods->xFileControl(inner(file), what, argument);
  };
  table.xSectorSize = [](sqlite3_file* file) { return inner(file)->pMethods->xSectorSize(inner(file)); };
  table.xDeviceCharacteristics = [](sqlite3_file* file) {
    return inner(file)->pMethods->xDeviceCharacteristics(inner(file));
  };
  return table;
}

// Opens `name` with the file system `real`, behind `methods`, which outlive the file.
inline int open_forwarding(sqlite3_vfs* real, const sqlite3_io_methods* methods, const char* name, sqlite3_file* file,
                           int flags, int* out_flags) {
  ForwardingFile* const ours = forwarding(file);
  ours->base.pMethods = nullptr;
  ours->inner = static_cast<sqlite3_file*>(std::calloc(1, static_cast<std::size_t>(real->szOsFile)));
  if (ours->inner == nullptr) return SQLITE_NOMEM;
  const int code = real->xOpen(real, name, ours->inner, flags, out_flags);
  if (code != SQLITE_OK) {
    std::free(ours->inner);
    return code;
  }
  const std::string path = name == nullptr ? "" : name;
  ours->name = new std::string(path.substr(path.rfind('/') + 1));
  ours->base.pMethods = methods;
  return SQLITE_OK;
}

}  // namespace quern::test
