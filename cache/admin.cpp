// The calls that people make, through the command line or otherwise: faults are told, not survived.
// SPDX-License-Identifier: Apache-2.0
#include "cache/admin.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "cache/eviction.h"
#include "cache/rebuild.h"

namespace quern::cache {
namespace {

using What = AdminError::What;
Listed listed(Row&& row, int layer) { return {row.key, std::move(row.entry), row.image_size, row.last_use, layer}; }

}  // namespace

StoreStats Store::stats() {
  StoreStats stats;
  if (!alive(impl_.get())) {
    stats.reason = not_alive(impl_.get()).text;
    return stats;
  }
  const Teller teller(impl_->notices);
  Database& admin = impl_->admin;
  admin.run(Access::read, [&](Connection& connection) {
    const Totals totals = count_rows(connection);
    stats.entries = totals.entries;
    stats.images = totals.images;
    stats.image_bytes = totals.image_bytes;
  });
  Database::Status status = admin.status();
  // That a folder could not be made is known only to who has tried.
  if (Database::Status other = impl_->database.status(); status.state == State::ready && other.state == State::off)
    status = std::move(other);
  stats.state = status.state;
  stats.reason = std::move(status.reason);
  stats.path = std::move(status.path);
  const Database::Size size = admin.size();
  stats.file_bytes = size.file + size.journal;
  stats.limit = impl_->options.limit_bytes;
  for (const auto& bundle : impl_->layers.open()) {
    if (bundle == nullptr) continue;
    ++stats.bundles;
    stats.bundle_entries += bundle->slots().size();
  }
  return stats;
}

Outcome list_in_batches(Database& database, const std::function<void(Row&&)>& visit) {
  Outcome outcome;
  std::vector<Row> batch;
  std::int64_t after = std::numeric_limits<std::int64_t>::min();
  do {
    batch.clear();
    std::int64_t last = after;
    outcome = database.run(Access::read, [&](Connection& connection) {
      batch.clear();
      last = list_rows(connection, after, kBatch, [&](Row& row) { batch.push_back(std::move(row)); });
    });
    after = last;
    for (Row& row : batch) visit(std::move(row));
  } while (outcome.done() && batch.size() == kBatch);
  return outcome;
}

std::vector<Listed> Store::list(AdminError* error) {
  std::vector<Listed> entries;
  set_error(error, not_alive(impl_.get()));
  if (!alive(impl_.get())) return entries;
  const Teller teller(impl_->notices);
  const Outcome outcome =
      list_in_batches(impl_->admin, [&](Row&& row) { entries.push_back(listed(std::move(row), 0)); });
  // That no file was asked for is no error; that it cannot be read is one, though the bundles can.
  if (!impl_->options.no_file) set_error(error, error_of(outcome, impl_->admin));
  int layer = 0;
  for (const auto& bundle : impl_->layers.open()) {
    ++layer;
    if (bundle == nullptr) continue;
    try {
      for (const Bundle::Slot& slot : bundle->slots()) entries.push_back(listed(bundle->read_listed(slot), layer));
    } catch (const BundleError& bad) {
      set_error(error, error_of(bad));
    }
  }
  const auto order = [](const Listed& l) { return std::tie(l.entry.op, l.entry.target, l.entry.text, l.layer); };
  std::sort(entries.begin(), entries.end(), [&](const Listed& a, const Listed& b) { return order(a) < order(b); });
  return entries;
}

AdminError Store::inspect(const Key& key, Listed* out) {
  if (!alive(impl_.get())) return not_alive(impl_.get());
  const Teller teller(impl_->notices);
  Row row;
  bool found = false;
  const Outcome outcome =
      impl_->admin.run(Access::read, [&](Connection& connection) { found = read_row(connection, key, &row); });
  if (found) {
    const bool verified = row.verified;
    *out = listed(std::move(row), 0);
    if (verified) return {};
    return {AdminError::What::damaged, "entry " + to_hex(key) + " does not verify; " + kRebuildHint};
  }
  int layer = 0;
  for (const auto& bundle : impl_->layers.open()) {
    ++layer;
    const Bundle::Slot* slot = bundle != nullptr ? bundle->slot(key) : nullptr;
    if (slot == nullptr) continue;
    try {
      row.entry = bundle->read_verified(*slot);
      row.key = key;
      row.image_size = row.entry.image.size();
      *out = listed(std::move(row), layer);
      return {};
    } catch (const BundleError& error) {
      return error_of(error);
    }
  }
  AdminError error = error_of(outcome, impl_->admin);
  if (error.what == AdminError::What::damaged || error.what == AdminError::What::io) return error;
  return {AdminError::What::not_found, "no entry has the key " + to_hex(key)};
}

std::vector<Key> Store::keys_beginning(std::string_view digits, std::size_t most, AdminError* error) {
  std::vector<Key> keys;
  set_error(error, not_alive(impl_.get()));
  if (!alive(impl_.get())) return keys;
  const Teller teller(impl_->notices);
  const auto padded = [&](char filler) {
    std::string text(digits.substr(0, 32));
    text.resize(32, filler);
    return Key{std::stoull(text.substr(0, 16), nullptr, 16), std::stoull(text.substr(16), nullptr, 16)};
  };
  const Key first = padded('0'), last = padded('f');
  const Outcome outcome = impl_->admin.run(
      Access::read, [&](Connection& connection) { keys = keys_between(connection, first, last, most); });
  if (!impl_->options.no_file) set_error(error, error_of(outcome, impl_->admin));
  for (const auto& bundle : impl_->layers.open()) {
    if (bundle == nullptr) continue;
    const auto& slots = bundle->slots();
    auto slot = std::lower_bound(slots.begin(), slots.end(), first,
                                 [](const Bundle::Slot& each, const Key& key) { return each.key < key; });
    for (std::size_t count = 0; slot != slots.end() && slot->key <= last && count < most; ++slot, ++count)
      keys.push_back(slot->key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  keys.resize(std::min(keys.size(), most));
  return keys;
}

AdminError Store::trim(const TrimOptions& options, TrimResult* result) {
  if (!alive(impl_.get())) return not_alive(impl_.get());
  const Teller teller(impl_->notices);
  Database& database = impl_->admin;
  TrimResult told;
  const Database::Size before = database.size();
  told.bytes_before = before.file + before.journal;
  const std::uint64_t limit = options.limit_bytes != 0 ? options.limit_bytes : impl_->options.limit_bytes;
  Outcome outcome;
  if (options.rebuild) {
    outcome = database.rebuild([&](Connection* old, Connection& fresh) -> std::string {
      if (options.all) return "";
      const Salvage salvage = salvage_rows(old, fresh, Deadline::max());
      told.removed = salvage.lost;
      return cache::told(salvage, old != nullptr);
    });
  } else if (before.file == 0) {
    if (result != nullptr) *result = told;
    const Database::Status status = database.status();
    if (status.state == State::refused || status.state == State::off) return {AdminError::What::refused, status.reason};
    return {};
  }
  for (bool more = true; more && outcome.done();) {
    outcome = database.run(Access::write, [&](Connection& connection) {
      more = shrink_some(connection, options.all ? 0 : limit, &told.removed);
      if (!more) told.kept = count_rows(connection).entries;
    });
  }
  if (AdminError error = error_of(outcome, database); error.what != AdminError::What::none) return error;
  const Database::Size after = database.size();
  told.bytes_after = after.file + after.journal;
  if (result != nullptr) *result = told;
  return {};
}

}  // namespace quern::cache
