// One question to a fresh helper process, and what became of it.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "jit/compile_log.h"
#include "jit/error.h"
#include "jit/helper/spawn.h"
#include "jit/helper/work_folder.h"
#include "jit/library.h"

namespace quern::jit::helper {
namespace {

using Clock = std::chrono::steady_clock;

// Why `path` cannot be run, nullptr if it can.
const char* unusable(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "not a regular file";
  return access(path.c_str(), X_OK) == 0 ? nullptr : std::strerror(errno);
}

// How long the log of a helper that has closed its socket is waited for: only a process that it left behind can hold it
// open.
constexpr std::chrono::seconds kLogGrace{2};

// How often one looks whether the question has been taken back.
constexpr std::chrono::milliseconds kLook{50};

// One exchange with a child: everything is read and written as it becomes possible, until the child has closed its ends
// or the deadline has passed.
class Exchange {
 public:
  Exchange(Child& child, std::string request, Clock::time_point deadline, const std::atomic<bool>* cancelled = nullptr)
      : child_(child), unsent_(std::move(request)), deadline_(deadline), cancelled_(cancelled) {}

  // False when the deadline passed, or the question was taken back, before the socket was closed.
  bool run() {
    const bool had_socket = static_cast<bool>(child_.socket);
    bool in_grace = false;
    while (child_.socket || child_.log) {
      if (had_socket && !child_.socket && !in_grace) {
        in_grace = true;
        deadline_ = std::min(deadline_, Clock::now() + kLogGrace);
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0 || cancelled()) return !child_.socket;
      const decltype(left) most = cancelled_ != nullptr ? kLook.count() : INT_MAX;
      std::array<pollfd, 2> fds{};
      fds[0] = {child_.socket.get(), static_cast<short>(sent_ < unsent_.size() ? POLLIN | POLLOUT : POLLIN), 0};
      fds[1] = {child_.log.get(), POLLIN, 0};
      if (poll(fds.data(), fds.size(), static_cast<int>(std::min(left, most))) < 0) continue;
      if ((fds[0].revents & POLLOUT) != 0) write_some();
      if ((fds[0].revents & ~POLLOUT) != 0) read_socket();
      if (fds[1].revents != 0) read_log();
    }
    return true;
  }

  bool cancelled() const { return cancelled_ != nullptr && *cancelled_; }

  std::string received;
  CompileLog log;

 private:
  static bool try_again() { return errno == EAGAIN || errno == EINTR; }

  void write_some() {
    const ssize_t sent =
        send(child_.socket.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      sent_ += static_cast<std::size_t>(sent);
    } else if (sent < 0 && !try_again()) {
      sent_ = unsent_.size();  // it does not read on; it may have answered all the same
    }
  }

  void read_socket() {
    const ssize_t got = recv(child_.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got > 0 && received.size() <= 2 * kMaxPayload) {
      received.append(buffer_.data(), static_cast<std::size_t>(got));
    } else if (got >= 0 || !try_again()) {
      child_.socket.reset();
    }
  }

