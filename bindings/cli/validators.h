// Checks of one argument's value, whose messages say what was given and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace quern::cli {

// "" where the value will do, else what is wrong with it.
using Check = std::function<std::string(const std::string&)>;

Check whole_number(std::uint64_t least, std::uint64_t most);
Check one_of(std::span<const std::string_view> allowed);  // which must outlive it
Check byte_size();                                        // at least 1
Check not_empty();

}  // namespace quern::cli
