// Starting a child process so that the two share nothing but a socket and a pipe.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "jit/error.h"
#include "jit/helper/child.h"
#include "jit/library.h"

namespace quern::jit::helper {
namespace {

// Above the standard three: a program may have closed its own, and the child's are about to be replaced.
Descriptor raised(int fd) {
  if (fd > STDERR_FILENO) return Descriptor(fd);
  Descriptor high(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  close(fd);
  return high;
}

[[noreturn]] void cannot_start(const std::string& path, const char* what, int code) {
  throw Error(QUERN_NOT_FOUND,
              "the compile helper " + path + " cannot be started: " + what + ": " + std::strerror(code), code);
}

// Relative and empty entries mean the working directory, which is never searched.
std::string absolute_entries(std::string_view list) {
  std::string kept;
  while (!list.empty()) {
    const std::size_t end = list.find(':');
    const std::string_view entry = list.substr(0, end);
    if (entry.starts_with('/')) kept += (kept.empty() ? "" : ":") + std::string(entry);
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return kept;
}

std::vector<std::string> child_environment(const std::string& folder) {
  // PATH is for what a C++ compiler starts; the compilers themselves are found without it.
  std::vector<std::string> variables = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                        "LC_ALL=C",
                                        "HOME=" + folder,
                                        "TMPDIR=" + folder,
                                        "AMD_COMGR_CACHE=0",
                                        "SOURCE_DATE_EPOCH=0"};
  for (const char* name : {"QUERN_NVRTC_DIR", "QUERN_HIPRTC_DIR", "CUDA_PATH", "ROCM_PATH"}) {
    if (const char* value = environment(name)) variables.push_back(std::string(name) + '=' + value);
  }
  if (const char* value = environment("LD_LIBRARY_PATH")) {
    const std::string kept = absolute_entries(value);
    if (!kept.empty()) variables.push_back("LD_LIBRARY_PATH=" + kept);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child::Child(const std::string& path, const std::string& folder) {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) cannot_start(path, "socketpair", errno);
  socket = raised(pair[0]);
  const Descriptor their_socket = raised(pair[1]);
  if (pipe2(pair.data(), O_CLOEXEC) != 0) cannot_start(path, "pipe", errno);
  log = raised(pair[0]);
  const Descriptor their_log = raised(pair[1]);
  if (!socket || !their_socket || !log || !their_log) cannot_start(path, "fcntl", EMFILE);
  // Ours alone: O_NONBLOCK belongs to an end, not to the pair.
  if (fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0 || fcntl(log.get(), F_SETFL, O_NONBLOCK) != 0) {
    cannot_start(path, "fcntl", errno);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  int failed = posix_spawn_file_actions_adddup2(&actions, their_socket.get(), STDIN_FILENO);
  if (failed == 0) failed = posix_spawn_file_actions_adddup2(&actions, their_log.get(), STDOUT_FILENO);
  if (failed == 0) failed = posix_spawn_file_actions_adddup2(&actions, their_log.get(), STDERR_FILENO);
#if defined(QUERN_SPAWN_PREPARES)  // else the helper does it, in main
  if (failed == 0) failed = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  if (failed == 0) failed = posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
#endif
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);

  std::vector<std::string> arguments = {path};
  std::vector<std::string> variables = child_environment(folder);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  if (failed == 0) failed = posix_spawn(&pid_, path.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    pid_ = -1;
    cannot_start(path, "posix_spawn", failed);
  }
}

Child::~Child() {
  if (pid_ < 0 || waited_) return;
  kill_group();
  wait();
}

void Child::kill_group() noexcept {
  if (pid_ > 0) kill(-pid_, SIGKILL);
}

Ended Child::wait() noexcept {
  Ended ended;
  if (pid_ < 0 || waited_) return ended;
  waited_ = true;
  int status = 0;
  pid_t got = 0;
  do {
    got = waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got != pid_) return ended;  // ECHILD: the system or the program's own handler has reaped it
  ended.known = true;
  ended.signalled = WIFSIGNALED(status);
  ended.code = ended.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

}  // namespace quern::jit::helper
