// The devices that a model is computed on, as somebody names them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/parallel/communicator.h"
#include "bindings/engine/parallel/ranks.h"
#include "bindings/engine/step.h"

namespace quern::engine {

// A device's name that there is none of; what() says what is allowed.
struct DeviceName : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How several devices' parts are summed: through each other's memory where that is faster, or by NCCL alone.
enum class Sums { fastest, nccl };

class Devices {
 public:
  // `names`: "cuda", "cuda:1", "host", or several of CUDA's with commas between; "": the first NVIDIA GPU, and the CPU
  // where there is none. `options` has what contexts have in common. Throws DeviceName, std::runtime_error.
  Devices(const std::string& names, quern_context_options options, Sums sums = Sums::fastest);

  // A model on all of them, to be gone before these are.
  std::unique_ptr<Steps> make_model(const Checkpoint& checkpoint, const Limits& limits) const;
  // Each device with its communicator, which is null where there is one device.
  std::vector<Rank> ranks() const;
  const quern_device_info& first() const { return infos_[0]; }
  std::uint64_t compiled() const;

 private:
  std::vector<demo::Context> contexts_;
  std::vector<quern_device_info> infos_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // none of a single device
};

}  // namespace quern::engine
