// From the exception at hand to something that can be kept.
// SPDX-License-Identifier: Apache-2.0
#include "jit/failure.h"

#include <new>

namespace quern::jit {

Failure Failure::caught() noexcept {
  Failure failure;
  try {
    try {
      throw;
    } catch (const Error& error) {
      failure.status_ = error.status();
      failure.native_ = error.native();
      failure.text_ = error.text();
    } catch (const std::bad_alloc&) {
      failure.status_ = QUERN_NO_MEMORY;
      failure.text_ = "out of memory";
    } catch (const std::exception& error) {
      failure.text_ = error.what();
    }
  } catch (...) {
    // No memory for the text, or something that is no exception of ours: the status has to do.
  }
  return failure;
}

}  // namespace quern::jit
