// What an image says of the key it was compiled under.
// SPDX-License-Identifier: Apache-2.0
#include "jit/seal.h"

#include <gtest/gtest.h>

#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

TEST(Seal, IsTakenOffAgainUnderItsOwnKeyOnly) {
  const cache::Key key{0x0123456789abcdefu, 42}, other{0x0123456789abcdefu, 43};
  for (const std::string& bytes : {std::string(),
                                   std::string("\x7f"
                                               "ELF\0\n",
                                               6),
                                   std::string("text\n")}) {
    std::string image = bytes;
    seal(&image, key);
    EXPECT_EQ(unsealed(image, key), bytes);
    EXPECT_EQ(without_seal(image), bytes);
    const Error error = error_of([&] { unsealed(image, other); });
    EXPECT_EQ(error.status(), QUERN_UNSUPPORTED);
    EXPECT_TRUE(contains(error.text(), "key 0123456789abcdef000000000000002a")) << error.text();
    EXPECT_EQ(error_of([&] { unsealed(bytes, key); }).status(), QUERN_UNSUPPORTED);
    EXPECT_EQ(without_seal(bytes), bytes);
    for (std::size_t at = bytes.size(); at < image.size(); ++at) {
      std::string bad = image;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      EXPECT_EQ(error_of([&] { unsealed(bad, key); }).status(), QUERN_UNSUPPORTED) << at;
      EXPECT_EQ(error_of([&] { unsealed(std::string_view(image).substr(0, at), key); }).status(), QUERN_UNSUPPORTED);
    }
  }
}

}  // namespace
}  // namespace quern::jit
