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

std::size_t first_that_is_there(const Runtime& runtime, std::span<const jit::Spec> specs, std::uint32_t call_flags,
                                void* stream) {
  if (runtime.engine->find(specs.front()) != nullptr || !may_wait(runtime, call_flags)) return 0;
  if (runtime.driver->capturing(stream)) {
    // A graph keeps the kernel that it has recorded, so that what an earlier call began is waited for.
    runtime.engine->wait(std::chrono::hours(24));
    return 0;
  }
  // Whether it is there as `miss` would have it.
  const auto is_there = [&](const jit::Spec& spec, jit::Miss miss) {
    try {
      runtime.engine->ready(spec, miss, stream);
      return true;
    } catch (const Error& error) {
      if (error.status() != QUERN_MISS && error.status() != QUERN_PENDING) throw;
      return false;
    }
  };
  const std::span<const jit::Spec> others = specs.first(specs.size() - 1);
  const auto is_cached = [&](const jit::Spec& spec) { return is_there(spec, jit::Miss::cached_only); };
  if (runtime.engine->find(specs.back()) == nullptr && std::ranges::none_of(others, is_cached))
    kernel_for(runtime, specs.back(), call_flags, stream);
  const auto begins = [&](const jit::Spec& spec) { return is_there(spec, jit::Miss::background); };
  const auto taken = static_cast<std::size_t>(std::ranges::find_if(others, begins) - others.begin());
  // The next call like this one may have what this one goes without.
  if (taken != 0 && runtime.recording != nullptr) runtime.recording->spoil();
  return taken;
}

}  // namespace quern::ops
