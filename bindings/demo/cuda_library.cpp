// Looking up libcuda's functions at run time.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/cuda_library.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace quern::demo {

void* cuda_symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("libcuda.so.1 cannot be opened");
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(std::string("libcuda.so.1 lacks ") + name);
  return symbol;
}

void check_cuda(CudaResult code, const char* what) {
  if (code == 0) return;
  CudaResult (*error_name)(CudaResult, const char**) = nullptr;
  bind_cuda(error_name, "cuGetErrorName");
  const char* name = nullptr;
  if (error_name(code, &name) != 0 || name == nullptr) name = "unknown";
  throw std::runtime_error(std::string(what) + ": " + name + " (" + std::to_string(code) + ")");
}

}  // namespace quern::demo
