// The calls that the engine makes: whatever goes wrong in them is a miss, or "not stored".
// SPDX-License-Identifier: Apache-2.0
#include "cache/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <thread>
#include <tuple>
#include <utility>

#include "cache/eviction.h"
#include "cache/rebuild.h"
#include "cache/store_impl.h"

namespace quern::cache {
namespace {

// Noting use is a courtesy: nobody waits long for it.
constexpr std::chrono::milliseconds kTouchPatience{50};
// Between two tries of who wants it written.
constexpr std::chrono::milliseconds kRetryPause{10};

std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  // The caller may change its working directory; the place of its cache must not move with it.
  char here[4096];
  return getcwd(here, sizeof here) != nullptr ? std::string(here) + "/" + path : path;
}

StoreOptions absolute(StoreOptions options) {
  options.folder = absolute(options.folder);
  // The file has no signature: nothing of it is read, nor is there a use in writing it.
  if (options.signed_only) options.no_file = true;
  for (std::string& bundle : options.bundles) bundle = absolute(bundle);
  return options;
}

// Runs `work`, and turns whatever it throws into `fault`.
template <typename Result, typename Impl, typename Work>
Result survive(Impl* impl, Result fault, Work&& work) noexcept {
  if (impl == nullptr || impl->forked()) return fault;
  try {
    return work();
  } catch (...) {
    // Memory ran out, most likely. One compilation, or one kernel that is not stored, is the whole price.
    return fault;
  }
}

void report_row(Notices& notices, const std::string& where, const Key& key, Found found) {
  if (found == Found::damaged)
    notices.add("cache: entry " + to_hex(key) + " in " + where + " does not verify; it counts as absent");
  if (found == Found::other_text)
    notices.add("cache: entry " + to_hex(key) + " in " + where +
                " has another text than its key says; it counts as absent");
}

}  // namespace

bool StoreOptions::same_but_notice(const StoreOptions& other) const {
  const auto all = [](const StoreOptions& o) {
    return std::tie(o.folder, o.bundles, o.limit_bytes, o.no_file, o.read_only, o.shared_folder, o.trusted_keys,
                    o.signed_only, o.mac_key, o.busy_timeout);
  };
  return all(*this) == all(other);
}

