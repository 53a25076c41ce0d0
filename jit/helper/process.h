// The asking side: starts the helper, asks, and comes back with an answer or with what happened, whatever the helper
// does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "jit/helper/protocol.h"

namespace quern::jit::helper {

// The helper's absolute path: `asked` if not empty, else beside the file that this code is in. Throws
// Error(QUERN_NOT_FOUND) saying what was tried, Error(QUERN_INVALID) when `asked` is not absolute.
std::string find_helper(const std::string& asked);

struct Outcome {
  enum class End : unsigned char {
    answered,
    exited,     // code: the exit status
    signalled,  // code: the signal
    vanished,   // somebody else reaped it (SIGCHLD ignored, or a handler that waits for all): how it ended is unknown
    timed_out,  // and was ended
    cancelled,  // and was ended
    garbled     // what it sent is no message; `answer.text` says why
  };
  End end = End::vanished;
  int code = 0;
  Answer answer;
  bool opened = false;
  CompilerIdentity identity;  // once opened
  std::string log;            // what it and its children printed, as CompileLog keeps it
};

// Asks one question of a fresh helper process. `request.folder` is filled in: a new private folder, removed before this
// returns. `cancelled`, where given, ends it as the deadline does. Throws Error(QUERN_NOT_FOUND) when the process
// cannot be started, Error(QUERN_IO) when the folder cannot be made. Thread-safe. Raises no SIGPIPE, and neither needs
// nor changes how the program handles SIGCHLD.
Outcome ask(const std::string& helper_path, Request request, std::chrono::milliseconds timeout,
            const std::atomic<bool>* cancelled = nullptr);

// Throws the Error for an outcome that is not an answer. `doing`: "compiling 'k' for gfx942".
[[noreturn]] void explain(const Outcome& outcome, const std::string& helper_path, const std::string& doing,
                          std::chrono::milliseconds timeout);

}  // namespace quern::jit::helper