  // Reads on past what is kept, so that a compiler that prints without end is not held up by a full pipe but runs into
  // its limits.
  void read_log() {
    const ssize_t got = read(child_.log.get(), buffer_.data(), buffer_.size());
    if (got > 0) {
      log.append({buffer_.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || !try_again()) {
      child_.log.reset();
    }
  }

  Child& child_;
  std::string unsent_;
  std::size_t sent_ = 0;
  Clock::time_point deadline_;
  const std::atomic<bool>* const cancelled_;
  std::array<char, 65536> buffer_{};
};

// Fills in whatever complete messages came. True when there was an answer among them.
bool read_messages(std::string bytes, Outcome* outcome) {
  while (std::optional<Frame> frame = take_frame(&bytes)) {
    if (frame->type == Type::opened) {
      outcome->identity = decode_identity(frame->payload);
      outcome->opened = true;
    } else if (frame->type == Type::answer) {
      outcome->answer = decode_answer(frame->payload);
      return true;
    }
  }
  return false;
}

std::string signal_name(int code) {
  // Those that compilers die of; sigabbrev_np would want glibc 2.32.
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},   {SIGHUP, "HUP"},   {SIGILL, "ILL"},
      {SIGINT, "INT"},   {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"}, {SIGQUIT, "QUIT"}, {SIGSEGV, "SEGV"}, {SIGSYS, "SYS"},
      {SIGTERM, "TERM"}, {SIGTRAP, "TRAP"}, {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
  };
  std::string text = "signal " + std::to_string(code);
  for (const auto& [number, name] : kNames) {
    if (number == code) text += " (SIG" + std::string(name) + ')';
  }
  return text;
}

}  // namespace

std::string find_helper(const std::string& asked) {
  if (!asked.empty()) {
    if (!asked.starts_with('/')) {
      throw Error(QUERN_INVALID, "helper_path: '" + asked + "' is given; an absolute path is needed");
    }
    const char* reason = unusable(asked);
    if (reason == nullptr) return asked;
    throw Error(QUERN_NOT_FOUND, "helper_path: " + asked + " cannot be run: " + reason);
  }
  constexpr std::array<const char*, 7> places = {
      "", "../lib/", "../bin/", "../libexec/quern/", "quern/", "../../libexec/quern/", "../lib/quern/"};
  std::string tried;
  const std::string own = own_path();
  std::vector<std::string> origins = {own};
  if (char* real = realpath(own.c_str(), nullptr)) {
    if (own != real) origins.emplace_back(real);
    std::free(real);
  }
  for (const std::string& origin : origins) {
    const std::size_t slash = origin.rfind('/');
    if (slash == std::string::npos) continue;
    for (const char* place : places) {
      std::string path = origin.substr(0, slash + 1) + place + "quern-compile-helper";
      const char* reason = unusable(path);
      if (reason == nullptr) return path;
      tried += '\n' + path + ": " + reason;
    }
  }
  throw Error(QUERN_NOT_FOUND,
              "the compile helper (quern-compile-helper, needed for gfx* and host) was not found; tried:" +
                  (tried.empty() ? "\nnothing: the path of libquern is unknown" : tried));
}

Outcome ask(const std::string& helper_path, Request request, std::chrono::milliseconds timeout,
            const std::atomic<bool>* cancelled) {
  const WorkFolder folder;
  request.folder = folder.path();
  request.timeout_ms = static_cast<std::uint32_t>(std::clamp<long long>(timeout.count(), 1, UINT32_MAX));
  const Clock::time_point deadline = Clock::now() + timeout;
  Child child(helper_path, folder.path());
  Exchange exchange(child, make_frame(Type::request, encode(request)), deadline, cancelled);
  Outcome outcome;
  const bool in_time = exchange.run();
  if (child.socket || child.log) {
    child.kill_group();
    // Nobody may be writing into the folder any more when it is removed.
    Exchange(child, {}, Clock::now() + std::chrono::seconds(5)).run();
  }
  const Ended ended = child.wait();
  outcome.log = exchange.log.text();
  try {
    if (read_messages(std::move(exchange.received), &outcome)) {
      outcome.end = Outcome::End::answered;
      return outcome;
    }
  } catch (const Error& error) {
    outcome.end = Outcome::End::garbled;
    outcome.answer.text = error.text();
    return outcome;
  }
  outcome.code = ended.code;
  if (!in_time) {
    outcome.end = exchange.cancelled() ? Outcome::End::cancelled : Outcome::End::timed_out;
  } else if (!ended.known) {
    outcome.end = Outcome::End::vanished;
  } else {
    outcome.end = ended.signalled ? Outcome::End::signalled : Outcome::End::exited;
  }
  return outcome;
}

void explain(const Outcome& outcome, const std::string& helper_path, const std::string& doing,
             std::chrono::milliseconds timeout) {
  const std::string who = outcome.opened ? describe(outcome.identity) : "the compile helper " + helper_path;
  std::string text;
  std::int64_t native = outcome.code;
  switch (outcome.end) {
    case Outcome::End::signalled:
      text = who + " died of " + signal_name(outcome.code) + " while " + doing;
      break;
    case Outcome::End::exited:
      text = who + " ended with exit status " + std::to_string(outcome.code) + " and no answer while " + doing;
      break;
    case Outcome::End::vanished:
      text =
          who + " ended without an answer while " + doing + " (how is unknown: this program reaps its children itself)";
      break;
    case Outcome::End::timed_out:
      text = who + " was still " + doing + " after " + std::to_string(timeout.count()) + " ms and was ended";
      native = ETIMEDOUT;
      break;
    case Outcome::End::cancelled:
      text = who + " was ended while " + doing + ", since nobody waits for it any more";
      native = ECANCELED;
      break;
    case Outcome::End::garbled:
      text = who + " gave no proper answer while " + doing + ": " + outcome.answer.text;
      break;
    case Outcome::End::answered:
      text = outcome.answer.text;
      native = outcome.answer.native;
      break;
  }
  std::string log = outcome.log;
  while (log.ends_with('\n')) log.pop_back();
  if (!log.empty()) text += ":\n" + log;
  const bool failed_answer = outcome.end == Outcome::End::answered && outcome.answer.status != QUERN_OK;
  throw Error(failed_answer ? static_cast<quern_status>(outcome.answer.status) : QUERN_COMPILE, text, native);
}

}  // namespace quern::jit::helper
