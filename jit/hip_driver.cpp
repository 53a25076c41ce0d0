// Loading and launching through libamdhip64. HIP has no contexts worth the name: a thread has a current device, which
// is set for a call and put back.
// SPDX-License-Identifier: Apache-2.0
#include "jit/hip_driver.h"

#include <array>
#include <cstring>
#include <vector>

#include "jit/error.h"
#include "jit/fork_guard.h"
#include "jit/gpu_bench.h"
#include "jit/gpu_error.h"
#include "jit/gpu_image.h"

namespace quern::jit {
namespace hip {
namespace {

// Makes a device current for as long as it lives, unless it is so already. `code` is not 0 when that failed.
class Current {
 public:
  Current(const Api& api, int device) noexcept : api_(api) {
    code = api_.get_device(&before_);
    if (code != kSuccess || before_ == device) return;
    code = api_.set_device(device);
    changed_ = code == kSuccess;
  }
  ~Current() {
    if (changed_) api_.set_device(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  Result code;

 private:
  const Api& api_;
  int before_ = 0;
  bool changed_ = false;
};

// Lets this thread load while another captures a stream; releases that lack the call do not forbid it.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Api& api) noexcept : api_(api) {
    exchanged_ = api_.exchange_capture_mode != nullptr && api_.exchange_capture_mode(&mode_) == kSuccess;
  }
  ~RelaxedCapture() {
    if (exchanged_) api_.exchange_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Api& api_;
  int mode_ = kCaptureModeRelaxed;
  bool exchanged_ = false;
};

class HipDriver final : public Driver {
 public:
  HipDriver(const Api& api, int device_id) : api_(api), info_(device_info(api_, device_id)) {}

  const DeviceInfo& device() const noexcept override { return info_; }
  Loaded load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) override;
  void unload(Loaded& loaded) noexcept override;
  int launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t count) noexcept override;
  [[noreturn]] void fail(int code, const char* what) override {
    if (code == kForkedCode) fork_.check();
    throw_gpu_error(code, api_.text(code), what, QUERN_DRIVER);
  }
  bool capturing(void* stream) noexcept override;
  int stream_device_mismatch(void* stream) noexcept override;
  [[noreturn]] void encode_tensor_map(const TensorMapDesc&, TensorMap&) override {
    throw Error(QUERN_UNSUPPORTED, "tensor maps are CUDA's: " + info_.name + " is " + info_.limits.target.name());
  }
  void* allocate_shared(std::size_t bytes) override {
    fork_.check();
    const std::string what =
        "allocating " + std::to_string(bytes) + " bytes that " + info_.name + " and the host share";
    if (api_.host_allocate == nullptr || api_.host_free == nullptr)
      throw Error(QUERN_UNSUPPORTED, what + ": " + api_.path + " has no such call");
    const Current current(api_, info_.device_id);
    constexpr unsigned kPortable = 1, kMapped = 2;
    void* memory = nullptr;
    const Result code =
        current.code != kSuccess ? current.code : api_.host_allocate(&memory, bytes, kPortable | kMapped);
    if (code != kSuccess) throw_gpu_error(code, api_.text(code), what, QUERN_NO_MEMORY);
    std::memset(memory, 0, bytes);
    return memory;
  }
  void release_shared(void* memory) noexcept override {
    if (memory == nullptr || fork_.forked()) return;
    const Current current(api_, info_.device_id);
    api_.host_free(memory);
  }
  std::unique_ptr<Bench> bench() override {
    fork_.check();
    return std::make_unique<GpuBench<Api, BenchTypes, Current, int>>(api_, info_.device_id, fork_);
  }

 private:
  const Api api_;
  const ForkGuard fork_;
  const DeviceInfo info_;
};

Loaded HipDriver::load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) {
  fork_.check();
  const std::string what = "loading `" + entry + "` on " + info_.name;
  if (!is_hip_image(image)) throw Error(QUERN_UNSUPPORTED, what + ": the image is no whole code object");
  if (max_shared_bytes > info_.limits.shared_per_block) {
    throw Error(QUERN_INVALID, '`' + entry + "` wants up to " + std::to_string(max_shared_bytes) +
                                   " bytes of dynamic shared memory; " + info_.name + " allows " +
                                   std::to_string(info_.limits.shared_per_block) + " a block in all");
  }
  const Current current(api_, info_.device_id);
  const RelaxedCapture relaxed(api_);
  const auto check = [&](Result code) {
    if (code == kSuccess) return;
    throw_gpu_error(code, api_.text(code), what, refuses_image(code) ? QUERN_UNSUPPORTED : QUERN_DRIVER);
  };
  check(current.code);
  Module module = nullptr;
  check(api_.module_load(&module, image.data()));

  Loaded loaded;
  loaded.module = module;
  try {
    Function function = nullptr;
    const Result found = api_.module_function(&function, module, entry.c_str());
    if (found == kNotFound) throw Error(QUERN_NOT_FOUND, what + ": the image holds no kernel of that name", found);
    check(found);
    const auto attribute = [&](FunctionAttribute which) {
      int value = -1;
      return api_.function_attribute(&value, which, function) == kSuccess ? value : -1;
    };
    loaded.function = function;
    loaded.registers = attribute(kNumRegs);
    loaded.shared_bytes = attribute(kSharedSizeBytes);
    loaded.local_bytes = attribute(kLocalSizeBytes);
    loaded.max_threads = attribute(kMaxThreadsPerBlock);
  } catch (...) {
    api_.module_unload(module);
    throw;
  }
  return loaded;
}

void HipDriver::unload(Loaded& loaded) noexcept {
  if (fork_.forked() || loaded.module == nullptr) return;
  const Current current(api_, info_.device_id);
  const RelaxedCapture relaxed(api_);
  api_.module_unload(static_cast<Module>(loaded.module));
  loaded = Loaded{};
}

int HipDriver::launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t) noexcept {
  if (fork_.forked()) return kForkedCode;
  if (launch.cluster[0] != 1 || launch.cluster[1] != 1 || launch.cluster[2] != 1) return kNotSupported;
  // Not every release refuses these itself.
  if (stream_device_mismatch(launch.stream) != 0) return kInvalidHandle;
  const Current current(api_, info_.device_id);
  if (current.code != kSuccess) return current.code;
  // There is no programmatic launch; stream order alone gives the same results.
  return api_.launch_kernel(static_cast<Function>(loaded.function), launch.grid[0], launch.grid[1], launch.grid[2],
                            launch.block[0], launch.block[1], launch.block[2], launch.shared_bytes, launch.stream, args,
                            nullptr);
}

