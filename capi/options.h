// What a caller's quern_context_options come to, checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"
#include "capi/quern.h"
#include "jit/compiler.h"
#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/target.h"

namespace quern::capi {

struct Options {
  std::int32_t device_type = 0;  // DLPack; 0: none
  std::int32_t device_id = 0;
  std::optional<jit::Target> target;  // as asked for
  jit::Miss miss = jit::Miss::compile;
  unsigned compile_threads = 1;
  std::chrono::milliseconds flight_timeout{};
  std::string compiler_pin;
  std::uint64_t max_kernels = 0;
  bool checked = false;
  std::vector<std::string> search_dirs;
  cache::StoreOptions store;
  jit::CompilerOptions compilers;
  jit::HostOptions host;
};

// Throws Error(QUERN_INVALID) naming the field, what was given and what is allowed.
Options read_options(const quern_context_options& given);

}  // namespace quern::capi
