// Cache administration over cache/store.h.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <tuple>

#include "capi/context.h"
#include "capi/findings.h"
#include "capi/list.h"
#include "jit/seal.h"

namespace quern::capi {
namespace {

constexpr std::size_t kMostNamed = 100;  // entries that an ambiguous key is told to mean
constexpr std::size_t kFewestDigits = 4;

void check(const cache::AdminError& failure) {
  using What = cache::AdminError::What;
  switch (failure.what) {
    case What::none:
      return;
    case What::not_found:
      throw Error(QUERN_NOT_FOUND, failure.text);
    case What::damaged:
      throw Error(QUERN_DAMAGED, failure.text);
    case What::io:
    case What::refused:
      throw Error(QUERN_IO, failure.text);
  }
}

// Whether an entry is meant by the `prefix` of quern_cache_list.
bool selected(const cache::Listed& listed, std::string_view prefix) {
  return prefix.empty() || listed.entry.op == prefix || listed.entry.target == prefix ||
         cache::to_hex(listed.key).starts_with(prefix);
}

std::vector<cache::Listed> list_store(cache::Store& store) {
  cache::AdminError failure;
  std::vector<cache::Listed> listed = store.list(&failure);
  check(failure);
  return listed;
}

// The one key that begins with these digits, in whatever layers it is.
cache::Key find_key(cache::Store& store, std::string_view digits) {
  const bool hexadecimal = std::all_of(digits.begin(), digits.end(),
                                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (digits.size() < kFewestDigits || digits.size() > 32 || !hexadecimal) {
    throw Error(QUERN_INVALID,
                "key is \"" + std::string(digits) + "\"; 4 to 32 lower-case hexadecimal digits are needed");
  }
  cache::AdminError failure;
  const std::vector<cache::Key> found = store.keys_beginning(digits, kMostNamed, &failure);
  check(failure);
  if (found.empty()) throw Error(QUERN_NOT_FOUND, "no entry's key begins with \"" + std::string(digits) + "\"");
  if (found.size() > 1) {
    throw Error(QUERN_INVALID, "key \"" + std::string(digits) +
                                   "\" is ambiguous: " + (found.size() == kMostNamed ? "at least " : "") +
                                   std::to_string(found.size()) + " entries begin with it, " + cache::to_hex(found[0]) +
                                   " and " + cache::to_hex(found[1]) + " among them");
  }
  return found.front();
}

}  // namespace
}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_cache_list(quern_context* context, const char* prefix, quern_list** entries, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    quern_list*& out = out_parameter(entries, "entries");
    std::vector<EntryRow> rows;
    for (cache::Listed& listed : list_store(alive.service->store())) {
      if (selected(listed, prefix == nullptr ? "" : prefix)) rows.push_back(make_entry_row(std::move(listed), false));
    }
    const auto order = [](const EntryRow& row) {
      const cache::Entry& entry = row.listed.entry;
      return std::tie(entry.op, entry.target, entry.text, row.listed.layer);
    };
    std::sort(rows.begin(), rows.end(), [&](const EntryRow& a, const EntryRow& b) { return order(a) < order(b); });
    out = make_list(std::move(rows)).release();
    return QUERN_OK;
  });
}

int32_t quern_cache_inspect(quern_context* context, const char* key, quern_list** entry, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    if (key == nullptr) fail_null("key");
    quern_list*& out = out_parameter(entry, "entry");
    cache::Listed listed;
    check(alive.service->store().inspect(find_key(alive.service->store(), key), &listed));
    std::vector<EntryRow> rows;
    rows.push_back(make_entry_row(std::move(listed), true));
    out = make_list(std::move(rows)).release();
    return QUERN_OK;
  });
}

int32_t quern_cache_verify(quern_context* context, quern_list** findings, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    cache::AdminError failure;
    std::vector<FindingRow> rows;
    std::size_t damaged = 0;
    std::string first;
    for (cache::Finding& finding : alive.service->store().verify(&failure)) {
      if (!finding.ok && damaged++ == 0) first = finding.what + ": " + finding.text;
      rows.push_back(make_finding_row(std::move(finding)));
    }
    if (damaged == 0) check(failure);
    if (findings != nullptr) *findings = make_list(std::move(rows)).release();
    if (damaged != 0) {
      throw Error(QUERN_DAMAGED, std::to_string(damaged) + " of what is in the cache does not verify, first " + first);
    }
    return QUERN_OK;
  });
}

int32_t quern_cache_trim(quern_context* context, const quern_trim_options* options, quern_trim_result* result,
                         quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    quern_trim_options zeroed{};
    zeroed.size = sizeof(zeroed);
    const In<quern_trim_options> given(options != nullptr ? options : &zeroed, "quern_trim_options");
    check_flags("quern_trim_options.flags", given->flags, QUERN_TRIM_REBUILD | QUERN_TRIM_ALL);
    std::optional<Out<quern_trim_result>> out;
    if (result != nullptr) out.emplace(result, "quern_trim_result");

    cache::TrimOptions trim;
    trim.limit_bytes = given->limit;
    trim.rebuild = (given->flags & QUERN_TRIM_REBUILD) != 0;
    trim.all = (given->flags & QUERN_TRIM_ALL) != 0;
    cache::TrimResult done;
    check(alive.service->store().trim(trim, &done));
    if (out) out->set({0, 0, done.removed, done.kept, done.bytes_before, done.bytes_after});
    return QUERN_OK;
  });
}

int32_t quern_cache_export(quern_context* context, const char* path, const char* prefix, uint64_t* count,
                           quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    const std::string_view wanted = prefix == nullptr ? "" : prefix;
    std::uint64_t written = 0;
    check(alive.service->store().export_bundle(
        path_parameter(path), [&](const cache::Listed& listed) { return selected(listed, wanted); }, &written));
    if (count != nullptr) *count = written;
    return QUERN_OK;
  });
}

int32_t quern_cache_import(quern_context* context, const char* path, uint64_t* count, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    std::uint64_t added = 0;
    check(alive.service->store().import_bundle(path_parameter(path), &added));
    if (count != nullptr) *count = added;
    return QUERN_OK;
  });
}

int32_t quern_cache_get_stats(quern_context* context, quern_cache_stats* stats, quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live(context);
    const jit::Listening listening(alive.notice);
    const Out<quern_cache_stats> out(stats, "quern_cache_stats");
    const cache::StoreStats counted = alive.service->store().stats();
    quern_cache_stats filled{};
    filled.state = state_number(counted.state);
    filled.entries = counted.entries;
    // As lists tell sizes: without seals.
    filled.image_bytes = counted.image_bytes - std::min(counted.image_bytes, counted.images * jit::kSealLength);
    filled.file_bytes = counted.file_bytes;
    filled.limit = counted.limit;
    filled.bundles = counted.bundles;
    filled.bundle_entries = counted.bundle_entries;
    copy_text(counted.path, filled.path, sizeof(filled.path));
    copy_text(counted.reason, filled.reason, sizeof(filled.reason));
    out.set(filled);
    return QUERN_OK;
  });
}

}  // extern "C"
