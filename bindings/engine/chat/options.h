// What quern-chat is told by its arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/engine/sampling/sampling.h"

namespace quern::engine {

extern const char* const kUsage;

// Arguments that cannot be; what() is empty where help is asked for.
struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string model, device, cache, system;
  std::vector<std::string> prompts;
  std::int64_t tokens = 0;  // 0: as many as the device is good for
  std::int64_t drafts = 0;
  Sampling sampling;
  std::optional<bool> graph;  // none: where there is one device
  bool fp8_cache = false, fp8_weights = false, cached_only = false, ignore_end = false, chat = false;
};

// Throws Usage naming the option, what was given and what is allowed.
Options read_options(int argc, const char* const* argv);

}  // namespace quern::engine
