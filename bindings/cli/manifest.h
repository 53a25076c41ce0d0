// A hand-written manifest made ready for the library, which reads no files: what stands as @path becomes the file's
// content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

struct BadLine {
  std::uint32_t line;  // from 1
  std::string target;
  std::string text;  // what is wrong with it
};

struct Manifest {
  std::string text;               // as many lines as were given; bad ones are empty
  std::vector<BadLine> bad;       // lines whose files could not be read
  bool for_every_target = false;  // some line has the target '*'
};

// On lines of the op `kernel`, whose form is OP TARGET entry=NAME source.FILE=TEXT header.FILE=TEXT ...:
//   source=@dir/add.cu       becomes source.dir/add.cu=TEXT, the percent-encoded text of the file;
//   header=@math.cuh         likewise; source.NAME=@path and header.NAME=@path give another name than the path's;
//   option=TEXT              becomes option.0=TEXT, the next one option.1=TEXT, and so on.
// Paths are relative to `folder`, and unless `anywhere` the files must lie in it, links followed: a manifest from
// somebody else must not show what it was not given. The name is what the compiler's log and #include know the file by:
// the path as written, of an absolute one its last part, so that the key is the same on every machine.
Manifest read_manifest(std::string_view text, const std::string& folder, bool anywhere);

// The percent-encoding of manifest values: '%', '=', space and control characters.
std::string percent_encode(std::string_view value);
// Its inverse: a path may hold what separates words, "my%20kernel.cu".
std::string percent_decode(std::string_view text);

}  // namespace quern::cli
