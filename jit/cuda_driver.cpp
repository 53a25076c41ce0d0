// Loading and launching through libcuda, in the device's primary context.
// SPDX-License-Identifier: Apache-2.0
#include "jit/cuda_driver.h"

#include <array>
#include <cstring>

#include "jit/error.h"
#include "jit/fork_guard.h"
#include "jit/gpu_bench.h"
#include "jit/gpu_error.h"
#include "jit/gpu_image.h"

namespace quern::jit {
namespace cuda {
namespace {

// Makes a context current for as long as it lives, unless it is so already. `code` is not 0 when that failed.
class Current {
 public:
  Current(const Api& api, Context context) noexcept : api_(api) {
    Context now = nullptr;
    code = api.context_current(&now);
    if (code != kSuccess || now == context) return;
    code = api.context_push(context);
    pushed_ = code == kSuccess;
  }
  ~Current() {
    Context popped = nullptr;
    if (pushed_) api_.context_pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  Result code;

 private:
  const Api& api_;
  bool pushed_ = false;
};

// Lets this thread load while another captures a stream: in every other mode that would end the capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Api& api) noexcept : api_(api) {
    exchanged_ = api_.exchange_capture_mode(&mode_) == kSuccess;
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

// The device as kernels for another target that it runs are chosen by.
DeviceInfo compiled_for(DeviceInfo info, const std::optional<Target>& target) {
  TargetInfo& limits = info.limits;
  if (!target || *target == limits.target) return info;
  if (!runs(limits.target, *target)) {
    throw Error(QUERN_INVALID, "target is \"" + target->name() + "\", but device " + std::to_string(info.device_id) +
                                   " is \"" + limits.target.name() +
                                   "\"; leave target NULL, or use device_type 0 to warm for another target");
  }
  const TargetInfo has = limits_of(*target);
  limits.target = *target, limits.tensor_maps = has.tensor_maps, limits.warpgroups = has.warpgroups;
  return info;
}

bool is_default_stream(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kStreamPerThread; }

class CudaDriver final : public Driver {
 public:
  CudaDriver(const Api& api, int device_id, const std::optional<Target>& target)
      : api_(api), info_(compiled_for(device_info(api_, device_id), target)) {
    check(api_.device_get(&device_, device_id), "finding the device");
    check(api_.primary_retain(&context_, device_), "retaining the device's primary context");
    programmatic_ = major() >= 9;
  }
  ~CudaDriver() override {
    if (!fork_.forked()) api_.primary_release(device_);
  }

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
  void encode_tensor_map(const TensorMapDesc& desc, TensorMap& map) override;
  void* allocate_shared(std::size_t bytes) override {
    fork_.check();
    const std::string what =
        "allocating " + std::to_string(bytes) + " bytes that " + info_.name + " and the host share";
    if (api_.host_allocate == nullptr || api_.host_free == nullptr)
      throw Error(QUERN_UNSUPPORTED, what + ": " + api_.path + " has no such call");
    const Current current(api_, context_);
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
    const Current current(api_, context_);
    api_.host_free(memory);
  }
  std::unique_ptr<Bench> bench() override {
    fork_.check();
    return std::make_unique<GpuBench<Api, BenchTypes, Current, Context>>(api_, context_, fork_);
  }

 private:
  int major() const { return static_cast<int>((info_.limits.target.tag() >> 8 & 0xffff) / 10); }
  void check(Result code, const std::string& what) {
    if (code != kSuccess) throw_gpu_error(code, api_.text(code), what, QUERN_DRIVER);
  }
  // While loading: a code that blames the image makes QUERN_UNSUPPORTED.
  void check_load(Result code, const std::string& what, const char* log) {
    if (code == kSuccess) return;
    std::string text = api_.text(code);
    if (*log != '\0') text += std::string("\n") + log;
    throw_gpu_error(code, text, what, refuses_image(code) ? QUERN_UNSUPPORTED : QUERN_DRIVER);
  }
  void allow_shared(Function function, const std::string& entry, std::uint32_t bytes);
  std::int32_t attribute(Function function, FunctionAttribute which) {
    int value = -1;
    return api_.function_attribute(&value, which, function) == kSuccess ? value : -1;
  }

  // A launch takes no count: with too few parameters it would read on. The image says how many they are; where it does
  // not, the driver is asked, from CUDA 12.4 on, until it has no more. That it refuses is an error to whoever watches
  // the calls of a program, such as compute-sanitizer.
  std::int32_t parameters(Function function, std::string_view image, const std::string& entry) {
    const std::int32_t noted = cuda_parameters(image, entry);
    if (noted >= 0 || api_.function_parameter == nullptr) return noted;
    std::size_t offset = 0, size = 0;
    std::int32_t count = 0;
    while (api_.function_parameter(function, static_cast<std::size_t>(count), &offset, &size) == kSuccess) ++count;
    return count;
  }

