// A device, an op and a compiler made of strings, so that the engine can be tested without any of the three.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "tests/support/error_of.h"

namespace quern::jit::test {

// Images that this driver takes begin with "good"; of those that begin with "empty" it says that the kernel is not in
// them; all others are for another device.
class StringDriver : public Driver {
 public:
  StringDriver();
  const DeviceInfo& device() const noexcept override { return info_; }
  Loaded load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) override;
  void unload(Loaded& loaded) noexcept override;
  int launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t count) noexcept override;
  [[noreturn]] void fail(int code, const char* what) override;
  bool capturing(void* stream) noexcept override { return stream == captured_stream; }
  int stream_device_mismatch(void*) noexcept override { return 0; }
  std::unique_ptr<Bench> bench() override { throw Error(QUERN_UNSUPPORTED, "nothing to measure here"); }
  void encode_tensor_map(const TensorMapDesc&, TensorMap&) override;

  std::atomic<int> loads{0}, unloads{0}, launches{0};
  std::atomic<bool> poor{false};        // has no memory for an image
  std::function<void()> while_loading;  // called in each load; set before anybody loads
  void* captured_stream = reinterpret_cast<void*>(0xca97);

 private:
  DeviceInfo info_;
};

// The toy op's only constant is N.
Spec toy(std::uint32_t n);
Unit describe_toy(const Spec& spec);
// What a compiler makes of a toy.
Compiled good_image(const CompileJob& job);

// A folder of the test's own, removed at its end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string path;
};

class EngineTest : public testing::Test {
 protected:
  cache::StoreOptions in_folder() const;
  // An engine on `service`, with the fixture's driver, that records its events.
  EngineOptions options(Service& service, std::function<Compiled(const CompileJob&)> compile);
  std::vector<Event> events();
  int count_events(int kind);

  Folder folder;
  StringDriver driver;

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
};

using quern::test::contains;
using quern::test::error_of;

}  // namespace quern::jit::test
