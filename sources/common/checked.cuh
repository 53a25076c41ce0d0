// The checked form of kernels, for finding mistakes: QUERN_CHECKED is defined where a kernel is compiled for a context
// with QUERN_CONTEXT_CHECKED. The library then puts QUERN_ENTER at the beginning of every kernel.
//
//   print(format, values...)   one line for whoever reads the context's log, from this thread: "{}" in `format` stands
//                              for the next value (integers, f32, f64 and pointers, eight at most). Lines come while
//                              the kernel runs, in the order in which threads wrote them; where they come faster than
//                              they are read some are lost, and how many is told. Nothing in the ordinary form.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

#ifdef QUERN_CHECKED
#include "common/checked_params.cuh"

#define QUERN_CHECKED_PARAM , QUERN_PARAM ::q::Checked quern_checked
#define QUERN_ENTER \
  if (!::q::checked::enter(quern_checked)) return;

namespace q {
namespace checked {

// The context's, in whose hands a loaded kernel is: every thread would write the same.
QUERN_GLOBAL u64 known_state;

QUERN_DEVICE bool enter(const Checked& given) {
  if (load_volatile(&known_state) == 0)
    atomic_cas(&known_state, static_cast<u64>(0), reinterpret_cast<u64>(given.state));
  return load_volatile(given.verdict) == 0;
}

QUERN_DEVICE CheckedState& state() { return *reinterpret_cast<CheckedState*>(load_volatile(&known_state)); }

// Room for a message, and the number that makes it ready; null where the host has not kept up.
QUERN_DEVICE u8* begin_message(MessageQueue& queue, u32& number) {
  for (;;) {
    const u32 head = load_volatile(&queue.head);
    if (head - load_volatile(queue.taken) >= queue.capacity) {
      publish(queue.lost_told, atomic_add(&queue.lost, 1u) + 1);
      return nullptr;
    }
    if (atomic_cas(&queue.head, head, head + 1) != head) continue;
    number = head + 1;
    return queue.messages + static_cast<u64>(head % queue.capacity) * kMessageBytes;
  }
}

template <class T>
QUERN_DEVICE PrintedValue printed(T* v) {
  return {reinterpret_cast<u64>(v), Printed::pointer, 0};
}
QUERN_DEVICE PrintedValue printed(f64 v) {
  union {
    f64 number;
    u64 bits;
  } as{v};
  return {as.bits, Printed::number, 0};
}
QUERN_DEVICE PrintedValue printed(f32 v) { return printed(static_cast<f64>(v)); }
QUERN_DEVICE PrintedValue printed(i64 v) { return {static_cast<u64>(v), Printed::integer, 0}; }
QUERN_DEVICE PrintedValue printed(u64 v) { return {v, Printed::natural, 0}; }
QUERN_DEVICE PrintedValue printed(i32 v) { return printed(static_cast<i64>(v)); }
QUERN_DEVICE PrintedValue printed(u32 v) { return printed(static_cast<i64>(v)); }
QUERN_DEVICE PrintedValue printed(bool v) { return printed(static_cast<i64>(v)); }

QUERN_CALLED void print_values(const char* format, const PrintedValue* values, u32 count) {
  // A kernel without QUERN_ENTER, where no other has entered before it, knows nobody to tell.
  if (load_volatile(&known_state) == 0) return;
  MessageQueue& queue = state().prints;
  u32 number = 0;
  auto* const to = reinterpret_cast<PrintMessage*>(begin_message(queue, number));
  if (to == nullptr) return;
  for (int d = 0; d < 3; ++d) to->block[d] = static_cast<u32>(block_index(d));
  to->thread = static_cast<u32>(thread_index());
  to->count = count;
  QUERN_ROLLED for (u32 i = 0; i < count; ++i) to->values[i] = values[i];
  int length = 0;
  QUERN_ROLLED for (; length < kFormatBytes - 1 && format[length] != 0; ++length) to->format[length] = format[length];
  to->format[length] = 0;
  publish(&to->ready, number);
}

}  // namespace checked

template <class... V>
QUERN_DEVICE void print(const char* format, V... values) {
  static_assert(sizeof...(V) <= kPrinted, "print takes eight values at most");
  const PrintedValue all[sizeof...(V) + 1] = {checked::printed(values)..., PrintedValue{}};
  checked::print_values(format, all, sizeof...(V));
}

}  // namespace q
#else
#define QUERN_CHECKED_PARAM
namespace q {
template <class... V>
QUERN_DEVICE void print(const char*, V...) {}
}  // namespace q
#endif