  const Api api_;
  const ForkGuard fork_;
  const DeviceInfo info_;
  Device device_ = 0;
  Context context_ = nullptr;
  bool programmatic_ = false;
};

Loaded CudaDriver::load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) {
  fork_.check();
  const std::string what = "loading `" + entry + "` on " + info_.name;
  if (!is_cuda_image(image)) {
    throw Error(QUERN_UNSUPPORTED, what + ": the image is neither a whole cubin nor NUL-terminated PTX");
  }
  const Current current(api_, context_);
  check(current.code, what);
  const RelaxedCapture relaxed(api_);

  std::array<char, 2048> log{};
  std::array<int, 2> options{kJitErrorLogBuffer, kJitErrorLogBufferSizeBytes};
  // The size goes in place of a pointer. NOLINTNEXTLINE(performance-no-int-to-ptr)
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  Library library = nullptr;
  check_load(api_.library_load(&library, image.data(), options.data(), values.data(), 2, nullptr, nullptr, 0), what,
             log.data());

  Loaded loaded;
  loaded.module = library;
  try {
    Kernel kernel = nullptr;
    const Result found = api_.library_kernel(&kernel, library, entry.c_str());
    if (found == kNotFound) throw Error(QUERN_NOT_FOUND, what + ": the image holds no kernel of that name", found);
    check_load(found, what, log.data());
    // The function, rather than the context-independent kernel: getting it loads the code now, and a launch of it need
    // not look for the context's copy.
    Function function = nullptr;
    check_load(api_.kernel_function(&function, kernel), what, log.data());
    if (api_.function_load != nullptr) check_load(api_.function_load(function), what, log.data());
    loaded.function = function;
    loaded.registers = attribute(function, kNumRegs);
    loaded.shared_bytes = attribute(function, kSharedSizeBytes);
    loaded.local_bytes = attribute(function, kLocalSizeBytes);
    loaded.max_threads = attribute(function, kMaxThreadsPerBlock);
    loaded.parameters = parameters(function, image, entry);
    if (max_shared_bytes > 0) allow_shared(function, entry, max_shared_bytes);
  } catch (...) {
    api_.library_unload(library);
    throw;
  }
  return loaded;
}

void CudaDriver::allow_shared(Function function, const std::string& entry, std::uint32_t bytes) {
  const Result code = api_.set_function_attribute(function, kMaxDynamicSharedSizeBytes, static_cast<int>(bytes));
  if (code == kSuccess) return;
  if (code != kInvalidValue) check(code, "setting the shared memory limit of `" + entry + '`');
  throw Error(QUERN_INVALID,
              '`' + entry + "` wants up to " + std::to_string(bytes) + " bytes of dynamic shared memory beside " +
                  std::to_string(attribute(function, kSharedSizeBytes)) + " static ones; " + info_.name + " allows " +
                  std::to_string(info_.limits.shared_per_block) + " a block in all",
              code);
}

void CudaDriver::unload(Loaded& loaded) noexcept {
  if (fork_.forked() || loaded.module == nullptr) return;
  const Current current(api_, context_);
  const RelaxedCapture relaxed(api_);
  api_.library_unload(static_cast<Library>(loaded.module));
  loaded = Loaded{};
}

int CudaDriver::launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t) noexcept {
  if (fork_.forked()) return kForkedCode;
  const Current current(api_, context_);
  if (current.code != kSuccess) return current.code;
  const auto function = static_cast<Function>(loaded.function);
  const bool clustered = launch.cluster[0] != 1 || launch.cluster[1] != 1 || launch.cluster[2] != 1;
  // Below compute capability 9.0 there is no programmatic launch; stream order alone gives the same results.
  const bool programmatic = launch.programmatic && programmatic_;
  if (!clustered && !programmatic) {
    return api_.launch_kernel(function, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                              launch.block[1], launch.block[2], launch.shared_bytes, launch.stream, args, nullptr);
  }
  std::array<LaunchAttribute, 2> attributes;
  unsigned count = 0;
  if (clustered) {
    LaunchAttribute& attribute = attributes[count++];
    attribute.id = kClusterDimension;
    attribute.value.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  }
  if (programmatic) {
    LaunchAttribute& attribute = attributes[count++];
    attribute.id = kProgrammaticStreamSerialization;
    attribute.value.programmatic = 1;
  }
  const LaunchConfig config{launch.grid[0],  launch.grid[1],      launch.grid[2], launch.block[0],   launch.block[1],
                            launch.block[2], launch.shared_bytes, launch.stream,  attributes.data(), count};
  return api_.launch_kernel_ex(&config, function, args, nullptr);
}

bool CudaDriver::capturing(void* stream) noexcept {
  if (fork_.forked()) return false;
  const Current current(api_, context_);
  if (current.code != kSuccess) return false;
  int status = kCaptureStatusNone;
  // The default stream cannot be captured; asked about it while another stream is, the driver answers kCaptureImplicit.
  // Loading is safe then, and the launch that may follow gets its error from the driver.
  return api_.stream_is_capturing(stream, &status) == kSuccess && status != kCaptureStatusNone;
}

int CudaDriver::stream_device_mismatch(void* stream) noexcept {
  // With one device there is nobody else for a stream to belong to, and a hot call saves the question.
  if (api_.devices == 1 || is_default_stream(stream) || fork_.forked()) return 0;
  // Of a stream that is being captured this question alone may be asked: any other ends the capture. A launch on
  // another device's stream gets its error from the driver then.
  if (capturing(stream)) return 0;
  Device device = device_;
  if (api_.stream_device != nullptr) {
    if (api_.stream_device(stream, &device) != kSuccess) return 0;
  } else {
    // Almost always the stream's context is ours, and there is no more to ask.
    Context context = nullptr;
    if (api_.stream_context(stream, &context) != kSuccess || context == context_) return 0;
    const Current current(api_, context);
    if (current.code != kSuccess || api_.context_device(&device) != kSuccess) return 0;
  }
  return device == device_ ? 0 : device + 1;
}

void CudaDriver::encode_tensor_map(const TensorMapDesc& desc, TensorMap& map) {
  fork_.check();
  if (api_.encode_tiled == nullptr || major() < 9) {
    throw Error(QUERN_UNSUPPORTED, "tensor maps need compute capability 9.0 or higher: " + info_.name + " is " +
                                       info_.limits.target.name());
  }
  static constexpr std::array<std::uint32_t, 5> kDense{1, 1, 1, 1, 1};
  // The calling thread need not have a context, as for launches.
  const Current current(api_, context_);
  Result code = current.code;
  if (code == kSuccess) {
    code = api_.encode_tiled(&map, desc.data_type, desc.rank, desc.address, desc.extent, desc.stride, desc.box,
                             kDense.data(), /*interleave=*/0, desc.swizzle, desc.l2_promotion, /*fill=*/0);
  }
  if (code == kSuccess) return;
  std::string shape;
  for (std::uint32_t i = 0; i < desc.rank && i < 5; ++i) {
    shape += (i == 0 ? "" : ", ") + std::to_string(desc.extent[i]) + " in boxes of " + std::to_string(desc.box[i]);
    if (i > 0) shape += " at a stride of " + std::to_string(desc.stride[i - 1]) + " bytes";
  }
  throw_gpu_error(code, api_.text(code),
                  "encoding a tensor map of rank " + std::to_string(desc.rank) + ", type " +
                      std::to_string(desc.data_type) + ", swizzle " + std::to_string(desc.swizzle) +
                      ", extents innermost first: " + shape +
                      " (address and strides must be multiples of 16 bytes, boxes at most 256 elements)",
                  code == kInvalidValue ? QUERN_INVALID : QUERN_DRIVER);
}

}  // namespace

DeviceInfo device_info(const Api& api, int device_id) {
  Device device = 0;
  const auto check = [&](Result code) {
    if (code == kSuccess) return;
    throw_gpu_error(code, api.text(code), "asking CUDA device " + std::to_string(device_id) + " what it is",
                    QUERN_DRIVER);
  };
  check(api.device_get(&device, device_id));
  const auto ask = [&](Attribute which) {
    int value = 0;
    check(api.device_attribute(&value, which, device));
    return value;
  };
  const auto count = [&](Attribute which) { return static_cast<std::uint32_t>(ask(which)); };

  DeviceInfo info;
  const int major = ask(kComputeCapabilityMajor);
  // What a device does not tell, such as Hopper's instruments, is as warming without one assumes.
  info.limits = limits_of(target_of(major, ask(kComputeCapabilityMinor)));
  info.limits.warp_size = count(kWarpSize);
  info.limits.shared_per_block = count(kSharedPerBlockOptin);
  info.limits.shared_per_sm = count(kSharedPerMultiprocessor);
  info.limits.registers_per_sm = count(kRegistersPerMultiprocessor);
  info.device_type = kDLCUDA;
  info.device_id = device_id;
  info.sm_count = count(kMultiprocessorCount);
  info.l2_bytes = count(kL2CacheSize);
  std::size_t memory = 0;
  check(api.device_memory(&memory, device));
  info.memory_bytes = memory;
  info.driver_version = static_cast<std::uint32_t>(api.version);
  std::array<char, 256> name{};
  check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device));
  info.name = name.data();
  return info;
}

}  // namespace cuda

std::unique_ptr<Driver> open_cuda(int device_id, const std::vector<std::string>& search_dirs,
                                  const std::optional<Target>& target) {
  const cuda::Api api = cuda::open_api(search_dirs);
  if (device_id < 0 || device_id >= api.devices) {
    throw Error(QUERN_NOT_FOUND, "device_id is " + std::to_string(device_id) +
                                     ": this machine's CUDA devices are 0 to " + std::to_string(api.devices - 1));
  }
  return std::make_unique<cuda::CudaDriver>(api, device_id, target);
}

}  // namespace quern::jit
