// The most that a device gives: bytes from and to memory, and products on its tensor cores, measured in the same run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "bindings/cli/bench/machine.h"
#include "bindings/cli/library.h"

namespace quern::cli {

// What it was measured with, and how much that was.
struct Ceiling {
  std::string how;
  double per_second = 0;
};

class Ceilings {
 public:
  Ceilings(const Context& context, const quern_device_info& device, Machine& machine)
      : context_(context), device_(device), machine_(machine) {}

  // Bytes, read and written: the fastest of a copy and a sum of memory that no cache holds.
  const Ceiling& memory();
  // Operations (a multiply-add is two) of products of this type: "bf16", "f16", "e4m3", "e5m2", "f32". On Hopper by
  // wgmma from shared memory, elsewhere by mma.sync from registers; of f32 by fused multiply-adds.
  const Ceiling& products(const std::string& type);

 private:
  const Context& context_;
  const quern_device_info& device_;
  Machine& machine_;
  std::map<std::string, Ceiling> known_;
};

}  // namespace quern::cli
