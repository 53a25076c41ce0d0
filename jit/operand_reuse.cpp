// The encoding is NVIDIA's since Volta, 16 bytes an instruction: bits 0 to 11 the operation, 12 to 15 its condition, 16
// to 23 the result's register, 32 to 39 the second operand's, 105 to 108 the cycles until the next instruction, 109
// clear where the warp yields, 122 to 125 which operands are kept for the next instruction (Jia et al., Dissecting the
// NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, section 2.1; operations as nvdisasm of CUDA 13.0 names
// them for sm_90a).
// SPDX-License-Identifier: Apache-2.0
#include "jit/operand_reuse.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "jit/gpu_image.h"

namespace quern::jit {
namespace {

constexpr std::size_t kBytes = 16;
constexpr std::uint64_t kMultiplyAdd = 0x7223, kProducts = 0x9f3;  // FFMA of registers, under no condition; QGMMA
// Shorter runs gain nothing.
constexpr std::size_t kShortestRun = 16;
// One of so many yields; without any the other warps fall behind.
constexpr std::size_t kPeriod = 6;

class Code {
 public:
  Code(char* bytes, std::size_t size) : bytes_(bytes), count_(size / kBytes) {}
  std::size_t count() const { return count_; }
  std::uint64_t operation(std::size_t i) const { return i < count_ ? word(i, 0) & 0xfff : 0; }
  bool multiplies_and_adds(std::size_t i) const { return i < count_ && (word(i, 0) & 0xffff) == kMultiplyAdd; }
  // Longer pauses than these have another meaning where the warp yields.
  bool issues_soon(std::size_t i) const {
    const std::uint64_t cycles = word(i, 1) >> (105 - 64) & 15;
    return cycles >= 1 && cycles <= 11;
  }
  std::uint64_t result(std::size_t i) const { return word(i, 0) >> 16 & 0xff; }
  std::uint64_t second_operand(std::size_t i) const { return word(i, 0) >> 32 & 0xff; }
  // Whether the second operand is kept for the next instruction; the warp yields where it is not.
  void keep_second_operand(std::size_t i, bool keep) {
    constexpr std::uint64_t kStays = 1ull << (109 - 64), kKept = 1ull << (123 - 64);
    const std::uint64_t hints = word(i, 1) & ~(kStays | kKept), changed = keep ? hints | kStays | kKept : hints;
    std::memcpy(bytes_ + i * kBytes + 8, &changed, sizeof changed);
  }

 private:
  std::uint64_t word(std::size_t i, std::size_t half) const {
    std::uint64_t word;
    std::memcpy(&word, bytes_ + i * kBytes + half * 8, sizeof word);
    return word;
  }

  char* bytes_;
  std::size_t count_;
};

std::size_t keep_in(Code code) {
  bool products = false;
  for (std::size_t i = 0; i < code.count() && !products; ++i) products = code.operation(i) == kProducts;
  if (!products) return 0;
  std::size_t changed = 0;
  for (std::size_t first = 0; first < code.count();) {
    std::size_t end = first;
    while (code.multiplies_and_adds(end)) ++end;
    std::size_t place = 0;
    for (std::size_t i = first; end - first >= kShortestRun && i + 1 < end; ++i) {
      const std::uint64_t shared = code.second_operand(i);
      if (shared != code.second_operand(i + 1) || shared == code.result(i) || !code.issues_soon(i)) continue;
      code.keep_second_operand(i, ++place % kPeriod != 0);
      ++changed;
    }
    first = end + 1;
  }
  return changed;
}

}  // namespace

std::size_t keep_shared_operands(std::string* cubin) {
  if (!is_cuda_image(*cubin) || cubin->compare(0, SELFMAG, ELFMAG) != 0) return 0;
  Elf64_Ehdr header;
  std::memcpy(&header, cubin->data(), sizeof header);
  std::size_t changed = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, cubin->data() + header.e_shoff + std::size_t{i} * header.e_shentsize, sizeof section);
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0)
      changed += keep_in(Code(cubin->data() + section.sh_offset, section.sh_size));
  }
  return changed;
}

}  // namespace quern::jit
