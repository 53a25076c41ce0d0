// Reading what the user names, and writing files that are there whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail(const char* what, const std::string& path, int code) {
  throw Failure(code == ENOENT ? QUERN_NOT_FOUND : QUERN_IO,
                std::string("cannot ") + what + " '" + printable(path) + "': " + std::generic_category().message(code),
                code);
}

std::string read_all(int descriptor, const std::string& path, std::size_t most) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > most) {
      throw Failure(QUERN_IO, "cannot read '" + printable(path) + "': it is larger than " + format_bytes(most) +
                                  ", the most that is allowed");
    }
  }
}

void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(descriptor) != 0 && errno != EINVAL) fail("write", path, errno);
}

}  // namespace

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

std::string read_file(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno);
  return read_all(file.get(), path, most);
}

std::string read_input(const std::string& path, std::size_t most) {
  return path == "-" ? read_all(STDIN_FILENO, path, most) : read_file(path, most);
}

std::string read_secret(const std::string& path) {
  constexpr std::size_t kMostSecret = 4096;
  std::string text = read_file(path, kMostSecret);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void write_atomically(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) fail("write", path, errno);
  try {
    // mkostemp makes it private; what the user asked to extract gets the permissions of any new file of theirs.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file.get(), 0666 & ~mask) != 0) fail("write", path, errno);
    write_all(file.get(), bytes, path);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void write_private(const std::string& path, std::string_view bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) fail("make", path, errno);
  try {
    write_all(file.get(), bytes, path);
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

}  // namespace quern::cli
