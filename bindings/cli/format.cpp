// Quantities as people read and write them: bytes, ages, durations, and text that is safe to show on a terminal.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>

namespace quern::cli {
namespace {

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 64> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return {buffer.data(), static_cast<std::size_t>(std::clamp<int>(length, 0, int{buffer.size()} - 1))};
}

// The bytes of the UTF-8 character that `text` begins with, or 0 where it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  std::size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) length = 2;
  if (first >= 0xe0 && first < 0xf0) length = 3;
  if (first >= 0xf0 && first < 0xf5) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies past the last code point.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return print("%llu B", static_cast<unsigned long long>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would be shown as "1024.0".
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return print("%.1f %s", value, kUnits[unit]);
}

std::string format_milliseconds(double milliseconds) {
  if (!(milliseconds > 0)) return "0 ms";
  if (milliseconds < 0.9995) return print("%.0f us", milliseconds * 1000);
  if (milliseconds < 99.95) return print("%.1f ms", milliseconds);
  if (milliseconds < 999.5) return print("%.0f ms", milliseconds);
  const double seconds = milliseconds / 1000;
  if (seconds < 59.995) return print("%.2f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  return print("%lld min %lld s", whole / 60, whole % 60);
}

std::string format_seconds(double milliseconds) {
  const auto whole = static_cast<long long>(std::llround(milliseconds / 1000));
  return whole < 60 ? print("%lld s", whole) : print("%lld min %lld s", whole / 60, whole % 60);
}

std::string format_age(std::int64_t then, std::int64_t now) {
  if (then == 0) return "-";
  const long long seconds = now - then;
  if (seconds < 60) return "now";  // a clock that was set back included
  if (seconds < 3600) return print("%lld min", seconds / 60);
  if (seconds < 48 * 3600) return print("%lld h", seconds / 3600);
  return print("%lld d", seconds / 86400);
}

std::string format_count(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + ' ' + std::string(noun);
  if (count == 1) return text;
  if (text.back() == 'y') {
    text.back() = 'i';
    return text + "es";
  }
  return text + 's';
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || value < 0) return std::nullopt;
  std::string suffix(end, text.data() + text.size());
  if (!suffix.empty() && suffix.front() == ' ') suffix.erase(0, 1);
  double scale = 1;
  if (!suffix.empty() && suffix != "B") {
    static constexpr std::string_view kPrefixes = "KMGT";
    const char prefix = suffix.front() == 'k' ? 'K' : suffix.front();
    const std::size_t power = kPrefixes.find(prefix);
    const std::string_view rest = std::string_view(suffix).substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "iB" || rest == "B")) return std::nullopt;
    scale = std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = value * scale;
  if (!(bytes < 9.2e18)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::string printable(std::string_view text, bool multi_line) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool wanted = multi_line && (first == '\n' || first == '\t');
    // C1 controls (U+0080 to U+009F) steer some terminals too.
    const bool control =
        first < 0x20 || first == 0x7f || (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (length != 0 && (wanted || !control)) {
      shown += text.substr(0, length);
      text.remove_prefix(length);
      continue;
    }
    for (std::size_t i = 0; i < std::max<std::size_t>(length, 1); ++i) {
      shown += print("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string wrap(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string wrapped;
  std::size_t column = 0;
  for (std::string word; words >> word; column += display_width(word)) {
    if (column != 0 && column + 1 + display_width(word) > width) {
      wrapped += '\n';
      column = 0;
    } else if (column != 0) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
  }
  return wrapped;
}

std::string shorten(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  const std::size_t dots = std::min<std::size_t>(3, width);
  std::size_t columns = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = std::max<std::size_t>(character_length(text.substr(at)), 1);
    if (columns + 1 + dots > width) break;
    ++columns;
    at += length;
  }
  return std::string(text.substr(0, at)) + std::string(dots, '.');
}

}  // namespace quern::cli
