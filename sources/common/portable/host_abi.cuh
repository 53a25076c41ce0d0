// The interface between a kernel compiled for `host` and the executor that runs it. Included by both: the kernel is
// compiled without system headers, the executor with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q::host {

// Raised when anything in this file changes; an image of another version is refused and made again.
inline constexpr unsigned kAbi = 7;

// What the threads of a block share.
struct Block {
  unsigned index[3];
  unsigned count[3];
  unsigned char* dynamic_shared;  // 128-byte aligned
  unsigned char* static_shared;   // SharedArray::offset counts from here
  unsigned seeded;                // not 0: order is drawn from a seed, and asynchronous copies arrive late
  unsigned cluster_rank, cluster_size;
};

struct Thread {
  const Block* block;
  unsigned index, lane, warp;
};

// A static array in shared memory. The kernel registers it, the executor places it.
struct SharedArray {
  unsigned long long bytes;
  unsigned long long offset;
  SharedArray* next;
};

// The names under which a deadlock report lists the warp collectives that run in the kernel's own code.
enum class Together : unsigned { mma = 0, load_matrix, store_matrix };

// A bulk copy by tensor map, or of plain memory where `map` is null.
enum class CopyForm : unsigned { load, prefetch, store, add };
struct BulkCopy {
  CopyForm form;
  const void* map;
  void* shared;
  void* barrier;   // of a load
  unsigned ranks;  // of a load: a bit for each block of the cluster that is to have it; 0: this block
  unsigned rank;   // coordinates
  int at[5];
  void* global;  // without a map
  unsigned bytes;
};

// One thread's operands of a product of its warpgroup.
enum class Number : unsigned { bf16, f16, e4m3, e5m2, i8 };
struct Product {
  float* d;        // of i8: the bits of s32
  unsigned count;  // of d
  Number a_type, b_type;
  unsigned a_major, b_major;    // q::Major
  const unsigned* a_registers;  // null: `a` is a descriptor
  unsigned long long a, b;
  unsigned accumulate;
};

// Every call concerns the calling thread. The calls for warps, blocks and barriers return when all threads that must
// arrive have arrived.
struct Table {
  // The same for the whole life of a thread, so the compiler may keep it.
  const Thread* (*self)() __attribute__((const));
  void (*sync_block)();
  void (*sync_named)(unsigned id, unsigned threads);
  void (*sync_warp)();
  unsigned long long (*shuffle)(unsigned long long value, unsigned source);
  unsigned long long (*ballot)(unsigned predicate);
  // The last lane to arrive calls run(values of all lanes) for all of them.
  void (*together)(Together kind, void* mine, void (*run)(void* const* lanes));
  // Lets other threads run; called by loops that poll memory.
  void (*yield)();
  // Not called where Block::seeded is 0: the kernel then copies at once.
  void (*copy)(void* shared, const void* global, unsigned bytes, unsigned take);
  void (*copy_commit)();
  void (*copy_wait)(unsigned groups_left);

  // Hopper's instructions, as common/sm90/tma.cuh and common/sm90/warpgroup.cuh document them.
  unsigned (*shared_address)(const void* shared);  // within the block's shared memory
  // Arrives on the barrier once this thread's copies so far have landed. Not called where Block::seeded is 0.
  void (*copy_arrive)(void* barrier);
  void (*bulk)(const BulkCopy* copy);
  void (*bulk_commit)();
  void (*bulk_wait)(unsigned groups_left, unsigned read_only);
  void (*mbarrier_init)(void* barrier, unsigned arrivals);
  // What this thread has initialised is seen by copies and by other blocks from now on.
  void (*fence_mbarrier_init)();
  void (*mbarrier_invalidate)(void* barrier);
  // Expects `bytes`, then arrives `arrivals` times (0 or 1).
  void (*mbarrier_arrive)(void* barrier, unsigned arrivals, unsigned bytes);
  // Relaxed, it does not show the cluster what was written before.
  void (*mbarrier_arrive_remote)(void* barrier, unsigned rank, unsigned relaxed);
  unsigned (*mbarrier_try_wait)(void* barrier, unsigned phase);
  void (*mbarrier_wait)(void* barrier, unsigned phase);
  void (*product)(const Product* mine);
  void (*product_fence)();
  void (*product_commit)();
  void (*product_wait)(unsigned groups_left);
  void (*registers)(unsigned count, unsigned grow);
  unsigned (*elect)();
  void (*arrive_named)(unsigned id, unsigned threads);
  void (*cluster_arrive)(unsigned relaxed);
  void (*cluster_wait)();
  unsigned (*cluster_address)(const void* shared, unsigned rank);
  // The memory at a cluster address, for so many bytes, to be read or written at once.
  void* (*cluster_pointer)(unsigned address, unsigned bytes, unsigned reads);
  // Both are cluster addresses: a store that is made later and then counts on the barrier.
  void (*store_async)(unsigned address, const void* value, unsigned bytes, unsigned barrier);
  // What was written to shared memory before is seen by copies out of it, and by products.
  void (*fence_async)();
  // Launches are synchronous: that somebody asks is all that there is to it.
  void (*waited_for_grid)();
};

// Exported as <entry>_kernel.
struct Kernel {
  void (*entry)(void** args);  // one pointer to each parameter's value
  unsigned threads;            // of a block
  unsigned parameters;
};

struct Module {
  unsigned warp;
  SharedArray* shared;  // a list
};

// Exported as quern_host_bind. Returns the image's own kAbi, and does nothing else unless that equals `abi`.
using Bind = unsigned (*)(unsigned abi, const Table* table, Module* module);

}  // namespace q::host
