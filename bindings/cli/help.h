// How --help looks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace quern::cli {

// `examples`: command lines, two spaces before each.
void set_help(CLI::App& app, const char* examples);

}  // namespace quern::cli
