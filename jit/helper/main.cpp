// quern-compile-helper: one compilation in a process of its own, so that a compiler that crashes or hangs takes nobody
// along. Started by libquern with a socket as standard input (see protocol.h); of no use by hand.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

#include "jit/error.h"
#include "jit/helper/child.h"
#include "jit/helper/protocol.h"
#include "jit/helper/sandbox.h"
#include "jit/sanitizer.h"

#if defined(QUERN_BUILT_WITH_ASAN)
// The compilers loaded here are not ours to mend: their leaks and mismatched deallocations say nothing about quern.
extern "C" const char* __asan_default_options();  // NOLINT: the sanitizer's name
extern "C" const char* __asan_default_options() { return "detect_leaks=0:alloc_dealloc_mismatch=0"; }
#endif

namespace quern::jit::helper {
namespace {

constexpr int kSocket = STDIN_FILENO;

void limit(int resource, rlim_t most) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  now.rlim_cur = std::min(now.rlim_max, most);
  now.rlim_max = now.rlim_cur;
  setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

#if !defined(QUERN_SPAWN_PREPARES)
// Closes what was inherited beside the three standard descriptors, and goes to the folder of this compilation, which is
// also that of temporary files.
void prepare() {
  constexpr unsigned kFirst = STDERR_FILENO + 1;
#if defined(SYS_close_range)
  const bool closed = syscall(SYS_close_range, kFirst, ~0U, 0U) == 0;
#else
  const bool closed = false;
#endif
  if (!closed) {
    rlimit most{};
    if (getrlimit(RLIMIT_NOFILE, &most) != 0) most.rlim_cur = 1024;
    const auto last = static_cast<unsigned>(std::min<rlim_t>(most.rlim_cur, 1U << 20));
    for (unsigned i = kFirst; i < last; ++i) close(static_cast<int>(i));
  }
  const char* folder = std::getenv("TMPDIR");
  if (folder == nullptr || chdir(folder) != 0) _exit(3);
}
#endif

// Generous: they stop a compiler gone wild, not a large kernel.
void set_limits(std::uint32_t timeout_ms) {
  constexpr rlim_t gib = rlim_t{1} << 30;
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, gib);
  if (kSanitizerOption.empty()) limit(RLIMIT_AS, 32 * gib);  // a sanitizer's shadow memory alone is larger
  const rlim_t seconds = timeout_ms / 1000 + 1;
  limit(RLIMIT_CPU, 4 * seconds);  // compilers use several threads
  // Should the asker die before it can end this process.
  alarm(static_cast<unsigned>(seconds + 10));
}

Request receive() {
  std::string bytes;
  char buffer[65536];
  for (;;) {
    const ssize_t got = read(kSocket, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(3);  // whoever asked is gone
    bytes.append(buffer, static_cast<std::size_t>(got));
    if (std::optional<Frame> frame = take_frame(&bytes)) {
      if (frame->type != Type::request) _exit(3);
      return decode_request(frame->payload);
    }
  }
}

void send_frame(Type type, std::string_view payload) {
  const std::string frame = make_frame(type, payload);
  for (std::size_t done = 0; done < frame.size();) {
    const ssize_t sent = send(kSocket, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(3);
    done += static_cast<std::size_t>(sent);
  }
}

// Waits beside the work for the asker to go: nobody else would end the compilers that were started here, nor remove
// their folder. Begun before the sandbox is entered, which it must reach out of.
void watch(const std::string& folder) {
  std::thread([folder] {
    pollfd socket{kSocket, POLLRDHUP, 0};
    while (poll(&socket, 1, -1) < 0 && errno == EINTR) {
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    kill(0, SIGKILL);
  }).detach();
}

std::unique_ptr<Backend> open(const Request& request) {
  switch (request.family) {
    case Family::cuda:
      return open_nvrtc(request.search_dirs);
    case Family::hip:
      return open_hiprtc(request.search_dirs);
    case Family::host:
      return open_cxx(request.host_compiler, request.folder);
    case Family::none:
      break;
  }
  throw Error(QUERN_INTERNAL, "the compile helper was asked for a target of no family");
}

Answer serve(const Request& request) {
  Answer answer;
  try {
    const std::unique_ptr<Backend> backend = open(request);
    send_frame(Type::opened, encode(backend->identity()));
    if (request.action == Action::compile) {
      // From here on the process deals with what the asker's caller has written. Where there is no Landlock, what
      // remains is what holds without it: the scanner of sources, for C++ compilers the lists of files read, and for
      // hipRTC, which has none, that assembly is refused.
      CompileJob job = request.job;
      const bool shut_in = enter({request.folder, {backend->identity().path}});
      if (!shut_in && request.family == Family::hip) job.source = without_assembly(job.source);
      answer.compiled = backend->compile(job);
    } else {
      answer.targets = backend->targets();
    }
  } catch (const Error& error) {
    answer.status = error.status();
    answer.native = error.native();
    answer.text = error.text();
  } catch (const std::bad_alloc&) {
    answer.status = QUERN_NO_MEMORY;
    answer.text = "the compiler ran out of memory";
  } catch (const std::exception& error) {
    answer.status = QUERN_COMPILE;
    answer.text = error.what();
  }
  return answer;
}

}  // namespace
}  // namespace quern::jit::helper

int main() {
  using namespace quern::jit::helper;
#if !defined(QUERN_SPAWN_PREPARES)
  prepare();
#endif
  struct stat status{};
  if (fstat(kSocket, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    std::fputs("quern-compile-helper is started by libquern, not by hand.\n", stderr);
    return 2;
  }
  try {
    const Request request = receive();
    set_limits(request.timeout_ms);
    watch(request.folder);
    send_frame(Type::answer, encode(serve(request)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern-compile-helper: %s\n", error.what());
    _exit(3);
  }
  // At once: what compilers do at exit is slow and may crash, and all is said.
  _exit(0);
}
