// Reading just enough of the ELF header to know that every table and section it names lies within the bytes.
// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu_image.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace quern::jit {
namespace {

constexpr std::uint16_t kMachineCuda = 190, kMachineAmdGpu = 224;

bool within(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return offset <= size && length <= size - offset;
}

bool is_whole_elf(std::string_view image, std::uint16_t machine) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return false;
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != machine) {
    return false;
  }
  if (header.e_phnum != 0 &&
      (header.e_phentsize < sizeof(Elf64_Phdr) ||
       !within(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize, image.size()))) {
    return false;
  }
  if (header.e_shnum == 0 || header.e_shentsize < sizeof(Elf64_Shdr) ||
      !within(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize, image.size())) {
    return false;
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image.data() + header.e_shoff + std::uint64_t{i} * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS && !within(section.sh_offset, section.sh_size, image.size())) return false;
  }
  return true;
}

}  // namespace

bool is_cuda_image(std::string_view image) {
  // A driver takes what begins so for a cubin, whatever text may follow.
  if (image.starts_with(ELFMAG)) return is_whole_elf(image, kMachineCuda);
  // PTX is text with a .version directive near its top and the NUL that ends it as its only one.
  const std::size_t end = image.find('\0');
  return end != std::string_view::npos && end + 1 == image.size() && image.find(".version") < end;
}

bool is_hip_image(std::string_view image) {
  constexpr std::string_view kBundle = "__CLANG_OFFLOAD_BUNDLE__";
  return is_whole_elf(image, kMachineAmdGpu) || image.substr(0, kBundle.size()) == kBundle;
}

}  // namespace quern::jit
