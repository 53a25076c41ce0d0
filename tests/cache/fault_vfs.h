// A file system under SQLite that fails on demand: the n-th read, write, sync, truncation or opening. Or the process
// ends at the n-th write, sync or truncation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quern::cache::testing {

enum class FaultKind {
  read,
  write,
  full,
  sync,
  truncate,
  open,
  kill_before,  // SIGKILL in place of the n-th of all writes, syncs and truncations,
  kill_within   // or behind it, half of a write having arrived
};

// From now on the n-th call (from 1) of that kind in this process fails, and with `sticky` every later one as well. The
// file system is put in place as SQLite's default on the first use; n = 0 lets everything pass again.
void fail_call(FaultKind kind, int n, bool sticky);
// Whether the n-th call has come.
bool fault_happened();

}  // namespace quern::cache::testing
