// Looking up libcuda's functions at run time, so that a program links to no GPU library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace quern::demo {

using CudaResult = int;                  // CUresult
using CudaPointer = unsigned long long;  // CUdeviceptr
using CudaStream = void*;                // CUstream

// What Memory calls: X(member, symbol, parameters). Each returns a CUresult.
#define QUERN_DEMO_CUDA(X)                                                           \
  X(init, cuInit, (unsigned flags))                                                  \
  X(device_get, cuDeviceGet, (int* device, int ordinal))                             \
  X(primary_retain, cuDevicePrimaryCtxRetain, (void** context, int device))          \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                     \
  X(set_current, cuCtxSetCurrent, (void* context))                                   \
  X(cuda_synchronise, cuCtxSynchronize, ())                                          \
  X(cuda_allocate, cuMemAlloc_v2, (CudaPointer * pointer, std::size_t bytes))        \
  X(release, cuMemFree_v2, (CudaPointer pointer))                                    \
  X(set, cuMemsetD8_v2, (CudaPointer to, unsigned char value, std::size_t bytes))    \
  X(copy_in, cuMemcpyHtoD_v2, (CudaPointer to, const void* from, std::size_t bytes)) \
  X(copy_out, cuMemcpyDtoH_v2, (void* to, CudaPointer from, std::size_t bytes))

// Throws std::runtime_error when there is no libcuda, or it lacks the symbol.
void* cuda_symbol(const char* name);

template <class Function>
void bind_cuda(Function*& slot, const char* name) {
  slot = reinterpret_cast<Function*>(cuda_symbol(name));
}

// Throws std::runtime_error naming the code and `what` was being done, unless the code is 0.
void check_cuda(CudaResult code, const char* what);

}  // namespace quern::demo
