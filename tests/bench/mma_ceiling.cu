// What mma.sync m16n8k16 bf16 reaches on this chip, alone and with what a matrix product needs beside it.
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a tests/bench/mma_ceiling.cu -o mma_ceiling && ./mma_ceiling [WORD ...]
// With words, only lines in which one of them stands are measured.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_bf16.h>
#include <random>
#include <vector>

#define CHECK(x)                                                                      \
  do {                                                                                \
    cudaError_t e = (x);                                                              \
    if (e != cudaSuccess) printf("%s: %s\n", #x, cudaGetErrorString(e)), exit(1);     \
  } while (0)

using u32 = uint32_t;
using u64 = unsigned long long;

__device__ __forceinline__ void mma(float* c, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void ldsm(u32* x, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address));
}
__device__ __forceinline__ void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

struct Report {
  u64 cycles, nanoseconds;
};

constexpr int kPitch = 144;  // bytes: 64 bf16 and a bank's shift

// Warps of 64 x 64 (MT = 4 tiles of 16 rows, NT = 8 of 8 columns), WM x WN of them.
// MODE 0: products of registers. 1: operands by ldmatrix, LD of the 8 a step of 16. 2: and cp.async of a real product's bytes.
// 3: and the wait and the barrier of each step of 64. ORDER 0: rows' operand kept, columns in order; 1: columns there and back.
template <int WM, int WN, int BLOCKS, int MODE, int LD, int STAGES, int ORDER>
__global__ void __launch_bounds__(WM * WN * 32, BLOCKS) run(const uint4* data, const uint8_t* a, const uint8_t* b, int row_bytes, int steps, float* out, Report* reports) {
  extern __shared__ __align__(1024) uint8_t shared[];
  constexpr int kThreads = WM * WN * 32, kRows = 64 * (WM + WN), kStage = kRows * kPitch;
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared));
  if (MODE > 0) {
    for (int i = threadIdx.x; i < STAGES * kStage / 16; i += kThreads) reinterpret_cast<uint4*>(shared)[i] = data[(i + 977 * blockIdx.x) % 65536];
    __syncthreads();
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float acc[4][8][4];
  for (auto& x : acc) for (auto& y : x) for (float& z : y) z = 0;
  u32 fa[2][4][4], fb[2][4][4];
  for (int s = 0; s < 2; ++s)
    for (int i = 0; i < 4; ++i) {
      const uint4 v = data[(threadIdx.x * 16 + s * 8 + i + blockIdx.x * 4096) % 65536], w = data[(threadIdx.x * 16 + s * 8 + i + 4 + blockIdx.x * 4096) % 65536];
      fa[s][i][0] = v.x, fa[s][i][1] = v.y, fa[s][i][2] = v.z, fa[s][i][3] = v.w;
      fb[s][i][0] = w.x, fb[s][i][1] = w.y, fb[s][i][2] = w.z, fb[s][i][3] = w.w;
    }
  const u32 at_a = base + (warp / WN * 64 + lane % 16) * kPitch + lane / 16 * 16;
  const u32 at_b = base + (64 * WM + warp % WN * 64 + lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 16;
  // Copies: each thread a chunk of 16 bytes of every so many rows.
  constexpr int kAtOnce = kThreads / 8, kPassesA = 64 * WM / kAtOnce, kPassesB = 64 * WN / kAtOnce, kPasses = kPassesA + kPassesB;
  const int tiles_m = 4096 / (64 * WM);
  const uint8_t* from_a = a + static_cast<size_t>(blockIdx.x % tiles_m * 64 * WM + threadIdx.x / 8) * row_bytes + threadIdx.x % 8 * 16;
  const uint8_t* from_b = b + static_cast<size_t>(blockIdx.x / tiles_m * 64 * WN + threadIdx.x / 8) * row_bytes + threadIdx.x % 8 * 16;
  const u32 to = base + threadIdx.x / 8 * kPitch + threadIdx.x % 8 * 16;

  u64 start_cycles = clock64(), start_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start_ns));
  int stage = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const u32 s = stage * kStage;
    const int next_stage = stage + 1 == STAGES ? 0 : stage + 1;
    const u32 n = next_stage * kStage, fill = (stage == 0 ? STAGES - 1 : stage - 1) * kStage;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (MODE >= 3 && k == 3) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
      }
      const u32 ra = at_a + (k == 3 ? n : s) + (k + 1) % 4 * 32, rb = at_b + (k == 3 ? n : s) + (k + 1) % 4 * 32;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int at = i * 8 + j;
          if (MODE >= 1 && at % 2 == 0 && at / 2 < 8) {
            const int which = at / 2;  // b and a in turns
            if (which < LD) {
              if (which % 2 == 0) ldsm(fb[(k + 1) & 1][which / 2], rb + which / 2 * 16 * kPitch);
              else ldsm(fa[(k + 1) & 1][which / 2], ra + which / 2 * 16 * kPitch);
            }
          }
          if (MODE >= 2 && at >= 16 && at % 2 == 1) {
            const int first = kPasses * k / 4, last = kPasses * (k + 1) / 4, which = first + (at - 17) / 2;
            if (which < last) {
              const uint8_t* from = which < kPassesA ? from_a + static_cast<size_t>(which * kAtOnce) * row_bytes : from_b + static_cast<size_t>((which - kPassesA) * kAtOnce) * row_bytes;
              copy16(to + fill + which * kAtOnce * kPitch, from);
            }
          }
          const int c = ORDER == 1 && i % 2 == 1 ? 7 - j : j;
          mma(acc[i][c], fa[k & 1][i], fb[k & 1][c / 2] + c % 2 * 2);
        }
      }
    }
    if (MODE >= 2) {
      asm volatile("cp.async.commit_group;" ::: "memory");
      from_a += 128, from_b += 128;
      if ((step & 127) == 127) from_a -= 128 * 128, from_b -= 128 * 128;  // of rows of 16384 bytes
    }
    stage = next_stage;
  }
  u64 end_cycles = clock64(), end_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end_ns));
  if (MODE >= 2) asm volatile("cp.async.wait_all;" ::: "memory");
  float sum = 0;
  for (auto& x : acc) for (auto& y : x) for (float& z : y) sum += z;
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
  if (threadIdx.x == 0) reports[blockIdx.x] = {end_cycles - start_cycles, end_ns - start_ns};
}

