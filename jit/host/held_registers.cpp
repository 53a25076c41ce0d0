// SPDX-License-Identifier: Apache-2.0
#include "jit/host/held_registers.h"

#include <algorithm>
#include <cstring>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

const q::host::Product& product_of(void* const* lanes, std::uint32_t lane) {
  return *static_cast<const q::host::Product*>(lanes[lane]);
}

}  // namespace

const char* HeldRegisters::use(void* const* lanes, std::uint32_t number) {
  const Unwatched own;
  const char* const wrong = use_sums(lanes, number);
  return wrong != nullptr ? wrong : use_operand(lanes);
}

const char* HeldRegisters::use_sums(void* const* lanes, std::uint32_t number) {
  const q::host::Product& first = product_of(lanes, 0);
  const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const Sums& sums) { return sums.of[0] == first.d; });
  if (known != sums_.end()) {
    // Those of a product that is under way are nobody's to change: they hold what a seeded run puts there.
    const bool may_differ = !known->settled || known->fences != fences_ || first.accumulate == 0;
    for (std::uint32_t lane = 0; lane < kLanes && !may_differ && known->count == first.count; ++lane) {
      const float* const left = known->left.data() + std::size_t{lane} * known->count;
      if (std::memcmp(product_of(lanes, lane).d, left, known->count * sizeof(float)) != 0)
        return "its accumulators were changed after they were waited for, and no wgmma_fence came after that";
    }
  } else if (sums_.size() == kMost) {
    return nullptr;
  }
  Sums& sums = known != sums_.end() ? *known : sums_.emplace_back();
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) sums.of[lane] = product_of(lanes, lane).d;
  sums.count = first.count, sums.number = number, sums.settled = false;
  return nullptr;
}

const char* HeldRegisters::use_operand(void* const* lanes) {
  const unsigned* const at = product_of(lanes, 0).a_registers;
  if (at == nullptr) return nullptr;
  Operand now{at, fences_, {}};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    std::copy_n(product_of(lanes, lane).a_registers, std::size(now.left[lane]), now.left[lane]);
  const auto known =
      std::find_if(operands_.begin(), operands_.end(), [&](const Operand& operand) { return operand.of == at; });
  if (known == operands_.end()) {
    if (operands_.size() < kMost) operands_.push_back(now);
    return nullptr;
  }
  const bool wrong = known->fences == fences_ && std::memcmp(known->left, now.left, sizeof(now.left)) != 0;
  *known = now;
  return wrong ? "its operand in registers was changed after a product had taken it, and no wgmma_fence came after that"
               : nullptr;
}

void HeldRegisters::settle(std::uint32_t number) {
  const Unwatched own;
  for (Sums& sums : sums_) {
    if (sums.settled || sums.number >= number) continue;
    sums.settled = true, sums.fences = fences_;
    sums.left.resize(std::size_t{kLanes} * sums.count);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      std::copy_n(sums.of[lane], sums.count, sums.left.data() + std::size_t{lane} * sums.count);
  }
}

}  // namespace quern::jit::host
