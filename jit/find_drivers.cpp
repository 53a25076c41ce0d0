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

// `open` gives an Api, `ask` a DeviceInfo for an ordinal of it.
template <class Open, class Ask, class Version>
DriverFound look(const char* kind, const char* hint, Open open, Ask ask, Version version) {
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
    found.hint = hint;
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
          "cuda", "install NVIDIA's driver (libcuda.so.1 comes with it), or set QUERN_CUDA_DRIVER_DIR to its folder",
          [&] { return cuda::open_api(search_dirs); }, cuda::device_info, cuda_version),
      look(
          "hip", "install AMD's ROCm runtime (libamdhip64), or set QUERN_HIP_DRIVER_DIR to its folder",
          [&] { return hip::open_api(search_dirs); }, hip::device_info, hip_version),
      host};
}

}  // namespace quern::jit
