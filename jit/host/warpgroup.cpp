// A warpgroup's instructions as kernels call them: products, registers that move between warps; election.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "jit/host/hopper_calls.h"

namespace quern::jit::host {

void HopperCalls::join_for_product() {
  if (warp_of_block() / Products::kWarps * Products::kWarps + Products::kWarps > runner->warps_ ||
      runner->threads_ % 32 != 0) {
    runner->fail("a warpgroup's instruction in a warp that is not of a whole warpgroup");
  }
}

void HopperCalls::product(const q::host::Product* mine) {
  Runner& r = *runner;
  join_for_product();
  Runner::Warp& w = r.warp_[fiber().warp];
  w.brought[r.views_[r.current_].lane] = const_cast<q::host::Product*>(mine);
  const std::uint32_t group = warpgroup(), warp = warp_of_block() % Products::kWarps;
  const void* const issued_at = __builtin_return_address(0);
  char* order = &w.order[w.parity];
  release(order);
  r.join(Wait::wgmma, [&](Runner::Warp& all) {
    acquire(order);
    r.show_fenced();
    std::string wrong = r.products_.issue(group, warp, all.brought, issued_at);
    if (!wrong.empty()) r.fail([&] { return "wgmma: " + std::exchange(wrong, {}); });
    r.wake_warpgroup(group);
  });
}

void HopperCalls::product_fence() {
  join_for_product();
  runner->join(Wait::wgmma,
               [&](Runner::Warp&) { runner->products_.fence(warpgroup(), warp_of_block() % Products::kWarps); });
}

void HopperCalls::product_commit() {
  join_for_product();
  runner->join(Wait::wgmma,
               [&](Runner::Warp&) { runner->products_.commit(warpgroup(), warp_of_block() % Products::kWarps); });
}

void HopperCalls::product_wait(unsigned groups_left) {
  Runner& r = *runner;
  join_for_product();
  r.join(Wait::wgmma, [](Runner::Warp&) {});
  std::string wrong;
  while (!r.products_.wait(warpgroup(), warp_of_block() % Products::kWarps, groups_left, &wrong)) {
    r.wait(Wait::products, 0);
  }
  if (!wrong.empty()) r.fail([&] { return "wgmma: " + std::exchange(wrong, {}); });
}

void HopperCalls::registers(unsigned count, unsigned grow) {
  Runner& r = *runner;
  const char* const what = grow != 0 ? "registers_grow" : "registers_shrink";
  join_for_product();
  const std::uint32_t warp = fiber().warp;
  r.join(Wait::registers, [&](Runner::Warp&) {
    if (std::string wrong = r.registers_.ask(warp, count, grow != 0); !wrong.empty()) {
      r.fail([&] { return std::string(what) + ": " + std::exchange(wrong, {}); });
    }
  });
  while (!r.registers_.take(warp, count)) r.wait(Wait::grown_registers, 0);
  if (grow != 0) return;
  r.for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    if (r.fibers_[slot].wait == Wait::grown_registers)
      r.make_runnable(r.fibers_[slot].warp, 1ULL << r.views_[slot].lane);
  });
}

unsigned HopperCalls::elect() {
  runner->join(Wait::elect, [](Runner::Warp&) {});
  return runner->views_[runner->current_].lane == runner->elected_;
}

void HopperCalls::arrive_named(unsigned id, unsigned threads) {
  runner->check_named("arrive_named", id, threads);
  runner->arrive(id, threads, false);
}

}  // namespace quern::jit::host
