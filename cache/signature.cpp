// Calls into libsodium, and the end of a bundle where signatures stand.
// SPDX-License-Identifier: Apache-2.0
#include "cache/signature.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "cache/bundle.h"
#include "cache/fork_guard.h"

namespace quern::cache {
namespace {

using namespace bundle_format;  // NOLINT(google-build-using-namespace): what reader and writer share

// Also chooses the fastest code for this machine. Safe from any thread. libsodium locks a mutex each time, which a
// child of fork() would find locked: so it is asked once, and forks wait for that.
constinit std::atomic<bool> sodium_is_ready{false};
void need_sodium() {
  if (sodium_is_ready.load(std::memory_order_acquire)) return;
  const NoFork until_ready;
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be used: the system gives no random bytes");
  sodium_is_ready.store(true, std::memory_order_release);
}

struct Expanded {
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> open{};
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret{};
  explicit Expanded(const SecretKey& seed) {
    need_sodium();
    crypto_sign_seed_keypair(open.data(), secret.data(), seed.data());
  }
  ~Expanded() { sodium_memzero(secret.data(), secret.size()); }
  Expanded(const Expanded&) = delete;
  Expanded& operator=(const Expanded&) = delete;
};

const unsigned char* data(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw BundleError(errno == ENOENT ? BundleError::What::not_found : BundleError::What::io,
                    "bundle " + path + " cannot be " + doing + ": " + std::strerror(errno));
}

class File {
 public:
  File(const std::string& path, int flags, mode_t mode) : fd(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int fd;
};

std::string read_all(const std::string& path) {
  const File file(path, O_RDONLY | O_NONBLOCK, 0);
  struct stat status;
  if (file.fd < 0 || fstat(file.fd, &status) != 0) fail(path, "opened");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(file.fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read");
    if (got == 0) throw BundleError(BundleError::What::damaged, "bundle " + path + ": it was cut short");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

void replace(const std::string& path, std::string_view bytes) {
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new";
  {
    const File file(fresh, O_WRONLY | O_CREAT | O_EXCL, 0644);
    bool good = file.fd >= 0;
    for (std::size_t done = 0; good && done < bytes.size();) {
      const ssize_t put = ::write(file.fd, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      good = put > 0;
      done += good ? static_cast<std::size_t>(put) : 0;
    }
    good = good && fsync(file.fd) == 0 && rename(fresh.c_str(), path.c_str()) == 0;
    if (good) return;
  }
  const int error = errno;
  unlink(fresh.c_str());
  errno = error;
  fail(path, "written");
}

}  // namespace

KeyPair make_key_pair() {
  need_sodium();
  KeyPair pair;
  randombytes_buf(pair.secret.data(), pair.secret.size());
  pair.open = public_key_of(pair.secret);
  return pair;
}

PublicKey public_key_of(const SecretKey& secret) {
  static_assert(crypto_sign_PUBLICKEYBYTES == sizeof(PublicKey) && crypto_sign_SEEDBYTES == sizeof(SecretKey));
  return Expanded(secret).open;
}

Signature sign(const SecretKey& secret, std::string_view bytes) {
  static_assert(crypto_sign_BYTES == sizeof(Signature));
  const Expanded expanded(secret);
  Signature signature{};
  crypto_sign_detached(signature.data(), nullptr, data(bytes), bytes.size(), expanded.secret.data());
  return signature;
}

bool is_signed(const PublicKey& key, const Signature& signature, std::string_view bytes) {
  need_sodium();
  return crypto_sign_verify_detached(signature.data(), data(bytes), bytes.size(), key.data()) == 0;
}

std::string key_text(const std::array<unsigned char, 32>& key) {
  std::string text;
  for (const unsigned char byte : key) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::optional<std::array<unsigned char, 32>> read_key(std::string_view text) {
  std::array<unsigned char, 32> key{};
  if (text.size() != 2 * key.size()) return {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return {};
    key[i / 2] = static_cast<unsigned char>(key[i / 2] << 4 | digit);
  }
  return key;
}

void sign_bundle(const std::string& path, const SecretKey& secret) {
  // All of it is to be right before anybody's name is put to it.
  const Bundle bundle(path, {});
  for (const Bundle::Slot& slot : bundle.slots()) bundle.read_verified(slot);
  std::string bytes = read_all(path);
  const std::uint64_t signed_bytes = kHeaderSize + bundle.slots().size() * kSlotSize;
  if (bytes.size() < bundle.size())
    throw BundleError(BundleError::What::damaged, "bundle " + path + ": it was cut short");
  const PublicKey open = public_key_of(secret);
  const std::string_view open_bytes(reinterpret_cast<const char*>(open.data()), open.size());
  std::string kept;
  for (std::size_t at = bundle.size(); at + kSignatureSize <= bytes.size(); at += kSignatureSize) {
    const std::string_view each = std::string_view(bytes).substr(at, kSignatureSize);
    if (each.substr(kSignatureHead, open.size()) != open_bytes) kept += each;
  }
  const Signature signature = sign(secret, signed_text(std::string_view(bytes).substr(0, signed_bytes)));
  bytes.resize(bundle.size());
  bytes += kept;
  bytes.append(kSignatureMagic, 8).append(std::string_view("\1\0\0\0\0\0\0\0", 8)).append(open_bytes);
  bytes.append(reinterpret_cast<const char*>(signature.data()), signature.size());
  replace(path, bytes);
}

}  // namespace quern::cache
