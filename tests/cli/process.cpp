// Runs a program to its end: with pipes, or on a terminal of its own.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace quern::cli_tests {
namespace {

// In the child; does not return.
[[noreturn]] void execute(const Invocation& invocation) {
  for (const auto& [name, value] : invocation.environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<char*> arguments;
  for (const std::string& argument : invocation.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  if (invocation.folder.empty() || chdir(invocation.folder.c_str()) == 0) execvp(arguments[0], arguments.data());
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// False at the end of the stream. A terminal whose other side has gone says EIO.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(descriptor, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(std::size_t end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};  // to read from, to write to
};

}  // namespace

Finished run(const Invocation& invocation) {
  Pipe in, out, err;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    dup2(in.ends[0], STDIN_FILENO);
    dup2(out.ends[1], STDOUT_FILENO);
    dup2(err.ends[1], STDERR_FILENO);
    execute(invocation);
  }
  in.close_end(0);
  out.close_end(1);
  err.close_end(1);
  // Inputs are far smaller than a pipe's buffer. A program that does not read its input must not kill the test.
  signal(SIGPIPE, SIG_IGN);
  if (write(in.ends[1], invocation.input.data(), invocation.input.size()) < 0 && errno != EPIPE) {
    throw std::runtime_error("cannot write to the program");
  }
  in.close_end(1);

  Finished finished;
  std::array<pollfd, 2> open{{{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&finished.out, &finished.err};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    if (poll(open.data(), open.size(), -1) < 0 && errno != EINTR) throw std::runtime_error("cannot poll");
    for (std::size_t i = 0; i < open.size(); ++i) {
      // poll passes over a negative descriptor.
      if (open[i].fd >= 0 && open[i].revents != 0 && !read_some(open[i].fd, *texts[i])) open[i].fd = -1;
    }
  }
  finished.code = wait_for(child);
  return finished;
}

Finished run_on_terminal(const Invocation& invocation, unsigned short columns) {
  int terminal = -1;
  const winsize size{24, columns, 0, 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("no terminal");
  if (child == 0) execute(invocation);
  Finished finished;
  while (read_some(terminal, finished.out)) {
  }
  finished.code = wait_for(child);
  close(terminal);
  return finished;
}

}  // namespace quern::cli_tests
