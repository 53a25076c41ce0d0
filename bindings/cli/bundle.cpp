// `quern export`, `quern import` and `quern keys`: the cache as one flat file, for hosts that must not compile, and
// whose file it is.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

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
           "  quern export attention.quern attention --cache /srv/quern\n"
           "  quern export kernels.quern --sign fleet.key";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("FILE", file_, "The bundle to write; equal to the byte for equal contents", true);
    arguments.positional("SELECT", select_, "Only keys that begin so, or this op or target", false);
    arguments.text("--sign", sign_, "KEYFILE", "Sign it with this secret key (quern keys)", not_empty());
  }

  int run(const Session& session) override {
    const std::string secret = sign_.empty() ? "" : read_secret(sign_);
    const Existing existing = session.open_existing();
    std::uint64_t count = 0;
    auto error = sized<quern_error>();
    check(quern_cache_export(existing.context.get(), absolute_path(file_).c_str(), select_.c_str(), &count, &error),
          error);
    if (!secret.empty()) check(quern_bundle_sign(absolute_path(file_).c_str(), secret.c_str(), &error), error);
    if (count == 0) {
      const char* reason =
          existing.stats.state == QUERN_CACHE_OFF ? existing.stats.reason : "nothing here is of that name";
      session.console.warning("the bundle is empty: " + printable(reason));
    }
    session.result["signed"] = !secret.empty();
    report(session, file_, count, "written to " + printable(file_) + (secret.empty() ? "" : ", signed"));
    return kExitOk;
  }

 private:
  std::string file_, select_, sign_;
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

class Keys : public Command {
 public:
  const char* name() const override { return "keys"; }
  const char* summary() const override { return "Make a key to sign bundles with, or show the public one of a key"; }
  const char* examples() const override {
    return "  quern keys fleet.key\n"
           "  quern export kernels.quern --sign fleet.key\n"
           "  quern verify --bundle kernels.quern --trust $(quern keys fleet.key)";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("KEYFILE", file_, "The secret key: made, for its owner alone, where it is not there", true);
  }

  int run(const Session& session) override {
    char secret[65] = "", open[65] = "";
    auto error = sized<quern_error>();
    const std::string path = absolute_path(file_);
    const bool there = std::filesystem::exists(std::filesystem::symlink_status(path));
    if (there) {
      check(quern_keys_public(read_secret(path).c_str(), open, &error), error);
    } else {
      check(quern_keys_make(secret, open, &error), error);
      write_private(path, std::string(secret) + '\n');
    }
    session.result["public"] = open;
    session.result["file"] = file_;
    session.result["made"] = !there;
    session.console.data(std::string(open) + '\n');
    return kExitOk;
  }

 private:
  std::string file_;
};

}  // namespace

std::unique_ptr<Command> make_keys() { return std::make_unique<Keys>(); }
std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }
std::unique_ptr<Command> make_import() { return std::make_unique<Import>(); }

}  // namespace quern::cli
