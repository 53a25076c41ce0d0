// Options, logs and errors that the compilers share.
// SPDX-License-Identifier: Apache-2.0
#include "jit/backend.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jit/error.h"

namespace quern::jit {
namespace {

// Beginnings of options that read or write files, or say again what the target says.
constexpr std::array<std::string_view, 37> kForbidden = {"-I",
                                                         "-i",
                                                         "--include",
                                                         "--pre-include",
                                                         "--system-include",
                                                         "-L",
                                                         "-B",
                                                         "-o",
                                                         "--output",
                                                         "-x",
                                                         "-T",
                                                         "-Xlinker",
                                                         "-Wl,",
                                                         "-Wp,",
                                                         "-Wa,",
                                                         "-specs",
                                                         "--specs",
                                                         "-wrapper",
                                                         "--sysroot",
                                                         "-save-temps",
                                                         "--save-temps",
                                                         "-arch",
                                                         "--gpu-arch",
                                                         "-target",
                                                         "--target",
                                                         "--offload-arch",
                                                         "-fplugin",
                                                         "--options-file",
                                                         "-dependency",
                                                         "--time",
                                                         "-time",
                                                         "--pch",
                                                         "-pch",
                                                         "-create-pch",
                                                         "-use-pch",
                                                         "-march=native",
                                                         "-mcpu=native"};

bool is_std(std::string_view option) { return option.starts_with("-std=") || option.starts_with("--std="); }

bool is_forbidden(std::string_view option) {
  if (!option.starts_with('-') || option == "-" || option == "--") return true;  // an input file, or @file
  if (option.starts_with("-D") || option.starts_with("--define-macro=")) return false;
  if (option.starts_with("-l") && !option.starts_with("-lineinfo")) return true;
  if (option.find('/') != std::string_view::npos) return true;
  return std::any_of(kForbidden.begin(), kForbidden.end(),
                     [&](std::string_view beginning) { return option.starts_with(beginning); });
}

std::string what(const CompileJob& job) { return '\'' + job.entry + "' for " + job.target.name(); }

std::string with_log(const std::string& text, std::string log) {
  cap_log(&log);
  while (!log.empty() && (log.back() == '\n' || log.back() == '\0')) log.pop_back();
  return log.empty() ? text : text + ":\n" + log;
}

}  // namespace

std::vector<std::string> merge_options(std::vector<std::string> own, const std::vector<std::string>& given) {
  if (std::any_of(given.begin(), given.end(), is_std)) std::erase_if(own, is_std);
  own.insert(own.end(), given.begin(), given.end());
  return own;
}

void check_options(const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (is_forbidden(option)) {
      throw Error(QUERN_INVALID,
                  "option: '" + option +
                      "' is not allowed: a kernel is compiled from its source, headers and constants alone, "
                      "for its target alone, without paths, other files or outputs");
    }
  }
}

void cap_log(std::string* log) {
  constexpr std::string_view note = "\n... (the log is cut here, after 64 KiB)\n";
  if (log->size() <= kLogLimit) return;
  log->resize(kLogLimit - note.size());
  *log += note;
}

std::string describe(const CompilerIdentity& identity) {
  // "g++ 12.2.0" says itself what it is.
  std::string text = identity.kind == "cxx" ? identity.build : identity.kind + ' ' + identity.build;
  if (!identity.path.empty()) text += " (" + identity.path + ')';
  return text;
}

void refused(const CompilerIdentity& identity, const CompileJob& job, const std::string& log, int native) {
  throw Error(QUERN_COMPILE, with_log(describe(identity) + " refused " + what(job), log), native);
}

void unknown_target(const CompilerIdentity& identity, const CompileJob& job, const std::string& log, int native) {
  throw Error(
      QUERN_UNSUPPORTED,
      with_log("target: " + describe(identity) + " does not know " + job.target.name() + " ('" + job.entry + "')", log),
      native);
}

}  // namespace quern::jit
