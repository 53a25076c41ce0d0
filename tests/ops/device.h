// The device that the tests run on, chosen by QUERN_TEST_DEVICE: host (unless set), host64 or cuda. With cuda,
// QUERN_TEST_TARGET says which target's code to run on it (that of the device unless set): sm_90 on an sm_90a device
// for the portable kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capi/quern.h"

namespace quern::test {

enum class Kind { host, host64, cuda };
Kind device_kind();
inline bool on_cuda() { return device_kind() == Kind::cuda; }
DLDevice dl_device();

// A zeroed struct with its size set, as every caller makes one.
template <class T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

struct Destroy {
  void operator()(quern_context* context) const { quern_context_destroy(context); }
  void operator()(quern_list* list) const { quern_list_free(list); }
};
using Context = std::unique_ptr<quern_context, Destroy>;
using List = std::unique_ptr<quern_list, Destroy>;

// A context on the device; its cache is the folder QUERN_TEST_CACHE, else one that this program makes and removes.
// `change` may set further options. Throws std::runtime_error when it cannot be made.
Context make_context(const std::function<void(quern_context_options&)>& change = {});
// The one that most tests share.
quern_context* context();

// Lets the process's device finish all that was asked of it.
void synchronize();

// Memory on the device, filled with a byte, between guards that are checked when it is freed (AddressSanitizer guards
// the host's by itself).
class Buffer {
 public:
  explicit Buffer(std::size_t bytes = 0, unsigned char fill = 0xa5);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  void write(const void* from, std::size_t bytes, std::size_t at = 0);
  template <class T>
  void write(const std::vector<T>& values, std::size_t at = 0) {
    write(values.data(), values.size() * sizeof(T), at);
  }
  void fill(unsigned char value);
  void read(void* to, std::size_t bytes, std::size_t at = 0) const;
  std::vector<unsigned char> read() const;

 private:
  void release();

  unsigned char* block_ = nullptr;  // what was allocated
  unsigned char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace quern::test
