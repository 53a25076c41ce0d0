// XXH3-128, BLAKE2b and SHA-256 over entries.
// SPDX-License-Identifier: Apache-2.0
#include "cache/checksum.h"

#define XXH_INLINE_ALL
#include <mbedtls/sha256.h>
#include <sodium.h>
#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <tuple>

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

class Plain {
 public:
  Plain() { XXH3_128bits_reset(&state_); }
  void bytes(const void* data, std::size_t size) { XXH3_128bits_update(&state_, data, size); }
  Checksum sum() { return from_hash(XXH3_128bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

class Keyed {
 public:
  explicit Keyed(const MacKey& key) {
    crypto_generichash_init(&state_, key.data(), key.size(), std::tuple_size_v<Checksum>);
  }
  ~Keyed() { sodium_memzero(&state_, sizeof(state_)); }
  Keyed(const Keyed&) = delete;
  Keyed& operator=(const Keyed&) = delete;
  void bytes(const void* data, std::size_t size) {
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), size);
  }
  Checksum sum() {
    Checksum sum{};
    crypto_generichash_final(&state_, sum.data(), sum.size());
    return sum;
  }

 private:
  crypto_generichash_state state_;
};

template <class Hash>
void number(Hash& hash, std::uint64_t value) {
  unsigned char bytes[8];
  store_big_endian(value, bytes);
  hash.bytes(bytes, sizeof bytes);
}
template <class Hash>
void text(Hash& hash, std::string_view value) {
  number(hash, value.size());
  hash.bytes(value.data(), value.size());
}

template <class Hash>
Checksum sum_of(Hash&& hash, const Key& key, const Entry& entry) {
  number(hash, key.high);
  number(hash, key.low);
  number(hash, static_cast<std::uint64_t>(entry.kind));
  for (const std::string* each : {&entry.text, &entry.op, &entry.target, &entry.entry_name, &entry.compiler_kind,
                                  &entry.compiler_build, &entry.log})
    text(hash, *each);
  number(hash, std::bit_cast<std::uint64_t>(entry.compile_ms));
  number(hash, static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.registers)));
  number(hash, static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.shared_bytes)));
  number(hash, static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.local_bytes)));
  number(hash, static_cast<std::uint64_t>(entry.created));
  text(hash, entry.image);
  return hash.sum();
}

}  // namespace

Checksum checksum_bytes(std::string_view bytes) { return from_hash(XXH3_128bits(bytes.data(), bytes.size())); }

Checksum checksum_entry(const Key& key, const Entry& entry) { return sum_of(Plain(), key, entry); }

Checksum seal_entry(const std::optional<MacKey>& mac_key, const Key& key, const Entry& entry) {
  return mac_key ? sum_of(Keyed(*mac_key), key, entry) : checksum_entry(key, entry);
}

bool same_sum(std::string_view stored, const Checksum& sum) {
  return stored.size() == sum.size() && sodium_memcmp(stored.data(), sum.data(), sum.size()) == 0;
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
