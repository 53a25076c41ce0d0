// What the sanitizers must be told about fibers. Empty in an ordinary build.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// The files that run on fibers are themselves compiled without ThreadSanitizer (their data is handed from fiber to
// fiber without what it would take for synchronisation) and told of it by QUERN_HOST_TSAN.
#ifdef __SANITIZE_THREAD__
#define QUERN_HOST_TSAN
#endif
#ifdef __has_feature  // clang
#if __has_feature(thread_sanitizer)
#define QUERN_HOST_TSAN
#elif __has_feature(address_sanitizer)
#define QUERN_HOST_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define QUERN_HOST_ASAN
#endif

#ifdef QUERN_HOST_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif
#ifdef QUERN_HOST_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace quern::jit::host {

// A flow of control, as a sanitizer sees it.
struct Watched {
#ifdef QUERN_HOST_ASAN
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
#endif
#ifdef QUERN_HOST_TSAN
  void* fiber = nullptr;
#endif
};

// Around a switch. The switch itself orders nothing between the two: only what the kernel asks for does.
inline void before_switch([[maybe_unused]] Watched& from, [[maybe_unused]] Watched& to,
                          [[maybe_unused]] bool for_ever) {
#ifdef QUERN_HOST_ASAN
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &from.fake_stack, to.bottom, to.bytes);
#endif
#ifdef QUERN_HOST_TSAN
  __tsan_switch_to_fiber(to.fiber, __tsan_switch_to_fiber_no_sync);
#endif
}

inline void after_switch([[maybe_unused]] Watched& to) {
#ifdef QUERN_HOST_ASAN
  __sanitizer_finish_switch_fiber(to.fake_stack, nullptr, nullptr);
#endif
}

// A fiber about to begin on a stack that another may have left in the middle of a function.
inline void watch_fiber([[maybe_unused]] Watched& w, [[maybe_unused]] unsigned char* bottom,
                        [[maybe_unused]] std::size_t bytes) {
#ifdef QUERN_HOST_ASAN
  w.bottom = bottom;
  w.bytes = bytes;
  w.fake_stack = nullptr;
  __asan_unpoison_memory_region(bottom, bytes);
#endif
#ifdef QUERN_HOST_TSAN
  if (w.fiber == nullptr) w.fiber = __tsan_create_fiber(0);
#endif
}

// A fiber that will not be resumed. What it has done so far is ordered before all that this thread does from now on,
// for its stack and the block's shared memory will be used again.
inline void forget_fiber([[maybe_unused]] Watched& w) {
#ifdef QUERN_HOST_TSAN
  if (w.fiber == nullptr) return;
  void* here = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(w.fiber, 0);
  __tsan_switch_to_fiber(here, 0);
  __tsan_destroy_fiber(w.fiber);
  w.fiber = nullptr;
#endif
}

// The thread that fibers are started from and come back to.
inline void watch_thread([[maybe_unused]] Watched& w) {
#ifdef QUERN_HOST_TSAN
  w.fiber = __tsan_get_current_fiber();
#endif
}
// On the first step of a fiber: from where it came, so that it can be gone back to.
inline void enter_fiber([[maybe_unused]] Watched& thread, [[maybe_unused]] bool from_thread) {
#ifdef QUERN_HOST_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (from_thread) {
    thread.bottom = bottom;
    thread.bytes = bytes;
  }
#endif
}

// What a thread has done before release(x) is ordered before what another does after acquire(x).
inline void release([[maybe_unused]] void* x) {
#ifdef QUERN_HOST_TSAN
  __tsan_release(x);
#endif
}
inline void acquire([[maybe_unused]] void* x) {
#ifdef QUERN_HOST_TSAN
  __tsan_acquire(x);
#endif
}

// While one lives, what its fiber does is the emulation's own, which ThreadSanitizer is not to judge: it sees memory
// being moved, taken and given back wherever that happens.
class Unwatched {
 public:
  Unwatched() {
#ifdef QUERN_HOST_TSAN
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~Unwatched() {
#ifdef QUERN_HOST_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

inline void make_inaccessible([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef QUERN_HOST_ASAN
  __asan_poison_memory_region(p, bytes);
#endif
}
inline void make_accessible([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef QUERN_HOST_ASAN
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace quern::jit::host
