// A file that turns out to be damaged: set aside, replaced by a new one that is filled from what can still be read.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cache/database.h"
#include "cache/schema.h"

namespace quern::cache {

using What = Outcome::What;

Outcome Database::survive(const SqlError& error, Access access) {
  // After an error of the system the connection's view of the file is worth nothing; a new one finds the journal and
  // recovers.
  connection_.reset();
  switch (error.code()) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:       // our statements do not fit the tables
    case SQLITE_CONSTRAINT:  // nor do the rows, as index and table disagree
    case SQLITE_MISMATCH:
    case SQLITE_FORMAT:
      // Read without a lock, a file may look torn that is only being written.
      if (place_.lockable) return set_aside(error.what());
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {What::busy, path() + " is locked by another program: " + error.what()};
    default:
      break;
  }
  const std::string text =
      path() + (access == Access::read ? " cannot be read: " : " cannot be written: ") + error.what();
  notices_.add("cache: " + text);
  return {What::failed, text};
}

Outcome Database::set_aside(const std::string& why) {
  damaged_ = file_;
  damage_ = why;
  return unusable();
}

Outcome Database::mend() {
  const std::string why = damage_;
  std::string lost;
  const Identity found = *damaged_;
  Outcome outcome = replace(mend_, &found, &lost);
  // Somebody else may have come first, and has told it then.
  if (outcome.done() && !lost.empty())
    notices_.add_change("cache: " + path() + " was damaged (" + why + "); " + lost +
                        " was lost, and the old file is kept as " + place_.file(kDamagedName));
  return outcome;
}

Outcome Database::rebuild(const Salvager& fill) {
  const std::unique_lock lock(mutex_);
  settle_place(true);
  if (!settled_ || !writable()) return unusable();
  std::string lost;
  return replace(fill, nullptr, &lost);
}

Outcome Database::replace(const Salvager& fill, const Identity* found, std::string* lost) {
  Hold hold(sidecar_);
  const Deadline deadline = deadline_in(options_.busy_timeout);
  if (Outcome locked = lock_sidecar(hold, true, deadline); !locked.done()) return locked;
  const SqliteSection section;
  connection_.reset();
  const std::optional<Identity> before = std::exchange(damaged_, std::nullopt);
  try {
    if (Outcome there = find_file(Access::write); !there.done()) return there;
    if (found != nullptr && *found != file_) return {};
    return rebuild_locked(fill, found != nullptr, lost);
  } catch (const SqlError& error) {
    if (before == file_) damaged_ = before;
    return {What::failed, place_.file(kRebuildName) + " cannot be written: " + error.what()};
  }
}

// By a second name for the same file: under its own name there is one at every moment.
void Database::keep_beside() {
  const std::string kept = place_.file(kDamagedName);
  unlink(kept.c_str());
  unlink((kept + "-journal").c_str());
  if (link(path().c_str(), kept.c_str()) == 0) rename(journal_path().c_str(), (kept + "-journal").c_str());
}

Outcome Database::rebuild_locked(const Salvager& fill, bool keep, std::string* lost) {
  const FileKind kind = inspect_file(path());
  // What was ours until it was found damaged, `keep`, may look like anything.
  if (kind == FileKind::newer || (kind == FileKind::foreign && !keep))
    return open_file(Access::write);  // says why it is left alone
  std::unique_ptr<Connection> old;
  // Twice: the first opening plays a journal back, on which the header depends.
  for (const bool repaired : {false, true}) {
    if (repaired && !repair_header(path())) break;
    if (!repaired && kind != FileKind::ours) continue;
    old.reset();
    try {
      Connection(path(), Connection::Mode::write).number(R"(SELECT count(*) FROM sqlite_schema)");
      old = std::make_unique<Connection>(path(), Connection::Mode::read_unlocked, options_.mac_key);
    } catch (const SqlError&) {
      old.reset();
    }
  }
  const std::string fresh_path = place_.file(kRebuildName);
  unlink(fresh_path.c_str());
  unlink((fresh_path + "-journal").c_str());
  const int descriptor =
      ::open(fresh_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, place_.file_mode);
  if (descriptor < 0) return {What::failed, fresh_path + " cannot be made: " + std::strerror(errno)};
  ::close(descriptor);
  {
    // Nobody else knows of it.
    Connection fresh(fresh_path, Connection::Mode::write_unlocked, options_.mac_key);
    create_schema(fresh);
    *lost = fill(old.get(), fresh);
    if (keep && lost->empty()) *lost = "nothing";
  }
  old.reset();
  if (keep || !lost->empty()) keep_beside();
  // In this order: a journal of the old file beside the new one would be played back into it.
  unlink(journal_path().c_str());
  unlink((fresh_path + "-journal").c_str());
  if (rename(fresh_path.c_str(), path().c_str()) != 0)
    return {What::failed, fresh_path + " cannot take the place of " + path() + ": " + std::strerror(errno)};
  if (const int folder = ::open(place_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder >= 0) {
    fsync(folder);
    ::close(folder);
  }
  if (Outcome found = find_file(Access::write); !found.done()) return found;
  return open_file(Access::write);
}

}  // namespace quern::cache
