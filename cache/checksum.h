// The sums that guard entries: XXH3-128 on every hit, or a MAC where the cache has a key; SHA-256 where a bundle is
// verified or imported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cache/store.h"

namespace quern::cache {

// 16 bytes, most significant first, so that what is stored does not depend on the machine.
using Checksum = std::array<unsigned char, 16>;
using Digest = std::array<unsigned char, 32>;

Checksum checksum_bytes(std::string_view bytes);

// Over the key and every field of the entry, each string preceded by its length, so that no byte can move from one
// field to the next unseen.
Checksum checksum_entry(const Key& key, const Entry& entry);

// The same bytes under a key that the writers of a cache share: BLAKE2b of 128 bits (RFC 7693), which nobody can make
// who does not know it. Without a key the checksum.
using MacKey = std::array<unsigned char, 32>;
Checksum seal_entry(const std::optional<MacKey>& mac_key, const Key& key, const Entry& entry);
// Takes the same time wherever the two differ.
bool same_sum(std::string_view stored, const Checksum& sum);

Digest sha256(std::string_view bytes);

// A key as 16 bytes, most significant first: their order as bytes is the order of keys.
std::array<unsigned char, 16> key_bytes(const Key& key);
Key key_from_bytes(const unsigned char* bytes);

template <typename Bytes>
std::string_view view(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace quern::cache
