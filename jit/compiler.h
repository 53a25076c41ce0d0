// Source text in, binary out: NVRTC for sm_*, hipRTC for gfx*, the system's C++ compiler for host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/target.h"

namespace quern::jit {

struct CompilerOptions {
  std::vector<std::string> search_dirs;  // absolute; looked into first
  std::string helper_path;               // absolute; empty: beside this library
  std::string host_compiler;             // absolute; empty: the usual places
  bool nvrtc_in_helper = false;
  std::chrono::milliseconds timeout{120'000};  // of one compilation in the helper
  friend bool operator==(const CompilerOptions&, const CompilerOptions&) = default;
};

struct CompileJob {
  Target target;
  std::string source;  // one whole translation unit
  std::string entry;
  std::vector<std::string> options;  // none that reaches for files or contradicts the target
  std::uint8_t keep_operands = 0;    // as Unit has it
  // Where it is given and becomes true, the compilation ends at the next opportunity, with QUERN_COMPILE: in the helper
  // within a moment, in process where NVRTC asks (12.8 and later).
  const std::atomic<bool>* cancelled = nullptr;
};

struct Compiled {
  std::string image;           // cubin, PTX (NUL-terminated), code object or shared object
  std::string log;             // whatever the compiler said, capped
  std::string compiler_kind;   // "nvrtc", "hiprtc", "cxx"
  std::string compiler_build;  // "13.0", "5.2.21153", "g++ 12.2.0"
  double milliseconds = 0;
  std::int32_t registers = -1;     // per thread, where the compiler tells
  std::int32_t shared_bytes = -1;  // static
  std::int32_t local_bytes = -1;   // per thread
};

// What was found of one compiler, or of the helper ("helper": path only), for `doctor`.
struct CompilerFound {
  std::string kind;
  bool found = false;
  std::string path;
  std::string build;
  std::string targets;  // those it says it knows, comma-separated; empty: it does not say
  std::string text;     // when not found: everything that was tried
  std::string hint;     // what to install or set
};

// Thread-safe. Looks for a compiler on its first job only; "not found" is looked for again the next time.
class Compilers {
 public:
  explicit Compilers(CompilerOptions options);
  ~Compilers();
  Compilers(const Compilers&) = delete;
  Compilers& operator=(const Compilers&) = delete;

  // Throws Error: QUERN_INVALID (an option), QUERN_NOT_FOUND (no compiler or no helper; says what was tried),
  // QUERN_COMPILE (refused, crashed, too slow; carries the log), QUERN_UNSUPPORTED (the compiler does not know the
  // target), QUERN_NO_MEMORY, QUERN_IO (no temporary folder). For `host`, a library built with a sanitizer compiles
  // with the same (jit/sanitizer.h).
  Compiled compile(const CompileJob& job);

  std::vector<CompilerFound> doctor();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::jit
