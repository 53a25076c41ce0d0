// A device and the library that drives it: libcuda, libamdhip64, or the fiber executor for `host`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/bench.h"
#include "jit/target.h"

namespace quern::jit {

struct DeviceInfo {
  TargetInfo limits;             // as the device itself reports them
  std::int32_t device_type = 0;  // DLPack
  std::int32_t device_id = 0;
  std::uint32_t sm_count = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t driver_version = 0;
  std::string name;
};

// A kernel in the driver's hands.
struct Loaded {
  void* module = nullptr;
  void* function = nullptr;
  std::int32_t registers = -1;
  std::int32_t shared_bytes = -1;  // static
  std::int32_t local_bytes = -1;
  std::int32_t max_threads = -1;
  std::int32_t parameters = -1;  // how many a launch must bring; -1: the driver does not say, or checks it itself
};

// Memory that the launch in front of a programmatic one may still be writing.
struct LateMemory {
  void* at;
  std::size_t bytes;
  bool indices;
};

struct Launch {
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t cluster[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  bool programmatic = false;
  void* stream = nullptr;
  std::span<const LateMemory> late;  // what is known of it; `host` with a seed alone looks at it
};

// The 128-byte descriptor of cuTensorMapEncodeTiled, opaque here.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
// CUtensorMapDataType and CUtensorMapL2promotion, as far as they are used; 8-bit floats are kTensorU8.
// CUtensorMapSwizzle is q::Swizzle of common/sm90/layout.cuh.
inline constexpr int kTensorU8 = 0, kTensorU16 = 1, kTensorU32 = 2, kTensorI32 = 3, kTensorF16 = 6, kTensorF32 = 7,
                     kTensorBF16 = 9;
inline constexpr int kPromoteNone = 0, kPromote64 = 1, kPromote128 = 2, kPromote256 = 3;  // bytes
struct TensorMapDesc {
  int data_type = 0;  // CUtensorMapDataType
  std::uint32_t rank = 0;
  void* address = nullptr;       // 16-byte aligned
  std::uint64_t extent[5] = {};  // elements, innermost first
  std::uint64_t stride[4] = {};  // bytes, of dimensions 1 and up; multiples of 16
  std::uint32_t box[5] = {};     // elements
  int swizzle = 0;               // CUtensorMapSwizzle
  int l2_promotion = 0;          // CUtensorMapL2promotion
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual const DeviceInfo& device() const noexcept = 0;

  // Loads an image, finds `entry`, sets the dynamic shared memory limit and forces whatever the driver would put off,
  // so that a launch does neither. Works while another thread captures a stream. Throws Error(QUERN_DRIVER), and
  // Error(QUERN_UNSUPPORTED) when the image is not for this device (the caller then makes another).
  virtual Loaded load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) = 0;
  virtual void unload(Loaded& loaded) noexcept = 0;

  // Enqueues. `args` holds one pointer for each kernel argument, `count` of them. No allocation, lock, synchronisation
  // or system call of our own. Returns 0 or the driver's code, which is not 0 for a stream of another device. The
  // device's context is made current for the call when it is not.
  virtual int launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t count) noexcept = 0;

  // Throws the Error for a code that launch returned: QUERN_STICKY when the device was already broken before.
  [[noreturn]] virtual void fail(int code, const char* what) = 0;

  // Whether the stream is being captured, and whether it belongs to this device (0: yes; else the other device's
  // ordinal + 1).
  virtual bool capturing(void* stream) noexcept = 0;
  virtual int stream_device_mismatch(void* stream) noexcept = 0;

  // What kernels are measured with. The driver outlives it. Throws Error(QUERN_DRIVER).
  virtual std::unique_ptr<Bench> bench() = 0;

  // Zeroed memory of this process that the device reads and writes under the same address while kernels run. Throws
  // Error(QUERN_DRIVER), Error(QUERN_NO_MEMORY), and Error(QUERN_UNSUPPORTED) where the driver's library has no such
  // thing.
  virtual void* allocate_shared(std::size_t bytes) = 0;
  virtual void release_shared(void* memory) noexcept = 0;

  // Only where the target has tensor maps; else throws Error(QUERN_UNSUPPORTED).
  virtual void encode_tensor_map(const TensorMapDesc& desc, TensorMap& map) = 0;
};

struct HostOptions {
  std::uint32_t warp_size = 32;
  std::uint32_t threads = 0;  // 0: the number of cores
  bool seeded = false;        // false: fair scheduling and eager delivery, the fastest
  std::uint64_t seed = 0;
};

// Throw Error(QUERN_NOT_FOUND) when the library or the device is not there, saying what was tried.
// A target that is given must be one whose code the device runs, else Error(QUERN_INVALID): kernels are then chosen and
// compiled for that.
std::unique_ptr<Driver> open_cuda(int device_id, const std::vector<std::string>& search_dirs,
                                  const std::optional<Target>& target = {});
std::unique_ptr<Driver> open_hip(int device_id, const std::vector<std::string>& search_dirs);
std::unique_ptr<Driver> open_host(const HostOptions& options);

// For `doctor`: what is found of a driver and its devices, without opening a context.
struct DriverFound {
  std::string kind;  // "cuda", "hip", "host"
  bool found = false;
  std::string path;
  std::string version;
  std::vector<std::string> devices;  // "0: NVIDIA H200, sm_90a, 132 SMs"
  std::string text;                  // when not found: what was tried
  std::string hint;
};
std::vector<DriverFound> find_drivers(const std::vector<std::string>& search_dirs);

}  // namespace quern::jit
