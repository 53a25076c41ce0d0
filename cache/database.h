// The cache file as a whole: found, locked, opened, replaced by a new one when damaged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/connection.h"
#include "cache/file_lock.h"
#include "cache/notices.h"
#include "cache/place.h"
#include "cache/store.h"
#include "cache/timed_mutex.h"

namespace quern::cache {

enum class Access : std::uint8_t { read, write };

// What became of one piece of work on the file.
struct Outcome {
  enum class What : std::uint8_t {
    done,
    absent,    // no file, and the work was reading
    busy,      // others had it up to the deadline
    unusable,  // off, refused, damaged, or to be written where it is read only: see status()
    failed     // an error of the system or of SQLite; the file may be used again
  } what = What::done;
  std::string text;
  bool done() const { return what == What::done; }
};

// Opened by the first work that needs it, and opened again whenever the file behind the path has become another one.
class Database {
 public:
  using Work = std::function<void(Connection&)>;
  // Fills a new file from what can still be read of the old one (null: nothing can), and says in words how much that
  // was; empty where nothing was lost.
  using Salvager = std::function<std::string(Connection* old, Connection& fresh)>;

  // Both outlive the database. `mend`: what a damaged file's successor is filled by, when the file is found damaged
  // by run(); without it such a file is only told of.
  enum class Manner : std::uint8_t {
    hurried,  // nobody waits for a lock whose holder stands still: calls of an engine
    patient   // whatever the patience is, it is waited for: calls of people
  };
  Database(const StoreOptions& options, Notices& notices, Manner manner, Salvager mend = nullptr)
      : options_(options), notices_(notices), manner_(manner), mend_(std::move(mend)) {}
  ~Database();

  // Runs `work` on the file, under the sidecar lock and alone in this process. What `work` throws besides SqlError
  // passes through; a transaction that it left open is rolled back. It is run a second time where the file turned out
  // to be damaged and has been replaced.
  Outcome run(Access access, const Work& work) { return run(access, options_.busy_timeout, work); }
  Outcome run(Access access, std::chrono::milliseconds patience, const Work& work);

  // Puts a new file in the place of the old one, others being locked out meanwhile. The old file stays until the new
  // one is whole, and beside it (kDamagedName) where something of it was lost.
  Outcome rebuild(const Salvager& fill);

  struct Status {
    State state;
    std::string reason, path;
  };
  Status status();
  // The folder in which a file may be locked, made if need be; empty where there is none.
  std::string lock_folder(mode_t* file_mode);

  struct Size {
    std::uint64_t file = 0, journal = 0;
  };
  Size size();

 private:
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  class Hold;

  bool settle_place(bool make);
  void set_state(State state, const std::string& reason);
  bool writable() const { return place_.judgement.standing == Standing::writable; }
  std::string path() const;
  std::string journal_path() const;
  bool hot_journal() const;
  Outcome run_locked(Access access, Deadline deadline, const Work& work);
  Outcome attempt(Access access, Deadline deadline, const Work& work);
  Outcome mend();
  // `found`: only where the file is still that one.
  Outcome replace(const Salvager& fill, const Identity* found, std::string* lost);
  Outcome rebuild_locked(const Salvager& fill, bool keep, std::string* lost);
  void keep_beside();
  Outcome lock_sidecar(Hold& hold, bool exclusive, Deadline deadline);
  Locked wait_for_sidecar(bool exclusive, Deadline deadline);
  // Whether there is a file to open; makes an empty one to write into.
  Outcome find_file(Access access);
  Outcome open_file(Access access);
  Outcome survive(const SqlError& error, Access access);
  Outcome set_aside(const std::string& why);
  Outcome unusable() const { return {Outcome::What::unusable, reason_}; }

  const StoreOptions& options_;
  Notices& notices_;
  TimedMutex mutex_;
  bool settled_ = false;
  bool unmakable_ = false;  // the folder is not there, and making it has failed
  Place place_;
  State state_ = State::off;
  std::string reason_;
  Sidecar sidecar_;
  std::unique_ptr<Connection> connection_;
  Identity file_;                    // what connection_ has open
  std::optional<Identity> damaged_;  // what is set aside, and why
  std::string damage_;
  const Manner manner_;
  const Salvager mend_;
  // While somebody who stands still has the lock, one try is all that a call makes; for longer each time that this has
  // come to nothing, and until the lock is had again.
  Deadline shut_until_{};
  std::chrono::milliseconds shut_for_{0};
  Deadline mend_again_{};  // not before: what could not be mended is not tried at every call
};

// The sidecar lock for as long as the object lives.
class Database::Hold {
 public:
  explicit Hold(Sidecar& sidecar) : sidecar_(sidecar) {}
  ~Hold() {
    if (held) sidecar_.release();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  bool held = false;

 private:
  Sidecar& sidecar_;
};

}  // namespace quern::cache
