// Measuring on a GPU. HIP's calls for it are CUDA's under other names, so both drivers share this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "jit/bench.h"
#include "jit/error.h"
#include "jit/fork_guard.h"
#include "jit/gpu_error.h"

namespace quern::jit {

// `Api` is a driver's calls and `Types` what they take; `Current` makes a `Place` (a context, a device) the thread's
// own for as long as it lives.
template <class Api, class Types, class Current, class Place>
class GpuBench final : public Bench {
 public:
  // Api and guard are the driver's.
  GpuBench(const Api& api, Place place, const ForkGuard& fork) : api_(api), place_(place), fork_(fork) {
    try {
      constexpr unsigned kNonBlocking = 1, kDefault = 0;
      in_place([&] { return api_.stream_create(&stream_, kNonBlocking); }, "making a stream to measure on");
      in_place([&] { return api_.event_create(&from_, kDefault); }, "making an event");
      in_place([&] { return api_.event_create(&to_, kDefault); }, "making an event");
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~GpuBench() override { destroy(); }
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;

  void* stream() const noexcept override { return stream_; }
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    allocated_.push_back({});  // room first
    DevicePointer pointer{};
    try {
      const std::string what = "allocating " + std::to_string(bytes) + " bytes to measure with";
      in_place([&] { return api_.memory_allocate(&pointer, bytes); }, what.c_str(), QUERN_NO_MEMORY);
    } catch (...) {
      allocated_.pop_back();
      throw;
    }
    allocated_.back() = pointer;
    return as_address(pointer);
  }
  void release(void* memory) noexcept override {
    const auto found = std::find(allocated_.begin(), allocated_.end(), as_pointer(memory));
    if (memory == nullptr || found == allocated_.end() || fork_.forked()) return;
    const Current current(api_, place_);
    api_.memory_free(*found);
    allocated_.erase(found);
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    in_place([&] { return api_.copy_in(as_pointer(to), from, bytes, stream_); }, "copying to the device");
    in_place([&] { return api_.stream_synchronize(stream_); }, "copying to the device");
  }
  void read(void* to, const void* from, std::size_t bytes) override {
    if (api_.copy_out == nullptr) throw Error(QUERN_UNSUPPORTED, "copying from the device: " + api_.path + " lacks it");
    in_place([&] { return api_.copy_out(to, as_pointer(const_cast<void*>(from)), bytes, stream_); },
             "copying from the device");
    in_place([&] { return api_.stream_synchronize(stream_); }, "copying from the device");
  }
  void start() override {
    in_place([&] { return api_.event_record(from_, stream_); }, "measuring");
  }
  double stop() override {
    in_place([&] { return api_.event_record(to_, stream_); }, "measuring");
    in_place([&] { return api_.event_synchronize(to_); }, "measuring");
    float milliseconds = 0;
    in_place([&] { return api_.event_elapsed(&milliseconds, from_, to_); }, "measuring");
    return 1e3 * double{milliseconds};
  }

 private:
  using DevicePointer = typename Types::DevicePointer;
  using Stream = typename Types::Stream;
  using Event = typename Types::Event;

  static void* as_address(DevicePointer pointer) {
    if constexpr (std::is_pointer_v<DevicePointer>) {
      return pointer;
    } else {
      return reinterpret_cast<void*>(pointer);  // NOLINT(performance-no-int-to-ptr)
    }
  }
  static DevicePointer as_pointer(void* memory) {
    if constexpr (std::is_pointer_v<DevicePointer>) {
      return memory;
    } else {
      return reinterpret_cast<DevicePointer>(memory);
    }
  }

  template <class Call>
  void in_place(Call call, const char* what, int status = QUERN_DRIVER) {
    fork_.check();
    const Current current(api_, place_);
    const int code = current.code != 0 ? current.code : call();
    if (code != 0) throw_gpu_error(code, api_.text(code), what, status);
  }
  void destroy() noexcept {
    if (fork_.forked()) return;
    const Current current(api_, place_);
    if (stream_ != nullptr) api_.stream_synchronize(stream_);
    for (const DevicePointer pointer : allocated_) api_.memory_free(pointer);
    if (from_ != nullptr) api_.event_destroy(from_);
    if (to_ != nullptr) api_.event_destroy(to_);
    if (stream_ != nullptr) api_.stream_destroy(stream_);
  }

  const Api& api_;
  const Place place_;
  const ForkGuard& fork_;
  Stream stream_ = nullptr;
  Event from_ = nullptr, to_ = nullptr;
  std::vector<DevicePointer> allocated_;
};

}  // namespace quern::jit
