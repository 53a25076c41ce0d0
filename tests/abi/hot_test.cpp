// A hot call makes no allocation: malloc and its kin, as the whole process sees them, are counted around it.
// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/abi/support.h"

// glibc's own, behind the names that are replaced here.
extern "C" {
void* __libc_malloc(std::size_t size);                        // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);     // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* old, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t n);  // NOLINT(bugprone-reserved-identifier)
}

namespace {
thread_local std::size_t allocations = 0;  // of this thread
}

extern "C" {
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  void* const made = memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *out = made;
  return 0;
}
}

namespace quern::test {
namespace {

TEST(Hot, AKernelsLaunchAllocatesNothing) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  const ScaleDesc scale;
  quern_kernel* kernel = nullptr;
  std::size_t before = allocations;
  ASSERT_EQ(quern_kernel_prepare(context.get(), &scale.desc, &kernel, nullptr), QUERN_OK);
  ASSERT_GT(allocations, before) << "libquern's allocations are not seen at all";

  float a = 1;
  float out = 0;
  ScaleParams params{&a, &out, 1, 0};
  void* args[] = {&params};
  auto launch = sized<quern_launch>();
  launch.block_x = kScaleThreads;
  launch.args = args;
  launch.arg_count = 1;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_launch(context.get(), kernel, &launch, &error), QUERN_OK);
  std::size_t failed = 0;
  before = allocations;
  for (int i = 0; i < 1000; ++i) {
    if (quern_kernel_launch(context.get(), kernel, &launch, &error) != QUERN_OK) ++failed;
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(failed, 0U);
  EXPECT_EQ(out, 2.0F);
}

}  // namespace
}  // namespace quern::test
