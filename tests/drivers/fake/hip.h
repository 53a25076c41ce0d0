// What a test tells the fake libamdhip64 to do, and what it reads back of what was done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/hip_api.h"

namespace quern::jit::hip::fake {

struct State {
  // What the calls answer.
  int init = 0, devices = 2, module_load = 0, module_function = 0, launch = 0;
  const char* arch = "gfx90a:sramecc+:xnack-";
  void* captured = nullptr;  // the stream that is being captured

  // What was asked for.
  int unloaded = 0, launched = 0, set_device = 0, mode_at_load = -1;
  int device_at_launch = -1;
  unsigned grid_x = 0;

  // What measuring asked for and gave back, and what it is answered.
  int streams = 0, events = 0, blocks = 0, copied = 0, synchronized = 0, memory_allocate = 0;
  float elapsed = 0;  // milliseconds
};

// NOLINTNEXTLINE(performance-no-int-to-ptr): a handle that points nowhere
inline Stream stream_of(int device) { return reinterpret_cast<Stream>(0x8000 + 0x100 * device); }

}  // namespace quern::jit::hip::fake
