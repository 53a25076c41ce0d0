// Where the kernels run: on `host`, by any schedule, or on a GPU with QUERN_TEST_DEVICE=cuda.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "jit/driver.h"
#include "tests/hopper/kernel.h"

namespace quern::hopper_tests {

// Throws std::runtime_error for another QUERN_TEST_DEVICE than host or cuda.
bool on_cuda();

// Of the `host` target; a GPU schedules as it likes.
struct Schedule {
  bool seeded = false;
  std::uint64_t seed = 0;
};

class Machine {
 public:
  explicit Machine(Schedule schedule = {});
  jit::Driver& driver() { return *driver_; }
  const char* target() const { return on_cuda() ? "sm_90a" : "host"; }
  // Empty, or how what was launched has failed.
  std::string synchronize();

 private:
  std::shared_ptr<jit::Driver> driver_;
};

// Memory of the device, 256-byte aligned.
class Memory {
 public:
  explicit Memory(std::size_t bytes, unsigned char fill = 0xff);
  template <class T>
  explicit Memory(const std::vector<T>& values) : Memory(values.size() * sizeof(T)) {
    write(values.data(), bytes_);
  }
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* data() const { return data_; }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    read(values.data());
    return values;
  }

 private:
  void write(const void* from, std::size_t bytes);
  void read(void* to) const;

  std::size_t bytes_;
  unsigned char* data_ = nullptr;
};

struct Shape {
  std::uint32_t blocks = 1;
  std::uint32_t cluster = 1;
  std::uint32_t shared_bytes = 0;
};

// Compiles, loads and runs the kernel "k" of a file to its end. Empty, or the text of the error.
std::string run(Machine& machine, const std::string& file, const Defines& defines, const Shape& shape,
                std::vector<void*> args);

// Bytes from one row of a tensor to the next: multiples of 16, as its map asks for.
std::size_t row_stride(std::uint64_t extent, std::size_t element);
// A map of a tensor that is dense but for that, extents and box innermost first.
jit::TensorMapDesc dense(int data_type, std::size_t element, const void* address,
                         const std::vector<std::uint64_t>& extent, const std::vector<std::uint32_t>& box, int swizzle);
jit::TensorMap encoded(Machine& machine, const jit::TensorMapDesc& desc);

}  // namespace quern::hopper_tests
