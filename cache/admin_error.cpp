// From outcomes and bundle errors to what an administrator is told.
// SPDX-License-Identifier: Apache-2.0
#include "cache/admin.h"

namespace quern::cache {

using What = AdminError::What;

AdminError error_of(const Outcome& outcome, Database& database) {
  switch (outcome.what) {
    case Outcome::What::done:
    case Outcome::What::absent:
      return {};
    case Outcome::What::busy:
    case Outcome::What::failed:
      return {What::io, outcome.text};
    case Outcome::What::unusable:
      break;
  }
  const Database::Status status = database.status();
  if (status.state == State::damaged) return {What::damaged, status.reason};
  return {What::refused, status.reason};
}

AdminError error_of(const BundleError& error) {
  switch (error.kind()) {
    case BundleError::What::not_found:
      return {What::not_found, error.what()};
    case BundleError::What::io:
      return {What::io, error.what()};
    case BundleError::What::refused:
      return {What::refused, error.what()};
    case BundleError::What::damaged:
      break;
  }
  return {What::damaged, error.what()};
}

}  // namespace quern::cache
