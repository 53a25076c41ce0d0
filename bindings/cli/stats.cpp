// `quern stats`: where the cache is, in what state, and what fills it.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include "bindings/cli/command.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

struct StateName {
  const char* name;
  Style style;
};

StateName state_name(std::int32_t state) {
  switch (state) {
    case QUERN_CACHE_READY:
      return {"ready", Style::good};
    case QUERN_CACHE_READ_ONLY:
      return {"read-only", Style::good};
    case QUERN_CACHE_OFF:
      return {"off", Style::warning};
    case QUERN_CACHE_DAMAGED:
      return {"damaged", Style::bad};
    case QUERN_CACHE_REFUSED:
      return {"refused", Style::bad};
    default:
      return {"unknown", Style::warning};
  }
}

struct Sum {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  double compile_ms = 0;
};

class Stats : public Command {
 public:
  const char* name() const override { return "stats"; }
  const char* summary() const override { return "Show where the cache is, its state and what fills it"; }
  const char* examples() const override {
    return "  quern stats\n"
           "  quern stats --json --cache /srv/quern";
  }
  void declare(Arguments&) override {}

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    const quern_cache_stats& stats = existing.stats;
    show_file(session, stats);
    if (stats.state == QUERN_CACHE_DAMAGED) {
      throw Failure(QUERN_DAMAGED,
                    std::string(stats.path) + ": " + stats.reason + "; mend it with: quern trim --rebuild");
    }
    List list;
    auto error = sized<quern_error>();
    check(quern_cache_list(existing.context.get(), nullptr, list.out(), &error), error);
    show_parts(session, list.items(quern_list_entry));
    return kExitOk;
  }

 private:
  static void show_file(const Session& session, const quern_cache_stats& stats) {
    const StateName state = state_name(stats.state);
    Json& result = session.result;
    result["state"] = state.name;
    result["path"] = stats.path;
    result["reason"] = stats.reason;
    result["entries"] = stats.entries;
    result["image_bytes"] = stats.image_bytes;
    result["file_bytes"] = stats.file_bytes;
    result["limit"] = stats.limit;
    result["bundles"] = stats.bundles;
    result["bundle_entries"] = stats.bundle_entries;

    Console& console = session.console;
    const auto fact = [&](std::string name, const std::string& text) {
      name.resize(9, ' ');
      console.data(console.styled_data(name, Style::faint) + text + '\n');
    };
    fact("cache", *stats.path != '\0' ? printable(stats.path) : "-");
    fact("state", console.styled_data(state.name, state.style) +
                      (*stats.reason != '\0' ? " (" + printable(stats.reason) + ')' : ""));
    fact("kernels", std::to_string(stats.entries) + ", " + format_bytes(stats.image_bytes));
    fact("file", format_bytes(stats.file_bytes) + " of " + format_bytes(stats.limit) + " allowed");
    fact("bundles", stats.bundles == 0
                        ? "none"
                        : std::to_string(stats.bundles) + " with " + format_count(stats.bundle_entries, "kernel"));
  }

  static void show_parts(const Session& session, const std::vector<quern_entry>& entries) {
    std::map<std::pair<std::string, std::string>, Sum> parts;
    for (const quern_entry& entry : entries) {
      Sum& sum = parts[{entry.target, entry.op}];
      ++sum.entries;
      sum.bytes += entry.image_size;
      sum.compile_ms += entry.compile_ms;
    }
    Table table({{"TARGET"}, {"OP"}, {"KERNELS", true}, {"SIZE", true}, {"COMPILE TIME", true}});
    session.result["parts"] = Json::array();
    for (const auto& [name, sum] : parts) {
      session.result["parts"].push_back({{"target", name.first},
                                         {"op", name.second},
                                         {"entries", sum.entries},
                                         {"image_bytes", sum.bytes},
                                         {"compile_ms", sum.compile_ms}});
      table.add({{name.first},
                 {name.second},
                 {std::to_string(sum.entries)},
                 {format_bytes(sum.bytes)},
                 {format_milliseconds(sum.compile_ms)}});
    }
    if (table.empty()) return;
    session.console.data("\n");
    session.console.data(table);
  }
};

}  // namespace

std::unique_ptr<Command> make_stats() { return std::make_unique<Stats>(); }

}  // namespace quern::cli
