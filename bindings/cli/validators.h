// Checks of one argument's value, whose messages say what was given and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string_view>

namespace quern::cli {

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
CLI::Validator one_of(std::span<const std::string_view> allowed);
// A size as parse_bytes reads it; at least one byte.
CLI::Validator byte_size();
CLI::Validator not_empty();

}  // namespace quern::cli
