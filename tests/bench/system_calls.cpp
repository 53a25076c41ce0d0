// Counting system calls by ptrace.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/system_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace quern::bench {
namespace {

constexpr int kNotTraced = 77, kNotStarted = 78;
constexpr int kProofRegion = kRegions, kProofCalls = 10;
constexpr std::uint64_t kMark = 0x71756572;

volatile sig_atomic_t watched = 0;
void kill_watched(int) { kill(watched, SIGKILL); }

// Ends the traced process when the time is over, so that waiting for it ends too.
class Deadline {
 public:
  Deadline(pid_t child, unsigned seconds) {
    watched = child;
    struct sigaction action{};
    action.sa_handler = kill_watched;
    sigaction(SIGALRM, &action, &before_);
    alarm(seconds);
  }
  ~Deadline() {
    alarm(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  struct sigaction before_{};
};

[[noreturn]] void run_traced(char** argv, int nowhere) {
  dup2(nowhere, STDOUT_FILENO);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
  execv(argv[0], argv);
  _exit(kNotStarted);
}

// The child has stopped at a system call: on its way in it counts.
void note(pid_t child, int& region, std::array<std::uint64_t, kRegions + 1>& count, SystemCalls& calls) {
  __ptrace_syscall_info info;
  const long got = ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
  if (got <= 0) {
    calls.failure = std::string("PTRACE_GET_SYSCALL_INFO: ") + std::strerror(errno);
    return;
  }
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
  if (info.entry.nr == SYS_lseek && static_cast<int>(info.entry.args[0]) == -1 && info.entry.args[1] == kMark) {
    const std::uint64_t marked = info.entry.args[2];
    region = marked <= kProofRegion ? static_cast<int>(marked) : 0;
  } else if (region > 0) {
    count[static_cast<std::size_t>(region)]++;
  }
}

void trace(pid_t child, SystemCalls& calls) {
  int status = 0, region = 0;
  bool begun = false;
  std::array<std::uint64_t, kRegions + 1> count{};
  for (;;) {
    if (waitpid(child, &status, 0) < 0) {
      if (errno == EINTR) continue;
      calls.failure = std::string("waitpid: ") + std::strerror(errno);
      return;
    }
    if (!WIFSTOPPED(status)) break;
    int signal = 0;
    if (!begun) {
      begun = true;  // stopped by its exec
      ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      note(child, region, count, calls);
    } else if (WSTOPSIG(status) != SIGTRAP) {
      signal = WSTOPSIG(status);
    }
    // ptrace takes the signal's number where a pointer stands.
    if (ptrace(PTRACE_SYSCALL, child, nullptr, static_cast<long>(signal)) != 0 && errno != ESRCH) {
      calls.failure = std::string("PTRACE_SYSCALL: ") + std::strerror(errno);
      kill(child, SIGKILL);
    }
  }
  if (!calls.failure.empty()) return;
  if (WIFSIGNALED(status)) {
    calls.failure = "the traced process was ended by signal " + std::to_string(WTERMSIG(status));
  } else if (WEXITSTATUS(status) == kNotTraced) {
    calls.failure = "tracing is not allowed here";
  } else if (WEXITSTATUS(status) != 0) {
    calls.failure = "the traced process ended with code " + std::to_string(WEXITSTATUS(status));
  } else if (count[kProofRegion] != kProofCalls) {
    calls.failure = std::to_string(count[kProofRegion]) + " system calls were seen where " +
                    std::to_string(kProofCalls) + " were made";
  }
  std::copy_n(count.begin(), kRegions, calls.count.begin());
}

}  // namespace

void mark_region(int region) { syscall(SYS_lseek, -1, static_cast<long>(kMark), region); }

void prove_counting() {
  mark_region(kProofRegion);
  for (int i = 0; i < kProofCalls; ++i) syscall(SYS_getppid);
  mark_region(0);
}

SystemCalls count_system_calls(const std::vector<std::string>& arguments, unsigned seconds) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  SystemCalls calls;
  const pid_t child = fork();
  if (child == 0) run_traced(argv.data(), nowhere);
  if (child < 0) {
    calls.failure = std::string("fork: ") + std::strerror(errno);
  } else {
    const Deadline deadline(child, seconds);
    trace(child, calls);
  }
  if (nowhere >= 0) close(nowhere);
  return calls;
}

}  // namespace quern::bench
