// What checked calls found wrong on the device.
// SPDX-License-Identifier: Apache-2.0
#include "capi/abi.h"
#include "jit/error.h"

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_faults(quern_context *, quern_list **, uint64_t *, quern_error *error) {
  return guarded(error, []() -> int32_t { throw Error(QUERN_UNSUPPORTED, "quern_faults is not here yet"); });
}

int32_t quern_list_fault(const quern_list *, uint64_t, quern_fault *) { return QUERN_UNSUPPORTED; }

}  // extern "C"
