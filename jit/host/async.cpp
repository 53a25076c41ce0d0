// Asynchronous copies under way, in a seeded run.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/async.h"

#include <algorithm>
#include <cstring>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {

constexpr std::uint32_t kPiece = 4;  // bytes

void Transfers::begin_block(std::uint32_t threads, Delivery delivery) {
  if (queues_.size() < threads) queues_.resize(threads);
  for (std::uint32_t t = 0; t < threads; ++t) {
    queues_[t].transfers.clear();
    queues_[t].arrivals.clear();
    queues_[t].groups = 0;
  }
  threads_ = threads;
  under_way_ = 0;
  arrivals_ = 0;
  delivery_ = delivery;
}

void Transfers::copy(std::uint32_t thread, void* to, const void* from, std::uint32_t bytes, bool take) {
  Queue& q = queues_[thread];
  std::memset(to, 0xff, bytes);  // the kernel's: its thread writes there from now on
  const Unwatched own;
  q.transfers.push_back({static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), q.groups,
                         static_cast<std::uint16_t>((1u << (bytes / kPiece)) - 1), take});
  ++under_way_;
}

void Transfers::deliver(Transfer& t, std::uint16_t pieces) {
  for (std::uint32_t i = 0; t.pieces & pieces; ++i) {
    const auto bit = static_cast<std::uint16_t>(1u << i);
    if (!(t.pieces & pieces & bit)) continue;
    t.pieces = static_cast<std::uint16_t>(t.pieces & ~bit);
    if (t.take) {
      std::memcpy(t.to + i * kPiece, t.from + i * kPiece, kPiece);
    } else {
      std::memset(t.to + i * kPiece, 0, kPiece);
    }
  }
}

void Transfers::wait(std::uint32_t thread, std::uint32_t groups_left) {
  Queue& q = queues_[thread];
  if (q.groups <= groups_left) return;
  const std::uint32_t due = q.groups - groups_left;  // groups 0 .. due-1
  std::size_t end = 0;
  while (end < q.transfers.size() && q.transfers[end].group < due) ++end;
  for (std::size_t i = end; i-- > 0;) deliver(q.transfers[i], 0xffff);
  const Unwatched own;
  q.transfers.erase(q.transfers.begin(), q.transfers.begin() + static_cast<std::ptrdiff_t>(end));
  for (Arrival& a : q.arrivals) a.after -= std::min(a.after, end);
  under_way_ -= static_cast<std::uint32_t>(end);
}

void Transfers::arrive(std::uint32_t thread, void* barrier) {
  const Unwatched own;
  Queue& q = queues_[thread];
  q.arrivals.push_back({barrier, q.transfers.size()});
  ++arrivals_;
}

const char* Transfers::arrive_first(Queue& q) {
  void* const barrier = q.arrivals.front().barrier;
  {
    const Unwatched own;  // whichever fiber runs just now takes it from the list
    q.arrivals.erase(q.arrivals.begin());
  }
  --arrivals_;
  return barriers_.keep_promise(barrier);
}

bool Transfers::press(Random& random, const char** wrong) {
  if (arrivals_ == 0) return false;
  std::uint32_t t = random.below(threads_);
  while (queues_[t].arrivals.empty()) t = t + 1 == threads_ ? 0 : t + 1;
  Queue& q = queues_[t];
  for (std::size_t i = q.arrivals.front().after; i-- > 0;) deliver(q.transfers[i], 0xffff);
  *wrong = arrive_first(q);
  return true;
}

const char* Transfers::some(Random& random) {
  if (delivery_ != Delivery::random) return nullptr;
  if (arrivals_ != 0 && random.once_in(4)) {
    Queue& q = queues_[random.below(threads_)];
    const auto landed = [&] {
      for (std::size_t i = 0; i < q.arrivals.front().after; ++i) {
        if (q.transfers[i].pieces != 0) return false;
      }
      return true;
    };
    if (!q.arrivals.empty() && landed()) {
      if (const char* wrong = arrive_first(q)) return wrong;
    }
  }
  if (under_way_ == 0) return nullptr;
  for (std::uint32_t tries = random.below(8); tries > 0; --tries) {
    Queue& q = queues_[random.below(threads_)];
    if (q.transfers.empty()) continue;
    deliver(q.transfers[random.below(static_cast<std::uint32_t>(q.transfers.size()))],
            static_cast<std::uint16_t>(1u << random.below(16 / kPiece)));
  }
  return nullptr;
}

}  // namespace quern::jit::host
