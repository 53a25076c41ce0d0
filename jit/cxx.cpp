// The system's C++ compiler: kernel source to a shared object for the `host` target. Used in the helper only.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "jit/backend.h"
#include "jit/error.h"

extern char** environ;  // NOLINT: POSIX says so

namespace quern::jit {
namespace {

constexpr std::array<const char*, 6> kUsualCompilers = {"/usr/bin/c++",     "/usr/local/bin/c++",
                                                        "/usr/bin/g++",     "/usr/local/bin/g++",
                                                        "/usr/bin/clang++", "/usr/local/bin/clang++"};

std::string find_compiler(const std::string& asked) {
  if (!asked.empty()) {
    if (!asked.starts_with('/')) {
      throw Error(QUERN_INVALID, "host_compiler: '" + asked + "' is given; an absolute path is needed");
    }
    if (access(asked.c_str(), X_OK) == 0) return asked;
    throw Error(QUERN_NOT_FOUND, "host_compiler: " + asked + " cannot be run: " + std::strerror(errno), errno);
  }
  std::string tried;
  for (const char* path : kUsualCompilers) {
    if (access(path, X_OK) == 0) return path;
    tried += std::string(path) + ": " + std::strerror(errno) + '\n';
  }
  throw Error(QUERN_NOT_FOUND, "no C++ compiler was found; tried:\n" + tried);
}

// Runs a program in this process's group (which is what a deadline ends) with standard input from a file, standard
// output into another, and standard error as it is: the parent collects that. Returns what waitpid says.
int run_program(const std::vector<std::string>& arguments, const char* input, const char* output) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input, O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(QUERN_NOT_FOUND, "host_compiler: " + arguments[0] + " cannot be started: " + std::strerror(failed),
                failed);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw Error(QUERN_COMPILE, arguments[0] + ": waitpid: " + std::strerror(errno), errno);
  }
  return status;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "g++ 12.2.0" or "clang++ 14.0.6", out of what --version prints.
std::string build_of(const std::string& version) {
  constexpr std::string_view clang = "clang version ";
  const std::string first = version.substr(0, version.find('\n'));
  if (const std::size_t at = first.find(clang); at != std::string::npos) {
    const std::string rest = first.substr(at + clang.size());
    return "clang++ " + rest.substr(0, rest.find_first_of(" -("));
  }
  const std::string last = first.substr(first.rfind(' ') + 1);
  if (version.find("Free Software Foundation") != std::string::npos) return "g++ " + last;
  return first.empty() ? "unknown" : first;
}

class Cxx final : public Backend {
 public:
  Cxx(std::string compiler, std::string folder) : folder_(std::move(folder)) {
    identity_ = {"cxx", "unknown", std::move(compiler)};
    const std::string output = folder_ + "/version";
    const int status = run_program({identity_.path, "--version"}, "/dev/null", output.c_str());
    if (status == 0) identity_.build = build_of(read_file(output));
  }

  const CompilerIdentity& identity() const noexcept override { return identity_; }

  std::string targets() override { return "host,host64"; }

  Compiled compile(const CompileJob& job) override {
    const std::string input = folder_ + "/kernel.cpp";
    const std::string image = folder_ + "/kernel.so";
    std::ofstream(input, std::ios::binary) << job.source;
    // Aliasing as the GPU compilers have it; nothing of the folder in the object, so that equal sources give equal
    // bytes; no C++ runtime, so that the object depends on libc and libm alone. A kernel here runs a few times, on
    // small problems: -O2 would take half as long again to compile, which is most of what a first call or a test takes.
    std::vector<std::string> arguments =
        merge_options({identity_.path, "-x", "c++", "-std=c++20", "-shared", "-fPIC", "-O1", "-nostdinc",
                       "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-fno-strict-aliasing", "-fno-math-errno",
                       "-nodefaultlibs", "-Wl,--build-id=none", "-ffile-prefix-map=" + folder_ + "=."},
                      job.options);
    // Both the preprocessor and the assembler tell what they have read. clang's own assembler does not.
    if (identity_.build.starts_with("clang")) arguments.emplace_back("-fno-integrated-as");
    const std::string included = folder_ + "/included", assembled = folder_ + "/assembled";
    for (const char* option : {"-MD", "-MT", "x", "-MF"}) arguments.emplace_back(option);
    arguments.push_back(included);
    arguments.push_back("-Wa,--MD," + assembled);
    for (const char* last : {"-o", image.c_str(), "-", "-lm", "-lc", "-lgcc"}) arguments.emplace_back(last);
    const int status = run_program(arguments, input.c_str(), "/dev/null");
    if (WIFSIGNALED(status)) {
      throw Error(QUERN_COMPILE,
                  describe(identity_) + " died of signal " + std::to_string(WTERMSIG(status)) + " while compiling '" +
                      job.entry + "' for " + job.target.name(),
                  WTERMSIG(status));
    }
    // What it printed went to standard error, and the process that asked has it.
    if (status != 0) refused(identity_, job, "", WEXITSTATUS(status));
    Compiled compiled;
    compiled.compiler_kind = identity_.kind;
    compiled.compiler_build = identity_.build;
    compiled.image = read_file(image);
    if (compiled.image.empty()) refused(identity_, job, "the compiler reported success and wrote no shared object", 0);
    refuse_foreign_files(job, included);
    refuse_foreign_files(job, assembled);
    return compiled;
  }

 private:
  // Of a rule of make: "target: what was read". What was read beside the source itself is no part of the kernel's key.
  void refuse_foreign_files(const CompileJob& job, const std::string& path) const {
    const std::string rule = read_file(path);
    const std::size_t colon = rule.find(": ");
    std::istringstream names(colon == std::string::npos ? rule : rule.substr(colon + 2));
    std::string name;
    if (access(path.c_str(), F_OK) != 0)
      refused(identity_, job, "the compiler does not tell which files it has read", 0);
    while (names >> name) {
      const bool own = name == "\\" || name == "-" || name == "x:" || name == "<stdin>" || name == "/dev/stdin" ||
                       name == "{standard" || name == "input}" || name == "kernel.cpp" ||
                       (name.starts_with(folder_ + '/') && name.ends_with(".s"));
      if (!own) refused(identity_, job, "it reads " + name + ": a kernel is made of what is given with it alone", 0);
    }
  }

  CompilerIdentity identity_;
  std::string folder_;
};

}  // namespace

std::unique_ptr<Backend> open_cxx(const std::string& compiler, const std::string& folder) {
  return std::make_unique<Cxx>(find_compiler(compiler), folder);
}

}  // namespace quern::jit
