// Keys and signatures of bundles.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cache/bundle.h"
#include "cache/signature.h"
#include "capi/abi.h"

using namespace quern;
using namespace quern::capi;

namespace {

cache::SecretKey secret_parameter(const char* secret_key) {
  if (secret_key == nullptr) fail_null("secret_key");
  const auto key = cache::read_key(secret_key);
  // What was given is not repeated: it may be a secret but for one character.
  if (!key) throw Error(QUERN_INVALID, "secret_key is not 64 hexadecimal digits");
  return *key;
}

void write_key(const std::array<unsigned char, 32>& key, char* out) {
  const std::string text = cache::key_text(key);
  std::memcpy(out, text.c_str(), text.size() + 1);
}

}  // namespace

extern "C" {

int32_t quern_keys_make(char* secret_key, char* public_key, quern_error* error) {
  return guarded(error, [&] {
    if (secret_key == nullptr) fail_null("secret_key");
    if (public_key == nullptr) fail_null("public_key");
    const cache::KeyPair made = cache::make_key_pair();
    write_key(made.secret, secret_key);
    write_key(made.open, public_key);
    return QUERN_OK;
  });
}

int32_t quern_keys_public(const char* secret_key, char* public_key, quern_error* error) {
  return guarded(error, [&] {
    const cache::SecretKey secret = secret_parameter(secret_key);
    if (public_key == nullptr) fail_null("public_key");
    write_key(cache::public_key_of(secret), public_key);
    return QUERN_OK;
  });
}

int32_t quern_bundle_sign(const char* path, const char* secret_key, quern_error* error) {
  return guarded(error, [&] {
    path_parameter(path);
    const cache::SecretKey secret = secret_parameter(secret_key);
    try {
      cache::sign_bundle(path, secret);
    } catch (const cache::BundleError& failure) {
      using What = cache::BundleError::What;
      throw Error(failure.kind() == What::not_found ? QUERN_NOT_FOUND
                  : failure.kind() == What::damaged ? QUERN_DAMAGED
                                                    : QUERN_IO,
                  failure.what());
    }
    return QUERN_OK;
  });
}

}  // extern "C"
