// A problem on a device: its tensors with what they hold, its args, and the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "bindings/cli/bench/machine.h"
#include "bindings/cli/bench/problem.h"
#include "bindings/cli/library.h"

namespace quern::cli {

class Call {
 public:
  // Allocates and fills, from a seed, or as `like` has been filled, which is quick. Throws Failure.
  Call(const Problem& problem, const Context& context, const quern_device_info& device, Machine& machine,
       std::uint64_t seed, const Call* like = nullptr);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void run();                                     // throws Failure
  std::uint64_t bytes() const { return bytes_; }  // of memory that it holds

 private:
  unsigned char* struct_of(int part);
  template <class T>
  void set(int part, std::size_t offset, T value);
  const DLTensor* tensor(const ProblemTensor& given, const quern_device_info& device, Machine& machine,
                         std::uint64_t seed, const Call* like);

  const Problem& problem_;
  const Context& context_;
  std::vector<std::vector<unsigned char>> structs_;  // the args, then those of its parts that are given
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<std::int64_t>> extents_;
  std::deque<std::vector<const DLTensor*>> lists_;
  std::vector<std::shared_ptr<void>> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace quern::cli
