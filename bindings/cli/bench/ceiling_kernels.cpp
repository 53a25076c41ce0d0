// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/ceiling_kernels.h"

namespace quern::cli {
namespace {

// Accumulators "+f"(c[first]) ..., and their places "%first, ...".
std::string constraints(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "\"+f\"(c[" : ", \"+f\"(c[") + std::to_string(i) + "])";
  return text;
}
std::string places(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "%" : ", %") + std::to_string(i);
  return text;
}

// Two warpgroups of 64 x 256 results each, operands in shared memory in the 128-byte swizzled layout. What stands in
// them is random, so which element is where does not matter, only that the banks are used as a product uses them.
constexpr const char* kHopper = R"(
typedef unsigned int u32;
typedef unsigned long long u64;
__device__ __forceinline__ u64 describe(u32 address) {
  // Start address, 1 024 bytes from one group of eight rows to the next, swizzled by 128 bytes.
  return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
extern "C" __global__ void __launch_bounds__(256, 1) multiply(const uint4 *data, float *out, int steps) {
  extern __shared__ __align__(1024) unsigned char shared[];
  uint4 *all = reinterpret_cast<uint4 *>(shared);
  for (int i = threadIdx.x; i < 49152 / 16; i += 256) all[i] = data[(i + blockIdx.x * 311) % 65536];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const u32 base = (u32)__cvta_generic_to_shared(shared);
  const u64 a = describe(base + threadIdx.x / 128 * 8192), b = describe(base + 16384);
  float c[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) c[i] = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nINSTRUCTION {PLACES}, %128, %129, p, 1, 1TRANSPOSED;\n}\n"
                   : CONSTRAINTS : "l"(a + 2 * k), "l"(b + 2 * k));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += c[i];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
)";

// Eight warps of 32 products in flight each, operands in registers.
constexpr const char* kWarps = R"(
typedef unsigned int u32;
extern "C" __global__ void __launch_bounds__(256, 1) multiply(const uint4 *data, float *out, int steps) {
  float c[4][8][4];
  u32 a[4][4], b[8][2];
  for (int i = 0; i < 4; ++i) {
    const uint4 v = data[(threadIdx.x * 16 + i + blockIdx.x * 4096) % 65536];
    a[i][0] = v.x, a[i][1] = v.y, a[i][2] = v.z, a[i][3] = v.w;
    const uint4 w = data[(threadIdx.x * 16 + i + 8 + blockIdx.x * 4096) % 65536];
    b[2 * i][0] = w.x, b[2 * i][1] = w.y, b[2 * i + 1][0] = w.z, b[2 * i + 1][1] = w.w;
  }
  for (auto &x : c) for (auto &y : x) for (float &z : y) z = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float *d = c[i][j];
        asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
      }
    }
  }
  float sum = 0;
  for (auto &x : c) for (auto &y : x) for (float &z : y) sum += z;
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
)";

constexpr const char* kMultiplyAdds = R"(
extern "C" __global__ void __launch_bounds__(256, 4) multiply(const uint4 *data, float *out, int steps) {
  const float x = 1 + 1e-7f * (threadIdx.x + 1), y = 1e-3f * data[threadIdx.x].x;
  float c[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) c[i] = i;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 16; ++i) c[i] = fmaf(c[i], x, y);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += c[i];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
)";

void replace(std::string& text, const std::string& word, const std::string& by) {
  const std::size_t at = text.find(word);
  if (at != std::string::npos) text.replace(at, word.size(), by);
}

}  // namespace

const char* const kMemoryKernels = R"(
__device__ __forceinline__ uint4 load(const uint4 *p) { return __ldcs(p); }
extern "C" __global__ void __launch_bounds__(256) copy_memory(const uint4 *from, uint4 *to, size_t count) {
  const size_t all = (size_t)gridDim.x * 256;
  size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  for (; i + 3 * all < count; i += 4 * all) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = load(from + i + j * all);
#pragma unroll
    for (int j = 0; j < 4; ++j) __stcs(to + i + j * all, v[j]);
  }
  for (; i < count; i += all) __stcs(to + i, load(from + i));
}
extern "C" __global__ void __launch_bounds__(256) sum_memory(const uint4 *from, uint4 *to, size_t count) {
  const size_t all = (size_t)gridDim.x * 256;
  size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (; i + 7 * all < count; i += 8 * all) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = load(from + i + j * all);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.x ^= v[j].x, sum.y ^= v[j].y, sum.z ^= v[j].z, sum.w ^= v[j].w;
  }
  // Nobody has this value: the sum is needed, and is not written.
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u && sum.x == 0x7f4a7c15u) to[threadIdx.x] = sum;
}
)";

ProductKernel product_kernel(const std::string& type, const std::string& target) {
  ProductKernel kernel;
  if (type == "f32") {
    kernel.source = kMultiplyAdds;
    kernel.how = "fused multiply-adds";
    kernel.operations_per_step = 2.0 * 256 * 16 * 4;
    kernel.blocks_per_sm = 4;
    return kernel;
  }
  const bool eight = type == "e4m3" || type == "e5m2";
  const int k = eight ? 32 : 16;
  if (target == "sm_90a") {
    kernel.source = kHopper;
    const std::string operand = type;
    replace(kernel.source, "INSTRUCTION",
            "wgmma.mma_async.sync.aligned.m64n256k" + std::to_string(k) + ".f32." + operand + '.' + operand);
    replace(kernel.source, "PLACES", places(128));
    replace(kernel.source, "TRANSPOSED", eight ? "" : ", 0, 0");
    replace(kernel.source, "CONSTRAINTS", constraints(128));
    kernel.how = "wgmma m64n256k" + std::to_string(k);
    kernel.operations_per_step = 2.0 * 128 * 256 * (4 * k);
    kernel.shared_bytes = 49152;
    return kernel;
  }
  kernel.source = kWarps;
  replace(kernel.source, "INSTRUCTION",
          "mma.sync.aligned.m16n8k" + std::to_string(k) + ".row.col.f32." + type + '.' + type + ".f32");
  kernel.how = "mma.sync m16n8k" + std::to_string(k);
  kernel.operations_per_step = 2.0 * 16 * 8 * k * 32 * 8;
  return kernel;
}

}  // namespace quern::cli
