// Export to bundles and import from them.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "cache/admin.h"
#include "cache/entries.h"
#include "cache/eviction.h"

namespace quern::cache {

AdminError Store::export_bundle(const std::string& path, const std::function<bool(const Listed&)>& select,
                                std::uint64_t* count) {
  if (!alive(impl_.get())) return not_alive(impl_.get());
  const Teller teller(impl_->notices);
  const auto& bundles = impl_->layers.open();
  for (const std::string& fault : impl_->layers.faults())
    if (!fault.empty()) return {AdminError::What::damaged, fault};
  // The topmost layer that has a key gives its entry; null stands for the file. Sorted, as the bundle wants it.
  std::map<Key, const Bundle*> chosen;
  std::uint64_t written = 0;
  try {
    const auto work = [&](Connection* file) {
      std::map<Key, const Bundle*> seen;
      const auto consider = [&](Row&& row, const Bundle* bundle, int layer) {
        if (!seen.emplace(row.key, bundle).second) return;
        const Listed entry{row.key, std::move(row.entry), row.image_size, row.last_use, layer};
        if (!select || select(entry)) chosen.emplace(row.key, bundle);
      };
      if (file != nullptr) list_rows(*file, [&](Row& row) { consider(std::move(row), nullptr, 0); });
      int layer = 0;
      for (const auto& bundle : bundles) {
        ++layer;
        for (const Bundle::Slot& slot : bundle->slots()) consider(bundle->read_listed(slot), bundle.get(), layer);
      }
      BundleWriter writer(path, chosen.size());
      for (const auto& [key, bundle] : chosen) {
        Row row;
        if (bundle != nullptr)
          row.entry = bundle->read_verified(*bundle->slot(key));
        else if (!read_row(*file, key, &row) || !row.verified)
          throw BundleError(BundleError::What::damaged,
                            "entry " + to_hex(key) + " does not verify; nothing was exported; " + kRebuildHint);
        writer.add(key, std::move(row.entry));
      }
      writer.finish();
      written = chosen.size();
    };
    const Outcome outcome = impl_->database.run(Access::read, [&](Connection& connection) { work(&connection); });
    if (outcome.what == Outcome::What::absent || (!outcome.done() && impl_->options.no_file))
      work(nullptr);
    else if (!outcome.done())
      return error_of(outcome, impl_->database);
  } catch (const BundleError& error) {
    return error_of(error);
  }
  if (count != nullptr) *count = written;
  return {};
}

AdminError Store::import_bundle(const std::string& path, std::uint64_t* count) {
  if (!alive(impl_.get())) return not_alive(impl_.get());
  const Teller teller(impl_->notices);
  try {
    const Bundle bundle(path);
    std::uint64_t needed = 0;
    for (const Bundle::Slot& slot : bundle.slots()) needed += footprint(bundle.read_verified(slot));
    const std::uint64_t limit = impl_->options.limit_bytes;
    bool fits = true;
    std::uint64_t added = 0;
    const Outcome outcome = impl_->database.run(Access::write, [&](Connection& connection) {
      fits = make_room(connection, limit, needed);
      if (!fits) return;
      Transaction transaction(connection);
      added = 0;
      for (const Bundle::Slot& slot : bundle.slots()) {
        // What stands there already may be damaged, so it is replaced all the same.
        if (!has_entry(connection, slot.key)) ++added;
        insert_entry(connection, slot.key, normalised(bundle.read_verified(slot)), today());
      }
      transaction.commit();
    });
    if (!fits)
      return {AdminError::What::io, "bundle " + path + " needs up to " + std::to_string(needed) +
                                        " bytes in the cache, whose limit is " + std::to_string(limit)};
    if (AdminError error = error_of(outcome, impl_->database); error.what != AdminError::What::none) return error;
    const std::lock_guard lock(impl_->mutex);
    for (const Bundle::Slot& slot : bundle.slots()) impl_->rejected_in_file.erase(slot.key);
    if (count != nullptr) *count = added;
  } catch (const BundleError& error) {
    return error_of(error);
  }
  return {};
}

}  // namespace quern::cache
