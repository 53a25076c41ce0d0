// XXH3-128 and SHA-256 over entries.
// SPDX-License-Identifier: Apache-2.0
#include "cache/checksum.h"

#define XXH_INLINE_ALL
#include <mbedtls/sha256.h>
#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <memory>
#include <stdexcept>

namespace quern::cache {
namespace {

void store_big_endian(std::uint64_t value, unsigned char* out) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<unsigned char>(value >> (56 - 8 * i));
}

std::uint64_t load_big_endian(const unsigned char* in) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | in[i];
  return value;
}

Checksum from_hash(XXH128_hash_t hash) { return key_bytes({hash.high64, hash.low64}); }

class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }
  void number(std::uint64_t value) {
    unsigned char bytes[8];
    store_big_endian(value, bytes);
    XXH3_128bits_update(&state_, bytes, sizeof bytes);
  }
  void text(std::string_view value) {
    number(value.size());
    XXH3_128bits_update(&state_, value.data(), value.size());
  }
  Checksum sum() const { return from_hash(XXH3_128bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

}  // namespace

Checksum checksum_bytes(std::string_view bytes) { return from_hash(XXH3_128bits(bytes.data(), bytes.size())); }

Checksum checksum_entry(const Key& key, const Entry& entry) {
  Hasher hasher;
  hasher.number(key.high);
  hasher.number(key.low);
  hasher.number(static_cast<std::uint64_t>(entry.kind));
  hasher.text(entry.text);
  hasher.text(entry.op);
  hasher.text(entry.target);
  hasher.text(entry.entry_name);
  hasher.text(entry.compiler_kind);
  hasher.text(entry.compiler_build);
  hasher.text(entry.log);
  hasher.number(std::bit_cast<std::uint64_t>(entry.compile_ms));
  hasher.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.registers)));
  hasher.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.shared_bytes)));
  hasher.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.local_bytes)));
  hasher.number(static_cast<std::uint64_t>(entry.created));
  hasher.text(entry.image);
  return hasher.sum();
}

Digest sha256(std::string_view bytes) {
  Digest digest{};
  if (mbedtls_sha256_ret(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data(), 0) != 0)
    throw std::runtime_error("SHA-256 could not be computed");
  return digest;
}

std::array<unsigned char, 16> key_bytes(const Key& key) {
  std::array<unsigned char, 16> bytes{};
  store_big_endian(key.high, bytes.data());
  store_big_endian(key.low, bytes.data() + 8);
  return bytes;
}

Key key_from_bytes(const unsigned char* bytes) { return {load_big_endian(bytes), load_big_endian(bytes + 8)}; }

}  // namespace quern::cache
