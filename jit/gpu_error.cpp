// From a driver's code to an Error.
// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu_error.h"

#include "jit/error.h"
#include "jit/fork_guard.h"

namespace quern::jit {

std::string code_text(int code, const char* name, const char* description) {
  std::string text = name != nullptr ? name : "unknown error";
  text += " (" + std::to_string(code) + ')';
  if (description != nullptr && *description != '\0') text += std::string(": ") + description;
  return text;
}

void throw_gpu_error(int code, const std::string& described, std::string_view what, int status) {
  if (code == kForkedCode) {
    throw Error(QUERN_FORKED, std::string(what) +
                                  ": this context was made before fork(), by the parent of this process: "
                                  "make a context of your own here");
  }
  if (is_sticky(code)) {
    throw Error(QUERN_STICKY,
                std::string(what) + ": the GPU was in an error state before this call, " + described +
                    "; an earlier kernel or copy in this process failed, and only a new process gets the GPU back",
                code);
  }
  throw Error(static_cast<quern_status>(status), std::string(what) + ": " + described, code);
}

}  // namespace quern::jit
