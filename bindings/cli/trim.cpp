// `quern trim`: makes the cache smaller, mends it or empties it.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/command.h"
#include "bindings/cli/format.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

class Trim : public Command {
 public:
  const char* name() const override { return "trim"; }
  const char* summary() const override { return "Make the cache smaller, mend it or empty it"; }
  const char* examples() const override {
    return "  quern trim --limit 512M\n"
           "  quern trim --rebuild\n"
           "  quern trim --all";
  }

  void declare(Arguments& arguments) override {
    arguments.text("--limit", limit_, "SIZE",
                   "Remove the least recently used until the file is no larger, such as 512M (1G)", byte_size());
    arguments.flag("--rebuild", rebuild_, "Write a fresh file with every entry that verifies: mends a damaged cache");
    arguments.flag("--all", all_, "Remove every entry");
  }

  int run(const Session& session) override {
    if (all_ && !limit_.empty())
      throw Failure(QUERN_INVALID, "--limit: given together with --all; allowed: one of them");
    const Context context = session.open();
    auto options = sized<quern_trim_options>();
    options.limit = parse_bytes(limit_).value_or(0);
    if (rebuild_) options.flags |= QUERN_TRIM_REBUILD;
    if (all_) options.flags |= QUERN_TRIM_ALL;
    auto trimmed = sized<quern_trim_result>();
    auto error = sized<quern_error>();
    check(quern_cache_trim(context.get(), &options, &trimmed, &error), error);
    session.result["removed"] = trimmed.removed;
    session.result["kept"] = trimmed.kept;
    session.result["bytes_before"] = trimmed.bytes_before;
    session.result["bytes_after"] = trimmed.bytes_after;
    session.console.data("removed " + format_count(trimmed.removed, "kernel") + ", kept " +
                         std::to_string(trimmed.kept) + "; " + format_bytes(trimmed.bytes_before) + " before, " +
                         format_bytes(trimmed.bytes_after) + " after\n");
    return kExitOk;
  }

 private:
  std::string limit_;
  bool rebuild_ = false;
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> make_trim() { return std::make_unique<Trim>(); }

}  // namespace quern::cli
