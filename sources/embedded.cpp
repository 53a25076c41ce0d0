// Look-up among the embedded sources; the list itself is written by sources/embed/embed.cmake.
// SPDX-License-Identifier: Apache-2.0
#include "sources/embedded.h"

#include <algorithm>
#include <string>

#include "jit/error.h"

namespace quern::ops {

jit::File embedded(std::string_view name) {
  const std::span<const jit::File> files = embedded();
  const auto found =
      std::lower_bound(files.begin(), files.end(), name,
                       [](const jit::File& file, std::string_view wanted) { return file.name < wanted; });
  if (found == files.end() || found->name != name) {
    throw Error(QUERN_INTERNAL, "no source \"" + std::string(name) + "\" is embedded in this library");
  }
  return *found;
}

}  // namespace quern::ops
