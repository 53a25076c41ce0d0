// Who runs, and the collectives of a warp: all its lanes come, the last of them acts for all, and all go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <type_traits>

#include "jit/host/block.h"

namespace quern::jit::host {

// A cluster stays on one thread, so whoever runs on a fiber finds its runner here. Asked for at every barrier and
// shuffle: the model spares a call each time, for 8 bytes of what a library loaded late may have.
extern __thread Runner* runner __attribute__((tls_model("initial-exec"), visibility("hidden")));

template <class Text>
void Runner::fail(Text text) {
  if constexpr (std::is_invocable_v<Text>) {
    failure_ = name_of(current_) + ": " + text();
  } else {
    failure_ = name_of(current_) + ": " + text;
  }
  abandon();
}

template <class AtLast>
void Runner::join(Wait what, AtLast at_last) {
  const std::uint32_t warp = fibers_[current_].warp;
  Warp& w = warp_[warp];
  if (w.arrived != 0 && w.collective != what) {
    // Every lane that waits here waits for the same thing.
    const auto other = index_of(warp, static_cast<std::uint32_t>(std::countr_zero(w.arrived)));
    fibers_[current_].wait = what;
    failure_ = "a warp's lanes have parted: " + name_of(current_) + " " + state_of(current_) + " while " +
               name_of(other) + " is " + state_of(other);
    abandon();
  }
  w.collective = what;
  w.arrived |= 1ULL << views_[current_].lane;
  if (w.arrived == w.all) {
    at_last(w);
    w.arrived = 0;
    w.parity ^= 1;
    make_runnable(warp, w.all);
    reschedule();
  } else {
    wait(what, 0);
  }
}

}  // namespace quern::jit::host
