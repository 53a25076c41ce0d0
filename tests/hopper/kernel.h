// Compiling the kernels of this folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/compiler.h"
#include "jit/unit.h"

namespace quern::hopper_tests {

// The kernel sources of this folder, inside the program.
std::span<const jit::File> embedded();

using Defines = std::vector<std::pair<std::string, std::string>>;

// The kernel "k" of a file of this folder. Compiled once per process for equal arguments.
const jit::Compiled& compile(const std::string& target, const std::string& file, const Defines& defines);

}  // namespace quern::hopper_tests
