// Where a model's steps run: one stream, to which copies and kernels are given in order and which the host waits for
// once a step. On a GPU a step can be captured as a CUDA graph: a step of a few tokens is a hundred launches of
// microseconds each, which are then launched as one. What may differ between two replays (tokens, positions, lengths,
// page tables, sampling) is fetched by the graph itself, from the same places; what a capture holds fast is how many
// sequences there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "quern.h"

namespace quern::engine {

// Every call throws std::runtime_error with the driver's code.
class Stream {
 public:
  virtual ~Stream() = default;

  // For the args of quern.h's calls.
  virtual void* handle() const = 0;
  // Zeroed memory of the host that the device reaches, kernels at the same address; gone with this object.
  virtual void* allocate_host(std::size_t bytes) = 0;
  // In order with what was launched before. The host's memory must stay as it is until wait().
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void wait() = 0;
  // Until no word is `unset` any more: kernels write them to memory of allocate_host(), as the last thing that the host
  // reads. What was launched may still be ending then.
  virtual void wait_for(const std::int32_t* words, std::int64_t count, std::int32_t unset) = 0;
  // Replays what `launch` gave to the stream when it was first called with this key; captures it then, and calls
  // `captured` before it is first launched. All kernels must be ready: capturing compiles nothing. A device without
  // graphs launches each time.
  virtual void replay(std::int64_t key, const std::function<void()>& launch, const std::function<void()>& captured) = 0;
};

std::unique_ptr<Stream> stream_of(const quern_device_info& device);

}  // namespace quern::engine
