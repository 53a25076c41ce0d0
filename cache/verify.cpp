// Reading and checking everything: the file's structure, every row, every bundle.
// SPDX-License-Identifier: Apache-2.0
#include "cache/admin.h"
#include "cache/entries.h"
#include "cache/eviction.h"

namespace quern::cache {
namespace {

constexpr char kBundleHint[] = "make the bundle anew, or leave it out";

struct Report {
  std::vector<Finding> findings;
  std::uint64_t bad = 0;

  void good(const std::string& what, const std::string& text) { findings.push_back({true, what, text, ""}); }
  void wrong(const std::string& what, const std::string& text, const std::string& hint) {
    findings.push_back({false, what, text, hint});
    ++bad;
  }
};

// The structure of a file longer than this is looked through tree by tree, and images only by reading every row: one
// statement over all of it would be one that no fork can interrupt.
constexpr std::uint64_t kSmallFile = std::uint64_t{16} << 20;

void check_structure(Connection& connection, Report& report) {
  static constexpr char kWhole[] = R"(PRAGMA integrity_check(20))";
  static constexpr char kEntries[] = R"(PRAGMA integrity_check('entries'))";
  static constexpr char kUses[] = R"(PRAGMA integrity_check('uses'))";
  connection.keep_temporaries_in_memory();
  std::vector<const char*> checks = {kWhole};
  if (measure(connection).file > kSmallFile) checks = {kEntries, kUses};
  for (const char* sql : checks) {
    Query check(connection, sql);
    while (check.step()) {
      const std::string text(check.bytes(0));
      if (text != "ok") report.wrong("cache", text, kRebuildHint);
    }
  }
}

// The structure comes last: rows that can be read are named even where a tree is damaged.
Outcome check_file(Database& database, Report& report) {
  std::uint64_t rows = 0;
  const std::uint64_t bad_before = report.bad;
  std::vector<std::int64_t> ids;
  Outcome outcome = database.run(Access::read, [&](Connection& connection) {
    ids.clear();
    Query query(connection, R"(SELECT id FROM entries ORDER BY id)");
    while (query.step()) ids.push_back(query.number(0));
  });
  for (auto next = ids.begin(); next != ids.end() && outcome.done();) {
    outcome = database.run(Access::read, [&](Connection& connection) {
      for (std::size_t bytes = 0, count = 0; next != ids.end() && bytes < kBatchBytes && count < kBatch; ++count) {
        Row row;
        const bool there = read_row_by_id(connection, *next++, &row);  // else it was removed meanwhile
        bytes += row.image_size;
        rows += there ? 1 : 0;
        if (there && !row.verified)
          report.wrong(to_hex(row.key),
                       "this entry (" + row.entry.op + " for " + row.entry.target + ") does not verify", kRebuildHint);
      }
    });
  }
  if (outcome.done())
    outcome = database.run(Access::read, [&](Connection& connection) { check_structure(connection, report); });
  if (outcome.done() && report.bad == bad_before) report.good("cache", std::to_string(rows) + " entries verify");
  return outcome;
}

void check_bundle(const Bundle& bundle, Report& report) {
  const std::uint64_t bad_before = report.bad;
  for (const Bundle::Slot& slot : bundle.slots()) {
    try {
      bundle.read_verified(slot);
    } catch (const BundleError& error) {
      report.wrong(to_hex(slot.key), error.what(), kBundleHint);
    }
  }
  if (report.bad == bad_before) report.good(bundle.path(), std::to_string(bundle.slots().size()) + " entries verify");
}

}  // namespace

std::vector<Finding> Store::verify(AdminError* error) {
  set_error(error, not_alive(impl_.get()));
  if (!alive(impl_.get())) return {};
  const Teller teller(impl_->notices);
  Report report;
  const Outcome outcome = check_file(impl_->admin, report);
  const AdminError fault = error_of(outcome, impl_->admin);
  if (fault.what != AdminError::What::none && !impl_->options.no_file)
    report.wrong("cache", fault.text, fault.what == AdminError::What::damaged ? kRebuildHint : "");

  const std::vector<std::string>& faults = impl_->layers.faults();
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const std::unique_ptr<Bundle>& bundle = impl_->layers.open()[i];
    if (bundle == nullptr)
      report.wrong(impl_->options.bundles[i], faults[i], kBundleHint);
    else
      check_bundle(*bundle, report);
  }
  if (report.bad != 0) {
    // A place that cannot be used is not damage.
    const bool only_place =
        report.bad == 1 && fault.what != AdminError::What::none && fault.what != AdminError::What::damaged;
    set_error(error, only_place ? fault
                                : AdminError{AdminError::What::damaged,
                                             std::to_string(report.bad) + " of the things looked at do not verify"});
  }
  return std::move(report.findings);
}

}  // namespace quern::cache
