// What `doctor` tells of drivers and devices. Opens no context and never throws because something is missing.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "jit/cuda_driver.h"
#include "jit/driver.h"
#include "jit/error.h"
#include "jit/hip_driver.h"

namespace quern::jit {
namespace {

std::string describe(const DeviceInfo& info) {
  return std::to_string(info.device_id) + ": " + info.name + ", " + info.limits.target.name() + ", " +
         std::to_string(info.sm_count) + (info.device_type == kDLROCM ? " CUs" : " SMs");
}

// What to do about a driver that is not there, and about one that is there and finds no device.
struct Hints {
  const char* no_library;
  const char* no_device;
};

// `open` gives an Api, `ask` a DeviceInfo for an ordinal of it.
template <class Open, class Ask, class Version>
DriverFound look(const char* kind, const Hints& hints, Open open, Ask ask, Version version) {
  DriverFound found;
  found.kind = kind;
  try {
    const auto api = open();
    found.found = true;
    found.path = api.path;
    found.version = version(api.version);
    for (int i = 0; i < api.devices; ++i) {
      try {
        found.devices.push_back(describe(ask(api, i)));
      } catch (const Error& error) {
        found.devices.push_back(std::to_string(i) + ": " + error.text());
      }
    }
  } catch (const Error& error) {
    found.text = error.text();
    // A library that cannot be found has no code of its own; one that answers has.
    found.hint = error.native() == 0 ? hints.no_library : hints.no_device;
  }
  return found;
}

// 13000 is 13.0.
std::string cuda_version(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

// 50221153 is 5.2.21153.
std::string hip_version(int version) {
  return std::to_string(version / 10'000'000) + '.' + std::to_string(version / 100'000 % 100) + '.' +
         std::to_string(version % 100'000);
}

}  // namespace

std::vector<DriverFound> find_drivers(const std::vector<std::string>& search_dirs) {
  DriverFound host;
  host.kind = "host";
  host.found = true;
  host.devices = {"0: fibers on " + std::to_string(std::thread::hardware_concurrency()) +
                  " CPU threads, host and host64"};
  return {
      look(
          "cuda",
          {"only for running on an NVIDIA GPU: install NVIDIA's driver (libcuda.so.1 comes with it), or name its "
           "folder in "
           "QUERN_CUDA_DRIVER_DIR",
           "only for running on an NVIDIA GPU: see that one is visible (nvidia-smi, CUDA_VISIBLE_DEVICES, the "
           "container's "
           "devices) and that its driver is loaded"},
          [&] { return cuda::open_api(search_dirs); }, cuda::device_info, cuda_version),
      look(
          "hip",
          {"only for running on an AMD GPU: install AMD's ROCm runtime (libamdhip64), or name its folder in "
           "QUERN_HIP_DRIVER_DIR",
           "only for running on an AMD GPU: see that one is visible (rocminfo, HIP_VISIBLE_DEVICES, /dev/kfd in the "
           "container) and that you may open it; the runtime itself is there"},
          [&] { return hip::open_api(search_dirs); }, hip::device_info, hip_version),
      host};
}

}  // namespace quern::jit
