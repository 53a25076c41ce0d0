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
    std::map<Key, const Bundle*> seen;
    const auto consider = [&](Row&& row, const Bundle* bundle, int layer) {
      if (!seen.emplace(row.key, bundle).second) return;
      const Listed entry{row.key, std::move(row.entry), row.image_size, row.last_use, layer};
      if (!select || select(entry)) chosen.emplace(row.key, bundle);
    };
    const Outcome listed = list_in_batches(impl_->admin, [&](Row&& row) { consider(std::move(row), nullptr, 0); });
    if (!listed.done() && listed.what != Outcome::What::absent && !impl_->options.no_file)
      return error_of(listed, impl_->admin);
    int layer = 0;
    for (const auto& bundle : bundles) {
      ++layer;
      for (const Bundle::Slot& slot : bundle->slots()) consider(bundle->read_listed(slot), bundle.get(), layer);
    }
    BundleWriter writer(path, chosen.size());
    for (const auto& [key, bundle] : chosen) {
      if (bundle != nullptr) {
        writer.add(key, bundle->read_verified(*bundle->slot(key)));
        continue;
      }
      Row row;
      bool there = false;
      const Outcome read = impl_->admin.run(
          Access::read, [&, &wanted = key](Connection& connection) { there = read_row(connection, wanted, &row); });
      if (AdminError error = error_of(read, impl_->admin); error.what != AdminError::What::none) return error;
      if (!there)
        throw BundleError(BundleError::What::io, "entry " + to_hex(key) +
                                                     " was removed from the cache meanwhile; nothing was exported, "
                                                     "export again");
      if (!row.verified)
        throw BundleError(BundleError::What::damaged,
                          "entry " + to_hex(key) + " does not verify; nothing was exported; " + kRebuildHint);
      writer.add(key, std::move(row.entry));
    }
    writer.finish();
    written = chosen.size();
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
    const Bundle bundle(path, trust_of(impl_->options));
    std::uint64_t needed = 0;
    for (const Bundle::Slot& slot : bundle.slots()) needed += footprint(bundle.read_verified(slot));
    const std::uint64_t limit = impl_->options.limit_bytes;
    bool fits = true;
    Outcome outcome =
        impl_->admin.run(Access::write, [&](Connection& connection) { fits = make_room(connection, limit, needed); });
    if (!fits)
      return {AdminError::What::io, "bundle " + path + " needs up to " + std::to_string(needed) +
                                        " bytes in the cache, whose limit is " + std::to_string(limit)};
    std::uint64_t added = 0;
    const std::vector<Bundle::Slot>& slots = bundle.slots();
    for (std::size_t next = 0; next < slots.size() && outcome.done();) {
      // Read and verified before the file is taken: who wants it, or forks, waits for the writing alone.
      std::vector<Entry> batch;
      for (std::size_t bytes = 0; next + batch.size() < slots.size() && batch.size() < kBatch && bytes < kBatchBytes;) {
        const Bundle::Slot& slot = slots[next + batch.size()];
        batch.push_back(normalised(bundle.read_verified(slot)));
        bytes += slot.length;
      }
      std::uint64_t fresh = 0;
      outcome = impl_->admin.run(Access::write, [&](Connection& connection) {
        Transaction transaction(connection);
        fresh = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
          const Key& key = slots[next + i].key;
          // What stands there already may be damaged, so it is replaced all the same.
          if (!has_entry(connection, key)) ++fresh;
          insert_entry(connection, key, batch[i], today());
        }
        transaction.commit();
      });
      if (!outcome.done()) break;
      next += batch.size();
      added += fresh;
    }
    if (AdminError error = error_of(outcome, impl_->admin); error.what != AdminError::What::none) return error;
    const std::lock_guard lock(impl_->mutex);
    for (const Bundle::Slot& slot : bundle.slots()) impl_->rejected_in_file.erase(slot.key);
    if (count != nullptr) *count = added;
  } catch (const BundleError& error) {
    return error_of(error);
  }
  return {};
}

}  // namespace quern::cache
