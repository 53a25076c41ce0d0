// The handles of a context's host-brought kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "capi/quern.h"
#include "jit/engine.h"

struct quern_kernel {
  const quern_context* context;
  const quern::jit::Kernel* kernel;
  std::string entry;
  std::uint32_t max_shared_bytes;
  bool checked;  // takes the checked form's argument behind its own
};

namespace quern::capi {

// One handle for each kernel of the engine; they live as long as the context. Thread-safe.
class Kernels {
 public:
  quern_kernel* handle(const quern_context& context, const jit::Kernel* kernel);

 private:
  std::mutex mutex_;
  std::map<const jit::Kernel*, std::unique_ptr<quern_kernel>> handles_;
};

}  // namespace quern::capi
