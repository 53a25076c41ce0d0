// What quern_warm and quern_tune have in common: a manifest's lines, a model, and what comes of many things of which
// some fail.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capi/list.h"
#include "capi/quern.h"
#include "jit/error.h"

namespace quern::capi {

// Throws Error(QUERN_INVALID) for a length without a manifest, and where neither is given.
void check_request(const char* manifest, std::uint64_t manifest_length, const quern_model* model, const char* verb);

// Throws Error(QUERN_INVALID) naming the field.
void check_model(const quern_model& model);

// visit(text, number), numbers from 1.
template <class Visit>
void for_each_line(std::string_view manifest, Visit visit) {
  for (std::uint32_t number = 1; !manifest.empty(); ++number) {
    const std::size_t end = std::min(manifest.find('\n'), manifest.size());
    visit(manifest.substr(0, end), number);
    manifest.remove_prefix(std::min(end + 1, manifest.size()));
  }
}

// A failure as a result tells it: with its line, where it has one.
std::string text_of_failure(std::string_view text, std::uint32_t line);

// Hands the rows out where they are wanted. Throws Error(QUERN_PARTIAL) with the first failing row's text where any has
// failed, or where there are fewer than were `wanted`, since the caller has cancelled.
template <class Row, class Failed>
std::int32_t finish_request(std::vector<Row> rows, std::size_t wanted, quern_list** results, const char* verb,
                            const Failed& failed) {
  std::size_t count = 0;
  std::string first;
  for (const Row& row : rows) {
    if (failed(row) && count++ == 0) first = row.text;
  }
  const std::size_t all = rows.size();
  if (results != nullptr) *results = make_list(std::move(rows)).release();
  if (all < wanted)
    throw Error(QUERN_PARTIAL, "cancelled by progress, after " + std::to_string(all) + " of " + std::to_string(wanted));
  if (count == 0) return QUERN_OK;
  throw Error(QUERN_PARTIAL,
              std::to_string(count) + " of " + std::to_string(all) + " could not be " + verb + ", first: " + first);
}

// Tells of a result that is done; false where the callback cancels. A callback's own trouble does not stop the work.
template <class Row, class Options>
bool tell_progress(const Options& options, std::uint64_t done, std::uint64_t total, const Row& row) noexcept {
  if (options.progress == nullptr) return true;
  const auto result = view(row);
  try {
    return options.progress(options.progress_user, done, total, &result) == 0;
  } catch (...) {
    return true;
  }
}

}  // namespace quern::capi
