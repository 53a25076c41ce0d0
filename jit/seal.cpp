// "\nquern image of KEY\n" at the end.
// SPDX-License-Identifier: Apache-2.0
#include "jit/seal.h"

#include "jit/error.h"

namespace quern::jit {
namespace {

constexpr std::string_view kBefore = "\nquern image of ";
constexpr std::size_t kHex = 32, kLength = kSealLength;
static_assert(kLength == kBefore.size() + kHex + 1);

bool has_seal(std::string_view image) noexcept {
  return image.size() >= kLength && image.ends_with('\n') &&
         image.substr(image.size() - kLength, kBefore.size()) == kBefore;
}

}  // namespace

void seal(std::string* image, const cache::Key& key) {
  image->reserve(image->size() + kLength);
  image->append(kBefore).append(cache::to_hex(key)).append(1, '\n');
}

std::string_view unsealed(std::string_view image, const cache::Key& key) {
  if (!has_seal(image)) throw Error(QUERN_UNSUPPORTED, "the image does not say which key it was compiled under");
  const std::string_view named = image.substr(image.size() - kHex - 1, kHex);
  if (named != cache::to_hex(key))
    throw Error(QUERN_UNSUPPORTED, "the image was compiled under the key " + std::string(named));
  return without_seal(image);
}

std::string_view without_seal(std::string_view image) noexcept {
  return has_seal(image) ? image.substr(0, image.size() - kLength) : image;
}

}  // namespace quern::jit
