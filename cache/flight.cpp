// One compilation of a key at a time on this machine: a one-byte lock at the key's hash, in a file that is never
// deleted.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <utility>

#include "cache/file_lock.h"
#include "cache/schema.h"
#include "cache/store_impl.h"

namespace quern::cache {
namespace {

// A waiter has a compilation of hundreds of milliseconds before it.
constexpr std::chrono::milliseconds kLongestSleep{5};

// Locks reach far beyond the end of the (empty) file; the offset must leave room for the byte itself.
std::int64_t lock_offset(const Key& key) { return static_cast<std::int64_t>(key.low >> 2); }

}  // namespace

Flight::Flight(Flight&& other) noexcept
    : state_(std::exchange(other.state_, State::alone)), ticket_(std::exchange(other.ticket_, 0)) {}

Flight& Flight::operator=(Flight&& other) noexcept {
  if (this != &other) {
    Descriptor::close_ticket(ticket_);
    state_ = std::exchange(other.state_, State::alone);
    ticket_ = std::exchange(other.ticket_, 0);
  }
  return *this;
}

// Closing the one descriptor of its open file description lets go of the lock.
Flight::~Flight() { Descriptor::close_ticket(ticket_); }

Flight Store::flight(const Key& key, std::chrono::milliseconds deadline) noexcept {
  Flight flight;
  if (impl_ == nullptr || impl_->forked()) return flight;
  try {
    const Deadline until = deadline_in(deadline);
    mode_t mode = 0600;
    const std::string folder = impl_->database.lock_folder(&mode);
    // A description of its own for every flight: two flights of one process exclude each other as those of two
    // processes do.
    Descriptor descriptor;
    if (!folder.empty())
      descriptor = Descriptor::open((folder + "/" + kFlightName).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, mode);
    if (descriptor.valid()) {
      const Locked got = lock_range(descriptor.get(), true, lock_offset(key), 1, until, kLongestSleep);
      if (got == Locked::held || got == Locked::waited) {
        flight.state_ = got == Locked::held ? Flight::State::leader : Flight::State::follower;
        flight.ticket_ = descriptor.release_to_ticket();
      }
    }
  } catch (...) {
    // Compile alone.
  }
  return flight;
}

}  // namespace quern::cache
