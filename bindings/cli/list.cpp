// `quern list`: what is in the cache and the bundles, one kernel a line.
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
           "  quern list sm_90a\n"
           "  quern list attention --bundle kernels.quern --json";
  }

  void declare(CLI::App& app) override {
    app.add_option("SELECT", select_, "Only keys that begin so, or this op or target")->type_name("");
  }

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    List list;
    auto error = sized<quern_error>();
    check(quern_cache_list(existing.context.get(), select_.c_str(), list.out(), &error), error);
    const std::vector<quern_entry> entries = list.items(quern_list_entry);

    const std::size_t digits = distinct_digits(entries);
    const std::int64_t now = std::time(nullptr);
    const std::vector<std::string>& bundles = session.global.context.bundles;
    Table table({{"KEY"},
                 {"OP"},
                 {"TARGET"},
                 {"SIZE", true},
                 {"REGS", true},
                 {"AGE", true},
                 {"COMPILE", true},
                 {"COMPILER"},
                 {"LAYER"},
                 {"CONSTANTS", false, true}});
    std::uint64_t bytes = 0;
    session.result["entries"] = Json::array();
    for (const quern_entry& entry : entries) {
      bytes += entry.image_size;
      session.result["entries"].push_back(entry_to_json(entry));
      table.add({{std::string(entry.key).substr(0, digits)},
                 {entry.op},
                 {entry.target},
                 {format_bytes(entry.image_size)},
                 {entry.registers < 0 ? "-" : std::to_string(entry.registers)},
                 {format_age(entry.created, now)},
                 {entry.compile_ms > 0 ? format_milliseconds(entry.compile_ms) : "-"},
                 {entry.compiler},
                 {layer_name(entry.layer, bundles)},
                 {constants_of(entry.text)}});
    }
    session.result["image_bytes"] = bytes;
    if (!table.empty()) session.console.data(table);
    if (existing.stats.state == QUERN_CACHE_OFF) session.console.note("no cache: " + printable(existing.stats.reason));
    session.console.note(format_count(entries.size(), "kernel") + ", " + format_bytes(bytes));
    return kExitOk;
  }

 private:
  std::string select_;
};

}  // namespace

std::unique_ptr<Command> make_list() { return std::make_unique<ListEntries>(); }

}  // namespace quern::cli
