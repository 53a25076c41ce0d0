// Launches a kernel as a fresh process does, compares it with truth, and counts from outside what it cost: by the
// program that the library starts for each compilation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cache/store.h"

namespace quern::cache::testing {

class Launcher {
 public:
  // Compiles the kernel once. Its tools and counts lie in a folder of its own, which this process removes.
  Launcher();
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Makes a store, an engine and the call, and the same call again, from memory. Returns how many compilations this
  // process has asked for meanwhile. The test fails where it is more than one, where the result is wrong, and where
  // there is none, or with `may_fail` an error whose result is not as it was before.
  int launch(const StoreOptions& options, bool may_fail = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::cache::testing
