// Looking, compiling, storing, and the counting and telling of it.
// SPDX-License-Identifier: Apache-2.0
#include "jit/images.h"

#include <ctime>
#include <utility>

#include "jit/error.h"
#include "jit/failure.h"
#include "jit/key.h"
#include "jit/seal.h"

namespace quern::jit {
namespace {

// So many uses of stored images make a batch worth a write.
constexpr std::size_t kUseBatch = 32;

}  // namespace

std::string Wanted::name() const {
  std::string name = unit.op;
  for (const Constant& constant : unit.constants) name += ' ' + constant.name + '=' + constant.value;
  return name + " for " + unit.target.name() + ", key " + cache::to_hex(key);
}

Outbox::~Outbox() {
  {
    const Listening listening(options_.notice);
    options_.service->store().deliver();
  }
  for (const Event& event : events_) {
    try {
      options_.event(event);
    } catch (...) {
      // A callback's exception is its own affair; what it was told about has happened all the same.
    }
  }
}

void Outbox::note(int kind, const Wanted& wanted, std::string_view text, double milliseconds, int status) noexcept {
  if (!options_.event) return;
  try {
    events_.push_back({kind, wanted.unit.op, wanted.unit.target.name(), cache::to_hex(wanted.key), std::string(text),
                       milliseconds, status});
  } catch (...) {
    // No memory: the counters tell the same.
  }
}

Wanted Images::want(const Spec& spec) const {
  Wanted wanted;
  wanted.unit = options_.describe(spec);
  wanted.plain_text = canonical_text(wanted.unit, used_files(wanted.unit));
  wanted.plain_key = key_of(wanted.plain_text);
  wanted.text = wanted.plain_text;
  // A row of its own: two hosts with different pins would else replace each other's for ever.
  if (!options_.compiler_pin.empty()) wanted.text += "compiler " + options_.compiler_pin + '\n';
  wanted.key = key_of(wanted.text);
  return wanted;
}

bool Images::cached(const Wanted& wanted, cache::Entry* entry) noexcept {
  const std::string& pin = options_.compiler_pin;
  cache::Store& store = options_.service->store();
  if (store.get(wanted.plain_key, wanted.plain_text, pin, entry)) return true;
  return !pin.empty() && store.get(wanted.key, wanted.text, pin, entry);
}

Images::Image Images::obtain(const Wanted& wanted, bool anew, Outbox& outbox) {
  Image image;
  Service& service = *options_.service;
  const Service::Turn turn(service, wanted.key, hurried_);
  const cache::Flight flight = service.store().flight(wanted.key, options_.flight_timeout);
  if (turn.waited() || flight.state() == cache::Flight::State::follower) counters.flight_waits++;
  if (!anew) {
    // The leader of a flight looks again too: another process may have stored it between our look and our flight.
    if (cached(wanted, &image.entry)) {
      image.stored = true;
      return image;
    }
    // Another context of this process may have it, where no file goes between them.
    if (const std::shared_ptr<const cache::Entry> kept = service.kept(wanted.key)) {
      image.entry = *kept;
      // Whatever stood in the way may be gone.
      store(wanted, image);
      return image;
    }
  }
  image.entry = compile(wanted, outbox);
  image.fresh = true;
  store(wanted, image);
  if (!image.stored) service.keep(wanted.key, image.entry);
  return image;
}

void Images::check_pin(const Wanted& wanted, const Compiled& compiled) const {
  const std::string made = compiled.compiler_kind + ' ' + compiled.compiler_build;
  if (options_.compiler_pin.empty() || made == options_.compiler_pin) return;
  throw Error(QUERN_NOT_FOUND, "compiler_pin is \"" + options_.compiler_pin + "\", but the compiler found here for " +
                                   wanted.unit.target.name() + " is \"" + made + "\"; " + wanted.name() +
                                   " is not made with another one");
}

cache::Entry Images::compile(const Wanted& wanted, Outbox& outbox) {
  const CompileJob job{wanted.unit.target,  render(wanted.unit).text,  wanted.unit.entry,
                       wanted.unit.options, wanted.unit.keep_operands, &hurried_};
  Compiled compiled;
  try {
    const Service::Slot slot(*options_.service, hurried_);
    compiled = options_.compile ? options_.compile(job) : options_.service->compilers().compile(job);
    check_pin(wanted, compiled);
  } catch (...) {
    counters.compile_errors++;
    const Failure failure = Failure::caught();
    outbox.note(QUERN_EVENT_FAILED, wanted, failure.text(), 0, failure.status());
    throw;
  }
  counters.compiled++;
  counters.compile_ms.fetch_add(compiled.milliseconds);
  outbox.note(QUERN_EVENT_COMPILED, wanted, "compiled by " + compiled.compiler_kind + ' ' + compiled.compiler_build,
              compiled.milliseconds, QUERN_OK);

  cache::Entry entry;
  entry.text = wanted.text;
  entry.op = wanted.unit.op;
  entry.target = wanted.unit.target.name();
  entry.entry_name = wanted.unit.entry;
  entry.image = std::move(compiled.image);
  seal(&entry.image, wanted.key);
  entry.compiler_kind = std::move(compiled.compiler_kind);
  entry.compiler_build = std::move(compiled.compiler_build);
  entry.log = std::move(compiled.log);
  entry.compile_ms = compiled.milliseconds;
  entry.registers = compiled.registers;
  entry.shared_bytes = compiled.shared_bytes;
  entry.local_bytes = compiled.local_bytes;
  entry.created = static_cast<std::int64_t>(std::time(nullptr));
  return entry;
}

void Images::store(const Wanted& wanted, Image& image, bool patiently) noexcept {
  cache::Store& store = options_.service->store();
  const cache::Put put = patiently ? store.put_patiently(wanted.key, image.entry, &image.why_not, &hurried_)
                                   : store.put(wanted.key, image.entry, &image.why_not);
  image.stored = put == cache::Put::stored;
  image.busy = put == cache::Put::busy;
  if (image.stored) {
    counters.stored++;
    options_.service->forget(wanted.key);
    return;
  }
  if (image.busy && !patiently) return;  // it is about to be tried again
  // Where nothing was meant to be written, nothing has failed.
  const cache::State state = store.state();
  if (state == cache::State::off || state == cache::State::read_only) return;
  counters.store_errors++;
}

void Images::reject(const Wanted& wanted, const cache::Entry& entry, const std::string& reason, Outbox& outbox) {
  counters.rejected++;
  options_.service->store().reject(wanted.key_of_row(entry), reason);
  outbox.note(QUERN_EVENT_REJECTED, wanted, reason, 0, QUERN_UNSUPPORTED);
}

bool Images::note_use(const cache::Key& key) noexcept {
  try {
    std::lock_guard lock(uses_mutex_);
    uses_.push_back(key);
    return uses_.size() % kUseBatch == 0;
  } catch (...) {
    return false;  // no memory: one use goes unnoted
  }
}

void Images::flush_uses() noexcept {
  std::vector<cache::Key> batch;
  {
    std::lock_guard lock(uses_mutex_);
    batch.swap(uses_);
  }
  if (!batch.empty()) options_.service->store().touch(batch);
}

}  // namespace quern::jit
