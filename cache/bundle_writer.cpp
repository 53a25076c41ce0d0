// Writing bundles.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "cache/bundle.h"

namespace quern::cache {

using namespace bundle_format;  // NOLINT(google-build-using-namespace): its other half is the reader

namespace {

void append_number(std::string& out, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace

BundleWriter::BundleWriter(const std::string& path, std::uint64_t count)
    : path_(path), count_(count), offset_(kHeaderSize + count * kSlotSize) {
  // Of another process that died here the name may be left over; the next number is tried.
  for (int attempt = 0; attempt < 100 && descriptor_ < 0; ++attempt) {
    temporary_ = path + ".part-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("made");
  }
  index_.reserve(count * kSlotSize);
}

BundleWriter::~BundleWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void BundleWriter::fail(const char* doing) const {
  throw BundleError(BundleError::What::io, "bundle " + path_ + " cannot be " + doing + ": " + std::strerror(errno));
}

void BundleWriter::write(std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("written");
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void BundleWriter::add(const Key& key, Entry entry) {
  entry.created = 0;
  entry.compile_ms = 0;
  entry.log.clear();
  std::string record(view(checksum_entry(key, entry)));
  append_number(record, static_cast<std::uint64_t>(entry.kind), 4);
  for (const std::int32_t number : {entry.registers, entry.shared_bytes, entry.local_bytes})
    append_number(record, static_cast<std::uint32_t>(number), 4);
  for (const std::string* text : texts(entry)) {
    if (text->size() > std::numeric_limits<std::uint32_t>::max()) {
      errno = EFBIG;
      fail("written");
    }
    append_number(record, text->size(), 4);
  }
  append_number(record, entry.image.size(), 8);
  for (const std::string* text : texts(entry)) record += *text;
  record += entry.image;

  index_ += view(key_bytes(key));
  append_number(index_, offset_, 8);
  append_number(index_, record.size(), 8);
  index_ += view(sha256(record));
  write(record, offset_);
  offset_ += record.size();
}

void BundleWriter::finish() {
  if (index_.size() != count_ * kSlotSize) {
    errno = EINVAL;
    fail("finished, as fewer or more entries came than were announced");
  }
  std::string header(kMagic, 8);
  append_number(header, kFormat, 4);
  append_number(header, 0, 4);
  append_number(header, count_, 8);
  append_number(header, offset_, 8);
  header += view(checksum_bytes(index_));
  header += view(checksum_bytes(header));
  write(header + index_, 0);
  if (fsync(descriptor_) != 0) fail("written");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("put in place");
  temporary_.clear();
}

}  // namespace quern::cache
