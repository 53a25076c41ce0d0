// What the tests of the C ABI share: contexts, errors, a folder of one's own, and a kernel that adds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "capi/quern.h"

namespace quern::test {

// A zeroed struct with its size set, as every caller makes one.
template <class T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

// Removed with all that is in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(std::string_view name = "") const { return name.empty() ? root_ : root_ + "/" + std::string(name); }

 private:
  std::string root_;
};

struct Destroy {
  void operator()(quern_context* context) const { quern_context_destroy(context); }
  void operator()(quern_list* list) const { quern_list_free(list); }
};
using Context = std::unique_ptr<quern_context, Destroy>;
using List = std::unique_ptr<quern_list, Destroy>;

// A context with its cache in `folder`; `change` may set further options. Fails the test when it cannot be made.
Context make_context(const Folder& folder, std::int32_t device_type,
                     const std::function<void(quern_context_options&)>& change = {});

// That `call`, given an error, returns `status` and a text that holds every one of `words`.
void expect_refused(std::int32_t status, std::initializer_list<std::string_view> words,
                    const std::function<std::int32_t(quern_error*)>& call);

// out[i] = a[i] * FACTOR + b for i < n, one thread an element, as a host brings it: one source for every target.
extern const char* const kScaleSource;
struct ScaleParams {
  const float* a;
  float* out;
  int n;
  float b;
};
constexpr std::uint32_t kScaleThreads = 64;

// The desc of that kernel; it points into itself and must not be copied.
struct ScaleDesc {
  explicit ScaleDesc(const char* factor = "2.0f");
  ScaleDesc(const ScaleDesc&) = delete;
  ScaleDesc& operator=(const ScaleDesc&) = delete;
  quern_source source;
  quern_source header;
  quern_constant constant;
  quern_kernel_desc desc;
};

// A manifest line that stands for the same kernel.
std::string scale_line(const std::string& target, const std::string& factor = "2.0f");

// The text of a context's manifest.
std::string manifest_of(const quern_context* context);

}  // namespace quern::test
