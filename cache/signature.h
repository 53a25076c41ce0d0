// Ed25519 (RFC 8032) over a bundle, by libsodium: whose bundle it is, and that nothing in it has changed since.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace quern::cache {

using PublicKey = std::array<unsigned char, 32>;
using SecretKey = std::array<unsigned char, 32>;  // RFC 8032's: what everything else is derived from
using Signature = std::array<unsigned char, 64>;

struct KeyPair {
  SecretKey secret{};
  PublicKey open{};
};

// Of bytes from the system. Throws std::runtime_error where it gives none.
KeyPair make_key_pair();
PublicKey public_key_of(const SecretKey& secret);
Signature sign(const SecretKey& secret, std::string_view bytes);
bool is_signed(const PublicKey& key, const Signature& signature, std::string_view bytes);

// 64 hexadecimal digits, as keys are written; none where `text` is anything else.
std::string key_text(const std::array<unsigned char, 32>& key);
std::optional<std::array<unsigned char, 32>> read_key(std::string_view text);

// Signs the bundle at `path`: appends a signature, or replaces the one that this key has given before. The file is
// replaced as a whole. Throws BundleError.
void sign_bundle(const std::string& path, const SecretKey& secret);

}  // namespace quern::cache
