// `quern export` and `quern import`: the cache as one flat file, for hosts that must not compile.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/command.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

void report(const Session& session, const std::string& file, std::uint64_t count, const std::string& text) {
  session.result["file"] = file;
  session.result["count"] = count;
  session.console.data(format_count(count, "kernel") + ' ' + text + '\n');
}

class Export : public Command {
 public:
  const char* name() const override { return "export"; }
  const char* summary() const override { return "Write the cache, or a part of it, as a bundle"; }
  const char* examples() const override {
    return "  quern export kernels.quern\n"
           "  quern export h200.quern sm_90a\n"
           "  quern export attention.quern attention --cache /srv/quern";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("FILE", file_, "The bundle to write; equal to the byte for equal contents", true);
    arguments.positional("SELECT", select_, "Only keys that begin so, or this op or target", false);
  }

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    std::uint64_t count = 0;
    auto error = sized<quern_error>();
    check(quern_cache_export(existing.context.get(), absolute_path(file_).c_str(), select_.c_str(), &count, &error),
          error);
    if (count == 0) {
      const char* reason =
          existing.stats.state == QUERN_CACHE_OFF ? existing.stats.reason : "nothing here is of that name";
      session.console.warning("the bundle is empty: " + printable(reason));
    }
    report(session, file_, count, "written to " + printable(file_));
    return kExitOk;
  }

 private:
  std::string file_, select_;
};

class Import : public Command {
 public:
  const char* name() const override { return "import"; }
  const char* summary() const override { return "Add a bundle's kernels to the cache"; }
  const char* examples() const override {
    return "  quern import kernels.quern\n"
           "  quern import kernels.quern --cache /srv/quern";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("FILE", file_, "The bundle; all of it is verified before the first kernel is written", true);
  }

  int run(const Session& session) override {
    const Context context = session.open();
    std::uint64_t count = 0;
    auto error = sized<quern_error>();
    check(quern_cache_import(context.get(), absolute_path(file_).c_str(), &count, &error), error);
    report(session, file_, count,
           "of " + printable(file_) + (count == 0 ? " were new: all of it is in the cache" : " added to the cache"));
    return kExitOk;
  }

 private:
  std::string file_;
};

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }
std::unique_ptr<Command> make_import() { return std::make_unique<Import>(); }

}  // namespace quern::cli
