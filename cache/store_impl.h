// What a Store holds. Its engine calls are in store.cpp, flights in flight.cpp, administration in admin.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "cache/database.h"
#include "cache/layers.h"
#include "cache/notices.h"
#include "cache/store.h"

namespace quern::cache {

struct Store::Impl {
  explicit Impl(StoreOptions given);

  StoreOptions options;
  const pid_t process;
  Notices notices;
  Database database;  // what the engine calls go through
  Database admin;     // a connection of its own, so that no look-up of a kernel waits for a listing
  Layers layers;

  std::mutex mutex;                // over what follows
  std::set<Key> rejected;          // given out by no bundle any more
  std::set<Key> rejected_in_file;  // nor by the file, until it is put anew
  std::set<Key> touched;           // on touched_day
  std::int64_t touched_day = -1;

  bool hidden(const Key& key, bool in_file);
  // In a child made by fork() the parent's locks and connections are not to be used.
  bool forked() const noexcept;
};

inline constexpr char kForkedReason[] =
    "this store was made by the parent of this process, before fork(); open one of your own";

// Days since 1970 by the wall clock, which may be wrong or set back: only compared for equality.
std::int64_t today();

// What is asked of bundles.
Bundle::Trust trust_of(const StoreOptions& options);

// Seconds since 1970 where the entry does not say, and a number of milliseconds that compares equal to itself.
Entry normalised(const Entry& entry);

}  // namespace quern::cache
