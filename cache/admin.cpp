// The calls that people make, through the command line or otherwise: faults are told, not survived.
// SPDX-License-Identifier: Apache-2.0
#include "cache/admin.h"

#include <algorithm>
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
  impl_->database.run(Access::read, [&](Connection& connection) {
    const Totals totals = count_rows(connection);
    stats.entries = totals.entries;
    stats.image_bytes = totals.image_bytes;
  });
  Database::Status status = impl_->database.status();
  stats.state = status.state;
  stats.reason = std::move(status.reason);
  stats.path = std::move(status.path);
  const Database::Size size = impl_->database.size();
  stats.file_bytes = size.file + size.journal;
  stats.limit = impl_->options.limit_bytes;
  for (const auto& bundle : impl_->layers.open()) {
    if (bundle == nullptr) continue;
    ++stats.bundles;
    stats.bundle_entries += bundle->slots().size();
  }
  return stats;
}

std::vector<Listed> Store::list(AdminError* error) {
  std::vector<Listed> entries;
  set_error(error, not_alive(impl_.get()));
  if (!alive(impl_.get())) return entries;
  const Teller teller(impl_->notices);
  const Outcome outcome = impl_->database.run(Access::read, [&](Connection& connection) {
    entries.clear();
    list_rows(connection, [&](Row& row) { entries.push_back(listed(std::move(row), 0)); });
  });
  // That no file was asked for is no error; that it cannot be read is one, though the bundles can.
  if (!impl_->options.no_file) set_error(error, error_of(outcome, impl_->database));
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
      impl_->database.run(Access::read, [&](Connection& connection) { found = read_row(connection, key, &row); });
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
  AdminError error = error_of(outcome, impl_->database);
  if (error.what == AdminError::What::damaged || error.what == AdminError::What::io) return error;
  return {AdminError::What::not_found, "no entry has the key " + to_hex(key)};
}

AdminError Store::trim(const TrimOptions& options, TrimResult* result) {
  if (!alive(impl_.get())) return not_alive(impl_.get());
  const Teller teller(impl_->notices);
  Database& database = impl_->database;
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
  if (outcome.done())
    outcome = database.run(Access::write, [&](Connection& connection) {
      told.removed += shrink(connection, options.all ? 0 : limit);
      told.kept = count_rows(connection).entries;
    });
  if (AdminError error = error_of(outcome, database); error.what != AdminError::What::none) return error;
  const Database::Size after = database.size();
  told.bytes_after = after.file + after.journal;
  if (result != nullptr) *result = told;
  return {};
}

}  // namespace quern::cache
