// Places in shared memory as Hopper's instruments have them, and the list of those instruments.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/hopper.h"

#include <cstdio>

#include "jit/host/hopper_calls.h"

namespace quern::jit::host {
namespace {

// What the start of a matrix descriptor can say.
constexpr std::uint32_t kAddresses = 1u << 18;

}  // namespace

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint32_t HopperCalls::offset_of(const char* what, const void* shared, std::uint64_t bytes,
                                     std::uint32_t alignment) {
  const Products::Window& window = runner->windows_[block()];
  const auto at = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) - window.shared);
  if (at > window.bytes || bytes > window.bytes - at) {
    runner->fail([&] {
      return std::string(what) + ": " + std::to_string(bytes) + " bytes at " +
             hex(reinterpret_cast<std::uintptr_t>(shared)) + " do not lie in the block's shared memory, " +
             std::to_string(window.bytes) + " bytes at " + hex(reinterpret_cast<std::uintptr_t>(window.shared));
    });
  }
  if (at % alignment != 0) {
    runner->fail([&] {
      return std::string(what) + ": shared address " + hex(at) + " must be a multiple of " + std::to_string(alignment);
    });
  }
  return static_cast<std::uint32_t>(at);
}

std::uint32_t HopperCalls::live_block(const char* what, std::uint32_t rank) {
  if (rank >= runner->cluster_blocks_) {
    runner->fail([&] {
      return std::string(what) + ": rank " + std::to_string(rank) + " of a cluster of " +
             std::to_string(runner->cluster_blocks_);
    });
  }
  if (runner->live_[rank] == 0) {
    runner->fail([&] {
      return std::string(what) + ": all threads of the block of rank " + std::to_string(rank) +
             " have returned: its shared memory is gone";
    });
  }
  return rank;
}

HopperCalls::Place HopperCalls::place_of(const char* what, unsigned address, unsigned bytes) {
  const std::uint32_t rank = address >> kRankShift == 0 ? block() : (address >> kRankShift) - 1;
  const std::uint32_t at = address & ((1u << kRankShift) - 1);
  live_block(what, rank);
  if (at + bytes > runner->windows_[rank].bytes || at % bytes != 0) {
    runner->fail([&] {
      return std::string(what) + ": " + std::to_string(bytes) + " bytes at " + hex(at) + " of the block of rank " +
             std::to_string(rank) + ", whose shared memory has " + std::to_string(runner->windows_[rank].bytes) +
             "; aligned they must be, too";
    });
  }
  return {rank, there(rank, at)};
}

void HopperCalls::check(const char* what, const void* barrier, const char* wrong) {
  if (wrong == nullptr) return;
  runner->fail(
      [&] { return std::string(what) + " of the barrier at shared address " + runner->where(barrier) + ": " + wrong; });
}

unsigned HopperCalls::shared_address(const void* shared) {
  return offset_of("shared_address", shared, 0, 1) & (kAddresses - 1);
}

std::string Runner::where(const void* shared) const {
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    const auto at = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) - windows_[b].shared);
    if (at >= windows_[b].bytes) continue;
    return hex(at) + (cluster_blocks_ > 1 ? " of rank " + std::to_string(b) : "");
  }
  return "?";
}

void add_hopper_calls(q::host::Table& t) {
  t.shared_address = &HopperCalls::shared_address;
  t.copy_arrive = &HopperCalls::copy_arrive;
  t.bulk = &HopperCalls::bulk;
  t.fence_async = &HopperCalls::fence_async;
  t.bulk_commit = &HopperCalls::bulk_commit;
  t.bulk_wait = &HopperCalls::bulk_wait;
  t.mbarrier_init = &HopperCalls::mbarrier_init;
  t.fence_mbarrier_init = &HopperCalls::fence_mbarrier_init;
  t.mbarrier_invalidate = &HopperCalls::mbarrier_invalidate;
  t.mbarrier_arrive = &HopperCalls::mbarrier_arrive;
  t.mbarrier_arrive_remote = &HopperCalls::mbarrier_arrive_remote;
  t.mbarrier_try_wait = &HopperCalls::mbarrier_try_wait;
  t.mbarrier_wait = &HopperCalls::mbarrier_wait;
  t.product = &HopperCalls::product;
  t.product_fence = &HopperCalls::product_fence;
  t.product_commit = &HopperCalls::product_commit;
  t.product_wait = &HopperCalls::product_wait;
  t.registers = &HopperCalls::registers;
  t.elect = &HopperCalls::elect;
  t.arrive_named = &HopperCalls::arrive_named;
  t.cluster_arrive = &HopperCalls::cluster_arrive;
  t.cluster_wait = &HopperCalls::cluster_wait;
  t.cluster_address = &HopperCalls::cluster_address;
  t.cluster_pointer = &HopperCalls::cluster_pointer;
  t.store_async = &HopperCalls::store_async;
}

}  // namespace quern::jit::host
