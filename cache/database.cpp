// The one way to the file: mutex, place, sidecar lock, file, connection, work.
// SPDX-License-Identifier: Apache-2.0
#include "cache/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "cache/schema.h"

namespace quern::cache {
namespace {

using What = Outcome::What;

// After an attempt to mend a file that has failed (no room on the disk, most likely).
constexpr std::chrono::seconds kMendPause{10};

// For so long a writer may leave no trace in the file or its journal.
constexpr std::chrono::milliseconds kStandstill{20};
constexpr std::chrono::milliseconds kShortestPause{1'000}, kLongestPause{60'000};

// What changes whenever somebody writes.
struct Trace {
  std::int64_t seconds[2], nanoseconds[2], sizes[2];
  friend bool operator==(const Trace&, const Trace&) = default;
};
Trace trace_of(const std::string& file, const std::string& journal) {
  Trace trace{};
  for (int i = 0; i < 2; ++i) {
    struct stat status;
    if (lstat((i == 0 ? file : journal).c_str(), &status) != 0) continue;
    trace.seconds[i] = status.st_mtim.tv_sec;
    trace.nanoseconds[i] = status.st_mtim.tv_nsec;
    trace.sizes[i] = status.st_size + 1;
  }
  return trace;
}

std::uint64_t file_size(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && status.st_size > 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

Database::~Database() {
  // Without the sidecar lock: no transaction is open, so that closing does not touch the file.
  const SqliteSection section;
  connection_.reset();
}

std::string Database::path() const { return place_.file(kFileName); }
std::string Database::journal_path() const { return path() + "-journal"; }
// While nobody writes, a journal with something in it is what a writer that died has left.
bool Database::hot_journal() const { return file_size(journal_path()) != 0; }

void Database::set_state(State state, const std::string& reason) {
  if (state_ == state && reason_ == reason) return;
  const bool mended = state == State::ready && (state_ == State::damaged || state_ == State::refused);
  state_ = state;
  reason_ = reason;
  if (mended) notices_.add_change("the cache " + path() + " is in use again");
  if (!reason.empty() && !options_.no_file) notices_.add_change("cache: " + reason);
}

bool Database::settle_place(bool make) {
  if (settled_) return state_ != State::off && state_ != State::refused;
  place_ = make ? make_place(options_) : find_place(options_);
  const Judgement& judgement = place_.judgement;
  switch (judgement.standing) {
    case Standing::writable:
      unmakable_ = false;
      set_state(State::ready, "");
      return settled_ = true;
    case Standing::readable:
      set_state(State::read_only, judgement.reason);
      return settled_ = true;
    case Standing::absent:
      // That it could not be made is better known than that it looks as if it could.
      if (unmakable_) return false;
      set_state(State::ready, "");
      return true;
    case Standing::off:
      unmakable_ = make;
      set_state(State::off, judgement.reason);
      return false;
    case Standing::refused:
      set_state(State::refused, judgement.reason);
      return false;
  }
  return false;
}

Outcome Database::run(Access access, std::chrono::milliseconds patience, const Work& work) {
  const Deadline deadline = deadline_in(patience);
  const std::unique_lock lock(mutex_, deadline);
  if (!lock.owns_lock()) return {What::busy, "the cache was in use by other threads for too long"};
  return run_locked(access, deadline, work);
}

Outcome Database::run_locked(Access access, Deadline deadline, const Work& work) {
  Outcome outcome = attempt(access, deadline, work);
  if (outcome.what != What::unusable || !damaged_) return outcome;
  // Whoever finds the damage mends it: left to a person, it would cost every process all of its compilations until
  // then.
  if (mend_ && writable() && place_.lockable && std::chrono::steady_clock::now() >= mend_again_) {
    if (mend().done()) return attempt(access, deadline, work);
    mend_again_ = std::chrono::steady_clock::now() + kMendPause;
  }
  if (damaged_)
    set_state(State::damaged,
              path() + " is damaged (" + damage_ + "); it is set aside, and kernels are kept in memory only");
  return unusable();
}

Outcome Database::attempt(Access access, Deadline deadline, const Work& work) {
  if (!settle_place(access == Access::write)) {
    // A file that is refused may have been replaced by a better one: its folder stays settled, and it is looked at
    // again.
    if (!settled_ || state_ == State::off) return unusable();
  }
  if (access == Access::write && !writable()) return unusable();
  bool exclusive = access == Access::write;
  for (;;) {
    struct stat status;
    if (access == Access::read && lstat(path().c_str(), &status) != 0 && errno == ENOENT) {
      const SqliteSection section;
      connection_.reset();
      return {What::absent, path() + " is not there"};
    }
    Hold hold(sidecar_);
    if (Outcome locked = lock_sidecar(hold, exclusive, deadline); !locked.done()) return locked;
    const SqliteSection section;
    if (!exclusive && writable() && hot_journal()) {
      // Rolling it back writes to the file, which a shared lock does not allow.
      exclusive = true;
      continue;
    }
    try {
      if (Outcome found = find_file(access); !found.done()) return found;
      if (Outcome opened = open_file(access); !opened.done()) return opened;
      work(*connection_);
      return {};
    } catch (const SqlError& error) {
      return survive(error, access);
    }
  }
}

// A writer at work changes the file or its journal every few milliseconds. One that was stopped (by a debugger, a
// cgroup, a machine that sleeps) does not, and may have the lock for hours: that must not cost every call its patience.
Locked Database::wait_for_sidecar(bool exclusive, Deadline deadline) {
  const auto acquire = [&](Deadline until) {
    return sidecar_.acquire(place_.file(kSidecarName), exclusive, writable(), place_.file_mode, until);
  };
  if (manner_ == Manner::patient) return acquire(deadline);
  const auto begin = std::chrono::steady_clock::now();
  Locked got = acquire(begin < shut_until_ ? begin : std::min(deadline, begin + kStandstill));
  Trace before{};
  while (got == Locked::busy && begin >= shut_until_) {
    const auto now = std::chrono::steady_clock::now();
    const Trace trace = trace_of(path(), journal_path());
    if (now >= deadline || trace == before) break;
    before = trace;
    got = acquire(std::min(deadline, now + kStandstill));
  }
  if (got != Locked::busy) {
    shut_until_ = {};
    shut_for_ = {};
  } else if (begin >= shut_until_) {
    shut_for_ = std::clamp(2 * shut_for_, kShortestPause, kLongestPause);
    shut_until_ = std::chrono::steady_clock::now() + shut_for_;
  }
  return got;
}

Outcome Database::lock_sidecar(Hold& hold, bool exclusive, Deadline deadline) {
  if (!place_.lockable) return {};
  const auto begin = std::chrono::steady_clock::now();
  Locked got = wait_for_sidecar(exclusive, deadline);
  if (got == Locked::failed && errno == ENOENT && exclusive) {
    // The folder went away since it was settled.
    settled_ = false;
    if (!settle_place(true) || !writable()) return unusable();
    got = wait_for_sidecar(exclusive, deadline);
  }
  switch (got) {
    case Locked::held:
    case Locked::waited:
      hold.held = true;
      return {};
    case Locked::busy: {
      const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - begin;
      const std::string text =
          path() + " was in use by other processes for " + std::to_string(std::llround(waited.count())) + " ms";
      notices_.add("cache: " + text);
      return {What::busy, text};
    }
    case Locked::failed:
      break;
  }
  // What cannot be written here is read all the same: a writer elsewhere at worst makes a checksum fail.
  if (!writable()) return {};
  const std::string text = place_.file(kSidecarName) + " cannot be locked: " + std::strerror(errno);
  notices_.add("cache: " + text);
  return {What::failed, text};
}

Outcome Database::find_file(Access access) {
  struct stat status;
  const std::string file = path();
  if (lstat(file.c_str(), &status) != 0) {
    connection_.reset();
    if (errno != ENOENT) return {What::failed, file + ": " + std::strerror(errno)};
    if (access == Access::read) return {What::absent, file + " is not there"};
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, place_.file_mode);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
      const std::string text = file + " cannot be made: " + std::strerror(errno);
      if (descriptor >= 0) ::close(descriptor);
      notices_.add("cache: " + text);
      return {What::failed, text};
    }
    ::close(descriptor);
  }
  const Judgement judgement = judge_file(file, status, geteuid(), options_.shared_folder);
  if (judgement.standing == Standing::refused) {
    connection_.reset();
    set_state(State::refused, judgement.reason);
    return unusable();
  }
  const Identity identity{status.st_dev, status.st_ino};
  if (connection_ != nullptr && identity != file_) connection_.reset();
  if (damaged_ == identity) return unusable();
  damaged_.reset();
  file_ = identity;
  return {};
}

Outcome Database::open_file(Access access) {
  using Mode = Connection::Mode;
  // What people ask for may read for long.
  const bool long_read = access == Access::read && manner_ == Manner::patient;
  const Mode mode = !place_.lockable || long_read ? Mode::read_unlocked : writable() ? Mode::write : Mode::read;
  if (connection_ != nullptr && connection_->mode() != mode) connection_.reset();
  if (connection_ != nullptr) return {};
  std::unique_ptr<Connection> connection;
  const auto open = [&] { connection = std::make_unique<Connection>(path(), mode, options_.mac_key); };
  const bool rolls_back = writable() && hot_journal();
  const FileKind before = rolls_back ? inspect_file(path()) : FileKind::foreign;
  if (rolls_back) {
    // Only after the roll-back does the header say what the file is.
    Connection(path(), Mode::write).number(R"(PRAGMA user_version)");
  }
  const FileKind kind = inspect_file(path());
  // What was ours was not made another's by its own journal: that brought back what was damaged.
  if (kind == FileKind::foreign && before != FileKind::foreign && before != FileKind::unreadable)
    return set_aside("what its journal brought back is not whole");
  switch (kind) {
    case FileKind::ours:
      if (connection == nullptr) open();
      break;
    case FileKind::empty:
      if (access == Access::read) return {What::absent, path() + " is empty"};
      if (connection == nullptr) open();
      create_schema(*connection);
      break;
    case FileKind::newer:
      set_state(State::refused, path() + " was written by a newer version; it is left alone");
      return unusable();
    case FileKind::foreign:
      set_state(State::refused, path() + " is not a cache of quern; it is left alone, remove it to have one there");
      return unusable();
    case FileKind::damaged:
      return set_aside("its header is not whole");
    case FileKind::unreadable: {
      const std::string text = path() + " cannot be read: " + std::strerror(errno);
      notices_.add("cache: " + text);
      return {What::failed, text};
    }
  }
  connection_ = std::move(connection);
  set_state(writable() ? State::ready : State::read_only, place_.judgement.reason);
  return {};
}

Database::Status Database::status() {
  const std::unique_lock lock(mutex_);
  settle_place(false);
  return {state_, reason_, place_.folder.empty() ? "" : path()};
}

std::string Database::lock_folder(mode_t* file_mode) {
  const std::unique_lock lock(mutex_, deadline_in(std::chrono::milliseconds{100}));
  if (!lock.owns_lock()) return "";
  settle_place(true);
  // Whatever has become of the file: it is the folder that counts.
  if (!settled_ || !writable()) return "";
  *file_mode = place_.file_mode;
  return place_.folder;
}

Database::Size Database::size() {
  const std::unique_lock lock(mutex_);
  settle_place(false);
  if (place_.folder.empty()) return {};
  return {file_size(path()), file_size(journal_path())};
}

}  // namespace quern::cache