// ---- Copies by tensor map
__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void arrive_at(u32 barrier, u32 block) {
  asm volatile("{.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];}" ::"r"(barrier), "r"(block) : "memory");
}
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wait(u32 barrier, u32 phase) {
  asm volatile("{.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;}" ::"r"(barrier), "r"(phase) : "memory");
}
__device__ __forceinline__ void load_box(u32 to, const CUtensorMap& map, u32 barrier, int k, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(&map), "r"(barrier), "r"(k), "r"(row) : "memory");
}
__device__ __forceinline__ void load_box_for_two(u32 to, const CUtensorMap& map, u32 barrier, int k, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(&map), "r"(barrier), "r"(k), "r"(row), "h"(static_cast<uint16_t>(3)) : "memory");
}
__device__ __forceinline__ bool elected() {
  u32 x;
  asm volatile("{.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;}" : "=r"(x));
  return x != 0;
}

enum Copies { kByThreads, kByConsumer, kByWarp, kByWarpForTwo };

// The shape of a block: WM x WN warps, each of 64 x 8 NT.
template <int WM, int WN, int NT, int STAGES, Copies COPIES>
struct Block {
  static constexpr int kRowsA = 64 * WM, kRowsB = 8 * NT * WN, kStage = (kRowsA + kRowsB) * 128;
  static constexpr bool kWarpCopies = COPIES >= kByWarp, kGroupCopies = kWarpCopies && NT > 8;  // a warpgroup, where registers change hands
  static constexpr int kConsumers = WM * WN * 32, kThreads = kConsumers + (kGroupCopies ? 128 : kWarpCopies ? 32 : 0);
  static constexpr int kShared = STAGES * kStage + 2 * STAGES * 8, kPeers = COPIES == kByWarpForTwo ? 2 : 1;
};

