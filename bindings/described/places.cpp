// SPDX-License-Identifier: Apache-2.0
#include "places.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "described.h"
#include "primary_context.h"

namespace quern::described {
namespace {

constexpr std::uint64_t kAlignment = 256;

struct Contexts {
  std::mutex mutex;
  std::map<std::pair<std::int32_t, std::int32_t>, quern_context*> made;
};

// Never destroyed: frameworks may call until the process ends.
Contexts& contexts() {
  static auto* kept = new Contexts;
  return *kept;
}

std::pair<std::int32_t, std::int32_t> place_of(DLDevice device) {
  return {device.device_type, device.device_type == kDLCPU ? 0 : device.device_id};
}

// Workspaces of the CPU that no call uses now.
struct Spare {
  static constexpr std::size_t kMost = 16;
  struct Block {
    void* memory;
    std::uint64_t bytes;
  };
  std::mutex mutex;
  std::vector<Block> blocks;
};
Spare& spare() {
  static auto* kept = new Spare;
  return *kept;
}

// The functions of a GPU's driver that quern.h has no word for.
struct Driver {
  using Zero = int (*)(std::uint64_t memory, unsigned char value, std::size_t bytes, void* stream);
  using Capturing = int (*)(void* stream, int* status);
  Zero zero = nullptr;
  Capturing capturing = nullptr;

  // HIP's, which has a device for each thread where CUDA has contexts.
  int (*get_device)(int* ordinal) = nullptr;
  int (*set_device)(int ordinal) = nullptr;

  Driver(const char* library, const char* zero_name, const char* capturing_name) {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return;
    zero = reinterpret_cast<Zero>(dlsym(opened, zero_name));
    capturing = reinterpret_cast<Capturing>(dlsym(opened, capturing_name));
    get_device = reinterpret_cast<int (*)(int*)>(dlsym(opened, "hipGetDevice"));
    set_device = reinterpret_cast<int (*)(int)>(dlsym(opened, "hipSetDevice"));
  }
};

const Driver& driver_of(DLDevice device) {
  static const Driver kCuda("libcuda.so.1", "cuMemsetD8Async", "cuStreamIsCapturing");
  static const Driver kHip("libamdhip64.so", "hipMemsetD8Async", "hipStreamIsCapturing");
  const Driver& driver = device.device_type == kDLROCM ? kHip : kCuda;
  if (driver.zero == nullptr || driver.capturing == nullptr) {
    throw Refused(QUERN_NOT_FOUND, "workspace: the device's driver was not found, so give one (zeroed once)");
  }
  return driver;
}

const PrimaryContext& primary_of(int ordinal) {
  static auto* mutex = new std::mutex;
  static auto* made = new std::map<int, PrimaryContext>;
  const std::lock_guard lock(*mutex);
  return made->try_emplace(ordinal, ordinal).first->second;
}

// What a call of the driver returns, made with the device current in this thread; what was current is so again behind.
template <typename Body>
int on_device(DLDevice device, const Driver& driver, Body body) {
  if (device.device_type == kDLROCM) {
    int before = 0;
    if (driver.get_device == nullptr || driver.set_device == nullptr) return body();
    if (const int failed = driver.get_device(&before); failed != 0) return failed;
    if (const int failed = driver.set_device(device.device_id); failed != 0) return failed;
    const int returned = body();
    const int failed = driver.set_device(before);
    return returned != 0 ? returned : failed;
  }
  try {
    const PrimaryContext::Current current(primary_of(device.device_id));
    return body();
  } catch (const std::runtime_error& error) {
    throw Refused(QUERN_DRIVER, std::string("the device could not be made current: ") + error.what());
  }
}

}  // namespace

quern_context* context_of(DLDevice device) {
  Contexts& known = contexts();
  const std::lock_guard lock(known.mutex);
  quern_context*& context = known.made[place_of(device)];
  if (context == nullptr) {
    quern_context_options options = {};
    options.size = sizeof options;
    options.device_type = place_of(device).first;
    options.device_id = place_of(device).second;
    quern_error error = blank();
    check(quern_context_create(&options, &context, &error), error);
  }
  return context;
}

void use_context(DLDevice device, quern_context* context) {
  Contexts& known = contexts();
  const std::lock_guard lock(known.mutex);
  known.made[place_of(device)] = context;
}

HostWorkspace::HostWorkspace(std::uint64_t bytes) {
  if (bytes == 0) return;
  {
    Spare& known = spare();
    const std::lock_guard lock(known.mutex);
    // The smallest that is large enough; else the last one makes room for a larger one.
    auto best = known.blocks.end();
    for (auto at = known.blocks.begin(); at != known.blocks.end(); ++at) {
      if (at->bytes >= bytes && (best == known.blocks.end() || at->bytes < best->bytes)) best = at;
    }
    if (best == known.blocks.end() && !known.blocks.empty()) {
      std::free(known.blocks.back().memory);
      known.blocks.pop_back();
    } else if (best != known.blocks.end()) {
      memory_ = best->memory;
      bytes_ = best->bytes;
      known.blocks.erase(best);
      return;
    }
  }
  bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  memory_ = std::aligned_alloc(kAlignment, bytes_);
  if (memory_ == nullptr) {
    throw Refused(QUERN_NO_MEMORY, "workspace: no memory for " + std::to_string(bytes) + " bytes");
  }
  std::memset(memory_, 0, bytes_);
}

HostWorkspace::~HostWorkspace() {
  if (memory_ == nullptr) return;
  Spare& known = spare();
  const std::lock_guard lock(known.mutex);
  if (known.blocks.size() < Spare::kMost) {
    known.blocks.push_back({memory_, bytes_});
  } else {
    std::free(memory_);
  }
}

void HostWorkspace::drop() { std::free(std::exchange(memory_, nullptr)); }

void zero(DLDevice device, void* stream, void* memory, std::uint64_t bytes) {
  const Driver& driver = driver_of(device);
  const int failed = on_device(device, driver,
                               [&] { return driver.zero(reinterpret_cast<std::uintptr_t>(memory), 0, bytes, stream); });
  if (failed != 0)
    throw Refused(QUERN_DRIVER, "workspace: the driver could not zero it, error " + std::to_string(failed));
}

bool is_capturing(DLDevice device, void* stream) {
  int status = 0;
  const Driver& driver = driver_of(device);
  const int failed = on_device(device, driver, [&] { return driver.capturing(stream, &status); });
  if (failed != 0) throw Refused(QUERN_DRIVER, "stream: the driver refuses it, error " + std::to_string(failed));
  return status != 0;
}

}  // namespace quern::described
