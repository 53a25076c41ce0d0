// What a call of each op needs when a user says no more than "rmsnorm rows=64 n=8192".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace quern::cli {

// Words NAME=VALUE in the language of problem.h, separated by blanks. Every op has one.
std::string_view recipe_of(std::string_view op);

}  // namespace quern::cli
