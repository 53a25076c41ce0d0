// Compilers and helpers that crash, hang, flood or lie: each must come back as an error that says what happened.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/compile_log.h"
#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class HelperFaults : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern-faults-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    std::size_t left = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) left += entry.is_directory() ? 1 : 0;
    EXPECT_EQ(left, 0u) << "a working folder was left behind in " << folder_;
    std::filesystem::remove_all(folder_);
  }

  // An executable shell script. As a C++ compiler it is also asked for --version.
  std::string script(const std::string& body) {
    const std::string path = folder_ / ("script" + std::to_string(++scripts_));
    std::ofstream(path) << "#!/bin/sh\n" << body << '\n';
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }

  Error compile_with(const std::string& compiler, milliseconds timeout = milliseconds(20'000)) {
    CompilerOptions options;
    options.host_compiler = compiler;
    options.timeout = timeout;
    Compilers compilers(options);
    return error_of([&] { compilers.compile(job_for("host", kHostKernel)); });
  }

  Error compile_by(const std::string& helper, milliseconds timeout = milliseconds(20'000)) {
    CompilerOptions options;
    options.helper_path = helper;
    options.timeout = timeout;
    Compilers compilers(options);
    return error_of([&] { compilers.compile(job_for("host", kHostKernel)); });
  }

  std::filesystem::path folder_;
  int scripts_ = 0;
};

const std::string kVersion =
    "if [ \"$1\" = --version ]; then echo 'g++ (fake) 1.2.3'; echo 'Free Software Foundation'; exit 0; fi\n";

TEST_F(HelperFaults, ACompilerThatCrashes) {
  const Error error = compile_with(script(kVersion + "echo about to die >&2; kill -SEGV $$"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_EQ(error.native(), SIGSEGV);
  EXPECT_TRUE(contains(error.text(), "signal 11")) << error.text();
  EXPECT_TRUE(contains(error.text(), "about to die")) << error.text();
  EXPECT_TRUE(contains(error.text(), "g++ 1.2.3")) << error.text();
}

TEST_F(HelperFaults, ACompilerThatHangsIsEndedWithItsChildren) {
  const auto start = steady_clock::now();
  // By the log, since a compiler has no other place to write to.
  const Error error = compile_with(script(kVersion + "sleep 1000 & echo pid $! >&2; wait"), milliseconds(500));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "after 500 ms")) << error.text();
  pid_t sleeper = 0;
  if (const std::size_t at = error.text().rfind("pid "); at != std::string::npos)
    sleeper = static_cast<pid_t>(std::stol(error.text().substr(at + 4)));
  ASSERT_GT(sleeper, 0);
  // Gone, or (where nobody reaps orphans) a zombie. On a busy machine who has been killed dies a little later.
  std::string state;
  for (int i = 0; i < 200; ++i) {
    std::ifstream stat("/proc/" + std::to_string(sleeper) + "/stat");
    std::string skipped;
    state.clear();
    stat >> skipped >> skipped >> state;
    if (state.empty() || state == "Z" || state == "X") return;
    std::this_thread::sleep_for(milliseconds(10));
  }
  FAIL() << "the compiler's child is still there, in state " << state;
}

// A host that is killed leaves neither compilers nor folders behind.
TEST_F(HelperFaults, AHostThatIsKilledTakesItsCompilersAlong) {
  const std::string mark = "43210." + std::to_string(getpid());
  const std::string compiler = script(kVersion + "sleep " + mark + " & sleep " + mark);
  const auto sleepers = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      std::string line;
      std::getline(file, line, '\0');
      if (!line.ends_with("sleep")) continue;
      std::getline(file, line, '\0');
      count += line == mark;
    }
    return count;
  };
  const auto folders = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) count += entry.is_directory();
    return count;
  };
  const pid_t host = fork();
  if (host == 0) {
    compile_with(compiler);
    _exit(0);
  }
  const auto within = [](int seconds, const std::function<bool()>& holds) {
    const auto end = steady_clock::now() + std::chrono::seconds(seconds);
    while (!holds() && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(10));
    return holds();
  };
  ASSERT_TRUE(within(20, [&] { return sleepers() == 2; }));
  EXPECT_EQ(folders(), 1);
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(within(10, [&] { return sleepers() == 0; })) << sleepers();
  EXPECT_TRUE(within(10, [&] { return folders() == 0; })) << folders();
}

