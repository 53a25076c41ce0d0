// SPDX-License-Identifier: Apache-2.0
#include "sources/repeat/recording.h"

#include <cstring>

namespace quern::ops {

void Recording::note(const jit::Kernel& kernel, const jit::Launch& how, const char* what, void* const* given,
                     const std::size_t* sizes, std::size_t count) noexcept {
  if (launch_count == kMostLaunches || argument_count + count > kMostArguments) return spoil();
  const std::size_t first = argument_count;
  for (std::size_t i = 0; i < count; ++i) {
    // A tensor map lies at multiples of 64 bytes.
    const std::size_t at = (byte_count + 63) / 64 * 64, end = at + (sizes[i] + 7) / 8 * 8;
    if (end > kMostBytes) return spoil();
    std::memset(bytes.data() + byte_count, 0, end - byte_count);
    std::memcpy(bytes.data() + at, given[i], sizes[i]);
    arguments[argument_count++] = {at, sizes[i]};
    byte_count = end;
  }
  launches[launch_count++] = {&kernel, how, what, first, count};
}

void Recording::note_map(const jit::TensorMapDesc& desc, jit::TensorMap& map) noexcept {
  std::memset(&map, 0, sizeof(map));
  if (map_count == kMostMaps) return spoil();
  const std::uint64_t words[] = {kMapMark, map_count};
  std::memcpy(&map, words, sizeof(words));
  maps[map_count++] = desc;
}

}  // namespace quern::ops
