// Memory on a GPU through libcuda, and on the host.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/memory.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "bindings/demo/cuda_library.h"

namespace quern::demo {
namespace {

constexpr std::align_val_t kAlignment{256};

class HostMemory final : public Memory {
 public:
  ~HostMemory() override {
    for (void* block : blocks_) ::operator delete(block, kAlignment);
  }
  void* allocate(std::size_t bytes) override {
    blocks_.push_back(nullptr);
    blocks_.back() = ::operator new(bytes, kAlignment);
    return std::memset(blocks_.back(), 0, bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void synchronise() override {}  // a launch on the host returns when it is done

 private:
  std::vector<void*> blocks_;
};

// In the device's primary context, which is the one that quern works in.
class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int ordinal) {
#define QUERN_DEMO_BIND(member, symbol, parameters) bind_cuda(member, #symbol);
    QUERN_DEMO_CUDA(QUERN_DEMO_BIND)
#undef QUERN_DEMO_BIND
    check_cuda(init(0), "initialising libcuda");
    check_cuda(device_get(&device_, ordinal), "finding the GPU");
    void* context = nullptr;
    check_cuda(primary_retain(&context, device_), "retaining the GPU's primary context");
    check_cuda(set_current(context), "making the GPU's primary context current");
  }
  ~CudaMemory() override {
    for (const CudaPointer block : blocks_) release(block);
    primary_release(device_);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  void* allocate(std::size_t bytes) override {
    CudaPointer block = 0;
    check_cuda(cuda_allocate(&block, bytes), "allocating on the GPU");
    blocks_.push_back(block);
    check_cuda(set(block, 0, bytes), "zeroing memory of the GPU");
    return reinterpret_cast<void*>(block);  // NOLINT(performance-no-int-to-ptr)
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    check_cuda(copy_in(reinterpret_cast<CudaPointer>(to), from, bytes), "copying to the GPU");
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    check_cuda(copy_out(to, reinterpret_cast<CudaPointer>(from), bytes), "copying from the GPU");
  }
  void synchronise() override { check_cuda(cuda_synchronise(), "waiting for the GPU"); }

 private:
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator and a parameter list
#define QUERN_DEMO_MEMBER(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
  QUERN_DEMO_CUDA(QUERN_DEMO_MEMBER)
#undef QUERN_DEMO_MEMBER
  int device_ = 0;
  std::vector<CudaPointer> blocks_;
};

}  // namespace

std::unique_ptr<Memory> memory_of(const quern_device_info& device) {
  if (device.device_type == kDLCUDA) return std::make_unique<CudaMemory>(device.device_id);
  return std::make_unique<HostMemory>();
}

}  // namespace quern::demo
