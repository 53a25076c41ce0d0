// One compiler, opened: what NVRTC, hipRTC and the system's C++ compiler have in common, in process and in the helper.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/compile_log.h"
#include "jit/compiler.h"
#include "jit/library.h"

namespace quern::jit {

struct CompilerIdentity {
  std::string kind;   // "nvrtc", "hiprtc", "cxx"
  std::string build;  // "13.0", "5.2.21153", "g++ 12.2.0"
  std::string path;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const CompilerIdentity& identity() const noexcept = 0;
  // The targets it says it knows, comma-separated; "" where it does not say.
  virtual std::string targets() = 0;
  // Thread-safe for NVRTC, which is the only one that is used by several threads of a process. Throws as
  // Compilers::compile.
  virtual Compiled compile(const CompileJob& job) = 0;
};

// Throw Error(QUERN_NOT_FOUND) saying what was tried.
std::unique_ptr<Backend> open_nvrtc(const std::vector<std::string>& search_dirs);
std::unique_ptr<Backend> open_hiprtc(const std::vector<std::string>& search_dirs);
// The same source, in which inline assembly is an error, however it is spelled: hipRTC does not tell which files its
// assembler has read, so where no sandbox keeps it from them nothing may ask it to. Throws Error(QUERN_COMPILE) for a
// source that would get round that.
std::string without_assembly(const std::string& source);
// `compiler` is absolute or empty (the usual places); the result is written into `folder` by way of a file.
std::unique_ptr<Backend> open_cxx(const std::string& compiler, const std::string& folder);

// ---- what the three share

// The job's options behind the compiler's own; "-std=" of the job replaces ours.
std::vector<std::string> merge_options(std::vector<std::string> own, const std::vector<std::string>& given);

// Throws Error(QUERN_INVALID) for an option that is not on the list of those that neither reach for files nor name an
// output nor contradict the target: what they would bring in is not part of a kernel's key.
void check_options(const std::vector<std::string>& options);

// Whether it is a name as C has them.
bool is_identifier(std::string_view name);

// "nvrtc 13.0 (/usr/lib/libnvrtc.so.13)"
std::string describe(const CompilerIdentity& identity);

// Throws Error(QUERN_COMPILE): the compiler refused the job.
[[noreturn]] void refused(const CompilerIdentity& identity, const CompileJob& job, const std::string& log, int native);
// Throws Error(QUERN_UNSUPPORTED): the compiler does not know the target.
[[noreturn]] void unknown_target(const CompilerIdentity& identity, const CompileJob& job, const std::string& log,
                                 int native);

}  // namespace quern::jit
