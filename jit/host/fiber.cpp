// Stacks, and the switch from one to another: a few lines of assembly for x86-64 and aarch64, ucontext elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>

#include "jit/host/sanitizer.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#define QUERN_FIBER_UCONTEXT
#endif

#if defined(QUERN_FIBER_UCONTEXT)
#include <ucontext.h>
#elif defined(__x86_64__)
// The jump, rather than a return, leaves the prediction to the indirect predictor: most switches go to where the last
// went.
asm(R"(
.text
.globl quern_switch_fiber
.hidden quern_switch_fiber
.type quern_switch_fiber, @function
quern_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size quern_switch_fiber, .-quern_switch_fiber
)");
#else
asm(R"(
.text
.globl quern_switch_fiber
.hidden quern_switch_fiber
.type quern_switch_fiber, %function
quern_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size quern_switch_fiber, .-quern_switch_fiber
)");
#endif

namespace quern::jit::host {
namespace {

constexpr int kMostGuards = 4096;
std::atomic<int> guards{0};

}  // namespace

#if defined(QUERN_FIBER_UCONTEXT)

// The saved context lies on the stack that it describes.
extern "C" void quern_switch_fiber(Suspended* from, Suspended to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

Suspended make_fiber(unsigned char* top, void (*entry)()) {
  auto* context = reinterpret_cast<ucontext_t*>(top - (sizeof(ucontext_t) + 63) / 64 * 64);
  getcontext(context);
  context->uc_stack.ss_sp = top - 0xf000;
  context->uc_stack.ss_size = static_cast<std::size_t>(reinterpret_cast<unsigned char*>(context) - (top - 0xf000));
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

#else

Suspended make_fiber(unsigned char* top, void (*entry)()) {
#if defined(__x86_64__)
  constexpr std::size_t kFrame = 7, kEntry = 6;  // words popped by the switch, and which of them is jumped to
  constexpr std::size_t kAbove = 9;  // the entry sees the stack as after a call: a return address, then alignment
#else
  constexpr std::size_t kFrame = 20, kEntry = 11;
  constexpr std::size_t kAbove = 8;
#endif
  auto** words = reinterpret_cast<void**>(top) - kAbove - kFrame;
  std::memset(words, 0, (kAbove + kFrame) * sizeof(void*));
  words[kEntry] = reinterpret_cast<void*>(entry);
  return words;
}

#endif

Stacks::~Stacks() {
  for (const Mapping& m : mappings_) {
    make_accessible(m.address, m.bytes);  // whoever is given these addresses next must not inherit what is marked there
    munmap(m.address, m.bytes);
  }
  guards -= static_cast<int>(guarded_);
}

void Stacks::reserve(unsigned count) {
  if (count <= stacks_.size()) return;
  const std::size_t missing = count - stacks_.size();
  stacks_.reserve(count);
  mappings_.reserve(mappings_.size() + 1);
  void* memory = mmap(nullptr, missing * kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mappings_.push_back({memory, missing * kBytes});
  madvise(memory, missing * kBytes, MADV_NOHUGEPAGE);  // a page or two of each stack is ever touched
  guard_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < missing; ++i) {
    auto* stack = static_cast<unsigned char*>(memory) + i * kBytes;
    if (guarded_ == stacks_.size() && ++guards <= kMostGuards && mprotect(stack, guard_, PROT_NONE) == 0) {
      ++guarded_;
    } else if (guarded_ == stacks_.size()) {
      --guards;
    }
    stacks_.push_back(stack);
  }
}

}  // namespace quern::jit::host
