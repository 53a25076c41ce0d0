// fcntl(F_OFD_SETLK) with waiting, and the sidecar's identity check.
// SPDX-License-Identifier: Apache-2.0
#include "cache/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace quern::cache {
namespace {

bool set_lock(int descriptor, short type, std::int64_t start, std::int64_t length) noexcept {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  int result;
  do result = fcntl(descriptor, F_OFD_SETLK, &range);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

bool same_file(int descriptor, const char* path) noexcept {
  struct stat ours, theirs;
  return fstat(descriptor, &ours) == 0 && lstat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
         ours.st_dev == theirs.st_dev;
}

}  // namespace

Deadline deadline_in(std::chrono::milliseconds patience) noexcept {
  return std::chrono::steady_clock::now() +
         std::clamp(patience, std::chrono::milliseconds{0},
                    std::chrono::ceil<std::chrono::milliseconds>(std::chrono::years{1}));
}

Locked lock_range(int descriptor, bool exclusive, std::int64_t start, std::int64_t length, Deadline deadline,
                  std::chrono::microseconds longest_sleep) noexcept {
  // Polled, because F_OFD_SETLKW knows no deadline and a signal to end it would belong to the host.
  std::chrono::microseconds sleep{20};
  Locked got = Locked::held;
  for (;;) {
    if (set_lock(descriptor, exclusive ? F_WRLCK : F_RDLCK, start, length)) return got;
    if (errno != EAGAIN && errno != EACCES) return Locked::failed;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return Locked::busy;
    const auto left = std::chrono::ceil<std::chrono::microseconds>(deadline - now);
    std::this_thread::sleep_for(std::min({sleep, longest_sleep, left}));
    sleep = std::min(2 * sleep, longest_sleep);
    got = Locked::waited;
  }
}

void unlock_range(int descriptor, std::int64_t start, std::int64_t length) noexcept {
  set_lock(descriptor, F_UNLCK, start, length);
}

Locked Sidecar::acquire(const std::string& path, bool exclusive, bool writable, mode_t mode,
                        Deadline deadline) noexcept {
  if (descriptor_.valid() && writable && !writable_) descriptor_.close();
  Locked got = Locked::failed;
  // Each round that fails the identity check means that somebody removed the file just then; that does not go on for
  // ever.
  for (int round = 0; round < 100; ++round) {
    if (!descriptor_.valid()) {
      descriptor_ = Descriptor::open(path.c_str(), (writable ? O_RDWR | O_CREAT : O_RDONLY) | O_NOFOLLOW, mode);
      if (!descriptor_.valid()) return Locked::failed;
      writable_ = writable;
    }
    got = lock_range(descriptor_.get(), exclusive, 0, 1, deadline, std::chrono::milliseconds{1});
    if (got == Locked::busy || got == Locked::failed) return got;
    if (same_file(descriptor_.get(), path.c_str())) return got;
    descriptor_.close();
  }
  errno = ESTALE;
  return Locked::failed;
}

void Sidecar::release() noexcept {
  if (descriptor_.valid()) unlock_range(descriptor_.get(), 0, 1);
}

}  // namespace quern::cache
