// Reading bundles: nothing in the file is believed before its sum has been checked.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cache/bundle.h"

namespace quern::cache {

using namespace bundle_format;  // NOLINT(google-build-using-namespace): its other half is the writer

std::array<std::string*, kTexts> bundle_format::texts(Entry& entry) {
  return {&entry.text, &entry.op, &entry.target, &entry.entry_name, &entry.compiler_kind, &entry.compiler_build};
}

namespace {

// Takes numbers off the front of a byte string whose length has been checked.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(std::size_t count) {
    const std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }
  std::uint64_t number(int size) {
    const std::string_view front = take(static_cast<std::size_t>(size));
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(front[static_cast<std::size_t>(i)]);
    return value;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

struct Record {
  Entry entry;
  std::uint64_t image_length = 0;
  std::string_view sum;
};

// The head of a record and as many of its texts as `bytes` holds; the lengths must add up to `length`. False: they do
// not.
bool parse(std::string_view bytes, std::uint64_t length, Record* record, std::uint64_t* texts_length) {
  if (bytes.size() < kRecordHead) return false;
  Cursor cursor(bytes);
  record->sum = cursor.take(16);
  const std::uint64_t kind = cursor.number(4);
  if (kind != static_cast<int>(Kind::image) && kind != static_cast<int>(Kind::tuning)) return false;
  Entry& entry = record->entry;
  entry.kind = static_cast<Kind>(kind);
  entry.registers = static_cast<std::int32_t>(cursor.number(4));
  entry.shared_bytes = static_cast<std::int32_t>(cursor.number(4));
  entry.local_bytes = static_cast<std::int32_t>(cursor.number(4));
  std::array<std::size_t, kTexts> lengths{};
  *texts_length = 0;
  for (std::size_t& each : lengths) *texts_length += each = cursor.number(4);
  record->image_length = cursor.number(8);
  // The first sum cannot overflow (six 32-bit numbers); the image is compared with what it leaves.
  if (kRecordHead + *texts_length > length || length - kRecordHead - *texts_length != record->image_length)
    return false;
  if (cursor.left() < *texts_length) return true;
  const auto fields = texts(entry);
  for (std::size_t i = 0; i < kTexts; ++i) *fields[i] = cursor.take(lengths[i]);
  if (cursor.left() >= record->image_length) entry.image = cursor.take(record->image_length);
  return true;
}

}  // namespace

Bundle::Bundle(const std::string& path, const Trust& trust) : path_(path), signed_(!trust.keys.empty()) {
  try {
    open_and_check(trust);
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

Bundle::~Bundle() { ::close(descriptor_); }

void Bundle::damaged(const std::string& why) const {
  throw BundleError(BundleError::What::damaged, "bundle " + path_ + ": " + why);
}

void Bundle::check_owner(const struct stat& status) const {
  const auto refuse = [&](const std::string& why) {
    throw BundleError(BundleError::What::refused, "bundle " + path_ + " " + why +
                                                      "; whoever can write it can run code here: sign it, or chmod and "
                                                      "chown it, or say that the cache is shared");
  };
  if (status.st_uid != geteuid() && status.st_uid != 0)
    refuse("belongs to user " + std::to_string(status.st_uid) + ", not to user " + std::to_string(geteuid()));
  if ((status.st_mode & 022) != 0) refuse("can be written by others");
}

void Bundle::check_signatures(const Trust& trust, const std::string& signed_bytes, std::uint64_t file_size) const {
  const std::uint64_t count = (file_size - size_) / kSignatureSize;
  if ((file_size - size_) % kSignatureSize != 0 || count > kMostSignatures)
    damaged("something that is no signature follows the last entry");
  const std::string all = read(size_, file_size - size_);
  bool known = trust.keys.empty();
  for (std::uint64_t i = 0; i < count; ++i) {
    Cursor cursor(std::string_view(all).substr(i * kSignatureSize, kSignatureSize));
    if (cursor.take(8) != kSignatureMagic || cursor.number(4) != 1 || cursor.number(4) != 0)
      damaged("something that is no signature follows the last entry");
    PublicKey key;
    Signature signature;
    std::memcpy(key.data(), cursor.take(key.size()).data(), key.size());
    std::memcpy(signature.data(), cursor.take(signature.size()).data(), signature.size());
    if (known || std::find(trust.keys.begin(), trust.keys.end(), key) == trust.keys.end()) continue;
    known = is_signed(key, signature, signed_text(signed_bytes));
  }
  if (!known)
    throw BundleError(
        BundleError::What::refused,
        "bundle " + path_ + (count == 0 ? " is not signed" : " is not signed by a key that is trusted here"));
}

void Bundle::open_and_check(const Trust& trust) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO by mistake must not hang
  struct stat status;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0)
    throw BundleError(errno == ENOENT ? BundleError::What::not_found : BundleError::What::io,
                      "bundle " + path_ + " cannot be opened: " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw BundleError(BundleError::What::io, "bundle " + path_ + " is not a regular file");
  if (trust.keys.empty() && !trust.anybody) check_owner(status);
  const auto file_size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t size = file_size;
  if (size < kHeaderSize) damaged("too short to be a bundle (" + std::to_string(size) + " bytes)");
  const std::string header = read(0, kHeaderSize);
  Cursor cursor(header);
  if (cursor.take(8) != kMagic) damaged("not a bundle");
  const std::uint64_t format = cursor.number(4), zero = cursor.number(4);
  const std::uint64_t count = cursor.number(8), told_size = cursor.number(8);
  const std::string_view index_sum = cursor.take(16);
  if (cursor.take(16) != view(checksum_bytes(std::string_view(header).substr(0, kSummed))))
    damaged("the header does not verify");
  if (format != kFormat || zero != 0)
    damaged("format " + std::to_string(format) + " is unknown; known is " + std::to_string(kFormat));
  if (told_size > size || told_size < kHeaderSize)
    damaged("it is " + std::to_string(size) + " bytes long, and should be " + std::to_string(told_size));
  size_ = size = told_size;
  if (count > (size - kHeaderSize) / kSlotSize) damaged("the index is longer than the file");

  const std::string index = read(kHeaderSize, count * kSlotSize);
  if (index_sum != view(checksum_bytes(index))) damaged("the index does not verify");
  check_signatures(trust, header + index, file_size);
  slots_.reserve(count);
  Cursor slots(index);
  std::uint64_t expected = kHeaderSize + count * kSlotSize;
  for (std::uint64_t i = 0; i < count; ++i) {
    Slot slot;
    slot.key = key_from_bytes(reinterpret_cast<const unsigned char*>(slots.take(16).data()));
    slot.offset = slots.number(8);
    slot.length = slots.number(8);
    std::memcpy(slot.digest.data(), slots.take(32).data(), 32);
    if (slot.offset != expected || slot.length < kRecordHead || slot.length > size - expected)
      damaged("an entry lies outside the file");
    if (i > 0 && !(slots_.back().key < slot.key)) damaged("the index is not sorted");
    expected += slot.length;
    slots_.push_back(slot);
  }
  if (expected != size) damaged("something follows the last entry");
}

std::string Bundle::read(std::uint64_t offset, std::uint64_t length) const {
  std::string bytes(length, '\0');
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got = pread(descriptor_, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw BundleError(BundleError::What::io, "bundle " + path_ + " cannot be read: " + std::strerror(errno));
    if (got == 0) damaged("it was cut short");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

const Bundle::Slot* Bundle::slot(const Key& key) const {
  const auto at =
      std::lower_bound(slots_.begin(), slots_.end(), key, [](const Slot& slot, const Key& k) { return slot.key < k; });
  return at != slots_.end() && at->key == key ? &*at : nullptr;
}

Found Bundle::find(const Key& key, std::string_view text, std::string_view pin, Entry* entry) const {
  const Slot* at = slot(key);
  if (at == nullptr) return Found::absent;
  const std::string bytes = read(at->offset, at->length);
  if (signed_ && sha256(bytes) != at->digest) return Found::damaged;
  Record record;
  std::uint64_t texts_length;
  if (!parse(bytes, bytes.size(), &record, &texts_length)) return Found::damaged;
  if (record.entry.text != text) return Found::other_text;
  if (record.sum != view(checksum_entry(key, record.entry))) return Found::damaged;
  if (!pinned(pin, record.entry.compiler_kind, record.entry.compiler_build)) return Found::other_compiler;
  *entry = std::move(record.entry);
  return Found::yes;
}

Entry Bundle::read_verified(const Slot& slot) const {
  const std::string bytes = read(slot.offset, slot.length);
  Record record;
  std::uint64_t texts_length;
  if (sha256(bytes) != slot.digest || !parse(bytes, bytes.size(), &record, &texts_length) ||
      record.sum != view(checksum_entry(slot.key, record.entry)))
    damaged("entry " + to_hex(slot.key) + " does not verify");
  return std::move(record.entry);
}

Row Bundle::read_listed(const Slot& slot) const {
  // Most texts are a few kilobytes; one read serves those, and a second the others.
  std::string bytes = read(slot.offset, std::min<std::uint64_t>(slot.length, 8192));
  Record record;
  std::uint64_t texts_length;
  bool sound = parse(bytes, slot.length, &record, &texts_length);
  if (sound && bytes.size() < kRecordHead + texts_length) {
    bytes = read(slot.offset, kRecordHead + texts_length);
    sound = parse(bytes, slot.length, &record, &texts_length);
  }
  if (!sound) damaged("entry " + to_hex(slot.key) + " does not verify");
  Row row;
  row.key = slot.key;
  row.image_size = record.image_length;
  row.entry = std::move(record.entry);
  row.entry.image.clear();
  return row;
}

}  // namespace quern::cache
