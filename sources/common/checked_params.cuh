// What kernels in the checked form share with the library: where they tell what they found and what they print, and
// whether a call's kernels are to run at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// A message stands in host memory that the device writes into. `ready` is its number, from 1, once all of it is there.
inline constexpr i32 kMessageBytes = 512, kFormatBytes = 192, kPrinted = 8;
enum class Printed : u32 { integer, natural, number, pointer };
struct PrintedValue {
  u64 bits;  // an i64, a u64, an f64 or an address
  Printed kind;
  u32 reserved;
};
struct PrintMessage {
  u32 ready;
  u32 block[3];
  u32 thread;
  u32 count;  // of values
  PrintedValue values[kPrinted];
  char format[kFormatBytes];  // as far as there is room, with its NUL
};

// One index check's finding; the check itself goes with it (index_check/params.cuh), behind it in the message.
struct FaultMessage {
  u32 ready;
  u32 reserved;
  u64 call;             // Checked::call
  const char* op;       // the library's
  i64 row, column, at;  // column -1: there is none; at: where in a flat array, for pages that page_indptr points to
  i64 value, least, most, extra;
};

// A queue from the device to the host. `head` and `lost` are in device memory with the queue itself, what the host
// writes and all messages in the host's.
struct MessageQueue {
  u32 head;  // messages begun
  u32 lost;  // for want of room
  u32 capacity;
  u32 reserved;
  u8* messages;
  u32* taken;      // by the host
  u32* lost_told;  // a copy of `lost` that the host sees
};

struct CheckedState {
  MessageQueue prints;
  MessageQueue faults;
};

// The last argument of every kernel in the checked form.
struct Checked {
  CheckedState* state;
  const u32* verdict;  // not 0: the call's index tensors are wrong, and the kernel does nothing
};

}  // namespace q
