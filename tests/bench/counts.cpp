// malloc and mutex functions that count and hand over to the C library's.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/counts.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {
constinit thread_local quern::bench::Counts counted;
}  // namespace

quern::bench::Counts quern::bench::counts() noexcept { return counted; }

#define QUERN_INTERPOSED __attribute__((visibility("default")))

extern "C" {

// What glibc offers to those who replace malloc.
void* __libc_malloc(std::size_t bytes);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* block, std::size_t bytes);             // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)

QUERN_INTERPOSED void* malloc(std::size_t bytes) {
  counted.allocations++;
  return __libc_malloc(bytes);
}
QUERN_INTERPOSED void* calloc(std::size_t count, std::size_t bytes) {
  counted.allocations++;
  return __libc_calloc(count, bytes);
}
QUERN_INTERPOSED void* realloc(void* block, std::size_t bytes) {
  counted.allocations++;
  return __libc_realloc(block, bytes);
}
QUERN_INTERPOSED void* memalign(std::size_t alignment, std::size_t bytes) {
  counted.allocations++;
  return __libc_memalign(alignment, bytes);
}
QUERN_INTERPOSED void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  counted.allocations++;
  return __libc_memalign(alignment, bytes);
}
QUERN_INTERPOSED int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  counted.allocations++;
  void* const made = __libc_memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

}  // extern "C"

namespace {

// The next definition of a function, after ours. A plain atomic, because a guarded static may lock.
template <class Function>
Function* next(std::atomic<Function*>& known, const char* name) {
  Function* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

constinit std::atomic<int (*)(pthread_mutex_t*)> next_mutex_lock{nullptr};
constinit std::atomic<int (*)(pthread_rwlock_t*)> next_read_lock{nullptr};
constinit std::atomic<int (*)(pthread_rwlock_t*)> next_write_lock{nullptr};

}  // namespace

extern "C" {

QUERN_INTERPOSED int pthread_mutex_lock(pthread_mutex_t* mutex) {
  counted.locks++;
  return next(next_mutex_lock, "pthread_mutex_lock")(mutex);
}
QUERN_INTERPOSED int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  counted.locks++;
  return next(next_read_lock, "pthread_rwlock_rdlock")(lock);
}
QUERN_INTERPOSED int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  counted.locks++;
  return next(next_write_lock, "pthread_rwlock_wrlock")(lock);
}

}  // extern "C"
