// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "../described/primary_context.h"

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
  explicit CudaMemory(int ordinal) : ordinal_(ordinal), primary_(ordinal) {
    primary_.find(allocate_, "cuMemAlloc_v2");
    primary_.find(free_, "cuMemFree_v2");
    primary_.find(put_, "cuMemcpyHtoD_v2");
    primary_.find(get_, "cuMemcpyDtoH_v2");
    primary_.find(copy_, "cuMemcpyDtoD_v2");
    primary_.find(fill_, "cuMemsetD8_v2");
    primary_.find(room_, "cuMemGetInfo_v2");
    primary_.find(synchronise_, "cuStreamSynchronize");
  }

  [[nodiscard]] DLDevice device() const override { return {kDLCUDA, ordinal_}; }
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    const Current current(primary_);
    std::uint64_t made = 0;
    return allocate_(&made, bytes == 0 ? 1 : bytes) == 0 ? reinterpret_cast<void*>(made) : nullptr;
  }
  void free(void* memory) override {
    const Current current(primary_);
    free_(address(memory));
  }
  void put(void* to, const void* from, std::size_t bytes) override {
    const Current current(primary_);
    check("cuMemcpyHtoD", put_(address(to), from, bytes));
    // From pageable memory the copy may still be under way to the device: the next launch waits, nobody else does.
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void get(void* to, const void* from, std::size_t bytes) override {
    const Current current(primary_);
    check("cuMemcpyDtoH", get_(to, address(from), bytes));
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const Current current(primary_);
    check("cuMemcpyDtoD", copy_(address(to), address(from), bytes));
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void fill(void* to, unsigned char value, std::size_t bytes) override {
    const Current current(primary_);
    check("cuMemsetD8", fill_(address(to), value, bytes));
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void synchronise() override {
    const Current current(primary_);
    check("cuStreamSynchronize", synchronise_(nullptr));
  }
  void room(std::size_t* free, std::size_t* total) override {
    const Current current(primary_);
    check("cuMemGetInfo", room_(free, total));
  }

 private:
  using Current = PrimaryContext::Current;

  static void check(const char* call, int failed) { PrimaryContext::check(call, failed); }
  static std::uint64_t address(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

  int ordinal_;
  PrimaryContext primary_;
  int (*allocate_)(std::uint64_t*, std::size_t) = nullptr;
  int (*free_)(std::uint64_t) = nullptr;
  int (*put_)(std::uint64_t, const void*, std::size_t) = nullptr;
  int (*get_)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*copy_)(std::uint64_t, std::uint64_t, std::size_t) = nullptr;
  int (*fill_)(std::uint64_t, unsigned char, std::size_t) = nullptr;
  int (*room_)(std::size_t*, std::size_t*) = nullptr;
  int (*synchronise_)(void*) = nullptr;
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
