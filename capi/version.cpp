// Versions and names of statuses.
// SPDX-License-Identifier: Apache-2.0
#include "capi/quern.h"

extern "C" {

uint32_t quern_abi_version(void) { return QUERN_ABI_VERSION; }

const char* quern_version(void) { return QUERN_VERSION_TEXT; }

const char* quern_status_name(int32_t status) {
  switch (status) {
#define QUERN_STATUS(name) \
  case name:               \
    return #name;
    QUERN_STATUS(QUERN_OK)
    QUERN_STATUS(QUERN_MISS)
    QUERN_STATUS(QUERN_PENDING)
    QUERN_STATUS(QUERN_INVALID)
    QUERN_STATUS(QUERN_UNSUPPORTED)
    QUERN_STATUS(QUERN_NOT_FOUND)
    QUERN_STATUS(QUERN_COMPILE)
    QUERN_STATUS(QUERN_DRIVER)
    QUERN_STATUS(QUERN_STICKY)
    QUERN_STATUS(QUERN_CAPTURING)
    QUERN_STATUS(QUERN_NO_MEMORY)
    QUERN_STATUS(QUERN_IO)
    QUERN_STATUS(QUERN_DAMAGED)
    QUERN_STATUS(QUERN_FORKED)
    QUERN_STATUS(QUERN_PARTIAL)
    QUERN_STATUS(QUERN_INTERNAL)
    QUERN_STATUS(QUERN_FAULT)
#undef QUERN_STATUS
    default:
      return "unknown";
  }
}

}  // extern "C"
