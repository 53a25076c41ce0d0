// Hints in Hopper's machine code: which instructions get others, and that nothing else changes.
// SPDX-License-Identifier: Apache-2.0
#include "jit/operand_reuse.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

struct Instruction {
  std::uint64_t low, high;
};

// As NVRTC 13.0 encodes them: R24 += ... of a batch of products, and a sum with the scale in register `scale`.
constexpr Instruction kProduct{0x01e00000081879f3, 0x000fe20008700818};
constexpr std::uint64_t kStays = 1ull << 45, kKept = 1ull << 59;
Instruction sum(unsigned sum, unsigned part, unsigned scale, std::uint64_t hints = 0) {
  return {0x7223ull | std::uint64_t{sum} << 16 | std::uint64_t{part} << 24 | std::uint64_t{scale} << 32,
          0x000fc20000000000ull | sum | hints};
}

// A cubin with this code in a section of the given flags.
std::string cubin_of(const std::vector<Instruction>& code, std::uint64_t flags = SHF_ALLOC | SHF_EXECINSTR) {
  std::string image = cubin().substr(0, sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr));
  Elf64_Shdr section;
  std::memcpy(&section, image.data() + sizeof(Elf64_Ehdr), sizeof section);
  section.sh_flags = flags;
  section.sh_size = code.size() * sizeof(Instruction);
  std::memcpy(image.data() + sizeof(Elf64_Ehdr), &section, sizeof section);
  return image.append(reinterpret_cast<const char*>(code.data()), section.sh_size);
}

std::vector<Instruction> code_of(const std::string& image) {
  std::vector<Instruction> code((image.size() - sizeof(Elf64_Ehdr) - sizeof(Elf64_Shdr)) / sizeof(Instruction));
  std::memcpy(code.data(), image.data() + sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr), code.size() * sizeof(Instruction));
  return code;
}

std::vector<Instruction> sums(unsigned count, unsigned scale) {
  std::vector<Instruction> code;
  for (unsigned i = 0; i < count; ++i) code.push_back(sum(100 + i, 24 + i, scale, i % 2 == 1 ? kStays | kKept : 0));
  return code;
}

TEST(OperandReuse, KeepsAScaleForFiveOfSixAndChangesNothingElse) {
  std::vector<Instruction> code = sums(32, 7);
  code.insert(code.begin(), kProduct);
  std::string image = cubin_of(code);
  EXPECT_EQ(keep_shared_operands(&image), 31u);
  const std::vector<Instruction> changed = code_of(image);
  ASSERT_EQ(changed.size(), code.size());
  for (std::size_t i = 0; i < code.size(); ++i) {
    EXPECT_EQ(changed[i].low, code[i].low) << i;
    EXPECT_EQ(changed[i].high & ~(kStays | kKept), code[i].high & ~(kStays | kKept)) << i;
    const std::uint64_t hints = changed[i].high & (kStays | kKept);
    if (i == 0 || i == code.size() - 1) {
      EXPECT_EQ(changed[i].high, code[i].high) << i << " has no next instruction with its scale";
    } else {
      EXPECT_EQ(hints, i % 6 == 0 ? 0 : kStays | kKept) << i;
    }
  }
  const std::string once = image;
  keep_shared_operands(&image);
  EXPECT_EQ(image, once);
}

TEST(OperandReuse, DoesNotKeepWhatTheNextInstructionDoesNotRead) {
  std::vector<Instruction> code = sums(16, 7);
  const std::vector<Instruction> others = sums(16, 8);
  code.insert(code.end(), others.begin(), others.end());
  code.push_back(kProduct);
  std::string image = cubin_of(code);
  EXPECT_EQ(keep_shared_operands(&image), 30u);
  EXPECT_EQ(code_of(image)[15].high, code[15].high);
}

TEST(OperandReuse, DoesNotKeepWhatAnInstructionWrites) {
  std::vector<Instruction> code(16, sum(7, 24, 7));
  code.push_back(kProduct);
  std::string image = cubin_of(code);
  EXPECT_EQ(keep_shared_operands(&image), 0u);
  EXPECT_EQ(image, cubin_of(code));
}

TEST(OperandReuse, LeavesOtherCodeAlone) {
  // No products; runs too short, or broken by another instruction; under a condition; no code; not a cubin.
  std::vector<Instruction> broken = sums(15, 7);
  broken.push_back(kProduct);
  for (const Instruction& i : sums(15, 7)) broken.push_back(i);
  std::vector<Instruction> conditional = sums(32, 7);
  for (Instruction& i : conditional) i.low &= ~0xf000ull;
  conditional.push_back(kProduct);
  std::vector<Instruction> data = sums(32, 7);
  data.push_back(kProduct);
  const std::string ptx = std::string("//\n.version 8.0\n.target sm_90\n") + '\0', whole = cubin_of(data);
  for (const std::string& image :
       {cubin_of(sums(64, 7)), cubin_of(broken), cubin_of(conditional), cubin_of(data, SHF_ALLOC), ptx, std::string(),
        code_object(), whole.substr(0, whole.size() - 1)}) {
    std::string same = image;
    EXPECT_EQ(keep_shared_operands(&same), 0u);
    EXPECT_EQ(same, image);
  }
}

}  // namespace
}  // namespace quern::jit::test
