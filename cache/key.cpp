// The written form of a key.
// SPDX-License-Identifier: Apache-2.0
#include "cache/store.h"

namespace quern::cache {

std::string to_hex(const Key& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(32, '0');
  for (int i = 0; i < 16; ++i) {
    hex[15 - i] = kDigits[(key.high >> (4 * i)) & 15];
    hex[31 - i] = kDigits[(key.low >> (4 * i)) & 15];
  }
  return hex;
}

}  // namespace quern::cache
