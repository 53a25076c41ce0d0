// Bytes by key. Knows no kernel: op, target, entry and compiler are text to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/signature.h"

namespace quern::cache {

// An XXH3-128, written as 32 hexadecimal digits, high first.
struct Key {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Key&, const Key&) = default;
};
std::string to_hex(const Key& key);

enum class Kind : std::uint8_t { image = 1, tuning = 2 };

struct Entry {
  Kind kind = Kind::image;
  std::string text;  // the canonical text, compared on every hit
  std::string op;
  std::string target;
  std::string entry_name;
  std::string image;
  std::string compiler_kind;
  std::string compiler_build;
  std::string log;
  double compile_ms = 0;
  std::int32_t registers = -1;
  std::int32_t shared_bytes = -1;
  std::int32_t local_bytes = -1;
  std::int64_t created = 0;  // seconds since 1970; 0 in bundles
};

enum class State : std::uint8_t { ready, read_only, off, damaged, refused };

struct StoreOptions {
  std::string folder;  // empty: $XDG_CACHE_HOME/quern, else $HOME/.cache/quern
  std::vector<std::string> bundles;
  std::uint64_t limit_bytes = std::uint64_t{1} << 30;  // file and journal together
  bool no_file = false;                                // bundles only
  bool read_only = false;
  bool shared_folder = false;           // accept a folder, and bundles, that others own or can write
  std::vector<PublicKey> trusted_keys;  // where there are any, a bundle must be signed by one of them
  bool signed_only = false;             // and nothing else is consulted: implies no_file
  // Where it is given, the file's rows are sealed by MACs under it: others count as damaged, one by one.
  std::optional<std::array<unsigned char, 32>> mac_key;
  std::chrono::milliseconds busy_timeout{2'000};
  // Told once for each change of state and each fault survived. What the engine's calls have to tell waits until
  // deliver(): they are made where others wait for the caller, and a notice may do anything. Administration tells at
  // its end.
  std::function<void(std::string_view)> notice;

  // All but `notice` alike: one Store can stand for both.
  bool same_but_notice(const StoreOptions& other) const;
};

enum class Put : std::uint8_t {
  stored,
  not_stored,
  busy  // others had the file for longer than busy_timeout: it may be tried again
};

// How long one tries who wants nothing but that it is written (warming, tuning): a call must not wait for that.
inline constexpr std::chrono::seconds kWritingPatience{30};

// One compilation of a key at a time, on this machine. Holding one is a right to compile, not a duty; it ends with the
// object.
class Flight {
 public:
  enum class State : std::uint8_t {
    leader,    // nobody else compiles this key: compile, put, then let go
    follower,  // somebody else did and has let go meanwhile: look again before compiling
    alone      // no lock could be had (deadline, no writable place): compile for oneself
  };
  Flight() = default;
  Flight(Flight&& other) noexcept;
  Flight& operator=(Flight&& other) noexcept;
  ~Flight();
  State state() const noexcept { return state_; }

 private:
  friend class Store;
  State state_ = State::alone;
  std::uint64_t ticket_ = 0;  // of the lock file's descriptor; worth nothing in a forked child
};

// One row without its image, for administration.
struct Listed {
  Key key;
  Entry entry;  // image empty
  std::uint64_t image_size = 0;
  std::uint64_t last_use = 0;
  int layer = 0;  // 0: the file; 1 and up: the bundles
};
struct Finding {
  bool ok = true;
  std::string what, text, hint;
};
struct TrimOptions {
  std::uint64_t limit_bytes = 0;  // 0: the store's
  bool rebuild = false;
  bool all = false;
};
struct TrimResult {
  std::uint64_t removed = 0, kept = 0, bytes_before = 0, bytes_after = 0;
};
struct StoreStats {
  State state = State::off;
  std::string reason, path;
  std::uint64_t entries = 0, images = 0, image_bytes = 0, file_bytes = 0, limit = 0, bundles = 0, bundle_entries = 0;
};
// An administration call that could not be done. `damaged`: something does not verify.
struct AdminError {
  enum class What : std::uint8_t { none, not_found, io, damaged, refused } what = What::none;
  std::string text;
};

// Which file each of these is: another one under the same path, or one that was written to, is another. One that is not
// there has an identity, too.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = -1, seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
std::vector<FileIdentity> identities(const std::vector<std::string>& paths);

class Store {
 public:
  // Never fails: what cannot be used shows in stats().state, and everything is then a miss.
  explicit Store(StoreOptions options) noexcept;
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Opens the file and the bundles now, where they are there, rather than at the first look-up.
  void open() noexcept;

  // ---- what the engine calls. None throws; any fault is a miss or "not stored". Thread-safe.

  // True, and *entry filled, when an entry with this key and exactly this text is in the file or a bundle, its checksum
  // (computed over the very bytes handed out) is right and, where `pin` is not empty, "kind build" of its compiler
  // equals it.
  bool get(const Key& key, std::string_view text, std::string_view pin, Entry* entry) noexcept;
  // `why_not` is what it came to where it is not stored.
  Put put(const Key& key, const Entry& entry, std::string* why_not = nullptr) noexcept;
  // The same, again and again for kWritingPatience where others have the file. Not for a thread that somebody waits
  // for. `give_up`, where given, ends the trying.
  Put put_patiently(const Key& key, const Entry& entry, std::string* why_not = nullptr,
                    const std::atomic<bool>* give_up = nullptr) noexcept;
  // The image under this key was no good (wrong arch, the driver refused it): it is removed from the file, and no layer
  // gives it out again in this process.
  void reject(const Key& key, std::string_view reason) noexcept;
  // Notes use, in a batch, at most once a day a row. Never on the way to a launch.
  void touch(std::span<const Key> keys) noexcept;
  Flight flight(const Key& key, std::chrono::milliseconds deadline) noexcept;
  // Tells what there is to tell. To be called with no lock held and no flight open.
  void deliver() noexcept;
  // How the file is as far as is known, without looking into it; and why it is not ready, "" where it is.
  State state() noexcept;
  std::string trouble() noexcept;

  // ---- administration. Thread-safe, does not throw but bad_alloc.
  StoreStats stats();
  std::vector<Listed> list(AdminError* error);
  AdminError inspect(const Key& key, Listed* listed);  // with image
  // Keys that begin with these hexadecimal digits (1 to 32), in whatever layers, each once, in order; at most so many.
  std::vector<Key> keys_beginning(std::string_view digits, std::size_t most, AdminError* error);
  std::vector<Finding> verify(AdminError* error);
  AdminError trim(const TrimOptions& options, TrimResult* result);
  AdminError export_bundle(const std::string& path, const std::function<bool(const Listed&)>& select,
                           std::uint64_t* count);
  AdminError import_bundle(const std::string& path, std::uint64_t* count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::cache
