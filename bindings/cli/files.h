// Reading what the user names, and writing files that are there whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::cli {

// The path from the root, "." and ".." taken out; "" stays "". The library takes no other paths.
std::string absolute_path(const std::string& path);

// What a file may hold.
inline constexpr std::size_t kMostInput = std::size_t{64} << 20;

// The whole file. Throws Failure(QUERN_NOT_FOUND or QUERN_IO) naming it; more bytes than `most` are refused.
std::string read_file(const std::string& path, std::size_t most = kMostInput);
// The same, and standard input for "-".
std::string read_input(const std::string& path, std::size_t most = kMostInput);

// The one line of a file that `quern keys` has made, or that holds a cache's key.
std::string read_secret(const std::string& path);

// Writes beside `path` and renames, so that a reader sees the old file or the new one. Throws Failure(QUERN_IO).
void write_atomically(const std::string& path, std::string_view bytes);

// A new file that its owner alone can read. Throws Failure(QUERN_IO), where there is one of that name already, too.
void write_private(const std::string& path, std::string_view bytes);

}  // namespace quern::cli
