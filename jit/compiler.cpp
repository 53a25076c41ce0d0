// Which compiler runs where: NVRTC in this process or in the helper, the others always in the helper.
// SPDX-License-Identifier: Apache-2.0
#include "jit/compiler.h"

#include <mutex>

#include "jit/backend.h"
#include "jit/error.h"
#include "jit/helper/process.h"
#include "jit/helper/sandbox.h"
#include "jit/sanitizer.h"

namespace quern::jit {
namespace {

using Clock = std::chrono::steady_clock;
using helper::Outcome;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Kind {
  Family family;
  const char* name;
  const char* hint;
};
constexpr Kind kKinds[] = {
    {Family::cuda, "nvrtc",
     "needed to compile for sm_*: `pip install nvidia-cuda-nvrtc` in the Python environment beside quern, or install "
     "the "
     "CUDA toolkit; if it is not found, name the folder of libnvrtc.so in QUERN_NVRTC_DIR or with --search-dir"},
    {Family::hip, "hiprtc",
     "needed to compile for gfx*: install ROCm, or Debian's libamdhip64-5 and libhiprtc-builtins5; if it is not found, "
     "name the folder of libhiprtc.so in QUERN_HIPRTC_DIR or with --search-dir"},
    {Family::host, "cxx", "needed to compile for host: install g++, or name a C++ compiler by its absolute path"},
};

}  // namespace

struct Compilers::Impl {
  explicit Impl(CompilerOptions given) : options(std::move(given)) {}

  // NVRTC in this process: opened once, kept for good.
  std::shared_ptr<Backend> nvrtc() {
    const std::lock_guard lock(mutex);
    if (!opened_nvrtc) opened_nvrtc = open_nvrtc(options.search_dirs);
    return opened_nvrtc;
  }

  bool in_process(Family family) const { return family == Family::cuda && !options.nvrtc_in_helper; }

  Outcome ask_helper(const std::string& path, helper::Action action, Family family, const CompileJob& job) const {
    helper::Request request;
    request.action = action;
    request.family = family;
    request.job = job;
    request.search_dirs = options.search_dirs;
    request.host_compiler = options.host_compiler;
    return helper::ask(path, std::move(request), options.timeout, job.cancelled);
  }

  Compiled compile_in_helper(CompileJob job) const {
    if (job.target.family() == Family::host && !kSanitizerOption.empty()) {
      for (const char* option : {"-fno-omit-frame-pointer", "-g"}) job.options.emplace_back(option);
      job.options.emplace_back(kSanitizerOption);
    }
    const std::string path = helper::find_helper(options.helper_path);
    Outcome outcome = ask_helper(path, helper::Action::compile, job.target.family(), job);
    const std::string doing = "compiling '" + job.entry + "' for " + job.target.name();
    if (crashed(outcome) && job.target.family() == Family::hip) explain_hip_crash(outcome, path, job);
    if (outcome.end != Outcome::End::answered || outcome.answer.status != QUERN_OK) {
      helper::explain(outcome, path, doing, options.timeout);
    }
    Compiled compiled = std::move(outcome.answer.compiled);
    // hipRTC's log comes by its interface, that of a C++ compiler on standard error.
    compiled.log += outcome.log;
    cap_log(&compiled.log);
    return compiled;
  }

  // hipRTC has no list of targets to ask for, and may abort on one it does not know. If it dies of an empty kernel too,
  // then it is the target and not the source.
  void explain_hip_crash(const Outcome& crash, const std::string& path, const CompileJob& job) const {
    CompileJob probe;
    probe.target = job.target;
    probe.entry = "probe";
    probe.source = "extern \"C\" __global__ void probe() {}\n";
    const Outcome outcome = ask_helper(path, helper::Action::compile, Family::hip, probe);
    if (!crashed(outcome)) return;
    unknown_target(crash.identity, job, "its process dies on an empty kernel for this target\n" + crash.log,
                   crash.code);
  }

  static bool crashed(const Outcome& outcome) {
    return outcome.opened && outcome.end != Outcome::End::answered && outcome.end != Outcome::End::timed_out &&
           outcome.end != Outcome::End::cancelled;
  }

  CompilerFound look_in_process(const Kind& kind) {
    CompilerFound found;
    found.kind = kind.name;
    fill(&found, *nvrtc());
    return found;
  }

  static void fill(CompilerFound* found, Backend& backend) {
    found->found = true;
    found->path = backend.identity().path;
    found->build = backend.identity().build;
    found->targets = backend.targets();
  }

  CompilerFound look_in_helper(const Kind& kind) const {
    CompilerFound found;
    found.kind = kind.name;
    const std::string path = helper::find_helper(options.helper_path);
    const Outcome outcome = ask_helper(path, helper::Action::look, kind.family, {});
    if (outcome.end != Outcome::End::answered || outcome.answer.status != QUERN_OK) {
      helper::explain(outcome, path, std::string("opening ") + kind.name, options.timeout);
    }
    found.found = true;
    found.path = outcome.identity.path;
    found.build = outcome.identity.build;
    found.targets = outcome.answer.targets;
    return found;
  }

  CompilerFound look_for_helper() const {
    CompilerFound found;
    found.kind = "helper";
    found.hint =
        "needed to compile for gfx* and host: keep quern-compile-helper beside libquern, or name its absolute path";
    try {
      found.path = helper::find_helper(options.helper_path);
      const int landlock = helper::landlock_version();
      found.build = landlock != 0 ? "its compilers in a sandbox (Landlock " + std::to_string(landlock) + ")"
                                  : "its compilers without a sandbox: this kernel offers no Landlock; inline assembly "
                                    "for gfx* is refused";
      found.found = true;
      found.hint.clear();
    } catch (const Error& error) {
      found.text = error.text();
    }
    return found;
  }

  const CompilerOptions options;
  std::mutex mutex;
  std::shared_ptr<Backend> opened_nvrtc;
};

Compilers::Compilers(CompilerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Compilers::~Compilers() = default;

Compiled Compilers::compile(const CompileJob& job) {
  check_options(job.options);
  const Family family = job.target.family();
  if (family == Family::none) throw Error(QUERN_INVALID, "target: none is given to compile '" + job.entry + "' for");
  const Clock::time_point start = Clock::now();
  Compiled compiled = impl_->in_process(family) ? impl_->nvrtc()->compile(job) : impl_->compile_in_helper(job);
  compiled.milliseconds = milliseconds_since(start);
  return compiled;
}

std::vector<CompilerFound> Compilers::doctor() {
  std::vector<CompilerFound> all;
  for (const Kind& kind : kKinds) {
    try {
      all.push_back(impl_->in_process(kind.family) ? impl_->look_in_process(kind) : impl_->look_in_helper(kind));
    } catch (const Error& error) {
      CompilerFound missing;
      missing.kind = kind.name;
      missing.text = error.text();
      missing.hint = kind.hint;
      all.push_back(std::move(missing));
    }
  }
  all.push_back(impl_->look_for_helper());
  return all;
}

}  // namespace quern::jit
