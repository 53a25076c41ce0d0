// Several devices that compute one model together, each with a part of every layer's heads and columns (Shoeybi et al.:
// "Megatron-LM", 2019): what each gives of a layer's half is summed over all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace quern::engine {

// One device's end of it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  // Replaces `count` bf16 by their sums over all ranks, the same bits everywhere, in the stream's order. Every rank
  // makes the same calls. Throws std::runtime_error.
  virtual void all_reduce(void* data, std::int64_t count, void* stream) = 0;
};

// NCCL's, of CUDA devices of this process, in this order; libnccl.so.2 is looked for when this is called. Throws
// std::runtime_error where it is missing or fails.
std::vector<std::unique_ptr<Communicator>> open_nccl(const std::vector<int>& devices);

}  // namespace quern::engine
