// From the store's words to findings.
// SPDX-License-Identifier: Apache-2.0
#include "capi/findings.h"

#include <array>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

namespace quern::capi {

quern_cache_state state_number(cache::State state) {
  switch (state) {
    case cache::State::ready:
      return QUERN_CACHE_READY;
    case cache::State::read_only:
      return QUERN_CACHE_READ_ONLY;
    case cache::State::off:
      return QUERN_CACHE_OFF;
    case cache::State::damaged:
      return QUERN_CACHE_DAMAGED;
    case cache::State::refused:
      return QUERN_CACHE_REFUSED;
  }
  return QUERN_CACHE_OFF;
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

FindingRow make_finding_row(cache::Finding finding) {
  return {finding.ok ? QUERN_OK : QUERN_DAMAGED, std::move(finding.what), std::move(finding.text),
          std::move(finding.hint)};
}

FindingRow cache_finding(const cache::StoreStats& stats) {
  const std::string place = stats.path.empty() ? "no file" : stats.path;
  const std::string why = stats.reason.empty() ? "" : ": " + stats.reason;
  switch (stats.state) {
    case cache::State::ready:
      return {QUERN_OK, "cache",
              place + ", " + std::to_string(stats.entries) + " entries, " + size_text(stats.file_bytes) + " of " +
                  size_text(stats.limit) + " allowed",
              ""};
    case cache::State::read_only:
      return {QUERN_OK, "cache", place + ", read only" + why,
              "compiled kernels are not kept; give a folder that can be written"};
    case cache::State::off:
      return {QUERN_OK, "cache", "off" + why,
              "compiled kernels are not kept; give a cache_path, or set XDG_CACHE_HOME or HOME"};
    case cache::State::damaged:
      return {QUERN_DAMAGED, "cache", place + ", damaged" + why, "mend it with `quern trim --rebuild`"};
    case cache::State::refused:
      return {QUERN_IO, "cache", place + ", refused" + why,
              "use a folder of your own on a local disk, or say that the folder is shared"};
  }
  return {QUERN_INTERNAL, "cache", "in an unknown state", ""};
}

}  // namespace quern::capi
