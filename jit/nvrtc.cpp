// NVRTC: CUDA source to cubin, or to PTX for a GPU that is newer than the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "jit/nvrtc.h"

#include <algorithm>

#include "jit/backend.h"
#include "jit/error.h"
#include "jit/operand_reuse.h"
#include "jit/resources.h"

namespace quern::jit {
namespace {

LibrarySearch nvrtc_search(const std::vector<std::string>& search_dirs) {
  LibrarySearch search;
  search.sonames = {"libnvrtc.so.13", "libnvrtc.so.12"};
  search.search_dirs = search_dirs;
  search.environment_variable = "QUERN_NVRTC_DIR";
  search.toolkit_variable = "CUDA_PATH";
#if defined(__aarch64__)
  search.toolkit_dirs = {"targets/sbsa-linux/lib", "lib64"};
  search.usual_dirs = {"/usr/local/cuda*/targets/sbsa-linux/lib", "/usr/local/cuda*/lib64"};
#else
  search.toolkit_dirs = {"targets/x86_64-linux/lib", "lib64"};
  search.usual_dirs = {"/usr/local/cuda*/targets/x86_64-linux/lib", "/usr/local/cuda*/lib64"};
#endif
  // Where NVIDIA's wheels put it: CUDA 13's, then CUDA 12's.
  for (const char* wheel : {"nvidia/cu1*/lib", "nvidia/cuda_nvrtc/lib"}) {
    for (const char* packages :
         {"", "lib/python3*/site-packages/", "lib/python3*/dist-packages/", ".venv/lib/python3*/site-packages/"}) {
      search.beside.push_back(std::string(packages) + wheel);
    }
  }
  search.companions = {"libnvrtc-builtins.so.*"};
  return search;
}

class Nvrtc final : public Backend {
 public:
  explicit Nvrtc(const Library& library) {
#define QUERN_BIND(name, parameters) \
  functions_.name = reinterpret_cast<decltype(functions_.name)>(find_function(library, #name));
    QUERN_NVRTC_FUNCTIONS(QUERN_BIND)
#undef QUERN_BIND
    functions_.nvrtcGetErrorString =
        reinterpret_cast<NvrtcGetErrorString*>(find_function(library, "nvrtcGetErrorString"));
    functions_.nvrtcSetFlowCallback =
        reinterpret_cast<NvrtcSetFlowCallback*>(look_for_function(library, "nvrtcSetFlowCallback"));
    check(functions_.nvrtcVersion(&major_, &minor_), "nvrtcVersion");
    identity_ = {"nvrtc", std::to_string(major_) + '.' + std::to_string(minor_), library.path};
    int count = 0;
    check(functions_.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
    archs_.resize(static_cast<std::size_t>(std::max(count, 0)));
    if (!archs_.empty()) check(functions_.nvrtcGetSupportedArchs(archs_.data()), "nvrtcGetSupportedArchs");
    std::sort(archs_.begin(), archs_.end());
  }

  const CompilerIdentity& identity() const noexcept override { return identity_; }

  std::string targets() override {
    std::string text;
    for (const int arch : archs_) text += (text.empty() ? "sm_" : ",sm_") + std::to_string(arch);
    return text;
  }

  Compiled compile(const CompileJob& job) override {
    const int wanted = static_cast<int>(job.target.tag() >> 8 & 0xffff);
    if (std::binary_search(archs_.begin(), archs_.end(), wanted)) return compile_cubin(job);
    const auto newer = std::upper_bound(archs_.begin(), archs_.end(), wanted);
    if (newer == archs_.begin()) unknown_target(identity_, job, "it knows " + targets(), 0);
    return compile_ptx(job, *(newer - 1));
  }

 private:
  // A program of NVRTC's, destroyed with this object.
  class Program {
   public:
    Program(const Nvrtc& owner, const CompileJob& job) : owner_(owner) {
      owner.check(owner.functions_.nvrtcCreateProgram(&program_, job.source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                  "nvrtcCreateProgram");
    }
    ~Program() { owner_.functions_.nvrtcDestroyProgram(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    NvrtcProgram get() const { return program_; }

   private:
    const Nvrtc& owner_;
    NvrtcProgram program_ = nullptr;
  };

  void check(int result, const char* what) const {
    if (result == kNvrtcSuccess) return;
    throw Error(result == kNvrtcOutOfMemory ? QUERN_NO_MEMORY : QUERN_COMPILE,
                describe(identity_) + ": " + what + ": " + functions_.nvrtcGetErrorString(result), result);
  }

  // Returns the log. Throws when the compiler refuses.
  std::string run(const Program& program, const CompileJob& job, const std::string& arch, bool verbose) const {
    std::vector<std::string> own = {"--gpu-architecture=" + arch, "-std=c++17"};
    // Its own cache would hide what a compilation costs, and keep files that nobody asked for.
    if (major_ > 12 || (major_ == 12 && minor_ >= 9)) own.emplace_back("--no-cache");
    if (verbose) own.emplace_back("--ptxas-options=-v");
    const std::vector<std::string> options = merge_options(std::move(own), job.options);
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    if (job.cancelled != nullptr && functions_.nvrtcSetFlowCallback != nullptr) {
      const auto ask = [](void* flag, void*) { return static_cast<const std::atomic<bool>*>(flag)->load() ? 1 : 0; };
      check(functions_.nvrtcSetFlowCallback(program.get(), ask, const_cast<std::atomic<bool>*>(job.cancelled)),
            "nvrtcSetFlowCallback");
    }
    const int result =
        functions_.nvrtcCompileProgram(program.get(), static_cast<int>(pointers.size()), pointers.data());
    std::string log = read_log(program);
    // sm_100f for an NVRTC without family targets is an invalid option, sm_80a a failed compilation; both name their
    // flag.
    const bool about_target =
        log.find("gpu-architecture") != std::string::npos || log.find("nv_arch") != std::string::npos;
    if ((result == kNvrtcInvalidOption || result == kNvrtcCompilation) && about_target) {
      unknown_target(identity_, job, log, result);
    }
    if (result == kNvrtcOutOfMemory) check(result, "nvrtcCompileProgram");
    if (result != kNvrtcSuccess) {
      refused(identity_, job, log.empty() ? functions_.nvrtcGetErrorString(result) : log, result);
    }
    return log;
  }

  std::string read_log(const Program& program) const {
    std::size_t size = 0;
    check(functions_.nvrtcGetProgramLogSize(program.get(), &size), "nvrtcGetProgramLogSize");
    std::string log(size, '\0');
    if (size != 0) check(functions_.nvrtcGetProgramLog(program.get(), log.data()), "nvrtcGetProgramLog");
    while (!log.empty() && log.back() == '\0') log.pop_back();
    return log;
  }

  Compiled compile_cubin(const CompileJob& job) const {
    const Program program(*this, job);
    Compiled compiled = start();
    PtxasReport report = read_ptxas_report(run(program, job, job.target.name(), true), job.entry);
    if (!report.entries.empty() &&
        std::find(report.entries.begin(), report.entries.end(), job.entry) == report.entries.end()) {
      refused(identity_, job,
              "the source has no kernel of this name; it has: " + join(report.entries) + '\n' + report.rest,
              kNvrtcCompilation);
    }
    compiled.log = std::move(report.rest);
    compiled.registers = report.resources.registers;
    compiled.shared_bytes = report.resources.shared_bytes;
    compiled.local_bytes = report.resources.local_bytes;
    std::size_t size = 0;
    check(functions_.nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
    if (size == 0) refused(identity_, job, "the compiler reported success and gave an empty cubin\n" + compiled.log, 0);
    compiled.image.resize(size);
    check(functions_.nvrtcGetCUBIN(program.get(), compiled.image.data()), "nvrtcGetCUBIN");
    if (job.keep_operands && job.target.name() == "sm_90a") keep_shared_operands(&compiled.image);
    cap_log(&compiled.log);
    return compiled;
  }

  Compiled compile_ptx(const CompileJob& job, int arch) const {
    const Program program(*this, job);
    Compiled compiled = start();
    const std::string log = run(program, job, "compute_" + std::to_string(arch), false);
    compiled.log = "PTX for compute_" + std::to_string(arch) +
                   ", to be finished by the driver: " + describe(identity_) + " does not know " + job.target.name() +
                   '\n' + log;
    std::size_t size = 0;
    check(functions_.nvrtcGetPTXSize(program.get(), &size), "nvrtcGetPTXSize");
    if (size <= 1) refused(identity_, job, "the compiler reported success and gave empty PTX\n" + compiled.log, 0);
    compiled.image.resize(size);  // the NUL is part of the image: drivers find the end of the text by it
    check(functions_.nvrtcGetPTX(program.get(), compiled.image.data()), "nvrtcGetPTX");
    if (compiled.image.back() != '\0') compiled.image.push_back('\0');
    cap_log(&compiled.log);
    return compiled;
  }

  Compiled start() const {
    Compiled compiled;
    compiled.compiler_kind = identity_.kind;
    compiled.compiler_build = identity_.build;
    return compiled;
  }

  static std::string join(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  NvrtcFunctions functions_;
  CompilerIdentity identity_{"nvrtc", "", ""};
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> archs_;  // sorted
};

}  // namespace

std::unique_ptr<Backend> open_nvrtc(const std::vector<std::string>& search_dirs) {
  const Library library = open_library(nvrtc_search(search_dirs));
  if (!library) throw Error(QUERN_NOT_FOUND, "NVRTC was not found; tried:\n" + library.tried);
  return std::make_unique<Nvrtc>(library);
}

}  // namespace quern::jit
