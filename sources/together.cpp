// SPDX-License-Identifier: Apache-2.0
#include "sources/together.h"

#include <algorithm>

#include "jit/error.h"

namespace quern::ops {

void begin_kernels(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags, void* stream) {
  if (runtime.miss != jit::Miss::compile || (call_flags & (QUERN_CALL_CACHED_ONLY | QUERN_CALL_BACKGROUND)) != 0)
    return;
  const auto missing = [&](const jit::Spec& spec) { return runtime.engine->find(spec) == nullptr; };
  if (std::ranges::count_if(specs, missing) < 2) return;
  for (const jit::Spec& spec : specs) {
    if (!missing(spec)) continue;
    try {
      runtime.engine->ready(spec, jit::Miss::background, stream);
    } catch (const Error&) {
      // QUERN_PENDING, or what whoever waits for the kernel is told.
    }
  }
}

}  // namespace quern::ops
