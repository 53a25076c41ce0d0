// What a command works with: the global options, the console, the JSON that it fills in, and contexts.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/session.h"

#include <utility>

namespace quern::cli {

quern_cache_stats cache_stats(const Context& context) {
  auto stats = sized<quern_cache_stats>();
  auto error = sized<quern_error>();
  check(quern_cache_get_stats(context.get(), &stats, &error), error);
  return stats;
}

Existing Session::open_existing(ContextOptions options) const {
  // A context that may write makes what is missing; one that may only read says that it is missing. Nobody wants to
  // hear twice what the library has to say, so this first one is asked in silence, and without the bundles.
  ContextOptions looking = options;
  looking.flags |= QUERN_CONTEXT_READ_ONLY_CACHE;
  looking.silent = true;
  looking.bundles.clear();
  quern_cache_stats found = cache_stats(Context(looking, console));
  if (found.state == QUERN_CACHE_OFF) options.flags |= QUERN_CONTEXT_NO_CACHE;
  Context context(options, console);
  const quern_cache_stats now = cache_stats(context);
  if (found.state != QUERN_CACHE_OFF) return {std::move(context), now};
  // Where the cache would be, and why it is not, only the first can tell.
  found.bundles = now.bundles;
  found.bundle_entries = now.bundle_entries;
  return {std::move(context), found};
}

}  // namespace quern::cli