bool HipDriver::capturing(void* stream) noexcept {
  if (fork_.forked()) return false;
  const Current current(api_, info_.device_id);
  int status = kCaptureStatusNone;
  return current.code == kSuccess && api_.stream_is_capturing(stream, &status) == kSuccess &&
         status != kCaptureStatusNone;
}

int HipDriver::stream_device_mismatch(void* stream) noexcept {
  // Releases before hipStreamGetDevice do not tell; there the launch itself is the check.
  constexpr std::uintptr_t kStreamPerThread = 2;
  if (api_.stream_device == nullptr || reinterpret_cast<std::uintptr_t>(stream) <= kStreamPerThread || fork_.forked())
    return 0;
  if (capturing(stream)) return 0;  // what else is asked of it could end the capture
  int device = info_.device_id;
  if (api_.stream_device(stream, &device) != kSuccess || device == info_.device_id) return 0;
  return device + 1;
}

}  // namespace

DeviceInfo device_info(const Api& api, int device_id) {
  const std::string what = "asking HIP device " + std::to_string(device_id) + " what it is";
  const auto check = [&](Result code) {
    if (code != kSuccess) throw_gpu_error(code, api.text(code), what, QUERN_DRIVER);
  };
  const auto count = [&](Attribute which) {
    int value = 0;
    check(api.device_attribute(&value, which, device_id));
    return static_cast<std::uint32_t>(value);
  };
  // What older releases do not know keeps the value given.
  const auto count_or = [&](Attribute which, std::uint32_t otherwise) {
    int value = 0;
    const Result code = api.device_attribute(&value, which, device_id);
    return code == kSuccess && value > 0 ? static_cast<std::uint32_t>(value) : otherwise;
  };

  // Several times what any release writes.
  std::vector<char> properties(16384);
  const auto ask = api.properties_r0600 != nullptr ? api.properties_r0600 : api.properties;
  if (ask == nullptr) throw Error(QUERN_UNSUPPORTED, what + ": " + api.path + " lacks hipGetDeviceProperties");
  check(ask(properties.data(), device_id));
  const Target target = find_target({properties.data(), properties.size()});
  if (target == Target()) throw Error(QUERN_UNSUPPORTED, what + ": its properties hold no architecture name (gfx...)");

  DeviceInfo info;
  info.limits.target = target;
  info.limits.warp_size = count(kWarpSize);
  info.limits.shared_per_block = count(kMaxSharedMemoryPerBlock);
  info.limits.shared_per_sm = count_or(kMaxSharedMemoryPerMultiprocessor, info.limits.shared_per_block);
  info.limits.registers_per_sm = count_or(kMaxRegistersPerMultiprocessor, info.limits.registers_per_sm);
  info.device_type = kDLROCM;
  info.device_id = device_id;
  info.sm_count = count(kMultiprocessorCount);
  info.l2_bytes = count(kL2CacheSize);
  std::size_t memory = 0;
  check(api.device_memory(&memory, device_id));
  info.memory_bytes = memory;
  info.driver_version = static_cast<std::uint32_t>(api.version);
  std::array<char, 256> name{};
  check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device_id));
  info.name = name.data();
  return info;
}

}  // namespace hip

std::unique_ptr<Driver> open_hip(int device_id, const std::vector<std::string>& search_dirs) {
  const hip::Api api = hip::open_api(search_dirs);
  if (device_id < 0 || device_id >= api.devices) {
    throw Error(QUERN_NOT_FOUND, "device_id is " + std::to_string(device_id) +
                                     ": this machine's HIP devices are 0 to " + std::to_string(api.devices - 1));
  }
  return std::make_unique<hip::HipDriver>(api, device_id);
}

}  // namespace quern::jit
