// Canonical text and key of a unit.
// SPDX-License-Identifier: Apache-2.0
#include "jit/key.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache/checksum.h"
#include "jit/error.h"
#include "jit/lazy.h"
#include "jit/process_mutex.h"
#include "jit/sanitizer.h"

namespace quern::jit {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

std::string sha256_hex(std::string_view text) {
  std::string hex;
  for (const unsigned char byte : cache::sha256(text)) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

using Fingerprint = std::array<std::uint64_t, 3>;
ProcessMutex digests_mutex;
Lazy<std::map<Fingerprint, std::string>> digests;

// SHA-256 costs about 4 ms a megabyte, and the same headers go into every kernel of a process, so digests are
// remembered: by length and XXH3-128 of the text, which is fifty times as fast to compute, and never by address, which
// may be used again.
std::string digest_of(std::string_view text) {
  constexpr std::size_t kMost = 4096;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const Fingerprint fingerprint{hash.high64, hash.low64, text.size()};
  {
    const std::lock_guard lock(digests_mutex);
    if (const auto found = digests->find(fingerprint); found != digests->end()) return found->second;
  }
  std::string hex = sha256_hex(text);
  const std::lock_guard lock(digests_mutex);
  if (digests->size() < kMost) digests->emplace(fingerprint, hex);
  return hex;
}

std::string encoded(std::string_view value) {
  std::string text;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || byte == '%') {
      text += '%';
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string canonical_text(const Unit& unit, std::vector<File> used) {
  std::string text = "quern " + std::to_string(kFormat) + '\n';
  text += "op " + encoded(unit.op) + '\n';
  text += "target " + unit.target.name() + '\n';
  if (!unit.spec.empty()) text += "spec " + unit.spec + '\n';
  text += "entry " + encoded(unit.entry) + '\n';
  for (const Constant& constant : unit.constants) {
    text += "const " + encoded(constant.name) + ' ' + encoded(constant.value) + '\n';
  }
  if (unit.max_shared_bytes != 0) text += "shared " + std::to_string(unit.max_shared_bytes) + '\n';
  if (unit.keep_operands) text += "pass keep-operands\n";
  if (unit.checked) text += "pass checked\n";
  for (const std::string& option : unit.options) text += "option " + encoded(option) + '\n';
  if (unit.target.family() == Family::host && !kSanitizerOption.empty()) {
    text += "option " + std::string(kSanitizerOption) + '\n';
  }
  if (used.size() > 1) {
    std::sort(used.begin() + 1, used.end(), [](const File& a, const File& b) { return a.name < b.name; });
  }
  const char* what = "source ";
  for (const File& file : used) {
    text += what + encoded(file.name) + ' ';
    if (file.sha256.empty()) {
      text += digest_of(file.text);
    } else {
      text += file.sha256;
    }
    text += '\n';
    what = "header ";
  }
  return text;
}

cache::Key key_of(std::string_view canonical_text) {
  const XXH128_hash_t hash = XXH3_128bits(canonical_text.data(), canonical_text.size());
  return {hash.high64, hash.low64};
}

}  // namespace quern::jit
