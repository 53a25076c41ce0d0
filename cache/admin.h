// What the administration calls share: how faults become AdminErrors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cache/bundle.h"
#include "cache/database.h"
#include "cache/entries.h"
#include "cache/notices.h"
#include "cache/store.h"
#include "cache/store_impl.h"

namespace quern::cache {

inline constexpr char kRebuildHint[] = "trim with rebuild writes a fresh file with every entry that verifies";

// So many rows are read between two releases of the file's lock: writers of kernels must not wait for a listing.
inline constexpr std::size_t kBatch = 256;
// And so many bytes of images.
inline constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

// Every row without its image. What is stored or removed meanwhile may be missed or still be told.
Outcome list_in_batches(Database& database, const std::function<void(Row&&)>& visit);

// An absent file is an empty one, and no error.
AdminError error_of(const Outcome& outcome, Database& database);
AdminError error_of(const BundleError& error);

// Whether there is a store, made by this very process; and the error that says which is not so.
template <typename Impl>
bool alive(const Impl* impl) {
  return impl != nullptr && !impl->forked();
}
template <typename Impl>
AdminError not_alive(const Impl* impl) {
  if (impl == nullptr) return {AdminError::What::refused, "there was no memory for the store when it was made"};
  if (impl->forked()) return {AdminError::What::refused, kForkedReason};
  return {};
}

inline void set_error(AdminError* out, AdminError error) {
  if (out != nullptr) *out = std::move(error);
}

// Tells the notices when the call is over, and no lock is held.
class Teller {
 public:
  explicit Teller(Notices& notices) : notices_(notices) {}
  ~Teller() { notices_.deliver(); }
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

 private:
  Notices& notices_;
};

}  // namespace quern::cache
