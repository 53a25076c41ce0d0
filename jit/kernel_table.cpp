// The table's look-up, insertion and growth.
// SPDX-License-Identifier: Apache-2.0
#include "jit/kernel_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern::jit {

std::size_t SpecHash::operator()(const Spec& spec) const noexcept { return XXH3_64bits(&spec, sizeof(spec)); }

KernelTable::KernelTable() {
  slots_.push_back(std::make_unique<Slots>(64));
  current_.store(slots_.back().get(), std::memory_order_release);
}

KernelTable::~KernelTable() = default;

const Kernel* KernelTable::find(const Spec& spec) const noexcept {
  const Slots& slots = *current_.load(std::memory_order_acquire);
  for (std::size_t at = SpecHash{}(spec);; ++at) {
    const Kernel* kernel = slots.kernel[at & slots.mask].load(std::memory_order_acquire);
    if (kernel == nullptr || kernel->spec == spec) return kernel;
  }
}

void KernelTable::place(Slots& slots, const Kernel* kernel) noexcept {
  std::size_t at = SpecHash{}(kernel->spec);
  while (slots.kernel[at & slots.mask].load(std::memory_order_relaxed) != nullptr) ++at;
  slots.kernel[at & slots.mask].store(kernel, std::memory_order_release);
}

const Kernel* KernelTable::insert(std::unique_ptr<Kernel>& kernel) {
  std::lock_guard lock(mutex_);
  if (const Kernel* there = find(kernel->spec)) return there;
  if (kernels_.size() == kernels_.capacity()) kernels_.reserve(2 * kernels_.size() + 32);
  Slots& now = *slots_.back();
  if (2 * (kernels_.size() + 1) > now.mask + 1) {
    auto larger = std::make_unique<Slots>(2 * (now.mask + 1));
    for (const auto& each : kernels_) place(*larger, each.get());
    slots_.push_back(std::move(larger));
    current_.store(slots_.back().get(), std::memory_order_release);
  }
  place(*slots_.back(), kernel.get());
  kernels_.push_back(std::move(kernel));
  size_.store(kernels_.size(), std::memory_order_relaxed);
  return kernels_.back().get();
}

std::vector<Spec> KernelTable::specs() const {
  std::lock_guard lock(mutex_);
  std::vector<Spec> specs;
  specs.reserve(kernels_.size());
  for (const auto& kernel : kernels_) specs.push_back(kernel->spec);
  return specs;
}

}  // namespace quern::jit
