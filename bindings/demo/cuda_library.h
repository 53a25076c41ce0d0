// Looking up libcuda's functions at run time, so that a program links to no GPU library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace quern::demo {

using CudaResult = int;                  // CUresult
using CudaPointer = unsigned long long;  // CUdeviceptr
using CudaStream = void*;                // CUstream

// Throws std::runtime_error when there is no libcuda, or it lacks the symbol.
void* cuda_symbol(const char* name);

template <class Function>
void bind_cuda(Function*& slot, const char* name) {
  slot = reinterpret_cast<Function*>(cuda_symbol(name));
}

// Throws std::runtime_error naming the code and `what` was being done, unless the code is 0.
void check_cuda(CudaResult code, const char* what);

}  // namespace quern::demo
