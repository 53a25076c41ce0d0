// SPDX-License-Identifier: Apache-2.0
#include "sources/workspace.h"

#include <string>

#include "jit/error.h"

namespace quern::ops {

Workspace read_workspace(void* workspace, std::uint64_t given, std::uint64_t needed) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  if (given < needed || address == 0 || address % 256 != 0) [[unlikely]] {
    if (given < needed) {
      throw Error(QUERN_INVALID, "workspace_size is " + std::to_string(given) + "; this call needs at least " +
                                     std::to_string(needed));
    }
    throw Error(QUERN_INVALID, address == 0 ? "workspace is NULL" : "workspace is not aligned to 256 bytes");
  }
  return {static_cast<std::uint32_t*>(workspace), static_cast<char*>(workspace) + kCounterBytes};
}

}  // namespace quern::ops
