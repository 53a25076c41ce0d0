// NVIDIA's disassembler, where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quern::test {

// One instruction of a cubin: "QGMMA.64x128x32.F32.E4M3.E4M3" and "R24, gdesc[UR40], R24, gsb0".
struct Instruction {
  std::string name, operands;

  bool is(const std::string& family) const { return name == family || name.starts_with(family + "."); }
};

class Disassembler {
 public:
  // nvdisasm on PATH, of CUDA_PATH, CUDA_HOME, /usr/local/cuda or the project's .venv: the first that can read `cubin`.
  // (cuobjdump would only call it.)
  explicit Disassembler(const std::string& cubin);
  bool found() const { return !command_.empty(); }
  // What was used, or everything that was tried.
  const std::string& told() const { return told_; }
  // Of all kernels in it, in the order of their addresses; empty when it cannot be read.
  std::vector<Instruction> read(const std::string& cubin) const { return read(command_, cubin); }

 private:
  static std::vector<Instruction> read(const std::string& command, const std::string& cubin);

  std::string command_, told_;
};

}  // namespace quern::test
