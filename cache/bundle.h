// Bundles: flat files of entries, the same to the byte for the same entries.
//
//   bundle  = header index records signature*
//   header  = magic format zero count size index_sum header_sum            64 bytes
//   magic   = "quernbdl"                                                    8 bytes
//   format  = u32                                                           1
//   zero    = u32                                                           0
//   count   = u64                                                           number of entries
//   size    = u64                                                           bytes of header, index and records
//   index_sum  = XXH3-128 of the index                                     16 bytes
//   header_sum = XXH3-128 of the 48 bytes before it                        16 bytes
//   index   = { key offset length sha256 } * count                         64 bytes each, strictly ascending by key
//   key     = 16 bytes, most significant first
//   offset  = u64, from the beginning of the file                          records follow each other without gaps
//   length  = u64
//   sha256  = 32 bytes, of the record
//   record  = sum kind registers shared_bytes local_bytes lengths image_length texts image
//   sum     = XXH3-128 of the entry as checksum.h computes it (created, compile_ms 0, log empty)
//   kind    = u32                                                           1 image, 2 tuning
//   registers, shared_bytes, local_bytes = i32 each
//   lengths = u32 * 6                                                       of the texts
//   image_length = u64
//   texts   = text op target entry_name compiler_kind compiler_build
//   signature = "quernsig" 1 0 key bytes                                  112 bytes: two u32, an Ed25519 public key
//                                                                         and its signature over
//               "quern bundle 1\n" header index                            (and by the index's SHA-256 over the rest)
//
// Numbers are least significant byte first. There are no times, and no log (it may name temporary files), so that
// neither the order of insertion nor the machine shows. A hit checks `sum`, which is fast; verifying and importing
// check the SHA-256 too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/checksum.h"
#include "cache/entries.h"
#include "cache/signature.h"
#include "cache/store.h"

namespace quern::cache {

// Thrown by what reads or writes a bundle.
class BundleError : public std::exception {
 public:
  enum class What : std::uint8_t { not_found, io, damaged, refused };
  BundleError(What what, std::string text) : what_(what), text_(std::move(text)) {}
  What kind() const noexcept { return what_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  What what_;
  std::string text_;
};

// An open bundle. Reading is by pread alone: thread-safe, and a file cut short is an error rather than a SIGBUS.
class Bundle {
 public:
  struct Slot {
    Key key;
    std::uint64_t offset = 0, length = 0;
    Digest digest{};
  };
  // What a bundle must be to be used: signed by one of `keys` where there are any, else a file of this user's or of
  // root's that nobody else can write, unless `anybody`'s is taken. Nothing is asked where `keys` is empty and
  // `anybody` is true.
  struct Trust {
    std::vector<PublicKey> keys;
    bool anybody = true;
  };
  // Throws BundleError.
  Bundle(const std::string& path, const Trust& trust);
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<Slot>& slots() const { return slots_; }
  // Without signatures.
  std::uint64_t size() const { return size_; }

  // As find_entry. Throws BundleError where the file cannot be read.
  Found find(const Key& key, std::string_view text, std::string_view pin, Entry* entry) const;
  const Slot* slot(const Key& key) const;
  // The entry, checked by both sums. Throws BundleError naming the key.
  Entry read_verified(const Slot& slot) const;
  // Everything but the image, unchecked but for the lengths.
  Row read_listed(const Slot& slot) const;

 private:
  void open_and_check(const Trust& trust);
  void check_owner(const struct stat& status) const;
  void check_signatures(const Trust& trust, const std::string& signed_bytes, std::uint64_t file_size) const;
  std::string read(std::uint64_t offset, std::uint64_t length) const;
  [[noreturn]] void damaged(const std::string& why) const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool signed_ = false;  // and so every byte is held against the SHA-256 that was signed
  std::vector<Slot> slots_;
};

// Writes a bundle beside `path` and renames it into place when it is whole. Entries come in ascending order of keys.
class BundleWriter {
 public:
  // Throws BundleError.
  BundleWriter(const std::string& path, std::uint64_t count);
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;
  BundleWriter& operator=(const BundleWriter&) = delete;

  void add(const Key& key, Entry entry);
  void finish();

 private:
  void write(std::string_view bytes, std::uint64_t offset);
  [[noreturn]] void fail(const char* doing) const;

  std::string path_, temporary_;
  int descriptor_ = -1;
  std::uint64_t count_, offset_;
  std::string index_;
};

// Details that reader and writer share.
namespace bundle_format {
inline constexpr char kMagic[9] = "quernbdl";
inline constexpr std::uint32_t kFormat = 1;
inline constexpr std::size_t kHeaderSize = 64, kSummed = 48, kSlotSize = 64;
inline constexpr std::size_t kTexts = 6;
inline constexpr std::size_t kRecordHead = 16 + 4 * 4 + 4 * kTexts + 8;
inline constexpr char kSignatureMagic[9] = "quernsig";
inline constexpr std::size_t kSignatureHead = 16, kSignatureSize = kSignatureHead + 32 + 64, kMostSignatures = 16;
// What is signed, out of header and index.
inline std::string signed_text(std::string_view header_and_index) {
  return "quern bundle 1\n" + std::string(header_and_index);
}
// In the order of the grammar.
std::array<std::string*, kTexts> texts(Entry& entry);
}  // namespace bundle_format

}  // namespace quern::cache
