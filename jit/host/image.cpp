// A compiled kernel as a shared object in memory.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "jit/descriptor.h"
#include "jit/error.h"

namespace quern::jit::host {
namespace {

[[noreturn]] void refuse(const char* call) {
  const int code = errno;
  throw Error(QUERN_DRIVER, std::string("host: ") + call + " for a kernel image failed: " + std::strerror(code), code);
}

int file_of(std::string_view bytes) {
  Descriptor file(memfd_create("quern-kernel", MFD_CLOEXEC));
  if (!file) refuse("memfd_create");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse("write");
    done += static_cast<std::size_t>(n);
  }
  return file.release();
}

// The dynamic linker maps what the headers say and dies of reading past the end of a file that is too short.
bool is_whole(std::string_view bytes) {
  ElfW(Ehdr) header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN) return false;
  ElfW(Phdr) segment;
  if (header.e_phentsize != sizeof(segment) || header.e_phoff > bytes.size() ||
      header.e_phnum > (bytes.size() - header.e_phoff) / sizeof(segment)) {
    return false;
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) return false;
  }
  return true;
}

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// The dynamic linker takes two objects of one path for the same. A path is free again only when its descriptor is
// closed, by us on unloading or by a program that closes descriptors that are not its own: then another number is
// needed.
int with_unused_path(int fd) {
  Descriptor file(fd);
  while (void* known = dlopen(path_of(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
    dlclose(known);
    Descriptor other(fcntl(file.get(), F_DUPFD_CLOEXEC, file.get() + 1));
    if (!other) refuse("fcntl(F_DUPFD_CLOEXEC)");
    file = std::move(other);
  }
  return file.release();
}

}  // namespace

Image::Image(std::string_view bytes, const std::string& entry, std::uint32_t warp_size,
             std::uint32_t max_dynamic_bytes) {
  static std::atomic<std::uint64_t> count{0};
  program_.image = ++count;
  program_.name = entry;
  program_.max_dynamic_bytes = max_dynamic_bytes;
  if (!is_whole(bytes)) {
    throw Error(QUERN_UNSUPPORTED,
                "host: the image for kernel '" + entry + "' is not a whole shared object of this machine");
  }
  try {
    file_ = with_unused_path(file_of(bytes));
    handle_ = dlopen(path_of(file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* why = dlerror();
      throw Error(QUERN_UNSUPPORTED,
                  std::string("host: the image cannot be loaded here: ") + (why != nullptr ? why : "?"));
    }
    bind(entry, warp_size);
  } catch (...) {
    close_all();
    throw;
  }
}

void Image::bind(const std::string& entry, std::uint32_t warp_size) {
  const auto symbol = [this](const std::string& name) {
    void* address = dlsym(handle_, name.c_str());
    if (address == nullptr) {
      throw Error(QUERN_NOT_FOUND, "host: the image has no symbol '" + name +
                                       "': the kernel must be defined with QUERN_KERNEL under its entry's name");
    }
    return address;
  };
  const auto bind = reinterpret_cast<q::host::Bind>(symbol("quern_host_bind"));
  if (const unsigned abi = bind(q::host::kAbi, &table(), &program_.module); abi != q::host::kAbi) {
    throw Error(QUERN_UNSUPPORTED, "host: the image is for version " + std::to_string(abi) +
                                       " of the executor, this is " + std::to_string(q::host::kAbi));
  }
  if (program_.module.warp != warp_size) {
    throw Error(QUERN_UNSUPPORTED, "host: the image is for a warp of " + std::to_string(program_.module.warp) +
                                       ", the device's is " + std::to_string(warp_size));
  }
  program_.kernel = static_cast<const q::host::Kernel*>(symbol(entry + "_kernel"));
  if (program_.kernel->threads == 0 || program_.kernel->threads > kMaxThreads) {
    throw Error(QUERN_UNSUPPORTED, "host: kernel '" + entry + "' is for blocks of " +
                                       std::to_string(program_.kernel->threads) + " threads; allowed are 1 to " +
                                       std::to_string(kMaxThreads));
  }
  program_.static_bytes = static_bytes(program_.module.shared);
  if (program_.static_bytes + program_.max_dynamic_bytes > kSharedLimit) {
    throw Error(QUERN_UNSUPPORTED, "host: kernel '" + entry + "' needs " + std::to_string(program_.static_bytes) +
                                       " + " + std::to_string(program_.max_dynamic_bytes) +
                                       " bytes of shared memory (static, dynamic); a block has " +
                                       std::to_string(kSharedLimit));
  }
  program_.placed_bytes = place(program_.module.shared);
}

Image::~Image() { close_all(); }

void Image::close_all() noexcept {
  if (handle_ != nullptr) dlclose(handle_);
  if (file_ >= 0) close(file_);
}

}  // namespace quern::jit::host
