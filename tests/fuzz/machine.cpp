// What compilers and caches hand over: images, logs, the helper's messages.
// SPDX-License-Identifier: Apache-2.0
#include <elf.h>

#include <cstdlib>
#include <cstring>

#include "jit/error.h"
#include "jit/gpu_image.h"
#include "jit/helper/protocol.h"
#include "jit/operand_reuse.h"
#include "jit/resources.h"
#include "jit/seal.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

void run_images(std::string_view input) {
  static_cast<void>(jit::is_cuda_image(input));
  static_cast<void>(jit::is_hip_image(input));
  static_cast<void>(jit::read_code_object(input));
  static_cast<void>(jit::read_ptxas_report(input, "entry"));
  std::string changed(input);
  jit::keep_shared_operands(&changed);
  if (changed.size() != input.size()) std::abort();
  const cache::Key key{1, 2};
  try {
    const std::string_view image = jit::unsealed(input, key);
    std::string again(image);
    jit::seal(&again, key);
    if (again != input) std::abort();
  } catch (const Error&) {
  }
  if (jit::without_seal(input).size() > input.size()) std::abort();
}

// An ELF file of CUDA's with one section of instructions that the pass over operands looks at.
std::string cubin() {
  std::string bytes(sizeof(Elf64_Ehdr), '\0');
  std::string code;
  const auto instruction = [&](std::uint64_t low, std::uint64_t high) {
    code.append(reinterpret_cast<const char*>(&low), 8).append(reinterpret_cast<const char*>(&high), 8);
  };
  instruction(0x79f3, 0);
  for (std::uint64_t i = 0; i < 24; ++i)
    instruction(0x7223 | (i << 16) | (std::uint64_t{5} << 32), std::uint64_t{2} << 41);
  const std::string names = std::string("\0.text.k\0.shstrtab\0", 19);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB, header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_machine = 190, header.e_ehsize = sizeof(Elf64_Ehdr), header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3, header.e_shstrndx = 2;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1, sections[1].sh_type = SHT_PROGBITS, sections[1].sh_offset = bytes.size();
  sections[1].sh_size = code.size(), sections[1].sh_flags = SHF_EXECINSTR;
  bytes += code;
  sections[2].sh_name = 9, sections[2].sh_type = SHT_STRTAB, sections[2].sh_offset = bytes.size();
  sections[2].sh_size = names.size();
  bytes += names;
  header.e_shoff = bytes.size();
  bytes.append(reinterpret_cast<const char*>(sections), sizeof(sections));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

std::vector<std::string> images_seeds() {
  std::string sealed = cubin();
  jit::seal(&sealed, {1, 2});
  return {cubin(),
          sealed,
          std::string("//\n.version 8.0\n.target sm_90\n\0", 31),
          "ptxas info    : Compiling entry function 'entry' for 'sm_90a'\nptxas info    : Function properties for k\n"
          "    16 bytes stack frame, 0 bytes spill stores\nptxas info    : Used 54 registers, 400 bytes smem\n",
          std::string("\x7f") + "ELF \xab.vgpr_count\xcd\x01\x02\xb9.group_segment_fixed_size\x10",
          "__CLANG_OFFLOAD_BUNDLE__"};
}

// ---- the helper's messages

void run_protocol(std::string_view input) {
  using namespace jit::helper;  // NOLINT(google-build-using-namespace)
  try {
    std::string bytes(input);
    while (const std::optional<Frame> frame = take_frame(&bytes)) {
    }
  } catch (const Error&) {
  }
  // Past the frame's sum.
  for (const auto& decode : {+[](std::string_view p) { static_cast<void>(decode_request(p)); },
                             +[](std::string_view p) { static_cast<void>(decode_identity(p)); },
                             +[](std::string_view p) { static_cast<void>(decode_answer(p)); }}) {
    try {
      decode(input);
    } catch (const Error&) {
    }
  }
}

std::vector<std::string> protocol_seeds() {
  using namespace jit::helper;  // NOLINT(google-build-using-namespace)
  Request request;
  request.family = jit::Family::host;
  request.job.source = "int x;", request.job.entry = "k", request.job.options = {"-O1", "-g"};
  request.search_dirs = {"/a", "/b"}, request.folder = "/tmp/x";
  Answer answer;
  answer.text = "text", answer.compiled.image = "image", answer.compiled.log = "log", answer.targets = "sm_90";
  return {encode(request), encode(answer), encode(jit::CompilerIdentity{"cxx", "12", "/usr/bin/c++"}),
          make_frame(Type::request, encode(request)) + make_frame(Type::answer, encode(answer))};
}

}  // namespace

const Target images{"images", run_images, images_seeds};
const Target protocol{"protocol", run_protocol, protocol_seeds};

}  // namespace quern::fuzz
