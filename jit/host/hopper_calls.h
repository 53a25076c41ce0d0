// Hopper's instruments as kernels call them, for the files that define them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/host/collective.h"

namespace quern::jit::host {

// An address of another block's shared memory: its rank plus one above the offset. Without a rank it is the block's
// own.
inline constexpr std::uint32_t kRankShift = 24;

// 0x and digits.
std::string hex(std::uint64_t value);

struct HopperCalls {
  static Runner::Fiber& fiber() { return runner->fibers_[runner->current_]; }
  static std::uint32_t block() { return fiber().block; }
  static std::uint32_t warp_of_block() { return fiber().warp - block() * runner->warps_; }
  static unsigned char* there(std::uint32_t in_block, std::uint32_t offset) {
    return const_cast<unsigned char*>(runner->windows_[in_block].shared) + offset;
  }

  // ---- Shared memory (hopper.cpp). What begins with `what` ends the cluster with a sentence where something is wrong.
  static std::uint32_t offset_of(const char* what, const void* shared, std::uint64_t bytes, std::uint32_t alignment);
  static std::uint32_t live_block(const char* what, std::uint32_t rank);
  struct Place {
    std::uint32_t rank;
    unsigned char* at;
  };
  static Place place_of(const char* what, unsigned address, unsigned bytes);
  static void check(const char* what, const void* barrier, const char* wrong);
  static unsigned shared_address(const void* shared);

  // ---- Cluster (cluster.cpp)
  // What this block has written to its own and others' shared memory, for the cluster to see.
  static void release_block();
  static unsigned cluster_address(const void* shared, unsigned rank);
  static void* cluster_pointer(unsigned address, unsigned bytes, unsigned reads);
  static void store_async(unsigned address, const void* value, unsigned bytes, unsigned barrier);
  static void cluster_arrive(unsigned relaxed);
  static void cluster_wait();

  // ---- Copies, and barriers in shared memory (copies.cpp)
  static void bulk(const q::host::BulkCopy* copy);
  static void fence_async();
  static void bulk_commit();
  static void bulk_wait(unsigned groups_left, unsigned read_only);
  static void copy_arrive(void* barrier);
  static void mbarrier_init(void* barrier, unsigned arrivals);
  static void fence_mbarrier_init();
  static void mbarrier_invalidate(void* barrier);
  static void arrive(const char* what, void* barrier, unsigned arrivals, unsigned bytes);
  static void mbarrier_arrive(void* barrier, unsigned arrivals, unsigned bytes);
  static void mbarrier_arrive_remote(void* barrier, unsigned rank, unsigned relaxed);
  static std::uint32_t parity(const char* what, void* barrier, unsigned phase);
  static unsigned mbarrier_try_wait(void* barrier, unsigned phase);
  static void mbarrier_wait(void* barrier, unsigned phase);

  // ---- Products, registers, election, named barriers (warpgroup.cpp)
  static std::uint32_t warpgroup() {
    const std::uint32_t groups = (runner->warps_ + Products::kWarps - 1) / Products::kWarps;
    return block() * groups + warp_of_block() / Products::kWarps;
  }
  static void join_for_product();
  static void product(const q::host::Product* mine);
  static void product_fence();
  static void product_commit();
  static void product_wait(unsigned groups_left);
  static void registers(unsigned count, unsigned grow);
  static unsigned elect();
  static void arrive_named(unsigned id, unsigned threads);
};

}  // namespace quern::jit::host
