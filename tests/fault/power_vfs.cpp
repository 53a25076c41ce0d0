// The log, and what it may have left on a disk.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/power_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/forwarding_file.h"

namespace quern::cache::testing {
namespace {

using test::forwarding, test::inner;

constexpr std::size_t kSector = 512;

struct Operation {
  enum class Kind { write, truncate, sync, remove } kind;
  std::string file;
  std::size_t offset;  // of a write; the new size of a truncation
  std::string bytes;
};

bool recording = false;
std::vector<Operation>& log() {
  static auto& kept = *new std::vector<Operation>;
  return kept;
}
sqlite3_vfs* real = nullptr;

std::string last_part(const char* path) {
  const std::string text = path == nullptr ? "" : path;
  return text.substr(text.rfind('/') + 1);
}

void note(sqlite3_file* file, Operation::Kind kind, std::size_t offset = 0, std::string bytes = {}) {
  if (recording) log().push_back({kind, *forwarding(file)->name, offset, std::move(bytes)});
}

int write_file(sqlite3_file* file, const void* data, int count, sqlite3_int64 offset) {
  note(file, Operation::Kind::write, static_cast<std::size_t>(offset),
       std::string(static_cast<const char*>(data), static_cast<std::size_t>(count)));
  return inner(file)->pMethods->xWrite(inner(file), data, count, offset);
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  note(file, Operation::Kind::truncate, static_cast<std::size_t>(size));
  return inner(file)->pMethods->xTruncate(inner(file), size);
}
int sync_file(sqlite3_file* file, int) {
  note(file, Operation::Kind::sync);
  return SQLITE_OK;  // nothing fails here in earnest: the disk's time is not what is tested
}
int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  static const sqlite3_io_methods methods = [] {
    sqlite3_io_methods table = test::forwarding_methods();
    table.xWrite = write_file;
    table.xTruncate = truncate_file;
    table.xSync = sync_file;
    return table;
  }();
  return test::open_forwarding(real, &methods, name, file, flags, out_flags);
}

int remove_file(sqlite3_vfs*, const char* name, int sync) {
  if (recording) log().push_back({Operation::Kind::remove, last_part(name), 0, {}});
  return real->xDelete(real, name, sync);
}

void write_into(std::string& file, std::size_t offset, const std::string& bytes, std::size_t from, std::size_t count) {
  if (file.size() < offset + from + count) file.resize(offset + from + count, '\0');
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count,
              file.begin() + static_cast<std::ptrdiff_t>(offset + from));
}

void apply(std::string& file, const Operation& operation) {
  if (operation.kind == Operation::Kind::truncate) file.resize(operation.offset, '\0');
  if (operation.kind == Operation::Kind::write)
    write_into(file, operation.offset, operation.bytes, 0, operation.bytes.size());
}

// Some of its sectors, or none, or all; of a truncation, whether it happened.
void apply_some(std::string& file, const Operation& operation, Random& random) {
  const std::uint64_t mode = random.below(4);
  if (mode == 0) return;
  if (mode == 1 || operation.kind == Operation::Kind::truncate) return apply(file, operation);
  const std::string& bytes = operation.bytes;
  for (std::size_t at = 0; at < bytes.size();) {
    // Sectors are those of the disk, not of the write.
    const std::size_t end = std::min(bytes.size(), at + kSector - (operation.offset + at) % kSector);
    if (random.below(2) == 0) write_into(file, operation.offset, bytes, at, end - at);
    at = end;
  }
}

}  // namespace

void record_power() {
  static sqlite3_vfs recorder;
  if (real == nullptr) {
    real = sqlite3_vfs_find(nullptr);
    recorder = *real;
    recorder.zName = "power";
    recorder.szOsFile = sizeof(test::ForwardingFile);
    recorder.xOpen = open_file;
    recorder.xDelete = remove_file;
    sqlite3_vfs_register(&recorder, 1);
  }
  log().clear();
  recording = true;
}

std::size_t stop_power() {
  recording = false;
  return log().size();
}

std::size_t noted_power() { return log().size(); }

std::map<std::string, std::string> after_power_failure(std::size_t count, Random& random) {
  struct State {
    std::string durable;
    std::vector<const Operation*> pending;
  };
  std::map<std::string, State> files;
  for (std::size_t i = 0; i < count; ++i) {
    const Operation& operation = log()[i];
    State& state = files[operation.file];
    switch (operation.kind) {
      case Operation::Kind::sync:
        for (const Operation* each : state.pending) apply(state.durable, *each);
        state.pending.clear();
        break;
      case Operation::Kind::remove:
        files.erase(operation.file);
        break;
      default:
        state.pending.push_back(&operation);
    }
  }
  std::map<std::string, std::string> result;
  for (auto& [name, state] : files) {
    // Reordered: what comes later may have arrived without what came before, and over it.
    if (random.below(2) == 0) {
      for (std::size_t i = state.pending.size(); i > 1; --i)
        std::swap(state.pending[i - 1], state.pending[random.below(i)]);
    }
    for (const Operation* each : state.pending) apply_some(state.durable, *each, random);
    result[name] = std::move(state.durable);
  }
  return result;
}

}  // namespace quern::cache::testing
