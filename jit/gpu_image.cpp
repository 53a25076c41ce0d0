// Reading just enough of the ELF header to know that every table and section it names lies within the bytes, and of
// what the compiler notes for the driver how many parameters a kernel has.
// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu_image.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>

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

template <class T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The section of this name in a whole ELF file of any content; empty where there is none.
std::string_view section_of(std::string_view image, std::string_view name) {
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  const auto section = [&](unsigned i) {
    return read_at<Elf64_Shdr>(image, header.e_shoff + std::size_t{i} * header.e_shentsize);
  };
  const auto bytes = [&](const Elf64_Shdr& of) {
    return of.sh_type == SHT_NOBITS ? std::string_view() : image.substr(of.sh_offset, of.sh_size);
  };
  if (header.e_shstrndx >= header.e_shnum) return {};
  const std::string_view names = bytes(section(header.e_shstrndx));
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr each = section(i);
    if (each.sh_name >= names.size()) continue;
    const std::string_view rest = names.substr(each.sh_name);
    if (rest.substr(0, rest.find('\0')) == name) return bytes(each);
  }
  return {};
}

// What the compiler notes of a kernel for the driver is a row of attributes: a form, which attribute, and 16 bits that
// hold the value or, in one form, the number of bytes that follow. One attribute tells of one parameter. Their numbers
// are those that cuobjdump names EIATTR_KPARAM_INFO, and EIATTR_CBANK_PARAM_SIZE for the bytes of all.
std::int32_t parameters_noted(std::string_view notes) {
  constexpr std::uint8_t kSized = 4, kForms = 4, kParameter = 0x17, kAllBytes = 0x19;
  std::int32_t count = 0;
  std::uint32_t bytes = 0;
  for (std::size_t at = 0; at + 4 <= notes.size();) {
    const auto form = read_at<std::uint8_t>(notes, at), attribute = read_at<std::uint8_t>(notes, at + 1);
    const auto value = read_at<std::uint16_t>(notes, at + 2);
    if (form == 0 || form > kForms) return -1;
    at += 4 + (form == kSized ? value : 0u);
    if (form == kSized && attribute == kParameter) ++count;
    if (form != kSized && attribute == kAllBytes) bytes = value;
  }
  // With bytes and no parameter these are noted in a way of a later compiler's.
  return (count == 0) == (bytes == 0) ? count : -1;
}

}  // namespace

std::int32_t cuda_parameters(std::string_view image, std::string_view entry) {
  if (!is_whole_elf(image, kMachineCuda)) return -1;
  const std::string_view notes = section_of(image, ".nv.info." + std::string(entry));
  return notes.empty() ? -1 : parameters_noted(notes);
}

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
