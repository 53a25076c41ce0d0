// What a command works with: the global options, the console, the JSON that it fills in, and contexts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bindings/cli/console.h"
#include "bindings/cli/library.h"
#include "bindings/json/json.h"

namespace quern::cli {

struct GlobalOptions {
  ContextOptions context;
  ConsoleOptions console;
  std::string cache_key_file;  // whose one line becomes the context's cache_key
};

// A context on the cache that is there, and the state of that cache.
struct Existing {
  Context context;
  quern_cache_stats stats;
};

quern_cache_stats cache_stats(const Context& context);

struct Session {
  const GlobalOptions& global;
  Console& console;
  Json& result;  // what --json prints, beside "command", "ok" and "error"

  // The context of the global options, for commands that write: a cache that is not there is made.
  Context open() const { return Context(global.context, console); }
  // For commands that look: where there is no cache none is made, and only the bundles are seen.
  Existing open_existing() const { return open_existing(global.context); }
  Existing open_existing(ContextOptions options) const;
};

}  // namespace quern::cli
