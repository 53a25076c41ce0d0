// What fork() must not break: locks that a child would inherit, and SQLite's own mutexes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace quern::cache {

// A file descriptor that a forked child closes at once: an open-file-description lock lasts until the last copy of its
// descriptor is closed, so that a child which merely lives on would hold its parent's locks.
class Descriptor {
 public:
  Descriptor() = default;
  // As open(2), with O_CLOEXEC; not valid on failure (errno tells).
  static Descriptor open(const char* path, int flags, mode_t mode = 0) noexcept;
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }
  void close() noexcept;
  int get() const noexcept { return descriptor_; }
  bool valid() const noexcept { return descriptor_ >= 0; }

  // For an owner that cannot name this type: a number by which close_ticket closes it. Nothing happens in a forked
  // child, where the descriptor is closed already and its number may be somebody else's.
  std::uint64_t release_to_ticket() noexcept;
  static void close_ticket(std::uint64_t ticket) noexcept;

 private:
  int descriptor_ = -1;
  std::uint64_t ticket_ = 0;
};

// Held while SQLite runs: fork() waits for it, so that no child starts with one of SQLite's mutexes locked for good.
class SqliteSection {
 public:
  SqliteSection() noexcept;
  ~SqliteSection();
  SqliteSection(const SqliteSection&) = delete;
  SqliteSection& operator=(const SqliteSection&) = delete;

  // Within a section, between two calls of SQLite or from its progress handler, when none of its mutexes is held: lets
  // a fork pass that waits.
  static void let_fork_pass() noexcept;
};

// While one lives no fork() begins: for what a library of others makes at its first use behind a mutex of its own.
// Short, and nothing of quern's within it.
class NoFork {
 public:
  NoFork() noexcept;
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

}  // namespace quern::cache
