// hipRTC: HIP source to an AMD code object. Used in the helper only: it aborts its process on a target it does not
// know.
// SPDX-License-Identifier: Apache-2.0
#include "jit/hiprtc.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "jit/backend.h"
#include "jit/directives.h"
#include "jit/error.h"
#include "jit/resources.h"

namespace quern::jit {
namespace {

LibrarySearch hiprtc_search(const std::vector<std::string>& search_dirs) {
  LibrarySearch search;
  // Up to ROCm 5.2 the functions are in the runtime itself; Debian 12 has that one.
  search.sonames = {"libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5",
                    "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"};
  search.search_dirs = search_dirs;
  search.environment_variable = "QUERN_HIPRTC_DIR";
  search.toolkit_variable = "ROCM_PATH";
  search.toolkit_dirs = {"lib", "lib64"};
  search.usual_dirs = {"/opt/rocm*/lib", "/opt/rocm*/lib64"};
  search.companions = {"libhiprtc-builtins.so.*"};
  return search;
}

// "5.2.21153" of libamdhip64.so.5.2.21153: hiprtcVersion says 9.0 of most releases.
std::string build_of(const std::string& path) {
  std::string real = path;
  if (char* resolved = realpath(path.c_str(), nullptr)) {
    real = resolved;
    std::free(resolved);
  }
  const std::size_t at = real.rfind(".so.");
  return at == std::string::npos ? "unknown" : real.substr(at + 4);
}

class Hiprtc final : public Backend {
 public:
  explicit Hiprtc(const Library& library) : identity_{"hiprtc", build_of(library.path), library.path} {
#define QUERN_BIND(name, parameters) \
  functions_.name = reinterpret_cast<decltype(functions_.name)>(find_function(library, #name));
    QUERN_HIPRTC_FUNCTIONS(QUERN_BIND)
#undef QUERN_BIND
    functions_.hiprtcGetErrorString =
        reinterpret_cast<HiprtcGetErrorString*>(find_function(library, "hiprtcGetErrorString"));
  }

  const CompilerIdentity& identity() const noexcept override { return identity_; }

  std::string targets() override { return {}; }

  Compiled compile(const CompileJob& job) override {
    HiprtcProgram program = nullptr;
    check(functions_.hiprtcCreateProgram(&program, job.source.c_str(), "kernel.hip", 0, nullptr, nullptr),
          "hiprtcCreateProgram");
    const Cleanup cleanup{functions_, &program};
    // Without -nostdinc it would read the system's headers, which are not part of the key.
    const std::vector<std::string> options =
        merge_options({"--offload-arch=" + job.target.name(), "-std=c++17", "-O3", "-nostdinc"}, job.options);
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    const int result = functions_.hiprtcCompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
    Compiled compiled;
    compiled.compiler_kind = identity_.kind;
    compiled.compiler_build = identity_.build;
    compiled.log = read_log(program);
    if (result != kHiprtcSuccess) {
      refused(identity_, job, compiled.log.empty() ? functions_.hiprtcGetErrorString(result) : compiled.log, result);
    }
    std::size_t size = 0;
    check(functions_.hiprtcGetCodeSize(program, &size), "hiprtcGetCodeSize");
    if (size == 0) refused(identity_, job, "the compiler reported success and gave no code\n" + compiled.log, 0);
    compiled.image.resize(size);
    check(functions_.hiprtcGetCode(program, compiled.image.data()), "hiprtcGetCode");
    const Resources resources = read_code_object(compiled.image);
    compiled.registers = resources.registers;
    compiled.shared_bytes = resources.shared_bytes;
    compiled.local_bytes = resources.local_bytes;
    cap_log(&compiled.log);
    return compiled;
  }

 private:
  struct Cleanup {
    const HiprtcFunctions& functions;
    HiprtcProgram* program;
    ~Cleanup() { functions.hiprtcDestroyProgram(program); }
  };

  void check(int result, const char* what) const {
    if (result == kHiprtcSuccess) return;
    throw Error(result == kHiprtcOutOfMemory ? QUERN_NO_MEMORY : QUERN_COMPILE,
                describe(identity_) + ": " + what + ": " + functions_.hiprtcGetErrorString(result), result);
  }

  std::string read_log(HiprtcProgram program) const {
    std::size_t size = 0;
    check(functions_.hiprtcGetProgramLogSize(program, &size), "hiprtcGetProgramLogSize");
    std::string log(size, '\0');
    if (size != 0) check(functions_.hiprtcGetProgramLog(program, log.data()), "hiprtcGetProgramLog");
    while (!log.empty() && (log.back() == '\0' || log.back() == ' ' || log.back() == '\n')) log.pop_back();
    return log;
  }

  HiprtcFunctions functions_;
  CompilerIdentity identity_;
};

}  // namespace

// The words are macros from the first line of the source on, behind hipRTC's own headers, so that what pasting makes of
// parts is replaced, too. What they become is no C++ whatever follows, and holds no name that another macro could turn
// into something else.
std::string without_assembly(const std::string& source) {
  constexpr std::string_view kWords[] = {"asm", "__asm", "__asm__"};
  constexpr std::string_view kRefused = "inline assembly is refused where the compiler cannot be shut in (no Landlock)";
  const Directives found = find_directives(source);
  std::string text;
  for (const std::string_view word : kWords) {
    const auto defines = [&](const Macro& macro) { return macro.name == word; };
    if (std::any_of(found.macros.begin(), found.macros.end(), defines) ||
        std::find(found.undefined.begin(), found.undefined.end(), word) != found.undefined.end()) {
      throw Error(QUERN_COMPILE,
                  "the source defines or undefines '" + std::string(word) + "': " + std::string(kRefused));
    }
    text += "#define " + std::string(word) + " @ \"" + std::string(kRefused) + "\" @\n";
  }
  return text + "#line 1\n" + source;
}

std::unique_ptr<Backend> open_hiprtc(const std::vector<std::string>& search_dirs) {
  const Library library = open_library(hiprtc_search(search_dirs));
  if (!library) throw Error(QUERN_NOT_FOUND, "hipRTC was not found; tried:\n" + library.tried);
  return std::make_unique<Hiprtc>(library);
}

}  // namespace quern::jit
