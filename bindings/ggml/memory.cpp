// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace quern::ggml {
namespace {

constexpr std::size_t kAlignment = 256;

class HostMemory final : public Memory {
 public:
  [[nodiscard]] DLDevice device() const override { return {kDLCPU, 0}; }
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  void free(void* memory) override { std::free(memory); }
  void put(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void get(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memmove(to, from, bytes); }
  void fill(void* to, unsigned char value, std::size_t bytes) override { std::memset(to, value, bytes); }
  void synchronise() override {}
  void room(std::size_t* free, std::size_t* total) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    *free = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
    *total = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  }
};

// The driver's functions by the names that it exports. All work is on the default stream, where copies wait for
// launches.
class CudaMemory final : public Memory {
 public:
  // Throws where the driver or the device is not there.
  explicit CudaMemory(int ordinal) : ordinal_(ordinal), driver_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (driver_ == nullptr) throw std::runtime_error("libcuda.so.1 is not here");
    find(allocate_, "cuMemAlloc_v2");
    find(free_, "cuMemFree_v2");
    find(put_, "cuMemcpyHtoD_v2");
    find(get_, "cuMemcpyDtoH_v2");
    find(copy_, "cuMemcpyDtoD_v2");
    find(fill_, "cuMemsetD8_v2");
    find(room_, "cuMemGetInfo_v2");
    find(synchronise_, "cuStreamSynchronize");
    find(push_, "cuCtxPushCurrent_v2");
    find(pop_, "cuCtxPopCurrent_v2");
    int (*init)(unsigned) = nullptr;
    int (*get)(int*, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    find(init, "cuInit");
    find(get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    int device = 0;
    check("cuInit", init(0));
    check("cuDeviceGet", get(&device, ordinal));
    // Kept for as long as the process lives, as the CUDA runtime does.
    check("cuDevicePrimaryCtxRetain", retain(&context_, device));
  }

  [[nodiscard]] DLDevice device() const override { return {kDLCUDA, ordinal_}; }
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    const Current current(*this);
    std::uint64_t made = 0;
    return allocate_(&made, bytes == 0 ? 1 : bytes) == 0 ? reinterpret_cast<void*>(made) : nullptr;
  }
  void free(void* memory) override {
    const Current current(*this);
    free_(address(memory));
  }
  void put(void* to, const void* from, std::size_t bytes) override {
    const Current current(*this);
    check("cuMemcpyHtoD", put_(address(to), from, bytes));
    // From pageable memory the copy may still be under way to the device: the next launch waits, nobody else does.
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void get(void* to, const void* from, std::size_t bytes) override {
    const Current current(*this);
    check("cuMemcpyDtoH", get_(to, address(from), bytes));
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const Current current(*this);
    check("cuMemcpyDtoD", copy_(address(to), address(from), bytes));
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void fill(void* to, unsigned char value, std::size_t bytes) override {
    const Current current(*this);
    check("cuMemsetD8", fill_(address(to), value, bytes));
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void synchronise() override {
    const Current current(*this);
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void room(std::size_t* free, std::size_t* total) override {
    const Current current(*this);
    check("cuMemGetInfo", room_(free, total));
  }

 private:
  // The device's primary context, for the time of a call.
  struct Current {
    explicit Current(const CudaMemory& memory) : pop(memory.pop_) {
      check("cuCtxPushCurrent", memory.push_(memory.context_));
    }
    ~Current() {
      void* popped = nullptr;
      pop(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    int (*pop)(void**);
  };

  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(driver_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  }
  static void check(const char* call, int failed) {
    if (failed != 0) throw std::runtime_error(std::string(call) + " failed: " + std::to_string(failed));
  }
  static std::uint64_t address(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

  int ordinal_;
  void* driver_;
  void* context_ = nullptr;
  int (*allocate_)(std::uint64_t*, std::size_t) = nullptr;
  int (*free_)(std::uint64_t) = nullptr;
  int (*put_)(std::uint64_t, const void*, std::size_t) = nullptr;
  int (*get_)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*copy_)(std::uint64_t, std::uint64_t, std::size_t) = nullptr;
  int (*fill_)(std::uint64_t, unsigned char, std::size_t) = nullptr;
  int (*room_)(std::size_t*, std::size_t*) = nullptr;
  int (*synchronise_)(void*) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
};

}  // namespace

std::unique_ptr<Memory> open_memory(const std::string& device, std::string& why) {
  try {
    if (device == "host" || device == "host64") return std::make_unique<HostMemory>();
    if (device.starts_with("cuda:") && device.size() > 5 &&
        device.find_first_not_of("0123456789", 5) == std::string::npos) {
      return std::make_unique<CudaMemory>(std::stoi(device.substr(5)));
    }
    why = "QUERN_GGML_DEVICE: '" + device + "' given; allowed are host, host64 and cuda:N";
  } catch (const std::exception& error) {
    why = error.what();
  }
  return nullptr;
}

}  // namespace quern::ggml
