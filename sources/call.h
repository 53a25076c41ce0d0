// What every op reads before its tensors: the device, the flags, the promised alignment, the SMs it may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "jit/error.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops {

inline constexpr std::uint32_t kCallFlags =
    QUERN_CALL_BATCH_INVARIANT | QUERN_CALL_PROGRAMMATIC | QUERN_CALL_CACHED_ONLY | QUERN_CALL_BACKGROUND;

struct Call {
  const jit::DeviceInfo* device;
  Place place;
  int alignment;  // bytes: a power of two up to 16
  int sms;        // that the grid may use, at least 1
};

// `flags` are the op's own, `flag_names` how its error names all that are allowed; `least_alignment` is the smallest
// promise that the op has kernels for. Throws Error(QUERN_INVALID).
template <class Args>
Call read_call(const Runtime& runtime, const Args& args, std::uint32_t flags, const char* flag_names,
               int least_alignment, bool may_lack_data) {
  if (runtime.driver == nullptr) throw Error(QUERN_INVALID, "the context has no device");
  const jit::DeviceInfo& device = runtime.driver->device();
  if (args.flags & ~(kCallFlags | flags)) refuse_value("flags", std::int64_t{args.flags}, flag_names);
  const int alignment = args.alignment == 0 ? 16 : args.alignment;
  const bool known = alignment == 1 || alignment == 2 || alignment == 4 || alignment == 8 || alignment == 16;
  if (!known || alignment < least_alignment) {
    refuse_value("alignment", std::int64_t{args.alignment},
                 least_alignment == 16  ? "0 (16) or 16"
                 : least_alignment == 1 ? "0 (16), 16, 8, 4, 2, 1"
                                        : "0 (16), 16, 8, 4");
  }
  if (args.max_sms < 0) refuse_value("max_sms", std::int64_t{args.max_sms}, "0 (all) and more");
  const int all = std::max(static_cast<int>(device.sm_count), 1);
  return {&device,
          {device.device_type, device.device_id, may_lack_data, runtime.late},
          alignment,
          args.max_sms > 0 ? std::min(args.max_sms, all) : all};
}

}  // namespace quern::ops
