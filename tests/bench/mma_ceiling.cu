// What mma.sync m16n8k16 bf16 reaches on this chip, alone and with what a matrix product needs beside it.
//   nvcc -O3 -std=c++17 -arch=sm_90a tests/bench/mma_ceiling.cu -o mma_ceiling && ./mma_ceiling
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

template <int WM, int WN, int BLOCKS, int MODE, int LD, int STAGES = 4, int ORDER = 0>
void measure(const char* what, const uint4* data, const uint8_t* a, const uint8_t* b, float* out, Report* reports) {
  auto kernel = run<WM, WN, BLOCKS, MODE, LD, STAGES, ORDER>;
  const int threads = WM * WN * 32, shared = MODE == 0 ? 0 : STAGES * 64 * (WM + WN) * kPitch, grid = 132 * BLOCKS;
  if (shared) CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  auto time = [&](int steps) {
    CHECK(cudaEventRecord(start));
    kernel<<<grid, threads, shared>>>(data, a, b, 16384, steps, out, reports);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    float ms;
    CHECK(cudaEventElapsedTime(&ms, start, end));
    return ms;
  };
  time(100);
  const float probe = time(1000);
  const int steps = static_cast<int>(1000 * 50 / probe);
  printf("%-58s %3d regs %3zu local ", what, attributes.numRegs, attributes.localSizeBytes);
  for (int i = 0; i < 8; ++i) {
    const float ms = time(steps);
    if (i != 0 && i != 3 && i != 7) continue;
    std::vector<Report> r(grid);
    CHECK(cudaMemcpy(r.data(), reports, grid * sizeof(Report), cudaMemcpyDeviceToHost));
    double cycles = 0, ns = 0;
    for (auto& x : r) cycles += x.cycles, ns += x.nanoseconds;
    const double flops = 2.0 * 64 * 64 * 64 * WM * WN * steps * grid;
    // Products of a sub-core: a fourth of the multiprocessor's.
    const double per = cycles / grid / (double(steps) * 128 * WM * WN * BLOCKS / 4);
    printf("| %5.1f TFLOP/s %4.0f MHz %5.2f cycles ", flops / ms * 1e-9, cycles / ns * 1e3, per);
  }
  printf("\n");
  fflush(stdout);
}

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto bits = [&] { __nv_bfloat16 v = __float2bfloat16(normal(random)); return *reinterpret_cast<uint16_t*>(&v); };
  std::vector<uint16_t> host(65536 * 8);
  for (auto& x : host) x = bits();
  uint4* data;
  CHECK(cudaMalloc(&data, host.size() * 2));
  CHECK(cudaMemcpy(data, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  uint8_t *a, *b;  // 4096 and 7168 rows of 16384 bytes
  const size_t rows_a = 4096, rows_b = 7168;
  CHECK(cudaMalloc(&a, rows_a * 16384));
  CHECK(cudaMalloc(&b, rows_b * 16384));
  for (size_t i = 0; i < rows_a * 16384; i += host.size() * 2) CHECK(cudaMemcpy(a + i, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  for (size_t i = 0; i < rows_b * 16384; i += host.size() * 2) CHECK(cudaMemcpy(b + i, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
  float* out;
  Report* reports;
  CHECK(cudaMalloc(&out, 132 * 4 * 256 * 4));
  CHECK(cudaMalloc(&reports, 132 * 4 * sizeof(Report)));
  printf("each: launches of 50 ms, the 1st, 4th and 8th; cycles: of a product of 16 x 8 x 16 on a sub-core\n");
  measure<2, 4, 1, 0, 0>("registers, 8 warps", data, a, b, out, reports);
  measure<2, 4, 1, 0, 0, 4, 1>("registers, 8 warps, columns there and back", data, a, b, out, reports);
  measure<2, 2, 2, 0, 0>("registers, 2 x 4 warps", data, a, b, out, reports);
  measure<2, 2, 1, 0, 0>("registers, 4 warps", data, a, b, out, reports);
  measure<2, 4, 1, 1, 4>("4 ldmatrix for 32 products, 8 warps", data, a, b, out, reports);
  measure<2, 4, 1, 1, 8>("8 ldmatrix for 32 products, 8 warps", data, a, b, out, reports);
  measure<2, 2, 2, 1, 8, 3>("8 ldmatrix for 32 products, 2 x 4 warps", data, a, b, out, reports);
  measure<2, 4, 1, 2, 8>("and cp.async, 8 warps, 128 x 256, 4 stages", data, a, b, out, reports);
  measure<2, 4, 1, 3, 8>("and barriers, 8 warps, 128 x 256, 4 stages", data, a, b, out, reports);
  measure<2, 4, 1, 3, 8, 4, 1>("the same, columns there and back", data, a, b, out, reports);
  measure<4, 2, 1, 3, 8>("and barriers, 8 warps, 256 x 128, 4 stages", data, a, b, out, reports);
  measure<2, 2, 2, 3, 8, 3>("and barriers, 2 x 4 warps, 128 x 128, 3 stages", data, a, b, out, reports);
}
