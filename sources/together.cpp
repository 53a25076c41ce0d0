// SPDX-License-Identifier: Apache-2.0
#include "sources/together.h"

#include <algorithm>
#include <chrono>

#include "jit/error.h"
#include "sources/repeat/recording.h"

namespace quern::ops {
namespace {

bool may_wait(const Runtime& runtime, std::uint32_t call_flags) {
  return runtime.miss == jit::Miss::compile && (call_flags & (QUERN_CALL_CACHED_ONLY | QUERN_CALL_BACKGROUND)) == 0;
}

}  // namespace

void begin_kernels(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags, void* stream) {
  if (!may_wait(runtime, call_flags)) return;
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

bool is_ready_or_begins(const Runtime& runtime, const jit::Spec& spec, std::uint32_t call_flags, void* stream) {
  if (runtime.engine->find(spec) != nullptr || !may_wait(runtime, call_flags)) return true;
  if (runtime.driver->capturing(stream)) {
    // A graph keeps the kernel that it has recorded, so that what an earlier call began is waited for.
    runtime.engine->wait(std::chrono::hours(24));
    return true;
  }
  try {
    runtime.engine->ready(spec, jit::Miss::background, stream);
    return true;
  } catch (const Error& error) {
    if (error.status() != QUERN_PENDING) throw;
    // The next call like this one may have what this one goes without.
    if (runtime.recording != nullptr) runtime.recording->spoil();
    return false;
  }
}

}  // namespace quern::ops
