// Running another program and waiting for it.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace quern::demo {
namespace {

[[noreturn]] void fail(int code, const std::string& what) {
  throw std::system_error(code, std::generic_category(), what);
}

std::string read_all(int descriptor) {
  std::string all;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = read(descriptor, piece.data(), piece.size());
    if (got > 0) {
      all.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return all;
    }
  }
}

}  // namespace

Finished run_process(const std::vector<std::string>& arguments, bool capture) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> pipe_ends{-1, -1};
  if (capture && pipe2(pipe_ends.data(), O_CLOEXEC) != 0) fail(errno, "making a pipe");

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (capture) posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int code = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  Finished finished;
  if (capture) {
    close(pipe_ends[1]);
    if (code == 0) finished.output = read_all(pipe_ends[0]);
    close(pipe_ends[0]);
  }
  if (code != 0) fail(code, "starting " + arguments[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  finished.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace quern::demo
