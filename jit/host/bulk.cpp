// SPDX-License-Identifier: Apache-2.0
#include "jit/host/bulk.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace quern::jit::host {

void BulkCopies::begin(std::uint32_t threads, bool seeded, Delivery delivery, Random& random) {
  groups_.assign(threads, 0);
  seeded_ = seeded;
  delivery_ = delivery;
  constexpr std::uint32_t kOnceIn[] = {4, 32, 256};
  if (seeded) once_in_ = kOnceIn[random.below(3)];
}

BulkCopies::Copy BulkCopies::copy_of(const Landing& what, std::uint32_t thread, Random& random) {
  const std::uint32_t rows = what.box.rows();
  Copy copy{what, false, false, false, thread, groups_[thread], 0, 1, random.below(rows), {}, agents_.engage(thread)};
  do {
    copy.stride = random.below(rows) + 1;
  } while (std::gcd(copy.stride, rows) != 1);
  return copy;
}

const char* BulkCopies::load(const Landing& what, std::uint32_t thread, Random& random) {
  const Unwatched own;
  if (!seeded_) {
    const Agent agent = agents_.engage(thread);
    const char* wrong = nullptr;
    {
      const Acting acting(agent, what.issued_at);
      for (std::uint32_t row = 0; row < what.box.rows(); ++row) what.box.load_row(row, what.window, what.at);
      wrong = barriers_.complete(what.barrier, what.box.bytes());
    }
    view_.landed(what.window + what.at, what.box.bytes());
    agents_.dismiss(agent, thread);
    return wrong;
  }
  copies_.push_back(copy_of(what, thread, random));
  const Acting acting(copies_.back().agent, what.issued_at);
  std::memset(what.window + what.at, 0xff, what.box.bytes());
  view_.landed(what.window + what.at, what.box.bytes());
  return nullptr;
}

void BulkCopies::store(const Landing& what, bool add, std::uint32_t thread, Random& random) {
  const Unwatched own;
  Copy copy = copy_of(what, thread, random);
  copy.is_store = true;
  copy.add = add;
  copy.staged.resize(what.box.bytes());
  if (seeded_) {
    copies_.push_back(std::move(copy));
    return;
  }
  const char* none = nullptr;
  advance(copy, 2 * what.box.rows(), &none);
  agents_.dismiss(copy.agent, thread);
}

void BulkCopies::commit(std::uint32_t thread) {
  if (seeded_) ++groups_[thread];
}

bool BulkCopies::advance(Copy& copy, std::uint32_t rows, const char** wrong) {
  const Landing& w = copy.what;
  const Acting acting(copy.agent, w.issued_at);
  const std::uint32_t bytes = w.box.row_bytes();
  for (; rows > 0; --rows) {
    const std::uint32_t row = copy.next_row();
    if (!copy.is_store) {
      w.box.load_row(row, w.window, w.at);
      view_.landed(w.window + w.at + row * bytes, bytes);
      const std::uint32_t phase = barriers_.phase(w.barrier);
      if (const char* refused = barriers_.complete(w.barrier, bytes)) *wrong = refused;
      // A phase that ends with rows still to come was told of too few bytes: they stay away a while longer.
      if (barriers_.phase(w.barrier) != phase) rows = 1;
    } else if (!copy.taken) {
      w.box.take_row(row, w.window, w.at, copy.staged.data() + row * bytes);
    } else if (copy.add) {
      w.box.add_row(row, copy.staged.data() + row * bytes);
    } else {
      w.box.store_row(row, copy.staged.data() + row * bytes);
    }
    if (++copy.done < w.box.rows()) continue;
    if (copy.is_store) release(order_of(copy.thread, !copy.taken));
    if (!copy.is_store || copy.taken) return true;
    copy.taken = true;
    copy.done = 0;
  }
  return false;
}

void BulkCopies::wait(std::uint32_t thread, std::uint32_t groups_left, bool read_only) {
  const std::uint32_t due = groups_[thread] > groups_left ? groups_[thread] - groups_left : 0;
  const char* none = nullptr;
  for (std::size_t i = due != 0 ? copies_.size() : 0; i-- > 0;) {
    Copy& copy = copies_[i];
    if (!copy.is_store || copy.thread != thread || copy.group >= due) continue;
    if (!copy.taken) advance(copy, copy.what.box.rows() - copy.done, &none);
    if (!read_only && advance(copy, copy.what.box.rows() - copy.done, &none)) erase(i);
  }
  acquire(order_of(thread, true));
  if (!read_only) acquire(order_of(thread, false));
}

void BulkCopies::erase(std::size_t i) {
  const Unwatched own;
  agents_.dismiss(copies_[i].agent, copies_[i].thread);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
}

const char* BulkCopies::some(Random& random) {
  const char* wrong = nullptr;
  if (delivery_ != Delivery::random || copies_.empty() || !random.once_in(once_in_)) return wrong;
  const std::size_t i = random.below(static_cast<std::uint32_t>(copies_.size()));
  // Stores are waited for long after they were issued, if at all.
  if (copies_[i].is_store && !random.once_in(8)) return wrong;
  const std::uint32_t rows = random.below(copies_[i].what.box.rows()) + 1;
  if (advance(copies_[i], rows, &wrong)) erase(i);
  return wrong;
}

bool BulkCopies::press(Random& random, const char** wrong) {
  std::size_t count = 0;
  for (const Copy& copy : copies_) count += !copy.is_store;
  if (count == 0) return false;
  std::size_t nth = delivery_ == Delivery::random ? random.below(static_cast<std::uint32_t>(count)) : count - 1;
  std::size_t i = 0;
  while (copies_[i].is_store || nth-- > 0) ++i;
  const std::uint32_t rows = copies_[i].what.box.rows();
  if (advance(copies_[i], delivery_ == Delivery::random ? random.below(rows) + 1 : rows, wrong)) erase(i);
  return true;
}

const char* BulkCopies::finish() {
  const char* none = nullptr;
  for (Copy& copy : copies_) {
    if (!copy.is_store) return "a bulk load is still under way: its shared memory is no longer the block's";
    if (!copy.taken) return "a bulk store has not yet read its shared memory: tma_wait_read comes before the end";
    advance(copy, copy.what.box.rows() - copy.done, &none);
  }
  return nullptr;
}

void BulkCopies::end() {
  const Unwatched own;
  for (const Copy& copy : copies_) agents_.dismiss(copy.agent, copy.thread);
  copies_.clear();
  agents_.join();
}

}  // namespace quern::jit::host
