// What fork() must leave usable in a child.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "jit/key.h"
#include "jit/sanitizer.h"
#include "sources/expression/expression.h"
#include "sources/kernel/kernel.h"
#include "sources/op.h"

namespace quern {
namespace {

// What belongs to the process (texts, expressions, digests) is free in a child, whatever other threads were doing.
TEST(Fork, AChildFindsWhatBelongsToTheProcessFree) {
#ifdef QUERN_BUILT_WITH_ASAN
  GTEST_SKIP()
      << "GCC's AddressSanitizer does not free its allocator's locks in a child: a program that only allocates "
         "in threads and forks hangs with it, too";
#endif
  std::atomic<bool> stop{false};
  const auto work = [](int number) {
    const ops::kernel::Interning interning;
    ops::kernel::Text text;
    text.entry = "k";
    text.source = {"k.cu", "// " + std::to_string(number) + std::string(20'000, 'x')};
    const jit::Spec spec = ops::kernel::intern(text, jit::Target::parse("sm_80"));
    const jit::Unit unit = ops::describe(spec);
    jit::canonical_text(unit, jit::used_files(unit));
    ops::expression::intern("acc + " + std::to_string(number));
  };
  std::vector<std::thread> threads;
  for (int t = 1; t <= 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) work(t * 1'000'000 + i);
    });
  }
  int hung = 0;
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      work(i);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    hung += WIFSIGNALED(status) ? 1 : 0;
    if (hung != 0) break;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(hung, 0);
}

}  // namespace
}  // namespace quern
