// From a Spec to a binary image: out of the store where it is there, else compiled and stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store.h"
#include "jit/compiler.h"
#include "jit/engine.h"
#include "jit/spec.h"
#include "jit/unit.h"

namespace quern::jit {

// Everything that follows from a Spec without compiling.
struct Wanted {
  Unit unit;
  std::string text;  // canonical; with the pinned compiler, where one is
  cache::Key key;
  // The same without the pin: what anybody's compiler has made may be the pinned one's too.
  std::string plain_text;
  cache::Key plain_key;

  // Of the row that an entry stands in.
  const cache::Key& key_of_row(const cache::Entry& entry) const { return entry.text == text ? key : plain_key; }

  // "attention HEAD_DIM=128 PAGE=16 for sm_90a, key 0123...": how messages name it.
  std::string name() const;
};

// What happened, gathered while flights are open and locks held, and told once they are not, together with what the
// store has to tell: a callback may call us again. One for each call that comes from outside.
class Outbox {
 public:
  // `options` outlives this object.
  explicit Outbox(const EngineOptions& options) : options_(options) {}
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  // Never fails: an event is worth less than the kernel it speaks of.
  void note(int kind, const Wanted& wanted, std::string_view text, double milliseconds, int status) noexcept;

 private:
  const EngineOptions& options_;
  std::vector<Event> events_;
};

struct ImageCounters {
  std::atomic<std::uint64_t> hits{0}, misses{0}, compiled{0}, compile_errors{0}, rejected{0}, stored{0},
      store_errors{0}, flight_waits{0};
  std::atomic<double> compile_ms{0};
};

class Images {
 public:
  struct Image {
    cache::Entry entry;
    bool fresh = false;   // compiled just now, rather than taken from the store
    bool stored = false;  // is in the store, now or before
    bool busy = false;    // is not, since others had its file for too long
    std::string why_not;  // where the store says so
  };

  // `options` outlives this object.
  explicit Images(const EngineOptions& options) : options_(options) {}

  // Throws what describe() and used_files() throw.
  Wanted want(const Spec& spec) const;
  bool cached(const Wanted& wanted, cache::Entry* entry) noexcept;
  // In this process's turn and under the machine's single flight: looks again unless `anew`, then compiles and stores.
  // Throws what the compiler throws.
  Image obtain(const Wanted& wanted, bool anew, Outbox& outbox);
  // Stores what was compiled. Where others had the file for too long the image is `busy` then, and may be stored once
  // more, with patience, by a thread that nobody waits for.
  void store(const Wanted& wanted, Image& image, bool patiently = false) noexcept;
  // Patience ends, with stores and with compilers.
  void hurry() noexcept {
    hurried_ = true;
    options_.service->wake();
  }
  // The driver refused a stored image.
  void reject(const Wanted& wanted, const cache::Entry& entry, const std::string& reason, Outbox& outbox);

  // Why the store does not take anything, for messages.
  std::string store_reason() const { return options_.service->store().stats().reason; }

  // Notes the use of a stored image; written in batches by flush_uses(), for which `true` says that it is time.
  bool note_use(const cache::Key& key) noexcept;
  void flush_uses() noexcept;

  ImageCounters counters;

 private:
  cache::Entry compile(const Wanted& wanted, Outbox& outbox);
  void check_pin(const Wanted& wanted, const Compiled& compiled) const;

  const EngineOptions& options_;
  std::atomic<bool> hurried_{false};
  std::mutex uses_mutex_;
  std::vector<cache::Key> uses_;
};

}  // namespace quern::jit