// Rows of 128 bytes of k, swizzled, as tensor maps bring them. a's operands of one k are read while those of the last one are
// multiplied, b's 16 columns ahead. kByThreads: cp.async by all threads to the same places, one barrier of the block a step;
// kByConsumer: the first warp's elected thread; kByWarp: a warp of its own; kByWarpForTwo: two blocks of a cluster share b.
template <int WM, int WN, int NT, int STAGES, Copies COPIES, bool READ>
__global__ void __launch_bounds__(Block<WM, WN, NT, STAGES, COPIES>::kThreads, 1)
    run_mapped(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, const uint8_t* a, const uint8_t* b, const uint4* data, int steps, float* out, Report* reports) {
  using B = Block<WM, WN, NT, STAGES, COPIES>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared)), full = base + STAGES * B::kStage, empty = full + STAGES * 8;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int tiles_m = 4096 / B::kRowsA, row_a = blockIdx.x % tiles_m * B::kRowsA, row_b = blockIdx.x / tiles_m * B::kRowsB;
  if (threadIdx.x == 0) {
    if (base % 1024 != 0) __trap();
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s * 8, 1), barrier_init(empty + s * 8, WM * WN * B::kPeers);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (B::kPeers == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");

  const u32 rank = B::kPeers == 2 ? blockIdx.x % 2 : 0;
  const auto copy_step = [&](int step, int stage) {  // one thread
    const u32 to = base + stage * B::kStage, barrier = full + stage * 8;
    const int k = step % 128 * 64;
    expect(barrier, B::kStage);
    load_box(to, map_a, barrier, k, row_a);
    if constexpr (B::kPeers == 2) load_box_for_two(to + B::kRowsA * 128 + rank * (B::kRowsB * 64), map_b, barrier, k, row_b + rank * (B::kRowsB / 2));
    else load_box(to + B::kRowsA * 128, map_b, barrier, k, row_b);
  };
  // Of the warps that copy; the last steps are not multiplied.
  if (B::kWarpCopies && warp >= B::kConsumers / 32) {
    if constexpr (B::kGroupCopies) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (warp == B::kConsumers / 32) {
      int stage = 0;
      u32 phase = 0;
#pragma unroll 1
      for (int step = 0; step < steps + 1; ++step) {
        wait(empty + stage * 8, phase ^ 1);
        if (elected()) copy_step(step, stage);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    if (B::kPeers == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    return;
  }
  if constexpr (B::kGroupCopies) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");

  constexpr int kOfB = NT / 2;
  float acc[4][NT][4];
  for (auto& x : acc) for (auto& y : x) for (float& z : y) z = 0;
  u32 fa[2][4][4], fb[2][4];
  if (!READ) {
    for (int i = 0; i < 10; ++i) {
      const uint4 v = data[(threadIdx.x * 16 + i + blockIdx.x * 4096) % 65536];
      u32* f = i < 8 ? fa[i / 4][i % 4] : fb[i - 8];
      f[0] = v.x, f[1] = v.y, f[2] = v.z, f[3] = v.w;
    }
  }
  // Pieces of 16 bytes lie at their number ^ the row's last three bits.
  const u32 at_a = base + (warp / WN * 64 + lane % 16) * 128 + ((lane / 16) ^ (lane % 8)) * 16;
  const u32 at_b = base + (B::kRowsA + warp % WN * (8 * NT) + lane % 8 + lane / 16 * 8) * 128 + ((lane / 8 % 2) ^ (lane % 8)) * 16;
  constexpr int kAtOnce = B::kConsumers / 8, kPassesA = B::kRowsA / kAtOnce, kPasses = kPassesA + B::kRowsB / kAtOnce;
  const uint8_t* from_a = a + static_cast<size_t>(row_a + threadIdx.x / 8) * 16384 + threadIdx.x % 8 * 16;
  const uint8_t* from_b = b + static_cast<size_t>(row_b + threadIdx.x / 8) * 16384 + threadIdx.x % 8 * 16;
  const u32 to = base + threadIdx.x / 8 * 128 + (threadIdx.x % 8 ^ threadIdx.x / 8 % 8) * 16;
  const auto copy_pass = [&](u32 fill, int which) {
    copy16(to + fill + which * (kAtOnce * 128), which < kPassesA ? from_a + which * kAtOnce * 16384 : from_b + (which - kPassesA) * kAtOnce * 16384);
  };
  const auto next_copies = [&](int step) {
    asm volatile("cp.async.commit_group;" ::: "memory");
    const int bytes = step % 128 == 127 ? 128 - 16384 : 128;
    from_a += bytes, from_b += bytes;
  };
  if (COPIES == kByThreads) {
    for (int s = 0; s < STAGES - 1; ++s) {
      for (int i = 0; i < kPasses; ++i) copy_pass(s * B::kStage, i);
      next_copies(s);
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
  } else if (COPIES == kByConsumer && warp == 0 && elected()) {
    for (int s = 0; s < STAGES - 1; ++s) copy_step(s, s);
  }
  __syncwarp();
  if (COPIES != kByThreads) wait(full, 0);
  if (READ) {
    for (int i = 0; i < 4; ++i) ldsm(fa[0][i], at_a + i * 2048);
    ldsm(fb[0], at_b);
  }

  u64 start_cycles = clock64(), start_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start_ns));
  int stage = 0;
  u32 phase = 0;  // of the stage
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const bool wraps = stage + 1 == STAGES;
    const int next = wraps ? 0 : stage + 1, last = stage == 0 ? STAGES - 1 : stage - 1;
    const u32 a_now = at_a + stage * B::kStage, b_now = at_b + stage * B::kStage;
    const u32 a_next = at_a + next * B::kStage, b_next = at_b + next * B::kStage;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k == 3) {
        if (COPIES == kByThreads) {
          asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
          __syncthreads();
        } else {
          wait(full + next * 8, wraps ? phase ^ 1 : phase);
        }
      }
      // What the last step was in has been read by all when they are in this one.
      if (COPIES == kByConsumer && k == 1 && warp == 0) {
        // In the first step that is a stage which has never been filled: the phase before the first one is over.
        wait(empty + last * 8, stage == 0 ? phase ^ 1 : phase);
        if (elected()) copy_step(step + STAGES - 1, last);
      }
#pragma unroll
      for (int j = 0; j < kOfB; ++j) {
        if (READ) {
          if (j + 1 < kOfB) ldsm(fb[(j + 1) & 1], (b_now ^ k * 32) + (j + 1) * 2048);
          else ldsm(fb[(j + 1) & 1], (k < 3 ? b_now ^ (k + 1) * 32 : b_next));
          if (j < 4) ldsm(fa[(k + 1) & 1][j], (k < 3 ? a_now ^ (k + 1) * 32 : a_next) + j * 2048);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if (COPIES == kByThreads && i >= 2) {
              constexpr int kSlots = 16 * kOfB;
              const int slot = ((k * kOfB + j) * 2 + i - 2) * 2 + h;
              if (slot * kPasses / kSlots != (slot + 1) * kPasses / kSlots) copy_pass(last * B::kStage, slot * kPasses / kSlots);
            }
            mma(acc[i][2 * j + h], fa[k & 1][i], fb[j & 1] + 2 * h);
          }
        }
      }
    }
    if (COPIES == kByThreads) next_copies(step + STAGES - 1);
    else if (B::kPeers == 1) { if (lane == 0) arrive(empty + stage * 8); }
    else if (lane < 2) arrive_at(empty + stage * 8, lane);
    stage = next;
    if (wraps) phase ^= 1;
  }
  u64 end_cycles = clock64(), end_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end_ns));
  if (COPIES == kByThreads) asm volatile("cp.async.wait_all;" ::: "memory");
  if (COPIES == kByConsumer) {  // what is still on its way
    for (int s = 0; s < STAGES - 1; ++s) {
      wait(full + stage * 8, phase);
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
  float sum = 0;
  for (auto& x : acc) for (auto& y : x) for (float& z : y) sum += z;
  out[blockIdx.x * B::kConsumers + threadIdx.x] = sum;
  if (threadIdx.x == 0) reports[blockIdx.x] = {end_cycles - start_cycles, end_ns - start_ns};
  if (B::kPeers == 2) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// What all lines share.
struct Data {
  const uint4* values;
  uint8_t *a, *b;  // 4096 and 7168 rows of 16384 bytes
  float* out;
  Report* reports;
  std::vector<const char*> words;

  bool wanted(const char* what) const {
    for (const char* word : words) if (strstr(what, word)) return true;
    return words.empty();
  }
};

// launch(steps) in launches of 50 ms; each step is `products` of 16 x 8 x 16 for a multiprocessor, by `grid` blocks. Of so many
// threads' results of 130 steps the magnitudes are added up, which is to be the same for whoever copies the same tiles.
template <class Kernel, class Launch>
void time_line(const Data& d, const char* what, Kernel kernel, int grid, double products, int results, Launch launch) {
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  auto time = [&](int steps) {
    CHECK(cudaEventRecord(start));
    launch(steps);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, start, end));
    return ms;
  };
  time(100);
  const float probe = time(1000);
  const int steps = static_cast<int>(1000 * 50 / probe);
  printf("%-44s %3d regs %zu local", what, attributes.numRegs, attributes.localSizeBytes);
  for (int i = 0; i < 8; ++i) {
    const float ms = time(steps);
    if (i != 0 && i != 3 && i != 7) continue;
    std::vector<Report> r(grid);
    CHECK(cudaMemcpy(r.data(), d.reports, grid * sizeof(Report), cudaMemcpyDeviceToHost));
    double cycles = 0, ns = 0;
    for (auto& x : r) cycles += x.cycles, ns += x.nanoseconds;
    printf(" | %3.0f %4.0f MHz %.2f", 4096.0 * products * steps * 132 / ms * 1e-9, cycles / ns * 1e3, cycles / grid / (steps * products / 4));
  }
  if (results > 0) {
    time(130);
    std::vector<float> out(results);
    CHECK(cudaMemcpy(out.data(), d.out, results * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float x : out) sum += x < 0 ? -x : x;
    printf(" | %.8g", sum);
  }
  printf("\n");
  fflush(stdout);
}

template <int WM, int WN, int BLOCKS, int MODE, int LD, int STAGES = 4, int ORDER = 0>
void measure(const Data& d, const char* what) {
  if (!d.wanted(what)) return;
  auto kernel = run<WM, WN, BLOCKS, MODE, LD, STAGES, ORDER>;
  const int threads = WM * WN * 32, shared = MODE == 0 ? 0 : STAGES * 64 * (WM + WN) * kPitch, grid = 132 * BLOCKS;
  if (shared) CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  time_line(d, what, kernel, grid, 128.0 * WM * WN * BLOCKS, 0, [&](int steps) { kernel<<<grid, threads, shared>>>(d.values, d.a, d.b, 16384, steps, d.out, d.reports); });
}

// Boxes of 64 k of so many rows, swizzled by 128 bytes.
CUtensorMap map_of(void* data, int rows, int box_rows) {
  static const auto encode = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(f);
  }();
  CUtensorMap map;
  const cuuint64_t extents[2] = {8192, static_cast<cuuint64_t>(rows)}, strides[1] = {16384};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, ones[2] = {1, 1};
  const CUresult e = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (e != CUDA_SUCCESS) printf("cuTensorMapEncodeTiled: %d\n", e), exit(1);
  return map;
}

