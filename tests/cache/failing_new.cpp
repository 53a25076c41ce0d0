// The replaced operators. In a file of their own, so that the compiler does not see through them into malloc.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cache/failing_new.h"

#include <cstdlib>
#include <new>

namespace quern::cache::testing {

thread_local long left_until_failure = -1;
thread_local bool failed = false;

}  // namespace quern::cache::testing

void* operator new(std::size_t size) {
  using namespace quern::cache::testing;
  if (left_until_failure == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  if (left_until_failure > 0) --left_until_failure;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// The address sanitizer has one of its own, whose memory `delete` below must not free.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
