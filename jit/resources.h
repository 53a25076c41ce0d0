// Registers, shared memory and stack of a kernel, as the compilers tell of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jit {

struct Resources {
  std::int32_t registers = -1;     // per thread
  std::int32_t shared_bytes = -1;  // static, per block
  std::int32_t local_bytes = -1;   // per thread: stack and spills
};

// What ptxas says under -v of the kernel `entry`; -1 where it does not.
struct PtxasReport {
  Resources resources;
  std::vector<std::string> entries;  // every kernel it names
  std::string rest;                  // the log without the lines that -v brought in
};
PtxasReport read_ptxas_report(std::string_view log, std::string_view entry);

// From the metadata note of an AMD code object; all -1 unless it holds exactly one kernel.
Resources read_code_object(std::string_view image);

}  // namespace quern::jit