template <int WM, int WN, int NT, int STAGES, Copies COPIES, bool READ = true>
void measure_mapped(const Data& d, const char* what) {
  if (!d.wanted(what)) return;
  using B = Block<WM, WN, NT, STAGES, COPIES>;
  auto kernel = run_mapped<WM, WN, NT, STAGES, COPIES, READ>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, B::kShared));
  const CUtensorMap map_a = map_of(d.a, 4096, B::kRowsA), map_b = map_of(d.b, 7168, B::kRowsB / B::kPeers);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = B::kPeers, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(132), config.blockDim = dim3(B::kThreads), config.dynamicSmemBytes = B::kShared;
  config.attrs = &cluster, config.numAttrs = B::kPeers == 2 ? 1 : 0;
  time_line(d, what, kernel, 132, 16.0 * NT * WM * WN, READ ? 132 * B::kConsumers : 0, [&](int steps) {
    CHECK(cudaLaunchKernelEx(&config, kernel, map_a, map_b, static_cast<const uint8_t*>(d.a), static_cast<const uint8_t*>(d.b), d.values, steps, d.out, d.reports));
  });
}

int main(int argc, char** argv) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto bits = [&] { __nv_bfloat16 v = __float2bfloat16(normal(random)); return *reinterpret_cast<uint16_t*>(&v); };
  std::vector<uint16_t> host(65536 * 8);
  for (auto& x : host) x = bits();
  Data d;
  d.words.assign(argv + 1, argv + argc);
  uint4* data;
  CHECK(cudaMalloc(&data, host.size() * 2));
  CHECK(cudaMemcpy(data, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  d.values = data;
  const size_t rows_a = 4096, rows_b = 7168;
  CHECK(cudaMalloc(&d.a, rows_a * 16384));
  CHECK(cudaMalloc(&d.b, rows_b * 16384));
  for (size_t i = 0; i < rows_a * 16384; i += host.size() * 2) CHECK(cudaMemcpy(d.a + i, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  for (size_t i = 0; i < rows_b * 16384; i += host.size() * 2) CHECK(cudaMemcpy(d.b + i, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&d.out, 132 * 4 * 256 * 4));
  CHECK(cudaMalloc(&d.reports, 132 * 4 * sizeof(Report)));
  printf("TFLOP/s, clock and cycles of a product of 16 x 8 x 16 on a sub-core, of the 1st, 4th and 8th launch of 50 ms; what was added up\n");
  measure<2, 4, 1, 0, 0>(d, "registers, 8 warps");
  measure<2, 4, 1, 0, 0, 4, 1>(d, "registers, 8 warps, there and back");
  measure<2, 2, 2, 0, 0>(d, "registers, 2 x 4 warps");
  measure<2, 2, 1, 0, 0>(d, "registers, 4 warps");
  measure<2, 4, 1, 1, 4>(d, "4 ldmatrix to 32 products");
  measure<2, 4, 1, 1, 8>(d, "8 ldmatrix to 32 products");
  measure<2, 2, 2, 1, 8, 3>(d, "8 ldmatrix to 32 products, 2 x 4 warps");
  measure<2, 4, 1, 2, 8>(d, "cp.async without barriers 128x256");
  measure<2, 4, 1, 3, 8>(d, "cp.async 128x256");
  measure<2, 4, 1, 3, 8, 4, 1>(d, "cp.async 128x256, there and back");
  measure<4, 2, 1, 3, 8>(d, "cp.async 256x128");
  measure<2, 2, 2, 3, 8, 3>(d, "cp.async 2 x 128x128, 3 stages");
  measure_mapped<2, 4, 8, 4, kByThreads>(d, "cp.async swizzled 128x256");
  measure_mapped<4, 2, 12, 4, kByThreads>(d, "cp.async swizzled 256x192");
  measure_mapped<2, 4, 8, 4, kByConsumer>(d, "tma by a consumer 128x256");
  measure_mapped<4, 2, 8, 4, kByConsumer>(d, "tma by a consumer 256x128");
  measure_mapped<4, 2, 12, 4, kByConsumer>(d, "tma by a consumer 256x192");
  measure_mapped<2, 4, 8, 4, kByWarp>(d, "tma by a warp 128x256");
  measure_mapped<4, 2, 8, 4, kByWarp>(d, "tma by a warp 256x128");
  measure_mapped<4, 2, 12, 4, kByWarp>(d, "tma by a warp 256x192");
  measure_mapped<2, 4, 8, 4, kByWarpForTwo>(d, "tma by a warp for two 128x256");
  measure_mapped<4, 2, 12, 4, kByWarpForTwo>(d, "tma by a warp for two 256x192");
  measure_mapped<2, 4, 8, 4, kByConsumer, false>(d, "tma by a consumer 128x256, no ldmatrix");
  measure_mapped<4, 2, 12, 4, kByConsumer, false>(d, "tma by a consumer 256x192, no ldmatrix");
}
