// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <string>

#include "jit/error.h"

namespace quern::ops {

void refuse_stream(const jit::DeviceInfo& device, int mismatch) {
  throw Error(QUERN_INVALID, "stream belongs to device " + std::to_string(mismatch - 1) +
                                 "; the context is on device " + std::to_string(device.device_id));
}

}  // namespace quern::ops
