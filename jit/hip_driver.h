// The HIP driver's parts that open_hip and the doctor share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/driver.h"
#include "jit/hip_api.h"

namespace quern::jit::hip {

// Everything a device tells of itself. Throws Error(QUERN_DRIVER), and Error(QUERN_UNSUPPORTED) when it does not tell
// its architecture.
DeviceInfo device_info(const Api& api, int device_id);

}  // namespace quern::jit::hip
