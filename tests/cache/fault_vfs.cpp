// SQLite's own file system with a wrapper around its file methods.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cache/fault_vfs.h"

#include <sqlite3.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace quern::cache::testing {
namespace {

struct Plan {
  FaultKind kind = FaultKind::read;
  int left = 0;  // calls until it fails; 0: never
  bool sticky = false, happened = false;
};
Plan plan;
// The one without locks, under its own name (the newer is found first), and SQLite's default.
sqlite3_vfs faulty[2];
sqlite3_vfs* under[2] = {};

bool fails(FaultKind kind) {
  if (plan.kind != kind) return false;
  if (plan.happened) return plan.sticky;
  if (plan.left == 0 || --plan.left > 0) return false;
  return plan.happened = true;
}

// Our file: the method table SQLite sees, and the real file after it in the same allocation.
struct File {
  sqlite3_file base;
  sqlite3_file* inner;
};
sqlite3_file* inner(sqlite3_file* file) { return reinterpret_cast<File*>(file)->inner; }

int close_file(sqlite3_file* file) {
  sqlite3_file* const under = inner(file);
  const int code = under->pMethods != nullptr ? under->pMethods->xClose(under) : SQLITE_OK;
  std::free(under);
  return code;
}
int read_file(sqlite3_file* file, void* out, int count, sqlite3_int64 offset) {
  if (fails(FaultKind::read)) return SQLITE_IOERR_READ;
  return inner(file)->pMethods->xRead(inner(file), out, count, offset);
}
int write_file(sqlite3_file* file, const void* data, int count, sqlite3_int64 offset) {
  if (fails(FaultKind::full)) return SQLITE_FULL;
  if (fails(FaultKind::write)) {
    // Torn: half of it arrives.
    inner(file)->pMethods->xWrite(inner(file), data, count / 2, offset);
    return SQLITE_IOERR_WRITE;
  }
  return inner(file)->pMethods->xWrite(inner(file), data, count, offset);
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (fails(FaultKind::truncate)) return SQLITE_IOERR_TRUNCATE;
  return inner(file)->pMethods->xTruncate(inner(file), size);
}
int sync_file(sqlite3_file* file, int flags) {
  if (fails(FaultKind::sync)) return SQLITE_IOERR_FSYNC;
  return inner(file)->pMethods->xSync(inner(file), flags);
}
int file_size(sqlite3_file* file, sqlite3_int64* size) { return inner(file)->pMethods->xFileSize(inner(file), size); }
int lock_file(sqlite3_file* file, int level) { return inner(file)->pMethods->xLock(inner(file), level); }
int unlock_file(sqlite3_file* file, int level) { return inner(file)->pMethods->xUnlock(inner(file), level); }
int check_reserved(sqlite3_file* file, int* out) { return inner(file)->pMethods->xCheckReservedLock(inner(file), out); }
int control_file(sqlite3_file* file, int what, void* argument) {
  return inner(file)->pMethods->xFileControl(inner(file), what, argument);
}
int sector_size(sqlite3_file* file) { return inner(file)->pMethods->xSectorSize(inner(file)); }
int characteristics(sqlite3_file* file) { return inner(file)->pMethods->xDeviceCharacteristics(inner(file)); }

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* const real = vfs == &faulty[0] ? under[0] : under[1];
  static const sqlite3_io_methods methods = [] {
    sqlite3_io_methods table = {};
    table.iVersion = 1;
    table.xClose = close_file;
    table.xRead = read_file;
    table.xWrite = write_file;
    table.xTruncate = truncate_file;
    table.xSync = sync_file;
    table.xFileSize = file_size;
    table.xLock = lock_file;
    table.xUnlock = unlock_file;
    table.xCheckReservedLock = check_reserved;
    table.xFileControl = control_file;
    table.xSectorSize = sector_size;
    table.xDeviceCharacteristics = characteristics;
    return table;
  }();
  auto* const ours = reinterpret_cast<File*>(file);
  ours->base.pMethods = nullptr;
  if (fails(FaultKind::open)) return SQLITE_CANTOPEN;
  ours->inner = static_cast<sqlite3_file*>(std::calloc(1, static_cast<std::size_t>(real->szOsFile)));
  if (ours->inner == nullptr) return SQLITE_NOMEM;
  const int code = real->xOpen(real, name, ours->inner, flags, out_flags);
  if (code != SQLITE_OK) {
    std::free(ours->inner);
    return code;
  }
  ours->base.pMethods = &methods;
  return SQLITE_OK;
}

}  // namespace

void fail_call(FaultKind kind, int n, bool sticky) {
  for (int i = 0; i < 2 && under[1] == nullptr; ++i) {
    under[i] = sqlite3_vfs_find(i == 0 ? "unix-none" : nullptr);
    faulty[i] = *under[i];
    if (i == 1) faulty[i].zName = "faulty";
    faulty[i].szOsFile = sizeof(File);
    faulty[i].xOpen = open_file;
    sqlite3_vfs_register(&faulty[i], i);
  }
  plan = {kind, n, sticky, false};
}

bool fault_happened() { return plan.happened; }

}  // namespace quern::cache::testing
