// What the driver tests share: errors, images that look right, and the way into the fake libraries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/support/error_of.h"

namespace quern::jit::test {

using quern::test::contains;
using quern::test::error_of;

// The smallest ELF file that has a section: one header, one section header, eight bytes.
inline std::string elf_image(std::uint16_t machine) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = machine;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = sizeof header + sizeof section;
  section.sh_size = 8;
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  image.append(reinterpret_cast<const char*>(&section), sizeof section);
  return image + "12345678";
}
inline std::string cubin() { return elf_image(190); }
// One with what the compiler notes of a kernel `kernel` with so many parameters of 8 bytes, as NVRTC 13 writes it.
inline std::string cubin_with_notes(int parameters) {
  std::string notes("\4\x37\4\0\1\0\0\0", 8);
  for (int i = 0; i < parameters; ++i) notes += std::string("\4\x17\xc\0", 4) + std::string(12, static_cast<char>(i));
  if (parameters != 0) notes += std::string("\3\x19", 2) + static_cast<char>(8 * parameters) + '\0';
  const std::string names = std::string("\0.nv.info.kernel", 16) + '\0';
  Elf64_Ehdr header{};
  std::memcpy(&header, cubin().data(), sizeof header);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[2] = {};
  const std::size_t first = sizeof header + sizeof sections;
  sections[0].sh_type = SHT_PROGBITS, sections[0].sh_name = 1;
  sections[0].sh_offset = first, sections[0].sh_size = notes.size();
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = first + notes.size(), sections[1].sh_size = names.size();
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  image.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return image + notes + names;
}
inline std::string code_object() { return elf_image(224); }

// The folder with a fake driver in it.
inline std::string fake_folder(const char* name) { return std::string(QUERN_FAKE_DRIVERS) + '/' + name; }

// A function of a fake library.
template <class Function>
Function* fake_function(const char* folder, const char* file, const char* symbol) {
  void* library = dlopen((fake_folder(folder) + '/' + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

}  // namespace quern::jit::test
