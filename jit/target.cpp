// Names of targets, to and from their 32-bit tags, and the limits kernels are chosen by.
// SPDX-License-Identifier: Apache-2.0
#include "jit/target.h"

#include <array>
#include <cstdio>

#include "jit/error.h"

namespace quern::jit {
namespace {

constexpr std::string_view kKnown =
    "allowed: sm_NN with NN >= 80 and an optional 'a' or 'f' (sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, "
    "sm_103a, "
    "sm_120, sm_120a, ...), gfxNNN from gfx900 on (gfx908, gfx90a, gfx942, gfx950, gfx1030, gfx1100, ...), host, "
    "host64";

constexpr std::uint32_t tag_of(Family family, std::uint32_t number, char suffix) {
  return static_cast<std::uint32_t>(family) << 24 | number << 8 | static_cast<unsigned char>(suffix);
}

[[noreturn]] void refuse(std::string_view name) {
  throw Error(QUERN_INVALID,
              "target: '" + std::string(name.substr(0, 64)) + "' is not a target; " + std::string(kKnown));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What follows "sm_". 0: not a name.
std::uint32_t parse_cuda(std::string_view rest) {
  char suffix = 0;
  if (!rest.empty() && (rest.back() == 'a' || rest.back() == 'f')) {
    suffix = rest.back();
    rest.remove_suffix(1);
  }
  if (rest.size() < 2 || rest.size() > 4 || rest.front() == '0') return 0;
  std::uint32_t number = 0;
  for (const char c : rest) {
    if (!is_digit(c)) return 0;
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number >= 80 ? tag_of(Family::cuda, number, suffix) : 0;
}

// True for ":sramecc+:xnack-" and the like, which a driver adds to the name of a device.
bool are_features(std::string_view text) {
  while (!text.empty()) {
    if (text.front() != ':') return false;
    text.remove_prefix(1);
    const std::size_t end = text.find_first_of("+-");
    if (end == std::string_view::npos) return false;
    const std::string_view feature = text.substr(0, end);
    if (feature != "sramecc" && feature != "xnack") return false;
    text.remove_prefix(end + 1);
  }
  return true;
}

// What follows "gfx", features stripped: a code object without them runs whatever the device's setting. 0: not a name.
std::uint32_t parse_hip(std::string_view rest) {
  const std::size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    if (!are_features(rest.substr(colon))) return 0;
    rest = rest.substr(0, colon);
  }
  if (rest.size() < 3 || rest.size() > 4) return 0;
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    const bool last_letter = i + 1 == rest.size() && c >= 'a' && c <= 'f';
    if (!is_digit(c) && !last_letter) return 0;
    number = number << 4 | static_cast<std::uint32_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
  }
  const std::uint32_t smallest = rest.size() == 3 ? 0x900 : 0x1000;
  return number >= smallest ? tag_of(Family::hip, number, 0) : 0;
}

struct Shared {
  std::uint32_t per_block;
  std::uint32_t per_sm;
};

// CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability": shared memory per SM, and that
// less the 1 KiB a block that the system keeps.
Shared cuda_shared(std::uint32_t number) {
  if (number == 80 || number == 87) return {166912, 167936};
  if (number >= 90 && number <= 110) return {232448, 233472};
  return {101376, 102400};  // 86, 88, 89, 120, 121; and the least of all for what is newer
}

}  // namespace

Target Target::parse(std::string_view name) {
  std::uint32_t tag = 0;
  if (name.starts_with("sm_")) {
    tag = parse_cuda(name.substr(3));
  } else if (name.starts_with("gfx")) {
    tag = parse_hip(name.substr(3));
  } else if (name == "host") {
    tag = tag_of(Family::host, 32, 0);
  } else if (name == "host64") {
    tag = tag_of(Family::host, 64, 0);
  }
  if (tag == 0) refuse(name);
  return Target(tag);
}

std::string Target::name() const {
  const unsigned number = tag_ >> 8 & 0xffff;
  std::array<char, 24> text{};
  switch (family()) {
    case Family::cuda: {
      const char suffix[2] = {static_cast<char>(tag_ & 0xff), 0};
      std::snprintf(text.data(), text.size(), "sm_%u%s", number, suffix);
      break;
    }
    case Family::hip:
      std::snprintf(text.data(), text.size(), "gfx%x", number);
      break;
    case Family::host:
      return number == 64 ? "host64" : "host";
    case Family::none:
      return "none";
  }
  return text.data();
}

TargetInfo limits_of(Target target) {
  TargetInfo info;
  info.target = target;
  const std::uint32_t number = target.tag() >> 8 & 0xffff;
  switch (target.family()) {
    case Family::cuda: {
      const Shared shared = cuda_shared(number);
      info.shared_per_block = shared.per_block;
      info.shared_per_sm = shared.per_sm;
      info.async_copy = true;
      info.tensor_maps = number >= 90;
      info.warpgroups = number == 90 && (target.tag() & 0xff) == 'a';
      break;
    }
    case Family::hip: {
      const bool gcn = number < 0x1000;  // GCN and CDNA; RDNA runs wave32
      info.warp_size = gcn ? 64 : 32;
      info.shared_per_block = 65536;
      info.shared_per_sm = 65536;
      if (gcn && number >= 0x90a) info.registers_per_sm = 131072;  // vector and accumulation registers in one file
      break;
    }
    case Family::host:
      info.warp_size = number;
      info.shared_per_block = 232448;
      info.shared_per_sm = 233472;
      info.async_copy = true;
      info.tensor_maps = info.warpgroups = number == 32;
      break;
    case Family::none:
      break;
  }
  return info;
}

bool runs(Target device, Target code) {
  if (device == code) return true;
  if (device.family() != Family::cuda || code.family() != Family::cuda || (code.tag() & 0xff) != 0) return false;
  const std::uint32_t own = device.tag() >> 8 & 0xffff, number = code.tag() >> 8 & 0xffff;
  // Tiles are laid out for the shared memory that a target has.
  const TargetInfo has = limits_of(device), wants = limits_of(code);
  return number / 10 == own / 10 && number <= own && has.shared_per_block == wants.shared_per_block &&
         has.shared_per_sm == wants.shared_per_sm;
}

}  // namespace quern::jit
