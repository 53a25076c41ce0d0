// SPDX-License-Identifier: Apache-2.0
#include "jit/host/products.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

constexpr std::uint32_t kAll = (1u << Products::kWarps) - 1;

const q::host::Product& product_of(void* const* lanes, std::uint32_t lane) {
  return *static_cast<const q::host::Product*>(lanes[lane]);
}

}  // namespace

void Products::begin(const std::vector<Window>& windows, std::uint32_t groups_per_block, bool seeded,
                     Delivery delivery) {
  const Unwatched own;
  seeded_ = seeded;
  delivery_ = delivery;
  under_way_ = 0;
  windows_ = windows;
  if (!used_ && groups_.size() == windows.size() * groups_per_block) return;
  used_ = false;
  groups_.clear();
  groups_.resize(windows.size() * groups_per_block);
  for (std::uint32_t g = 0; g < groups_.size(); ++g) groups_[g].block = g / groups_per_block;
}

// Neighbours differ by mistake: in the shape between warps, in anything between lanes.
std::string Products::mismatch(const q::host::Product& mine, const q::host::Product& others) {
  if (mine.count != others.count || mine.a_type != others.a_type || mine.b_type != others.b_type ||
      mine.a_major != others.a_major || mine.b_major != others.b_major ||
      (mine.a_registers == nullptr) != (others.a_registers == nullptr)) {
    return "the instructions differ";
  }
  if (mine.b != others.b || mine.a != others.a) return "the matrix descriptors differ";
  if ((mine.accumulate != 0) != (others.accumulate != 0)) return "one accumulates, another does not";
  return {};
}

Products::Flight* Products::take_off(Warp& warp, void* const* lanes) {
  for (Flight& flight : warp.flights) {
    if (flight.d[0] == product_of(lanes, 0).d) {
      ++flight.products;
      return &flight;
    }
  }
  Flight& flight = warp.flights.emplace_back();
  flight.count = product_of(lanes, 0).count;
  flight.products = 1;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    float* d = flight.d[lane] = product_of(lanes, lane).d;
    flight.held.insert(flight.held.end(), d, d + flight.count);
    std::fill_n(d, flight.count, std::numeric_limits<float>::quiet_NaN());
  }
  return &flight;
}

std::string Products::issue(std::uint32_t g, std::uint32_t w, void* const* lanes, const void* issued_at) {
  const Unwatched own;
  Group& group = groups_[g];
  Warp& warp = group.warps[w];
  used_ = true;
  const q::host::Product& first = product_of(lanes, 0);
  for (std::uint32_t lane = 1; lane < 32; ++lane) {
    const q::host::Product& mine = product_of(lanes, lane);
    if (std::string wrong = mismatch(mine, first); !wrong.empty()) return "the lanes of a warp disagree: " + wrong;
  }
  if (!warp.registers.fenced()) return "there was no wgmma_fence before the first one";
  // What takes as long as the product itself is for runs that look for mistakes.
  const char* const unfenced = seeded_ ? warp.registers.use(lanes, warp.issued) : nullptr;
  if (unfenced != nullptr) return unfenced;

  const std::uint32_t number = warp.issued++ - group.done;
  if (number == group.items.size()) {
    group.items.emplace_back();
    group.items.back().product.shape = first;
    group.items.back().issued = 0;
    group.items.back().issued_at = issued_at;
    ++under_way_;
  }
  Item& item = group.items[number];
  if (std::string wrong = mismatch(first, item.product.shape); !wrong.empty()) {
    return "the warps of a warpgroup disagree: " + wrong;
  }
  item.issued |= 1u << w;
  if (!group.engaged) group.agent = agents_.engage(g);
  group.engaged = true;
  group.agent.follow();
  Flight* flight = seeded_ ? take_off(warp, lanes) : nullptr;
  if (flight != nullptr && flight->count != first.count)
    return "its accumulators are those of a product of another shape";
  item.flight[w] = flight;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const q::host::Product& mine = product_of(lanes, lane);
    const std::uint32_t t = w * 32 + lane;
    item.product.d[t] = flight != nullptr ? flight->held.data() + lane * flight->count : mine.d;
    if (mine.a_registers != nullptr) std::copy_n(mine.a_registers, 4, item.product.a_registers[t]);
  }
  // What is written from now on is another matter: it is not waited for, which gives wrong numbers.
  std::string wrong = seeded_ && item.issued == kAll ? unseen(group, item) : "";
  if (seeded_) return wrong;
  while (wrong.empty() && !group.items.empty() && group.items.front().issued == kAll) wrong = complete_first(group);
  return wrong;
}

