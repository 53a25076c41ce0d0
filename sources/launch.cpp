// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <string>

#include "jit/error.h"
#include "sources/checked.h"
#include "sources/late.h"
#include "sources/repeat/recording.h"

namespace quern::ops {

void refuse_launch(const Runtime& runtime, const jit::Launch& how, int code, const char* what) {
  if (const int mismatch = runtime.driver->stream_device_mismatch(how.stream)) {
    throw Error(QUERN_INVALID, "stream belongs to device " + std::to_string(mismatch - 1) +
                                   "; the context is on device " + std::to_string(runtime.driver->device().device_id));
  }
  runtime.driver->fail(code, what);
}

void launch_watched(const Runtime& runtime, const jit::Kernel& kernel, const jit::Launch& how, const char* what,
                    void** arguments, const std::size_t* sizes, std::size_t count) {
  if (runtime.recording != nullptr) {
    runtime.recording->note(kernel, how, what, arguments, sizes, count);
    if (runtime.recording->dry()) return;
  }
  if (runtime.launched != nullptr) runtime.launched->push_back(&kernel);
  q::Checked argument{};
  // A kernel that began before the walk of its index tensors had ended would not know its verdict.
  jit::Launch ordered = how;
  if (runtime.call != nullptr) {
    argument = runtime.call->argument();
    arguments[count++] = &argument;
    ordered.programmatic = false;
  }
  if (runtime.late != nullptr) ordered.late = runtime.late->memory();
  if (const int code = runtime.driver->launch(kernel.loaded, ordered, arguments, count))
    refuse_launch(runtime, how, code, what);
}

}  // namespace quern::ops