TEST_F(HelperFaults, ACompilerThatFloodsItsLog) {
  const Error error = compile_with(script(
      kVersion + "echo first words >&2; head -c 50000000 /dev/zero | tr '\\0' x >&2; echo last words >&2; exit 1"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_LT(error.text().size(), 70'000u);
  EXPECT_TRUE(contains(error.text(), "first words\nxxx")) << error.text().substr(0, 300);
  EXPECT_TRUE(contains(error.text(), "xxx\n... (" + std::to_string(50'000'000 + 12 + 11 - kLogHead - kLogTail) +
                                         " bytes of the log are left out here)\nxxx"));
  EXPECT_TRUE(error.text().ends_with("xxxlast words")) << error.text().substr(error.text().size() - 300);
}

TEST_F(HelperFaults, ACompilerThatFloodsForEver) {
  const Error error = compile_with(script(kVersion + "yes >&2"), milliseconds(1000));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "after 1000 ms")) << error.text().substr(0, 300);
  EXPECT_LT(error.text().size(), 70'000u);
}

TEST_F(HelperFaults, ACompilerThatSaysYesAndWritesNothing) {
  const Error error = compile_with(script(kVersion + "exit 0"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "wrote no shared object")) << error.text();
}

TEST_F(HelperFaults, AHelperThatCrashes) {
  const Error error = compile_by(script("echo last words >&2; kill -ABRT $$"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_EQ(error.native(), SIGABRT);
  EXPECT_TRUE(contains(error.text(), "SIGABRT")) << error.text();
  EXPECT_TRUE(contains(error.text(), "last words")) << error.text();
  EXPECT_TRUE(contains(error.text(), "compiling 'k' for host")) << error.text();
}

// An exit status proves nothing: only a whole answer counts.
TEST_F(HelperFaults, AHelperThatExitsWithoutAnAnswer) {
  const Error error = compile_by("/bin/true");
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "exit status 0 and no answer")) << error.text();
}

TEST_F(HelperFaults, AHelperThatHangs) {
  const auto start = steady_clock::now();
  const Error error = compile_by(script("sleep 1000"), milliseconds(300));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_EQ(error.native(), ETIMEDOUT);
}

TEST_F(HelperFaults, AHelperThatTalksNonsense) {
  const Error error = compile_by(script("echo this is no frame at all, but long enough for one >&0"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "no proper answer")) << error.text();
}

TEST_F(HelperFaults, AHelperThatIsNotThere) {
  const Error missing = compile_by("/nowhere/quern-compile-helper");
  EXPECT_EQ(missing.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(missing.text(), "/nowhere/quern-compile-helper")) << missing.text();
  EXPECT_EQ(compile_by("quern-compile-helper").status(), QUERN_INVALID);
  const std::string text_file = folder_ / "text";
  std::ofstream(text_file) << "not a program";
  chmod(text_file.c_str(), 0755);
  const Error no_program = compile_by(text_file);
  EXPECT_EQ(no_program.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(no_program.text(), "cannot be started")) << no_program.text();
}

TEST_F(HelperFaults, AProgramThatIgnoresSigchld) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Compilers compilers{CompilerOptions{}};
  EXPECT_FALSE(compilers.compile(job_for("host", kHostKernel)).image.empty());
  const Error error = compile_by(script("kill -ABRT $$"));
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "without an answer")) << error.text();
  std::signal(SIGCHLD, before);
}

TEST_F(HelperFaults, AProgramThatReapsEveryChild) {
  std::atomic<bool> stop = false;
  std::thread reaper([&] {
    while (!stop) {
      waitpid(-1, nullptr, WNOHANG);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  Compilers compilers{CompilerOptions{}};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(compilers.compile(job_for("host", kHostKernel)).image.empty());
  stop = true;
  reaper.join();
}

TEST_F(HelperFaults, AProgramWithoutStandardDescriptors) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    bool right = false;
    try {
      Compilers compilers{CompilerOptions{}};
      right = !compilers.compile(job_for("host", kHostKernel)).image.empty();
    } catch (const Error&) {
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(HelperFaults, NothingOfTheProgramReachesTheHelper) {
  setenv("QUERN_TEST_SECRET", "1", 1);
  const int open_file = open("/dev/null", O_RDONLY);  // inheritable on purpose
  const std::string seen = folder_ / "seen";
  compile_by(script("ls /proc/self/fd > " + seen + "; env >> " + seen));
  close(open_file);
  unsetenv("QUERN_TEST_SECRET");
  std::ifstream file(seen);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  ASSERT_TRUE(contains(text, "PATH=")) << text;
  EXPECT_FALSE(contains(text, "QUERN_TEST_SECRET")) << text;
  // ls itself has its folder open as one more.
  EXPECT_TRUE(text.starts_with("0\n1\n2\n3\nAMD") || text.starts_with("0\n1\n2\n3\n")) << text;
  EXPECT_FALSE(contains(text, "\n4\n")) << text;
}

TEST_F(HelperFaults, NoDescriptorIsLost) {
  const auto count = [] {
    std::size_t open = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++open;
    return open;
  };
  Compilers compilers{CompilerOptions{}};
  compilers.compile(job_for("host", kHostKernel));
  const std::size_t before = count();
  for (int i = 0; i < 3; ++i) {
    compilers.compile(job_for("host", kHostKernel));
    compile_by("/bin/true");
    compile_by(script("sleep 1000"), milliseconds(50));
    compile_by("/nowhere/helper");
  }
  EXPECT_EQ(count(), before);
}

TEST_F(HelperFaults, SeveralAtOnce) {
  Compilers compilers{CompilerOptions{}};
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] { right += compilers.compile(job_for("host", kHostKernel)).image.empty() ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 6);
}

}  // namespace
}  // namespace quern::jit
