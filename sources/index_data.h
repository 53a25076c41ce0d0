// What lies in index tensors (lengths, offsets, page ids, positions), held against the tensors that it points into
// before a launch on `host`. A GPU's call may not read it; `host` is where a wrong page table is to be found by name
// and not by a crash, and there the launch is synchronous: what is read here is what the kernel reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/driver.h"
#include "sources/common/integers.cuh"

namespace quern::ops {

// Whether the data of a device's tensors can be read by this process as it stands.
inline bool reads_index_data(const jit::DeviceInfo& device) {
  return device.limits.target.family() == jit::Family::host;
}

// Each throws Error(QUERN_INVALID): "lengths[3] (sequence 3) is 70; allowed: 0 to 64, max_kv_len". `item` names what an
// element belongs to ("sequence", "expert"), `bound` what the upper limit comes from.
void expect_in_range(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t least,
                     std::int64_t most, const char* item, const char* bound);
void expect_in_range(const char* name, const q::Integers& values, std::int64_t count, std::int64_t least,
                     std::int64_t most, const char* item, const char* bound);
// offsets[0 .. count]: from 0 on, never falling, the last at most `most`.
void expect_offsets(const char* name, const std::int32_t* offsets, std::int64_t count, std::int64_t most,
                    const char* item, const char* bound);
// The same sentence, for an index that is computed where it is looked at; `place` is "page_table[2][5] (sequence 2,
// keys 80 to 95)".
[[noreturn]] void refuse_index(const std::string& place, std::int64_t given, std::int64_t least, std::int64_t most,
                               const std::string& bound);

}  // namespace quern::ops
