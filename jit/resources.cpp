// Readers for ptxas's verbose log and for the metadata of AMD code objects.
// SPDX-License-Identifier: Apache-2.0
#include "jit/resources.h"

#include <algorithm>
#include <optional>

namespace quern::jit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number that stands right before `unit`: 54 in "Used 54 registers" for " registers".
std::optional<std::int32_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && is_digit(line[begin - 1])) --begin;
  if (begin == end || end - begin > 9) return std::nullopt;
  return std::stoi(std::string(line.substr(begin, end - begin)));
}

// 'name' between the first pair of quotes behind `before`.
std::optional<std::string_view> quoted_after(std::string_view line, std::string_view before) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.find('\'', at + before.size());
  if (open == std::string_view::npos) return std::nullopt;
  const std::size_t close = line.find('\'', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return line.substr(open + 1, close - open - 1);
}

// The unsigned integer, in MessagePack, right behind the one string `key` (its length byte included); nothing where the
// key is not there exactly once.
std::optional<std::int32_t> single_value(std::string_view image, std::string_view key) {
  const std::size_t at = image.find(key);
  if (at == std::string_view::npos || image.find(key, at + 1) != std::string_view::npos) return std::nullopt;
  const std::string_view rest = image.substr(at + key.size());
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(rest[i])); };
  if (rest.empty()) return std::nullopt;
  const std::uint32_t first = byte(0);
  if (first < 0x80) return static_cast<std::int32_t>(first);
  const std::size_t width = first == 0xcc ? 1 : first == 0xcd ? 2 : first == 0xce ? 4 : 0;
  if (width == 0 || rest.size() <= width) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = 1; i <= width; ++i) value = value << 8 | byte(i);
  if (value > 0x7fffffff) return std::nullopt;
  return static_cast<std::int32_t>(value);
}

}  // namespace

PtxasReport read_ptxas_report(std::string_view log, std::string_view entry) {
  PtxasReport report;
  bool ours = false;  // the lines since the last "Compiling entry function"
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size() - 1);
    const std::string_view line = log.substr(0, end + 1);
    log.remove_prefix(end + 1);
    // What has a number of its own is a hint, "(C7511) Potential Performance Loss": it stays in the log.
    const bool info = line.starts_with("ptxas info") && line.find(": (C") == std::string_view::npos;
    const bool frame = line.starts_with("ptxas  ") && line.find("bytes stack frame") != std::string_view::npos;
    if (!info && !frame) {
      report.rest += line;
      continue;
    }
    if (const auto name = quoted_after(line, "Compiling entry function")) {
      ours = *name == entry;
      report.entries.emplace_back(*name);
      continue;
    }
    if (!ours) continue;
    if (const auto bytes = number_before(line, " bytes stack frame")) report.resources.local_bytes = *bytes;
    if (const auto count = number_before(line, " registers")) {
      report.resources.registers = *count;
      report.resources.shared_bytes = number_before(line, " bytes smem").value_or(0);
      if (const auto bytes = number_before(line, " bytes cumulative stack size")) report.resources.local_bytes = *bytes;
    }
  }
  return report;
}

Resources read_code_object(std::string_view image) {
  // A MessagePack string of up to 31 characters is a byte 0xa0 + length and the characters.
  Resources resources;
  const auto registers = single_value(image, "\xab.vgpr_count");
  if (!registers) return resources;
  resources.registers = *registers;
  resources.shared_bytes = single_value(image, "\xb9.group_segment_fixed_size").value_or(-1);
  resources.local_bytes = single_value(image, "\xbb.private_segment_fixed_size").value_or(-1);
  return resources;
}

}  // namespace quern::jit
