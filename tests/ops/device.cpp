// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/device.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "tests/ops/cuda.h"

namespace quern::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kGuard = 0;
#else
constexpr std::size_t kGuard = 256;
#endif
constexpr unsigned char kGuardByte = 0xee;
constexpr std::size_t kAlignment = 256;

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

unsigned char* allocate(std::size_t bytes) {
  if (on_cuda()) {
    DevicePointer pointer = 0;
    QUERN_TEST_CUDA(cuMemAlloc_v2(&pointer, bytes));
    return reinterpret_cast<unsigned char*>(pointer);
  }
  void* pointer = nullptr;
  if (posix_memalign(&pointer, kAlignment, bytes) != 0) throw std::bad_alloc();
  return static_cast<unsigned char*>(pointer);
}

// The cache's folder, removed with the program where it is the program's own.
class CacheFolder {
 public:
  CacheFolder() {
    if (const char* given = std::getenv("QUERN_TEST_CACHE")) {
      path_ = given;
      return;
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-ops-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
    path_ = pattern;
    own_ = true;
  }
  ~CacheFolder() {
    std::error_code ignored;
    if (own_) std::filesystem::remove_all(path_, ignored);
  }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
  bool own_ = false;
};

}  // namespace

Kind device_kind() {
  static const Kind kind = [] {
    const char* given = std::getenv("QUERN_TEST_DEVICE");
    const std::string name = given != nullptr ? given : "host";
    if (name == "host") return Kind::host;
    if (name == "host64") return Kind::host64;
    if (name == "cuda") return Kind::cuda;
    throw std::runtime_error("QUERN_TEST_DEVICE is " + name + "; allowed: host, host64, cuda");
  }();
  return kind;
}

DLDevice dl_device() {
  const int type = on_cuda() ? kDLCUDA : kDLCPU;
  return {static_cast<decltype(DLDevice::device_type)>(type), 0};
}

Context make_context(const std::function<void(quern_context_options&)>& change) {
  static const CacheFolder folder;
  auto options = sized<quern_context_options>();
  options.device_type = on_cuda() ? kDLCUDA : kDLCPU;
  if (device_kind() == Kind::host64) options.target = "host64";
  const char* target = std::getenv("QUERN_TEST_TARGET");
  if (on_cuda() && target != nullptr && *target != '\0') options.target = target;
  // Every call out of order, late, and behind a launch that still writes its tensors.
  const char* seed = std::getenv("QUERN_TEST_HOST_SEED");
  if (!on_cuda() && seed != nullptr) {
    options.flags |= QUERN_CONTEXT_HOST_SEED;
    options.host_seed = std::strtoull(seed, nullptr, 10);
  }
  options.cache_path = folder.path();
  if (change) change(options);
  quern_context* made = nullptr;
  auto error = sized<quern_error>();
  if (quern_context_create(&options, &made, &error) != QUERN_OK) throw std::runtime_error(error.text);
  return Context(made);
}

quern_context* context() {
  static const Context shared = make_context();
  return shared.get();
}

void synchronize() {
  if (on_cuda()) QUERN_TEST_CUDA(cuCtxSynchronize());
}

Buffer::Buffer(std::size_t bytes, unsigned char fill_with) : bytes_(bytes) {
  block_ = allocate(std::max<std::size_t>(bytes + 2 * kGuard, 1));
  data_ = block_ + kGuard;
  if (kGuard > 0) {
    if (on_cuda()) {
      QUERN_TEST_CUDA(cuMemsetD8_v2(address(block_), kGuardByte, kGuard));
      QUERN_TEST_CUDA(cuMemsetD8_v2(address(data_ + bytes), kGuardByte, kGuard));
    } else {
      std::memset(block_, kGuardByte, kGuard);
      std::memset(data_ + bytes, kGuardByte, kGuard);
    }
  }
  fill(fill_with);
}

Buffer::~Buffer() { release(); }

Buffer::Buffer(Buffer&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  block_ = std::exchange(other.block_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Buffer::release() {
  if (block_ == nullptr) return;
  std::vector<unsigned char> guards(2 * kGuard);
  if (on_cuda()) {
    int failed = cuda().cuMemcpyDtoH_v2(guards.data(), address(block_), kGuard);
    failed |= cuda().cuMemcpyDtoH_v2(guards.data() + kGuard, address(data_ + bytes_), kGuard);
    EXPECT_EQ(failed, 0) << "the device is in an error state";
    cuda().cuMemFree_v2(address(block_));
  } else {
    std::memcpy(guards.data(), block_, kGuard);
    std::memcpy(guards.data() + kGuard, data_ + bytes_, kGuard);
    free(block_);
  }
  EXPECT_TRUE(std::all_of(guards.begin(), guards.end(), [](unsigned char c) { return c == kGuardByte; }))
      << "something wrote before or behind a buffer of " << bytes_ << " bytes";
  block_ = nullptr;
}

void Buffer::write(const void* from, std::size_t bytes, std::size_t at) {
  if (bytes == 0) return;
  if (at + bytes > bytes_) throw std::out_of_range("Buffer::write");
  if (on_cuda()) {
    QUERN_TEST_CUDA(cuMemcpyHtoD_v2(address(data_ + at), from, bytes));
  } else {
    std::memcpy(data_ + at, from, bytes);
  }
}

void Buffer::fill(unsigned char value) {
  if (bytes_ == 0) return;
  if (on_cuda()) {
    QUERN_TEST_CUDA(cuMemsetD8_v2(address(data_), value, bytes_));
  } else {
    std::memset(data_, value, bytes_);
  }
}

void Buffer::read(void* to, std::size_t bytes, std::size_t at) const {
  if (bytes == 0) return;
  if (at + bytes > bytes_) throw std::out_of_range("Buffer::read");
  if (on_cuda()) {
    QUERN_TEST_CUDA(cuMemcpyDtoH_v2(to, address(data_ + at), bytes));
  } else {
    std::memcpy(to, data_ + at, bytes);
  }
}

std::vector<unsigned char> Buffer::read() const {
  std::vector<unsigned char> bytes(bytes_);
  read(bytes.data(), bytes_);
  return bytes;
}

}  // namespace quern::test
