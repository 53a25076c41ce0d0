// A hand-written manifest made ready for the library, which reads no files: what stands as @path becomes the file's
// content. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

struct BadLine {
  std::uint32_t line;  // from 1
  std::string text;    // what is wrong with it
};

struct Manifest {
  std::string text;               // as many lines as were given; bad ones are empty
  std::vector<BadLine> bad;       // lines whose files could not be read
  bool for_every_target = false;  // some line has the target '*'
};

// On lines of the op `kernel`, `source=@add.cu` and `header=@math.cuh` are replaced by the text of the files, paths
// relative to `folder`. The name that the compiler's log and #include use is the path as written (an absolute one: its
// last part).
Manifest read_manifest(std::string_view text, const std::string& folder);

// The percent-encoding of manifest values: '%', '=', space and control characters.
std::string percent_encode(std::string_view value);

}  // namespace quern::cli
