// The kernels that are ready to launch, by Spec. Reading is wait-free while others insert and the table grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "jit/engine.h"
#include "jit/spec.h"

namespace quern::jit {

// Open addressing with linear probing, never more than half full. A slot goes from null to a kernel once and never
// changes again. Growth fills a larger array and publishes it; the old one stays until the table dies, since a reader
// may still be in it: such a reader can miss what was added meanwhile, which costs it the slow path and nothing else.
class KernelTable {
 public:
  KernelTable();
  ~KernelTable();
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  const Kernel* find(const Spec& spec) const noexcept;

  // The kernel that the table holds for this Spec from now on: `kernel`, which is then the table's, or the one that was
  // there before, and `kernel` is left with the caller. Throws bad_alloc, and nothing has changed then.
  const Kernel* insert(std::unique_ptr<Kernel>& kernel);

  // For the destruction of what the kernels hold: nobody may call anything else at the same time.
  template <class Visit>
  void for_each(Visit visit) {
    for (auto& kernel : kernels_) visit(*kernel);
  }
  std::vector<Spec> specs() const;
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  struct Slots {
    explicit Slots(std::size_t count) : mask(count - 1), kernel(new std::atomic<const Kernel*>[count]()) {}
    std::size_t mask;
    std::unique_ptr<std::atomic<const Kernel*>[]> kernel;
  };
  static void place(Slots& slots, const Kernel* kernel) noexcept;

  std::atomic<const Slots*> current_;
  std::atomic<std::size_t> size_{0};
  mutable std::mutex mutex_;  // writers, and specs()
  std::vector<std::unique_ptr<Slots>> slots_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// For tables that are looked into under a lock.
struct SpecHash {
  std::size_t operator()(const Spec& spec) const noexcept;
};

}  // namespace quern::jit
