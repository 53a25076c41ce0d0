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
          {"kernel", manifest_line(entry)},
          {"text", entry.text}};
}

std::string manifest_line(const quern_entry& entry) {
  static constexpr std::string_view kSpec = "spec ", kConstant = "const ";
  const std::string head = std::string(entry.op) + ' ' + entry.target;
  std::string constants;
  for (std::string_view rest = entry.text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with(kSpec)) return head + ' ' + std::string(line.substr(kSpec.size()));
    if (!line.starts_with(kConstant)) continue;
    std::string constant(line.substr(kConstant.size()));
    const std::size_t space = constant.find(' ');
    if (space != std::string::npos) constant[space] = '=';
    constants += ' ' + constant;
  }
  return (is_image(entry) ? "# " : "") + head + " entry=" + entry.entry_name + constants;
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
