// The sentences of sources/args.h.
// SPDX-License-Identifier: Apache-2.0
#include "sources/args.h"

#include <string>

#include "jit/error.h"

namespace quern::ops {

void fail_null(const char* name) { throw Error(QUERN_INVALID, std::string(name) + " is NULL"); }

void check_size(const char* name, const void* given, std::uint32_t size, std::size_t ours) {
  if (size < kSmallestStruct || size > kLargestStruct) {
    throw Error(QUERN_INVALID, std::string(name) + ".size is " + std::to_string(size) + "; set it to sizeof(" + name +
                                   "), which is " + std::to_string(ours) + " in this version");
  }
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = ours; i < size; ++i) {
    if (bytes[i] != 0) {
      throw Error(QUERN_INVALID, std::string(name) + ".size is " + std::to_string(size) + " and byte " +
                                     std::to_string(i) + " is not zero; this version of quern knows the first " +
                                     std::to_string(ours) + " bytes, so a newer field is set that it cannot honour");
    }
  }
}

}  // namespace quern::ops
