// A file system under SQLite that fails on demand: the n-th read, write, sync, truncation or opening. Or the process is
// killed there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quern::cache::testing {

// The last three end this process with SIGKILL at the n-th change to a file, whatever sort it is: a write, a sync, a
// truncation, or a file removed, renamed or given a second name, by SQLite or not. Before it, when half of a write has
// arrived (before, where it is none), or after it.
enum class FaultKind { read, write, full, sync, truncate, open, kill_before, kill_amid, kill_after };

// From now on the n-th call (from 1) of that kind in this process fails, and with `sticky` every later one as well. The
// file system is put in place as SQLite's default on the first use; n = 0 lets everything pass again.
void fail_call(FaultKind kind, int n, bool sticky);
// Whether the n-th call has come.
bool fault_happened();

}  // namespace quern::cache::testing
