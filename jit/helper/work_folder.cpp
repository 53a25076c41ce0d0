// A private folder for one question to the helper.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "jit/error.h"
#include "jit/library.h"

namespace quern::jit::helper {

WorkFolder::WorkFolder() {
  const char* parent = environment("TMPDIR");
  if (parent == nullptr || parent[0] != '/') parent = "/tmp";
  path_ = std::string(parent) + "/quern-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    const int code = errno;
    throw Error(QUERN_IO, std::string("no folder can be made in ") + parent + " (TMPDIR): " + std::strerror(code),
                code);
  }
}

WorkFolder::~WorkFolder() {
  try {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  } catch (const std::bad_alloc&) {
    // That it is thrown all the same the standard allows. The folder stays, and the caller hears of the memory.
  }
}

}  // namespace quern::jit::helper
