// The context: who owns what, and the order in which it goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capi/abi.h"
#include "capi/kernels.h"
#include "capi/notify.h"
#include "capi/options.h"
#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/fork_guard.h"
#include "jit/service.h"
#include "jit/tensor_maps.h"
#include "sources/checked.h"
#include "sources/kernel/kernel.h"
#include "sources/op.h"
#include "sources/repeat/repeats.h"

struct quern_context {
  explicit quern_context(const quern_context_options& given);

  const quern::jit::ForkGuard fork;
  const quern::capi::Notify notify;
  const quern::capi::Options options;
  const std::function<void(std::string_view)> notice;  // what the store has to tell, to `notify`
  mutable quern::ops::kernel::Kept texts;              // of the host's own kernels that this context knows

  // Destroyed from the last to the first: the engine ends its compilations and unloads its kernels while all that it
  // works with is still there.
  const std::shared_ptr<quern::jit::Service> service;         // with the process's other contexts like this
  const std::unique_ptr<quern::jit::Driver> driver;           // null: no device
  const std::unique_ptr<quern::jit::TensorMaps> tensor_maps;  // null: no device
  const std::unique_ptr<quern::ops::Checked> checked;         // null: no device, or not in the checked form
  const std::unique_ptr<quern::jit::Engine> engine;
  const std::shared_ptr<quern::ops::gemm::Tunings> tunings;
  quern::capi::Kernels kernels;

  const quern::ops::Runtime runtime;
  const bool plain;                                    // neither in the checked form nor on `host` with a seed
  const std::unique_ptr<quern::ops::Repeats> repeats;  // null: no device, the checked form, or `host`, which looks at
                                                       // what lies in index tensors

  // The device's target, or the one that the options name; none in a context without either.
  std::optional<quern::jit::Target> target() const;
};

namespace quern::capi {

[[noreturn]] void fail_context(const quern_context* context);

// The context, when it can be used: throws Error(QUERN_INVALID) for NULL, Error(QUERN_FORKED) in a child of its
// process.
template <class C>
C& live(C* context) {
  if (context == nullptr || context->fork.forked()) [[unlikely]] {
    fail_context(context);
  }
  return *context;
}

// The same, and it must have a device.
[[noreturn]] void fail_no_device();
template <class C>
C& live_with_device(C* context) {
  C& alive = live(context);
  if (alive.runtime.driver == nullptr) [[unlikely]]
    fail_no_device();
  return alive;
}

}  // namespace quern::capi
