// Launching an op's kernel: one parameter struct, one place for what can go wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/engine.h"
#include "sources/op.h"

namespace quern::ops {

// Throws for a launch's code: Error(QUERN_INVALID) where the stream is another device's, else the driver's Error. Whose
// the stream is is asked here alone, since no driver launches on another device's: asking costs as much as half a call.
void refuse_launch(const Runtime& runtime, const jit::Launch& how, int code, const char* what);

// In the checked form, on `host` with a seed, or where somebody wants to know what a call launches: `arguments` has
// room for one more behind its `count`.
void launch_watched(const Runtime& runtime, const jit::Kernel& kernel, const jit::Launch& how, const char* what,
                    void** arguments, const std::size_t* sizes, std::size_t count);

// Whether the blocks of a kernel that can go through their work once on nothing do so before they wait for the launch
// before. A multiprocessor fetches code that it has not run yet line by line, which takes longer than a few rows; many
// blocks would be in each other's way.
inline bool may_rehearse(const jit::Launch& how, int sms) {
  return how.programmatic && 2 * std::uint64_t{how.grid[0]} * how.grid[1] <= static_cast<std::uint64_t>(sms);
}

template <class... Params>
void launch(const Runtime& runtime, const jit::Kernel& kernel, const jit::Launch& how, const char* what,
            Params&... params) {
  if (runtime.call != nullptr || runtime.launched != nullptr || runtime.late != nullptr || runtime.recording != nullptr)
      [[unlikely]] {
    void* arguments[] = {&params..., nullptr};
    static constexpr std::size_t kSizes[] = {sizeof(Params)...};
    return launch_watched(runtime, kernel, how, what, arguments, kSizes, sizeof...(Params));
  }
  void* arguments[] = {&params...};
  if (const int code = runtime.driver->launch(kernel.loaded, how, arguments, sizeof...(Params))) [[unlikely]]
    refuse_launch(runtime, how, code, what);
}

}  // namespace quern::ops
