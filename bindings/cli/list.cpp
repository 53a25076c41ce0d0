// `quern list`: what is in the cache and the bundles, one kernel a line, as a manifest names it.
// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "bindings/cli/command.h"
#include "bindings/cli/entry.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

class ListEntries : public Command {
 public:
  const char* name() const override { return "list"; }
  const char* summary() const override { return "List the kernels in the cache and the bundles"; }
  const char* examples() const override {
    return "  quern list\n"
           "  quern list sm_90a --long\n"
           "  quern list --manifest | quern warm - --cache /srv/quern\n"
           "  quern list attention --bundle kernels.quern --json";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("SELECT", select_, "Only keys that begin so, or this op or target", false);
    arguments.flag("--manifest", manifest_, "Print lines for quern warm, and nothing else");
    arguments.flag("--long,-l", long_, "Registers, time to compile and compiler, too");
  }

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    List list;
    auto error = sized<quern_error>();
    check(quern_cache_list(existing.context.get(), select_.c_str(), list.out(), &error), error);
    const std::vector<quern_entry> entries = list.items(quern_list_entry);
    std::uint64_t bytes = 0;
    session.result["entries"] = Json::array();
    for (const quern_entry& entry : entries) {
      bytes += entry.image_size;
      session.result["entries"].push_back(entry_to_json(entry));
    }
    session.result["image_bytes"] = bytes;
    if (manifest_) {
      for (const quern_entry& entry : entries) {
        if (is_image(entry)) session.console.data(printable(manifest_line(entry)) + '\n');
      }
    } else if (!entries.empty()) {
      show(session, entries);
    }
    if (existing.stats.state == QUERN_CACHE_OFF) session.console.note("no cache: " + printable(existing.stats.reason));
    session.console.note(format_count(entries.size(), "kernel") + ", " + format_bytes(bytes));
    return kExitOk;
  }

 private:
  void show(const Session& session, const std::vector<quern_entry>& entries) const {
    const std::size_t digits = distinct_digits(entries);
    const std::int64_t now = std::time(nullptr);
    std::vector<Column> columns = {{"KEY"}, {"SIZE", true}, {"AGE", true}};
    if (long_) {
      for (const Column& column : {Column{"REGS", true}, {"COMPILE", true}, {"COMPILER"}}) columns.push_back(column);
    }
    columns.push_back({"LAYER"});
    columns.push_back({"KERNEL", false, true});
    Table table(columns);
    for (const quern_entry& entry : entries) {
      std::vector<Cell> row = {{std::string(entry.key).substr(0, digits)},
                               {format_bytes(entry.image_size)},
                               {format_age(entry.created, now)}};
      if (long_) {
        row.push_back({entry.registers < 0 ? "-" : std::to_string(entry.registers)});
        row.push_back({entry.compile_ms > 0 ? format_milliseconds(entry.compile_ms) : "-"});
        row.push_back({entry.compiler});
      }
      row.push_back({layer_name(entry.layer, session.global.context.bundles)});
      row.push_back({manifest_line(entry)});
      table.add(std::move(row));
    }
    session.console.data(table);
  }

  std::string select_;
  bool manifest_ = false, long_ = false;
};

}  // namespace

std::unique_ptr<Command> make_list() { return std::make_unique<ListEntries>(); }

}  // namespace quern::cli
