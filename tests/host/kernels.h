// Compiling and launching small kernels in the tests of the `host` target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/compiler.h"
#include "jit/driver.h"
#include "jit/unit.h"

namespace quern::host_tests {

// The text of a file, named from the project's root.
std::string read_file(const std::string& name);

// With the device-side layer and tests/host/layer_layout.cuh to include.
jit::Unit unit_for(const std::string& target, std::string_view source_name, std::string_view source,
                   const std::string& entry);
// Compiled once per process for equal arguments.
const jit::Compiled& compile(const std::string& target, const std::string& source_name, const std::string& source,
                             const std::string& entry);
// `body` with the layer included before it, the entry named "k".
const jit::Compiled& compile_body(const std::string& body, std::uint32_t warp_size = 32);

struct Options {
  std::uint32_t warp_size = 32;
  std::uint32_t cpu_threads = 2;
  bool seeded = false;
  std::uint64_t seed = 0;
};

// A kernel on a device of its own.
class Kernel {
 public:
  Kernel(const jit::Compiled& compiled, const std::string& entry, std::uint32_t max_shared_bytes,
         const Options& options);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Empty, or the text of the error.
  std::string launch(const jit::Launch& launch, std::vector<void*> args);
  // One-dimensional, with all the dynamic shared memory it was loaded for.
  template <class... A>
  std::string operator()(std::uint32_t blocks, const A&... args) {
    return run(blocks, {const_cast<void*>(static_cast<const void*>(&args))...});
  }
  jit::Driver& driver() { return *driver_; }
  const jit::Loaded& loaded() const { return loaded_; }

 private:
  std::string run(std::uint32_t blocks, std::vector<void*> args);

  std::unique_ptr<jit::Driver> driver_;
  jit::Loaded loaded_;
  std::uint32_t shared_bytes_;
};

}  // namespace quern::host_tests
