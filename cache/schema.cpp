// Tables, and the header of the file they are in.
// SPDX-License-Identifier: Apache-2.0
#include "cache/schema.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quern::cache {
namespace {

// Fields of SQLite's file header (sqlite.org/fileformat2.html, section 1.3): byte offsets, numbers most significant
// first.
constexpr std::size_t kHeaderSize = 100;
constexpr char kMagic[] = "SQLite format 3";  // with its NUL, 16 bytes
constexpr std::size_t kLayoutField = 16, kChangeCounter = 24, kPageCount = 28, kEncoding = 56, kUserVersion = 60,
                      kApplication = 68, kPageCountValidFor = 92;

// Page size, rollback journal both to write and to read, no reserved bytes, and the payload fractions that SQLite
// demands.
constexpr unsigned char kLayout[8] = {kPageSize >> 8, kPageSize & 255, 1, 1, 0, 64, 32, 32};

std::uint32_t field(const unsigned char* header, std::size_t offset) {
  return static_cast<std::uint32_t>(header[offset]) << 24 | static_cast<std::uint32_t>(header[offset + 1]) << 16 |
         static_cast<std::uint32_t>(header[offset + 2]) << 8 | header[offset + 3];
}

FileKind classify(const unsigned char* header, std::size_t size) {
  if (size == 0) return FileKind::empty;
  if (size < kHeaderSize)
    return std::memcmp(header, kMagic, size < 16 ? size : 16) == 0 ? FileKind::damaged : FileKind::foreign;
  const bool magic = std::memcmp(header, kMagic, 16) == 0;
  const bool named = field(header, kApplication) == kApplicationId;
  if (!named) return FileKind::foreign;
  if (!magic) return FileKind::damaged;
  const std::uint32_t version = field(header, kUserVersion);
  if (version > kSchemaVersion && version < 1000) return FileKind::newer;
  // As we made it; anything else was changed by somebody, or by accident.
  const bool whole = version == kSchemaVersion && std::memcmp(header + kLayoutField, kLayout, sizeof kLayout) == 0 &&
                     field(header, kEncoding) == 1;
  return whole ? FileKind::ours : FileKind::damaged;
}

}  // namespace

FileKind inspect_file(const std::string& path) noexcept {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return FileKind::unreadable;
  unsigned char header[kHeaderSize] = {};
  ssize_t size;
  do size = pread(descriptor, header, sizeof header, 0);
  while (size < 0 && errno == EINTR);
  const int error = errno;
  ::close(descriptor);
  if (size < 0) {
    errno = error;
    return FileKind::unreadable;
  }
  return classify(header, static_cast<std::size_t>(size));
}

bool repair_header(const std::string& path) noexcept {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return false;
  unsigned char header[kHeaderSize];
  const off_t length = lseek(descriptor, 0, SEEK_END);
  bool done = length >= static_cast<off_t>(kPageSize) && pread(descriptor, header, sizeof header, 0) == sizeof header;
  if (done) {
    std::memcpy(header, kMagic, 16);
    std::memcpy(header + kLayoutField, kLayout, sizeof kLayout);
    const auto pages = static_cast<std::uint32_t>(static_cast<std::uint64_t>(length) / kPageSize);
    for (std::size_t i = 0; i < 4; ++i) header[kPageCount + i] = static_cast<unsigned char>(pages >> (24 - 8 * i));
    std::memcpy(header + kPageCountValidFor, header + kChangeCounter, 4);
    done = pwrite(descriptor, header, sizeof header, 0) == sizeof header;
  }
  ::close(descriptor);
  return done;
}

void create_schema(Connection& connection) {
  // Deferred, since page size and vacuum mode must be set before the first page is made, and inside the transaction,
  // since setting the vacuum mode writes that page: a file that ended there would be nobody's.
  Transaction transaction(connection, Transaction::Begin::deferred);
  connection.execute(R"(PRAGMA page_size = 16384)");
  connection.execute(R"(PRAGMA auto_vacuum = INCREMENTAL)");
  // Images stand apart, so that looking through entries does not wade through them; the log before the image, so that
  // it is read without walking the image's pages. `tick` is a logical clock: the larger, the later used; `day` only
  // keeps a row from being marked more than daily.
  connection.execute(R"(
    CREATE TABLE entries(
      id INTEGER PRIMARY KEY,
      key BLOB NOT NULL UNIQUE,
      kind INTEGER NOT NULL,
      text TEXT NOT NULL,
      op TEXT NOT NULL,
      target TEXT NOT NULL,
      entry_name TEXT NOT NULL,
      compiler_kind TEXT NOT NULL,
      compiler_build TEXT NOT NULL,
      compile_ms REAL NOT NULL,
      registers INTEGER NOT NULL,
      shared_bytes INTEGER NOT NULL,
      local_bytes INTEGER NOT NULL,
      created INTEGER NOT NULL,
      image_size INTEGER NOT NULL,
      checksum BLOB NOT NULL
    ) STRICT;
    CREATE TABLE images(
      id INTEGER PRIMARY KEY,
      log TEXT NOT NULL,
      image BLOB NOT NULL
    ) STRICT;
    CREATE TABLE uses(
      id INTEGER PRIMARY KEY,
      tick INTEGER NOT NULL,
      day INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX uses_by_tick ON uses(tick);
    PRAGMA application_id = 0x51756572;
    PRAGMA user_version = 1;
  )");
  transaction.commit();
}

}  // namespace quern::cache
