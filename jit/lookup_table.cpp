// The hash of the tables' keys, kept apart from the header that whoever looks something up includes.
// SPDX-License-Identifier: Apache-2.0
#include "jit/lookup_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern::jit {

std::uint64_t hash_bytes(const void* bytes, std::size_t size) noexcept { return XXH3_64bits(bytes, size); }

}  // namespace quern::jit
