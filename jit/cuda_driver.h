// The CUDA driver's parts that open_cuda and the doctor share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/cuda_api.h"
#include "jit/driver.h"

namespace quern::jit::cuda {

// Everything a device tells of itself; needs no context. Throws Error(QUERN_DRIVER).
DeviceInfo device_info(const Api& api, int device_id);

}  // namespace quern::jit::cuda
