// Several devices that compute one model together, each with a part of every layer's heads and columns (Shoeybi et al.:
// "Megatron-LM", 2019): what each gives of a layer's half is summed over all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "quern.h"

namespace quern::engine {

// A layer's half as every rank has a part of it, and what follows.
struct AddAndNormalise {
  void* delta;         // bf16 [rows, columns]: this rank's part
  void* residual;      // bf16 [rows, columns]
  const void* weight;  // bf16 [columns]
  void* normed;        // bf16 [rows, columns]
  std::int64_t rows, columns;
  float eps;
};

// One device's end of it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  // What sums a few rows, in a word or two.
  virtual const char* how() const = 0;
  // Replaces `count` bf16 by their sums over all ranks, the same bits everywhere, in the stream's order. Every rank
  // makes the same calls. Says whether one of quern's launches does it, beside which the next may be set up. Throws
  // std::runtime_error.
  virtual bool all_reduce(void* data, std::int64_t count, void* stream) = 0;
  // Waits on the host until every rank's thread has come here.
  virtual void meet() = 0;

  // Readies what the calls need for rows of so many columns, with the flags of quern's calls; where `plus_one` says so
  // rows are multiplied by 1 + weight. Every rank asks for the same before any of them sums. Throws std::runtime_error.
  virtual void prepare(std::int64_t /*columns*/, bool /*plus_one*/, std::uint32_t /*flags*/) {}
  // residual += the ranks' deltas; normed = rmsnorm(residual) * weight. Does nothing and says false where that takes
  // longer than one call after the other, as it does for many rows.
  virtual bool add_and_normalise(const AddAndNormalise& /*what*/, void* /*stream*/) { return false; }
};

// NCCL's, of CUDA devices of this process, in this order; libnccl.so.2 is looked for when this is called. Throws
// std::runtime_error where it is missing or fails.
std::vector<std::unique_ptr<Communicator>> open_nccl(const std::vector<int>& devices);

// What stands for one rank while its communicators are made.
struct PeerEnd {
  quern_context* context;
  quern_device_info device;
  std::unique_ptr<Communicator> others;  // for what is not summed through memory
};
// Ranks of this process that write into each other's memory: a few rows are summed by one kernel, many by `others`.
// Where a device cannot reach another's memory it is `others` for all. Throws std::runtime_error.
std::vector<std::unique_ptr<Communicator>> open_peers(std::vector<PeerEnd> ends);

}  // namespace quern::engine
