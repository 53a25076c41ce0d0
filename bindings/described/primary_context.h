// A CUDA device's primary context and making it current: for what calls the driver by itself, on threads of anyone's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace quern {

class PrimaryContext {
 public:
  // Throws where the driver or the device is not there. Kept for as long as the process lives, as the CUDA runtime
  // does.
  explicit PrimaryContext(int ordinal) : driver_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (driver_ == nullptr) throw std::runtime_error("libcuda.so.1 is not here");
    int (*init)(unsigned) = nullptr;
    int (*get)(int*, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    find(push_, "cuCtxPushCurrent_v2");
    find(pop_, "cuCtxPopCurrent_v2");
    find(init, "cuInit");
    find(get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    int device = 0;
    check("cuInit", init(0));
    check("cuDeviceGet", get(&device, ordinal));
    check("cuDevicePrimaryCtxRetain", retain(&context_, device));
  }

  // For the time of a call.
  class Current {
   public:
    explicit Current(const PrimaryContext& primary) : pop_(primary.pop_) {
      check("cuCtxPushCurrent", primary.push_(primary.context_));
    }
    ~Current() {
      void* popped = nullptr;
      pop_(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    int (*pop_)(void**);
  };

  // One of the driver's functions, by the name that it exports.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(dlsym(driver_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  }
  static void check(const char* call, int failed) {
    if (failed != 0) throw std::runtime_error(std::string(call) + " failed: " + std::to_string(failed));
  }

 private:
  void* driver_;
  void* context_ = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
};

}  // namespace quern
