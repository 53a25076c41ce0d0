// Tables, and the header of the file they are in.
// SPDX-License-Identifier: Apache-2.0
#include "cache/schema.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>

namespace quern::cache {
namespace {

// Fields of SQLite's file header (sqlite.org/fileformat2.html, section 1.3): byte offsets, numbers most significant
// first.
constexpr std::size_t kHeaderSize = 100;
constexpr char kMagic[] = "SQLite format 3";  // with its NUL, 16 bytes
constexpr std::size_t kLayoutField = 16, kChangeCounter = 24, kPageCount = 28, kSchemaFormat = 44, kEncoding = 56,
                      kUserVersion = 60, kIncrementalVacuum = 64, kApplication = 68, kPageCountValidFor = 92;

// Page size, rollback journal both to write and to read, no reserved bytes, and the payload fractions that SQLite
// demands.
constexpr unsigned char kLayout[8] = {kPageSize >> 8, kPageSize & 255, 1, 1, 0, 64, 32, 32};

std::uint32_t field(const unsigned char* header, std::size_t offset) {
  return static_cast<std::uint32_t>(header[offset]) << 24 | static_cast<std::uint32_t>(header[offset + 1]) << 16 |
         static_cast<std::uint32_t>(header[offset + 2]) << 8 | header[offset + 3];
}

void set_field(unsigned char* header, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) header[offset + i] = static_cast<unsigned char>(value >> (24 - 8 * i));
}

// Images stand apart, so that looking through entries does not wade through them; the log before the image, so that it
// is read without walking the image's pages. `tick` is a logical clock: the larger, the later used; `day` only keeps a
// row from being marked more than daily. SQLite stores these texts to the byte in the file's first page.
constexpr std::string_view kTables[] = {R"(CREATE TABLE entries(
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
    ) STRICT)",
                                        R"(CREATE TABLE images(
      id INTEGER PRIMARY KEY,
      log TEXT NOT NULL,
      image BLOB NOT NULL
    ) STRICT)",
                                        R"(CREATE TABLE uses(
      id INTEGER PRIMARY KEY,
      tick INTEGER NOT NULL,
      day INTEGER NOT NULL
    ) STRICT)"};

FileKind classify(const unsigned char* page, std::size_t size) {
  if (size == 0) return FileKind::empty;
  if (size < kHeaderSize)
    return std::memcmp(page, kMagic, size < 16 ? size : 16) == 0 ? FileKind::damaged : FileKind::foreign;
  const std::string_view text(reinterpret_cast<const char*>(page), size);
  const auto tables = std::count_if(std::begin(kTables), std::end(kTables),
                                    [&](std::string_view table) { return text.find(table) != std::string_view::npos; });
  const bool magic = std::memcmp(page, kMagic, 16) == 0;
  const bool named = field(page, kApplication) == kApplicationId;
  if (!named && tables < 2) {
    // Blocks that a file system has promised and never written read as zeros.
    const bool blank = text.substr(0, kHeaderSize).find_first_not_of('\0') == std::string_view::npos;
    return blank ? FileKind::damaged : FileKind::foreign;
  }
  const std::uint32_t version = field(page, kUserVersion);
  if (named && magic && version > kSchemaVersion && version < 1000 && tables < 3) return FileKind::newer;
  // As we made it; anything else was changed by somebody, or by accident.
  const bool whole = magic && named && version == kSchemaVersion &&
                     std::memcmp(page + kLayoutField, kLayout, sizeof kLayout) == 0 && field(page, kEncoding) == 1;
  return whole ? FileKind::ours : FileKind::damaged;
}

}  // namespace

FileKind inspect_file(const std::string& path) noexcept {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return FileKind::unreadable;
  unsigned char page[kPageSize] = {};
  ssize_t size;
  do size = pread(descriptor, page, sizeof page, 0);
  while (size < 0 && errno == EINTR);
  const int error = errno;
  ::close(descriptor);
  if (size < 0) {
    errno = error;
    return FileKind::unreadable;
  }
  return classify(page, static_cast<std::size_t>(size));
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
    set_field(header, kPageCount, pages);
    set_field(header, kSchemaFormat, 4);
    set_field(header, kEncoding, 1);
    set_field(header, kUserVersion, kSchemaVersion);
    set_field(header, kIncrementalVacuum, 1);
    set_field(header, kApplication, kApplicationId);
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
  for (const std::string_view table : kTables) connection.execute(std::string(table).c_str());
  connection.execute(R"(
    CREATE INDEX uses_by_tick ON uses(tick);
    PRAGMA application_id = 0x51756572;
    PRAGMA user_version = 1;
  )");
  transaction.commit();
}

}  // namespace quern::cache