std::vector<FileIdentity> identities(const std::vector<std::string>& paths) {
  std::vector<FileIdentity> all;
  for (const std::string& path : paths) {
    struct stat found{};
    FileIdentity identity;
    if (stat(path.c_str(), &found) == 0)
      identity = {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
    all.push_back(identity);
  }
  return all;
}

std::int64_t today() { return std::time(nullptr) / 86'400; }

Entry normalised(const Entry& entry) {
  Entry result = entry;
  if (result.created == 0) result.created = std::time(nullptr);
  // SQLite keeps no NaN and no negative zero.
  result.compile_ms = std::isfinite(result.compile_ms) ? result.compile_ms + 0.0 : 0.0;
  return result;
}

// Mending must not hold up a host's call for long: what is not copied by then is in the file that is kept beside.
std::string mend_in_call(Connection* old, Connection& fresh) {
  constexpr std::chrono::milliseconds kPatience{300};
  return told(salvage_rows(old, fresh, deadline_in(kPatience)), old != nullptr);
}

Store::Impl::Impl(StoreOptions given)
    : options(absolute(std::move(given))),
      process(getpid()),
      notices(options.notice),
      database(options, notices, Database::Manner::hurried, mend_in_call),
      admin(options, notices, Database::Manner::patient),
      layers(options.bundles, trust_of(options), notices) {}

Bundle::Trust trust_of(const StoreOptions& options) { return {options.trusted_keys, options.shared_folder}; }

bool Store::Impl::forked() const noexcept { return process != getpid(); }

bool Store::Impl::hidden(const Key& key, bool in_file) {
  const std::lock_guard lock(mutex);
  return (in_file ? rejected_in_file : rejected).contains(key);
}

Store::Store(StoreOptions options) noexcept {
  try {
    impl_ = std::make_unique<Impl>(std::move(options));
  } catch (...) {
    // Without memory for it every call is a miss.
  }
}

Store::~Store() {
  // A forked child abandons what its parent has open: closing would be a step in the parent's dance with the file.
  if (impl_ != nullptr && impl_->forked()) static_cast<void>(impl_.release());
}

void Store::open() noexcept {
  survive(impl_.get(), false, [&] {
    impl_->database.run(Access::read, [](Connection&) {});
    if (!impl_->options.bundles.empty()) impl_->layers.open();
    return true;
  });
}

bool Store::get(const Key& key, std::string_view text, std::string_view pin, Entry* entry) noexcept {
  return survive(impl_.get(), false, [&] {
    if (!impl_->hidden(key, true)) {
      Found found = Found::absent;
      impl_->database.run(Access::read,
                          [&](Connection& connection) { found = find_entry(connection, key, text, pin, entry); });
      if (found == Found::yes) return true;
      report_row(impl_->notices, "the file", key, found);
    }
    if (impl_->options.bundles.empty() || impl_->hidden(key, false)) return false;
    for (const auto& bundle : impl_->layers.open()) {
      if (bundle == nullptr) continue;
      try {
        const Found found = bundle->find(key, text, pin, entry);
        if (found == Found::yes) return true;
        report_row(impl_->notices, bundle->path(), key, found);
      } catch (const BundleError& error) {
        impl_->notices.add(error.what());
      }
    }
    return false;
  });
}

Put Store::put(const Key& key, const Entry& entry, std::string* why_not) noexcept {
  return survive(impl_.get(), Put::not_stored, [&] {
    const Entry stored = normalised(entry);
    const std::uint64_t needed = footprint(stored);
    bool fits = needed <= kLongestRow;
    const Outcome outcome = impl_->database.run(Access::write, [&](Connection& connection) {
      fits = fits && make_room(connection, impl_->options.limit_bytes, needed);
      if (!fits) return;
      Transaction transaction(connection);
      insert_entry(connection, key, stored, today());
      transaction.commit();
    });
    std::string reason = outcome.text;
    if (!fits) {
      reason = "an entry of " + std::to_string(stored.image.size()) + " bytes does not fit the limit of " +
               std::to_string(impl_->options.limit_bytes) + " bytes";
      impl_->notices.add("cache: " + reason + "; it is not stored");
    }
    if (!outcome.done() || !fits) {
      if (why_not != nullptr) *why_not = std::move(reason);
      return outcome.what == Outcome::What::busy ? Put::busy : Put::not_stored;
    }
    const std::lock_guard lock(impl_->mutex);
    impl_->rejected_in_file.erase(key);
    return Put::stored;
  });
}

Put Store::put_patiently(const Key& key, const Entry& entry, std::string* why_not,
                         const std::atomic<bool>* give_up) noexcept {
  const auto begin = std::chrono::steady_clock::now();
  Put put;
  for (;;) {
    put = this->put(key, entry, why_not);
    if (put != Put::busy || std::chrono::steady_clock::now() - begin >= kWritingPatience) return put;
    if (give_up != nullptr && *give_up) return put;
    std::this_thread::sleep_for(kRetryPause);
  }
}

void Store::deliver() noexcept {
  if (impl_ != nullptr && !impl_->forked()) impl_->notices.deliver();
}

State Store::state() noexcept {
  return survive(impl_.get(), State::off, [&] { return impl_->database.status().state; });
}

std::string Store::trouble() noexcept {
  return survive(impl_.get(), std::string(), [&] {
    Database::Status status = impl_->database.status();
    return status.state == State::ready ? std::string() : std::move(status.reason);
  });
}

void Store::reject(const Key& key, std::string_view reason) noexcept {
  survive(impl_.get(), false, [&] {
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->rejected.insert(key);
      impl_->rejected_in_file.insert(key);
    }
    impl_->notices.add("cache: the image of " + to_hex(key) +
                       " was refused and will be made anew: " + std::string(reason));
    // Looked up first: where there is nothing to remove, no file is to be made.
    bool there = false;
    impl_->database.run(Access::read, [&](Connection& connection) { there = has_entry(connection, key); });
    if (!there) return false;
    const auto remove = [&](Connection& connection) {
      Transaction transaction(connection);
      remove_entry(connection, key);
      transaction.commit();
    };
    return impl_->database.run(Access::write, remove).done();
  });
}

void Store::touch(std::span<const Key> keys) noexcept {
  survive(impl_.get(), false, [&] {
    const std::int64_t day = today();
    std::vector<Key> fresh;
    {
      const std::lock_guard lock(impl_->mutex);
      if (impl_->touched_day != day) impl_->touched.clear();
      impl_->touched_day = day;
      for (const Key& key : keys)
        if (!impl_->touched.contains(key)) fresh.push_back(key);
    }
    if (fresh.empty()) return false;
    // Looked up first, so that of many short-lived processes a day only one writes.
    std::vector<Key> stale;
    Outcome outcome = impl_->database.run(Access::read, kTouchPatience,
                                          [&](Connection& connection) { stale = stale_uses(connection, fresh, day); });
    if (outcome.done() && !stale.empty())
      outcome = impl_->database.run(Access::write, kTouchPatience, [&](Connection& connection) {
        Transaction transaction(connection);
        touch_rows(connection, stale, day);
        transaction.commit();
      });
    // Where nothing can be written, trying again today is no use either.
    if (!outcome.done() && outcome.what != Outcome::What::unusable) return false;
    const std::lock_guard lock(impl_->mutex);
    impl_->touched.insert(fresh.begin(), fresh.end());
    return true;
  });
}

}  // namespace quern::cache
