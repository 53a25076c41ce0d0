// What a kernel is compiled for, and what is known of it without a device at hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::jit {

enum class Family : std::uint8_t { none = 0, cuda = 1, hip = 2, host = 3 };

// "sm_90a", "gfx942", "host" (warp of 32), "host64" (warp of 64), packed into 32 bits so that it fits a Spec. The
// suffix is part of the identity: sm_90a and sm_90 are different targets.
class Target {
 public:
  constexpr Target() = default;
  // Throws Error(QUERN_INVALID) naming the known targets.
  static Target parse(std::string_view name);
  static constexpr Target from_tag(std::uint32_t tag) { return Target(tag); }

  constexpr Family family() const { return static_cast<Family>(tag_ >> 24); }
  constexpr std::uint32_t tag() const { return tag_; }
  std::string name() const;
  friend constexpr bool operator==(Target, Target) = default;

 private:
  constexpr explicit Target(std::uint32_t tag) : tag_(tag) {}
  // family << 24 | number << 8 | suffix letter ('a', 'f' or 0). gfx numbers are read as hexadecimal (gfx90a: 0x90a,
  // suffix 0).
  std::uint32_t tag_ = 0;
  friend class TargetTable;
};

// Limits that kernels are chosen by. The SM count is not among them: it is the device's and changes the grid only.
struct TargetInfo {
  Target target;
  std::uint32_t warp_size = 32;
  std::uint32_t shared_per_block = 0;  // bytes a block may opt in to
  std::uint32_t shared_per_sm = 0;     // bytes
  std::uint32_t registers_per_sm = 65536;
  bool async_copy = false;   // cp.async
  bool tensor_maps = false;  // copies by tensor map (sources/common/sm90/tma.cuh)
  bool warpgroups = false;   // what Hopper alone has beside them (sources/common/sm90/warpgroup.cuh)
};
TargetInfo limits_of(Target target);

// Whether a device of the one target runs what is compiled for the other: its own code, and on CUDA that for a chip of
// the same major version, no later than itself and with as much shared memory, without a letter.
bool runs(Target device, Target code);

}  // namespace quern::jit
