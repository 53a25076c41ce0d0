// SQLite's own file system with a wrapper around its file methods.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cache/fault_vfs.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/forwarding_file.h"

namespace quern::cache::testing {
namespace {

using test::inner;

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

// Makes a change to a file, and dies of it where this is the one to die at. `half` makes some of it.
template <class Change, class Half>
int change(const Change& all, const Half& half) {
  const FaultKind kind = plan.kind;
  const bool last =
      (kind == FaultKind::kill_before || kind == FaultKind::kill_amid || kind == FaultKind::kill_after) && fails(kind);
  if (last && kind == FaultKind::kill_amid) half();
  if (last && kind != FaultKind::kill_after) raise(SIGKILL);
  const int result = all();
  if (last) raise(SIGKILL);
  return result;
}
template <class Change>
int change(const Change& all) {
  return change(all, [] {});
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
  const auto write = [&](int bytes) { return inner(file)->pMethods->xWrite(inner(file), data, bytes, offset); };
  return change([&] { return write(count); }, [&] { write(count / 2); });
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (fails(FaultKind::truncate)) return SQLITE_IOERR_TRUNCATE;
  return change([&] { return inner(file)->pMethods->xTruncate(inner(file), size); });
}
int sync_file(sqlite3_file* file, int flags) {
  if (fails(FaultKind::sync)) return SQLITE_IOERR_FSYNC;
  return change([&] { return inner(file)->pMethods->xSync(inner(file), flags); });
}
int remove_file(sqlite3_vfs* vfs, const char* name, int sync) {
  sqlite3_vfs* const real = vfs == &faulty[0] ? under[0] : under[1];
  return change([&] { return real->xDelete(real, name, sync); });
}
int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  static const sqlite3_io_methods methods = [] {
    sqlite3_io_methods table = test::forwarding_methods();
    table.xRead = read_file;
    table.xWrite = write_file;
    table.xTruncate = truncate_file;
    table.xSync = sync_file;
    return table;
  }();
  file->pMethods = nullptr;
  if (fails(FaultKind::open)) return SQLITE_CANTOPEN;
  return test::open_forwarding(vfs == &faulty[0] ? under[0] : under[1], &methods, name, file, flags, out_flags);
}

}  // namespace

void fail_call(FaultKind kind, int n, bool sticky) {
  for (int i = 0; i < 2 && under[1] == nullptr; ++i) {
    under[i] = sqlite3_vfs_find(i == 0 ? "unix-none" : nullptr);
    faulty[i] = *under[i];
    if (i == 1) faulty[i].zName = "faulty";
    faulty[i].szOsFile = sizeof(test::ForwardingFile);
    faulty[i].xOpen = open_file;
    faulty[i].xDelete = remove_file;
    sqlite3_vfs_register(&faulty[i], i);
  }
  plan = {kind, n, sticky, false};
}

bool fault_happened() { return plan.happened; }

}  // namespace quern::cache::testing

// In front of the C library's, for whoever calls them in this program: the same done by its other names.
extern "C" int unlink(const char* path) noexcept {
  return quern::cache::testing::change([&] { return unlinkat(AT_FDCWD, path, 0); });
}
extern "C" int rename(const char* from, const char* to) noexcept {
  return quern::cache::testing::change([&] { return renameat(AT_FDCWD, from, AT_FDCWD, to); });
}
extern "C" int link(const char* from, const char* to) noexcept {
  return quern::cache::testing::change([&] { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); });
}