std::string Products::unseen(const Group& group, const Item& item) {
  std::uint32_t where = 0;
  const char* const operand = unit_.unseen(item.product, view_, group.block, windows_[group.block].bytes, &where);
  if (operand == nullptr) return {};
  char address[16];
  std::snprintf(address, sizeof(address), "0x%x", where);
  return std::string(operand) + " at shared address " + address + ": " + kUnseen;
}

std::string Products::complete_first(Group& group) {
  Item& item = group.items.front();
  const Window& window = windows_[group.block];
  std::string wrong = unit_.run(item.product, window.shared, window.bytes);
  if (wrong.empty()) {
    const Acting acting(group.agent, item.issued_at);
    unit_.watch(item.product, window.shared);
    for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
      float* d = seeded_ ? item.flight[t / 32]->d[t % 32] : item.product.d[t];
      writes(d, item.product.shape.count * sizeof(float));
    }
    release(&group.order);
  }
  for (std::uint32_t w = 0; w < kWarps && seeded_; ++w) {
    Flight& flight = *item.flight[w];
    if (--flight.products != 0) continue;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      std::copy_n(flight.held.data() + lane * flight.count, flight.count, flight.d[lane]);
    }
    group.warps[w].flights.remove_if([&](const Flight& each) { return &each == &flight; });
  }
  group.items.pop_front();
  ++group.done;
  --under_way_;
  return wrong;
}

void Products::fence(std::uint32_t group, std::uint32_t warp) {
  used_ = true;
  groups_[group].warps[warp].registers.fence();
}

void Products::commit(std::uint32_t group, std::uint32_t warp) {
  const Unwatched own;
  used_ = true;
  Warp& w = groups_[group].warps[warp];
  w.group_ends.push_back(w.issued);
}

bool Products::wait(std::uint32_t g, std::uint32_t w, std::uint32_t groups_left, std::string* wrong) {
  const Unwatched own;
  Group& group = groups_[g];
  const std::vector<std::uint32_t>& ends = group.warps[w].group_ends;
  if (ends.size() <= groups_left) return true;
  const std::uint32_t due = ends[ends.size() - groups_left - 1];
  while (group.done < due && group.items.front().issued == kAll && wrong->empty()) *wrong = complete_first(group);
  if (group.done < due && wrong->empty()) return false;
  if (seeded_) group.warps[w].registers.settle(due);
  acquire(&group.order);
  return true;
}

std::string Products::some(Random& random) {
  if (delivery_ != Delivery::random || under_way_ == 0 || !random.once_in(8)) return {};
  const Unwatched own;
  Group& group = groups_[random.below(static_cast<std::uint32_t>(groups_.size()))];
  if (group.items.empty() || group.items.front().issued != kAll) return {};
  return complete_first(group);
}

void Products::end() {
  const Unwatched own;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (std::exchange(groups_[g].engaged, false)) agents_.dismiss(groups_[g].agent, g);
  }
  agents_.join();
}

std::string Products::finish() const {
  return under_way_ == 0 ? "" : "a product is still under way: wgmma_commit and wgmma_wait<0> come before the end";
}

}  // namespace quern::jit::host
