// The handlers that run around fork(), and the table of descriptors that they close.
// SPDX-License-Identifier: Apache-2.0
#include "cache/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace quern::cache {
namespace {

// A node lives inside no Descriptor, since those move; the list is short (one lock file a store, one descriptor a
// flight).
struct Node {
  std::uint64_t ticket;
  int descriptor;
  pid_t process;
  Node* next;
};

struct Guard {
  std::mutex mutex;  // over the list
  // A thread inside SQLite counts itself; a thread that forks announces it and waits for the count to fall to zero.
  // Plain numbers, because a reader-writer lock or a condition variable would carry the parent's threads over into the
  // child.
  std::mutex forks;
  std::atomic<int> in_sqlite{0};
  std::atomic<bool> forking{false};
  Node* head = nullptr;
  Node* abandoned = nullptr;  // a parent's, closed here: freeing is not safe right after fork()
  std::uint64_t last_ticket = 0;

  static void before();
  static void in_parent();
  static void in_child();
};

// Nothing of it is destroyed: descriptors may be closed, and the process may fork, while static objects go away.
static_assert(std::is_trivially_destructible_v<Guard>);
constinit Guard guard;
// Noted while the library is loaded: were it noted at first use, a child could find a thread of its parent half way.
const int noted = pthread_atfork(&Guard::before, &Guard::in_parent, &Guard::in_child);

constexpr std::chrono::microseconds kPause{20};

void Guard::before() {
  guard.forks.lock();
  guard.forking = true;
  while (guard.in_sqlite != 0) std::this_thread::sleep_for(kPause);
  guard.mutex.lock();
}

void Guard::in_parent() {
  guard.mutex.unlock();
  guard.forking = false;
  guard.forks.unlock();
}

void Guard::in_child() {
  while (Node* const node = guard.head) {
    ::close(node->descriptor);
    guard.head = node->next;
    node->next = guard.abandoned;
    guard.abandoned = node;
  }
  in_parent();
}

}  // namespace

Descriptor Descriptor::open(const char* path, int flags, mode_t mode) noexcept {
  Descriptor result;
  if (noted != 0) {
    errno = noted;
    return result;
  }
  try {
    auto* node = new Node{0, -1, getpid(), nullptr};
    // Opened under the mutex: a fork in between would leave the child a descriptor that nobody closes.
    const std::lock_guard lock(guard.mutex);
    node->descriptor = ::open(path, flags | O_CLOEXEC, mode);
    if (node->descriptor < 0) {
      delete node;
      return result;
    }
    node->ticket = ++guard.last_ticket;
    node->next = guard.head;
    guard.head = node;
    result.descriptor_ = node->descriptor;
    result.ticket_ = node->ticket;
  } catch (...) {
    errno = ENOMEM;
  }
  return result;
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), ticket_(std::exchange(other.ticket_, 0)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    ticket_ = std::exchange(other.ticket_, 0);
  }
  return *this;
}

void Descriptor::close() noexcept {
  descriptor_ = -1;
  close_ticket(std::exchange(ticket_, 0));
}

std::uint64_t Descriptor::release_to_ticket() noexcept {
  descriptor_ = -1;
  return std::exchange(ticket_, 0);
}

void Descriptor::close_ticket(std::uint64_t ticket) noexcept {
  if (ticket == 0) return;
  const std::lock_guard lock(guard.mutex);
  for (Node** link = &guard.head; *link != nullptr; link = &(*link)->next) {
    Node* const node = *link;
    if (node->ticket != ticket) continue;
    *link = node->next;
    if (node->process == getpid()) {
      // Let go first: a child made this instant may not have closed its copy yet, which would keep the lock alive.
      struct flock whole = {};
      whole.l_type = F_UNLCK;
      whole.l_whence = SEEK_SET;
      fcntl(node->descriptor, F_OFD_SETLK, &whole);
    }
    ::close(node->descriptor);
    delete node;
    return;
  }
}

namespace {

void enter_section() noexcept {
  for (;;) {
    ++guard.in_sqlite;
    if (!guard.forking) return;
    --guard.in_sqlite;
    while (guard.forking) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

SqliteSection::SqliteSection() noexcept { enter_section(); }

void SqliteSection::let_fork_pass() noexcept {
  if (!guard.forking) return;
  --guard.in_sqlite;
  while (guard.forking) std::this_thread::sleep_for(kPause);
  enter_section();
}

SqliteSection::~SqliteSection() { --guard.in_sqlite; }

NoFork::NoFork() noexcept { guard.mutex.lock(); }
NoFork::~NoFork() { guard.mutex.unlock(); }

}  // namespace quern::cache
