// A child process with a socket, a log pipe and nothing else of its parent's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "jit/descriptor.h"

namespace quern::jit::helper {

// What waitpid tells, where it can.
struct Ended {
  bool known = false;
  bool signalled = false;
  int code = 0;  // the exit status or the signal
};

// Leads a process group of its own, which the destructor ends and reaps if it still runs.
class Child {
 public:
  // Runs `path` in `folder` with standard input on a socket, standard output and error on a pipe, every other
  // descriptor closed, default signal handling and a minimal environment. Throws Error(QUERN_NOT_FOUND) when that
  // cannot be done.
  Child(const std::string& path, const std::string& folder);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Descriptor socket;  // non-blocking
  Descriptor log;     // non-blocking

  // Ends the whole group. To be called only while it is certain to exist, that is while `socket` or `log` is open at
  // its end: the number may else belong to others by now.
  void kill_group() noexcept;
  // Waits for the child, and for nothing else.
  Ended wait() noexcept;

 private:
  pid_t pid_ = -1;
  bool waited_ = false;
};

}  // namespace quern::jit::helper
