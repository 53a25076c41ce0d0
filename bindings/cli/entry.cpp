// A cache entry as `list` and `inspect` show it.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/entry.h"

#include <algorithm>
#include <filesystem>

namespace quern::cli {
namespace {

constexpr std::size_t kFewestDigits = 8;

}  // namespace

Json entry_to_json(const quern_entry& entry) {
  return {{"key", entry.key},
          {"op", entry.op},
          {"target", entry.target},
          {"kind", entry.kind == 2 ? "tuning" : "image"},
          {"entry_name", entry.entry_name},
          {"layer", entry.layer},
          {"compiler", entry.compiler},
          {"image_size", entry.image_size},
          {"created", entry.created},
          {"last_use", entry.last_use},
          {"compile_ms", entry.compile_ms},
          {"registers", entry.registers},
          {"shared_bytes", entry.shared_bytes},
          {"local_bytes", entry.local_bytes},
          {"text", entry.text}};
}

std::string constants_of(std::string_view canonical_text) {
  static constexpr std::string_view kConstant = "const ";
  std::string constants;
  while (!canonical_text.empty()) {
    std::string_view line = canonical_text.substr(0, canonical_text.find('\n'));
    canonical_text.remove_prefix(std::min(line.size() + 1, canonical_text.size()));
    if (line.substr(0, kConstant.size()) != kConstant) continue;
    line.remove_prefix(kConstant.size());
    std::string constant(line);
    const std::size_t space = constant.find(' ');
    if (space != std::string::npos) constant[space] = '=';
    constants += (constants.empty() ? "" : " ") + constant;
  }
  return constants;
}

std::size_t distinct_digits(const std::vector<quern_entry>& entries) {
  std::vector<std::string_view> keys;
  for (const quern_entry& entry : entries) keys.emplace_back(entry.key);
  std::sort(keys.begin(), keys.end());
  // The same key may stand in several layers: that is one key.
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::size_t digits = kFewestDigits;
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const auto differ = std::mismatch(keys[i - 1].begin(), keys[i - 1].end(), keys[i].begin(), keys[i].end()).first;
    digits = std::max(digits, static_cast<std::size_t>(differ - keys[i - 1].begin()) + 1);
  }
  return digits;
}

std::string layer_name(int layer, const std::vector<std::string>& bundles) {
  if (layer == 0) return "cache";
  const auto index = static_cast<std::size_t>(layer) - 1;
  if (index >= bundles.size()) return "bundle " + std::to_string(layer);
  return std::filesystem::path(bundles[index]).filename().string();
}

}  // namespace quern::cli
