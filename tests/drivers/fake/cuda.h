// What a test tells the fake libcuda to do, and what it reads back of what was done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/cuda_api.h"

namespace quern::jit::cuda::fake {

inline constexpr Result kInvalidHandle = 400;

struct State {
  // What the calls answer.
  int init = 0, version = 13000, devices = 2, major = 9, minor = 0;
  int library_load = 0, library_kernel = 0, kernel_function = 0, function_load = 0, set_function_attribute = 0;
  int launch = 0, stream_is_capturing = 0, encode = 0;
  const char* jit_log = "";
  void* captured = nullptr;  // the stream that is being captured
  int captures_ended = 0;

  // What was asked for.
  int retained = 0, released = 0, pushed = 0, popped = 0, unloaded = 0, launched = 0, launched_ex = 0,
      mode_at_load = -1, parameters_asked = 0;
  int dynamic_shared = 0;
  unsigned grid_x = 0, shared_bytes = 0, attribute_count = 0;
  LaunchAttribute attributes[4] = {};
  void* const* parameters = nullptr;
  std::uint32_t map_rank = 0;

  // What measuring asked for and gave back, and what it is answered.
  int streams = 0, events = 0, blocks = 0, copied = 0, synchronized = 0, memory_allocate = 0;
  float elapsed = 0;  // milliseconds
};

// The fake primary context of a device, and a stream of it.
// NOLINTBEGIN(performance-no-int-to-ptr): handles that point nowhere
inline Context context_of(int device) { return reinterpret_cast<Context>(0x1000 + 0x100 * device); }
inline Stream stream_of(int device) { return reinterpret_cast<Stream>(0x8000 + 0x100 * device); }
// NOLINTEND(performance-no-int-to-ptr)

}  // namespace quern::jit::cuda::fake
