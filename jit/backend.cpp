// Options, logs and errors that the compilers share.
// SPDX-License-Identifier: Apache-2.0
#include "jit/backend.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jit/directives.h"
#include "jit/error.h"

namespace quern::jit {
namespace {

// What a kernel may say to its compiler: names that are whole options, and beginnings that a value follows. Everything
// else is refused, since compilers have hundreds of options that read files, write files or stop half-way. A compiler
// refuses those that are another's by itself.
constexpr std::array<std::string_view, 83> kWhole = {
    // NVRTC
    "-use_fast_math", "--use_fast_math", "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-dopt",
    "-dopt=on", "--dopt=on", "-default-device", "--device-as-default-execution-space", "-ewp",
    "--extra-device-vectorization", "-w", "--disable-warnings", "-restrict", "--restrict", "--no-display-error-number",
    "-no-err-no", "--brief-diagnostics=true", "--brief-diagnostics=false", "-brief-diag=true", "-brief-diag=false",
    "--minimal", "-minimal", "--device-int128", "-device-int128", "--device-float128", "-device-float128",
    "--ptxas-options=-v", "-Xptxas=-v", "--ptxas-options=-O0", "--ptxas-options=-O1", "--ptxas-options=-O2",
    "--ptxas-options=-O3", "-Xptxas=-O0", "-Xptxas=-O1", "-Xptxas=-O2", "-Xptxas=-O3", "--ptxas-options=-dlcm=ca",
    "--ptxas-options=-dlcm=cg", "-Xptxas=-dlcm=ca", "-Xptxas=-dlcm=cg",
    // all of the kin of clang and GCC
    "-O0", "-O1", "-O2", "-O3", "-Ofast", "-Os", "-Og", "-g", "-g0", "-g1", "-g2", "-g3", "-ffast-math",
    "-fno-fast-math", "-funroll-loops", "-fno-unroll-loops", "-fvectorize", "-fno-vectorize", "-fslp-vectorize",
    "-fno-slp-vectorize", "-ftree-vectorize", "-fno-tree-vectorize", "-fmath-errno", "-fno-math-errno",
    "-ffinite-math-only", "-fno-finite-math-only", "-fassociative-math", "-fno-associative-math", "-freciprocal-math",
    "-fno-signed-zeros", "-fno-trapping-math", "-fstrict-aliasing", "-fno-strict-aliasing", "-fwrapv", "-fno-inline",
    "-fno-omit-frame-pointer",
    // AMD's
    "-munsafe-fp-atomics", "-mno-unsafe-fp-atomics", "-fgpu-flush-denormals-to-zero",
    "-fno-gpu-flush-denormals-to-zero"};
// Behind each comes a value of letters, digits, '.', '_', '-', '+' and ','.
constexpr std::array<std::string_view, 39> kBeginnings = {"-std=",
                                                          "--std=",
                                                          "-maxrregcount=",
                                                          "--maxrregcount=",
                                                          "-ftz=",
                                                          "--ftz=",
                                                          "-prec-sqrt=",
                                                          "--prec-sqrt=",
                                                          "-prec-div=",
                                                          "--prec-div=",
                                                          "-fmad=",
                                                          "--fmad=",
                                                          "-diag-suppress=",
                                                          "--diag-suppress=",
                                                          "-diag-warn=",
                                                          "--diag-warn=",
                                                          "-diag-error=",
                                                          "--diag-error=",
                                                          "-Ofast-compile=",
                                                          "--Ofast-compile=",
                                                          "-split-compile=",
                                                          "--split-compile=",
                                                          "-jump-table-density=",
                                                          "--jump-table-density=",
                                                          "-ffp-contract=",
                                                          "-finline-limit=",
                                                          "-U",
                                                          "-W",
                                                          "-mtune=",
                                                          "-march=",
                                                          "-mavx",
                                                          "-mfma",
                                                          "-msse",
                                                          "-mf16c",
                                                          "-mcumode",
                                                          "-mno-cumode",
                                                          "-mwavefrontsize64",
                                                          "-mno-wavefrontsize64",
                                                          "-ftemplate-depth="};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_std(std::string_view option) { return option.starts_with("-std=") || option.starts_with("--std="); }

bool is_value(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '+' || c == ',' || c == '=';
  });
}

// -DNAME, -DNAME=value: a constant of the source, held to what sources are held to.
bool is_harmless_macro(std::string_view macro) {
  std::string line = "#define " + std::string(macro) + '\n';
  if (const std::size_t equals = line.find('='); equals != std::string::npos) line[equals] = ' ';
  const Directives found = find_directives(line);
  const bool named = !macro.empty() && !is_digit(macro.front()) && macro.front() != '=';
  return named && macro.find('\n') == std::string_view::npos && found.objection.text.empty() && found.list.empty() &&
         found.macros.size() == 1 && !found.macros[0].name.empty() && !found.macros[0].pastes;
}

bool is_allowed(std::string_view option) {
  for (const std::string_view define : {"--define-macro=", "-D"}) {
    if (option.starts_with(define)) return is_harmless_macro(option.substr(define.size()));
  }
  if (std::find(kWhole.begin(), kWhole.end(), option) != kWhole.end()) return true;
  // What is handed on to another program, and what asks what this machine is.
  for (const std::string_view not_this : {"-Wl,", "-Wp,", "-Wa,", "-march=native", "-mtune=native"}) {
    if (option.starts_with(not_this)) return false;
  }
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view beginning) {
    return option.starts_with(beginning) && is_value(option.substr(beginning.size()));
  });
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

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void check_options(const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (!is_allowed(option)) {
      throw Error(QUERN_INVALID,
                  "option: '" + option +
                      "' is not allowed: a kernel is compiled from its source, headers and constants alone, for its "
                      "target alone, without paths, other files or outputs. Allowed are macros (-D, -U), standards, "
                      "warnings, and options of optimisation and floating point: sources/kernel/README.md lists them");
    }
  }
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
