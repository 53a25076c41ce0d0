// Cached kernels, run and compared.
// SPDX-License-Identifier: Apache-2.0
#include "capi/abi.h"
#include "jit/error.h"

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_verify(quern_context *, const quern_verify_options *, quern_list **, quern_error *error) {
  return guarded(error, []() -> int32_t { throw Error(QUERN_UNSUPPORTED, "quern_verify is not here yet"); });
}

int32_t quern_list_verify_result(const quern_list *, uint64_t, quern_verify_result *) { return QUERN_UNSUPPORTED; }

}  // extern "C"
