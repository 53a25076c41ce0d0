// Checks of one argument's value, whose messages say what was given and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/validators.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

std::string message(const std::string& given, const std::string& allowed) {
  return "'" + printable(given) + "' given; allowed: " + allowed;
}

}  // namespace

Check whole_number(std::uint64_t least, std::uint64_t most) {
  return [least, most](const std::string& given) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (error == std::errc{} && end == given.data() + given.size() && value >= least && value <= most) return {};
    return message(given, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  };
}

Check one_of(std::span<const std::string_view> allowed) {
  return [allowed](const std::string& given) -> std::string {
    if (std::find(allowed.begin(), allowed.end(), given) != allowed.end()) return {};
    std::string names;
    for (const std::string_view name : allowed) names += (names.empty() ? "" : ", ") + std::string(name);
    return message(given, names);
  };
}

Check byte_size() {
  return [](const std::string& given) -> std::string {
    if (parse_bytes(given).value_or(0) > 0) return {};
    return message(given, "a size such as 512M, 1.5G, 64MiB or a number of bytes, at least 1");
  };
}

Check not_empty() {
  return [](const std::string& given) -> std::string {
    return given.empty() ? message(given, "text that is not empty") : std::string{};
  };
}

}  // namespace quern::cli
