// A call of a kernel that is ready makes no allocation, and finds it while others are being made.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/race/fixture.h"

namespace {
// Per thread, so that other threads do not disturb the count.
thread_local std::uint64_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  allocations++;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

// Inlined into each other, a new of ours and a delete of ours look to GCC like malloc's and free's partners mixed up.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
// The address sanitizer has these of its own, whose memory `delete` below must not free.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace quern::jit::test {
namespace {

TEST_F(EngineTest, AHotCallAllocatesNothing) {
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  const std::uint64_t before_compiling = allocations;
  for (std::uint32_t n = 0; n < 100; ++n) engine.ready(toy(n), Miss::compile, nullptr);
  EXPECT_GT(allocations, before_compiling) << "the count works";

  Launch launch;
  launch.grid[0] = 132;
  int argument = 1;
  void* args[] = {&argument};
  int failed = 0;
  const std::uint64_t before = allocations;
  for (std::uint32_t n = 0; n < 1000; ++n) {
    const Kernel* kernel = engine.find(toy(n % 100));
    if (kernel == nullptr || driver.launch(kernel->loaded, launch, args, 1) != 0) failed++;
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(driver.launches, 1000);
}

TEST_F(EngineTest, LookUpsRunWhileOthersSpecialise) {
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  constexpr std::uint32_t kCount = 300;
  std::atomic<std::uint32_t> known{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      std::uint32_t at = 0;
      while (known.load(std::memory_order_acquire) < kCount) {
        const std::uint32_t upto = known.load(std::memory_order_acquire);
        if (upto == 0) continue;
        const Kernel* kernel = engine.find(toy(at++ % upto));
        if (kernel == nullptr || kernel->loaded.module == nullptr) wrong++;
      }
    });
  }
  for (std::uint32_t n = 0; n < kCount; ++n) {
    engine.ready(toy(n), Miss::compile, nullptr);
    known.store(n + 1, std::memory_order_release);
  }
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace quern::jit::test
