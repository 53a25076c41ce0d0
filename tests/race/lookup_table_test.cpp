// The look-up table alone: many kernels, growth, and readers meanwhile.
// SPDX-License-Identifier: Apache-2.0
#include "jit/lookup_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "jit/engine.h"

namespace quern::jit {
namespace {

using Kernels = LookupTable<Kernel, Spec, &Kernel::spec>;

Spec numbered(std::uint32_t n) {
  Spec spec;
  spec.words[13] = n;
  return spec;
}

std::unique_ptr<Kernel> kernel_of(std::uint32_t n) {
  auto kernel = std::make_unique<Kernel>();
  kernel->spec = numbered(n);
  kernel->key.low = n;
  return kernel;
}

TEST(LookupTable, FindsWhatWasInsertedAndNothingElse) {
  Kernels table;
  EXPECT_EQ(table.find(numbered(0)), nullptr);
  for (std::uint32_t n = 0; n < 5000; ++n) {
    auto kernel = kernel_of(n);
    const Kernel* mine = kernel.get();
    ASSERT_EQ(table.insert(kernel), mine);
    ASSERT_EQ(kernel, nullptr);
  }
  for (std::uint32_t n = 0; n < 5000; ++n) {
    const Kernel* kernel = table.find(numbered(n));
    ASSERT_NE(kernel, nullptr) << n;
    ASSERT_EQ(kernel->key.low, n);
  }
  EXPECT_EQ(table.find(numbered(5000)), nullptr);
  EXPECT_EQ(table.size(), 5000u);
  EXPECT_EQ(table.keys().size(), 5000u);
}

TEST(LookupTable, KeepsTheFirstOfTwoEqualSpecs) {
  Kernels table;
  auto first = kernel_of(1);
  auto second = kernel_of(1);
  const Kernel* published = table.insert(first);
  EXPECT_EQ(table.insert(second), published);
  EXPECT_NE(second, nullptr) << "the loser stays with its owner";
  EXPECT_EQ(table.size(), 1u);
}

TEST(LookupTable, EveryBitOfASpecCounts) {
  Kernels table;
  auto kernel = std::make_unique<Kernel>();
  table.insert(kernel);
  for (std::size_t byte = 0; byte < sizeof(Spec); ++byte) {
    Spec spec;
    reinterpret_cast<unsigned char*>(&spec)[byte] = 0x80;
    EXPECT_EQ(table.find(spec), nullptr) << "byte " << byte;
  }
}

// Readers see a kernel from the moment its insertion returned, whatever grows around them.
TEST(LookupTable, ReadersRunWhileWritersInsert) {
  Kernels table;
  constexpr std::uint32_t kCount = 4000;
  std::atomic<std::uint32_t> inserted{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned reader = 0; reader < 4; ++reader) {
    threads.emplace_back([&, reader] {
      std::uint32_t at = reader;
      std::uint32_t known = 0;
      while (known < kCount) {
        known = inserted.load(std::memory_order_acquire);
        if (known == 0) continue;
        const std::uint32_t n = at++ * 2654435761u % known;
        const Kernel* kernel = table.find(numbered(n));
        if (kernel == nullptr || kernel->key.low != n) wrong++;
        if (table.find(numbered(kCount + n)) != nullptr) wrong++;
      }
    });
  }
  for (std::uint32_t n = 0; n < kCount; ++n) {
    auto kernel = kernel_of(n);
    table.insert(kernel);
    inserted.store(n + 1, std::memory_order_release);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(LookupTable, WritersAgreeOnOneKernelASpec) {
  Kernels table;
  std::vector<std::vector<const Kernel*>> got(4);
  std::vector<std::thread> threads;
  for (std::size_t writer = 0; writer < got.size(); ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint32_t n = 0; n < 500; ++n) {
        auto kernel = kernel_of(n);
        got[writer].push_back(table.insert(kernel));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 500u);
  for (const auto& each : got) EXPECT_EQ(each, got[0]);
}

}  // namespace
}  // namespace quern::jit
