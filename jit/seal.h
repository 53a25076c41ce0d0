// The key that an image was compiled under, carried by the image itself: a row that has got another row's image is
// refused when it is loaded, whatever the row's own checksum says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cache/store.h"

namespace quern::jit {

// What a seal adds to an image, in bytes.
inline constexpr std::size_t kSealLength = 16 + 32 + 1;

// Appends the key behind the image's bytes, where no loader of images looks.
void seal(std::string* image, const cache::Key& key);

// The image without its seal. Throws Error(QUERN_UNSUPPORTED) where the seal is not there or names another key.
std::string_view unsealed(std::string_view image, const cache::Key& key);

// The same whatever the key, for who shows images: all of it where there is no seal.
std::string_view without_seal(std::string_view image) noexcept;

}  // namespace quern::jit
