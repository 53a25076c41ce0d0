// Quantities as people read and write them: bytes, ages, durations, and text that is safe to show on a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::cli {

// "0 B", "512 B", "3.4 MiB".
std::string format_bytes(std::uint64_t bytes);
// "870 us", "12.3 ms", "4.56 s", "2 min 5 s".
std::string format_milliseconds(double milliseconds);
// In whole seconds: "40 s", "3 min 20 s".
std::string format_seconds(double milliseconds);
// How long before `now` (both seconds since 1970): "now", "5 min", "3 h", "12 d"; "-" where `then` is 0.
std::string format_age(std::int64_t then, std::int64_t now);
// "1 kernel", "12 kernels".
std::string format_count(std::uint64_t count, std::string_view noun);

// "1048576", "512K", "1.5G", "64MiB" (powers of 1024), "64MB" (powers of 1000). Nothing where it is neither.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// Control characters and bytes that are not UTF-8 as \xNN, so that a name or log made elsewhere cannot steer the
// terminal. Line feeds and tabs stay where `multi_line` says so.
std::string printable(std::string_view text, bool multi_line = false);
// Columns that UTF-8 text takes on a terminal, one a character.
std::size_t display_width(std::string_view text);
// Lines broken between words so that each fits `width` columns; a longer word stands alone.
std::string wrap(const std::string& text, std::size_t width);
// At most `width` columns; what is cut ends in "...".
std::string shorten(std::string_view text, std::size_t width);

}  // namespace quern::cli
