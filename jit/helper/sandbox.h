// What a compiler in the helper may still reach once it is given a kernel's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quern::jit::helper {

struct Sandbox {
  std::string folder;                  // may be read, written, and run from
  std::vector<std::string> compilers;  // files: they, and the folders that such a compiler has beside itself
};

// From here on this thread, and every process and thread that it starts, opens files in `folder`, in the system's
// folders of programs and libraries and in those of the compilers, and nowhere else; it opens no connection either, and
// signals nobody outside. Needs Linux 5.13 with Landlock. True where that holds; false where the kernel does not offer
// it (or an outer sandbox forbids it), and nothing has changed.
bool enter(const Sandbox& sandbox) noexcept;

// The version of Landlock that this kernel offers, 0 for none.
int landlock_version() noexcept;

}  // namespace quern::jit::helper
