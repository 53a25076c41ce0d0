// `quern warm`: compiles what a manifest or a model needs, for any target, without a device.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>

#include "bindings/cli/command.h"
#include "bindings/cli/device.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/manifest.h"
#include "bindings/cli/model_arguments.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/validators.h"
#include "bindings/cli/warm_report.h"

namespace quern::cli {
namespace {

// What the first device here is, as a target.
std::string device_target(const Session& session) {
  ContextOptions options = session.global.context;
  options.flags |= QUERN_CONTEXT_NO_CACHE;
  if (const std::optional<Context> context = open_first_device(session, options)) return device_info(*context).target;
  throw Failure(
      QUERN_INVALID,
      "--target: none given, and no device was found here to take it from; name one or more, such as --target sm_90a "
      "('quern doctor' says what is here)");
}

// The library's messages begin with the line's number, which the command shows with the file.
std::string without_line(std::string text, std::uint32_t line) {
  const std::string prefix = "line " + std::to_string(line) + ": ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

// A quern_warm_callback whose `user` is a Progress.
void warm_progress(void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result* result) {
  std::string what = std::string(result->op) + ' ' + result->target;
  if (*result->op == '\0') what = "line " + std::to_string(result->line);
  std::string detail = outcome_name(result->outcome) + (' ' + what);
  if (*result->key != '\0') detail += std::string(" ") + result->key;
  if (result->milliseconds > 0) detail += ", " + format_milliseconds(result->milliseconds);
  static_cast<Progress*>(user)->show(done, total, {what, detail, result->outcome == QUERN_WARM_FAILED});
}

class Warm : public Command {
 public:
  const char* name() const override { return "warm"; }
  const char* summary() const override { return "Compile the kernels of a manifest or a model, without a device"; }
  const char* examples() const override {
    return "  quern warm kernels.manifest --target sm_90a\n"
           "  quern warm --config config.json --tp 8 --target sm_90a,gfx90a --jobs 16\n"
           "  quern warm --config config.json --kv-dtype e4m3 --target sm_90a --list-only\n"
           "  quern warm --config config.json --weights fp8 --target sm_90a\n"
           "  engine --print-manifest | quern warm - --cache /srv/quern";
  }

  void declare(CLI::App& app) override {
    app.add_option("MANIFEST", manifest_, "File of specialisations, one a line; - reads standard input")
        ->type_name("")
        ->check(not_empty());
    app.add_option("--target", targets_, "What to compile for: sm_90a, gfx90a, host, ...; without it, the device here")
        ->type_name("T[,T]")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(not_empty());
    model_.declare(app, "A model's config.json: every kernel that it needs", true);
    app.add_option("--jobs,-j", jobs_, "Compilations at once (the number of cores, at most 8)")
        ->type_name("N")
        ->check(whole_number(1, 256));
    app.add_flag("--list-only,--dry-run", list_only_, "Say what would be compiled and what is there; compile nothing");
  }

  int run(const Session& session) override {
    if (manifest_.empty() && model_.path().empty()) {
      throw Failure(QUERN_INVALID,
                    "MANIFEST: none given; allowed: a file, - for standard input, or --config FILE instead");
    }
    const std::optional<ModelConfig> config = model_.read(session);
    std::optional<Manifest> manifest;
    if (!manifest_.empty()) {
      const std::string folder = manifest_ == "-" ? "." : std::filesystem::path(manifest_).parent_path().string();
      manifest = read_manifest(read_input(manifest_), folder);
    }
    if (targets_.empty() && (config || manifest->for_every_target)) targets_.push_back(device_target(session));

    WarmReport report;
    report.manifest = manifest_;
    report.list_only = list_only_;
    warm(session, manifest ? &manifest->text : nullptr, config ? &config->model : nullptr, report);
    if (manifest) {
      for (const BadLine& bad : manifest->bad) {
        report.rows.push_back({QUERN_WARM_FAILED, QUERN_INVALID, bad.line, "kernel", bad.target, "", "", bad.text, 0});
      }
    }
    const auto by_line = [](const WarmRow& a, const WarmRow& b) { return a.line < b.line; };
    std::stable_sort(report.rows.begin(), report.rows.end(), by_line);
    session.result["targets"] = targets_;
    report.show(session);

    const bool served =
        std::any_of(report.rows.begin(), report.rows.end(), [](const WarmRow& row) { return row.line == 0; });
    if (config && !served) throw Failure(QUERN_UNSUPPORTED, model_.path() + ": no op here has kernels for this model");
    const std::uint64_t failed = report.count(QUERN_WARM_FAILED);
    if (failed == 0) return kExitOk;
    throw Failure(QUERN_PARTIAL,
                  std::to_string(failed) + " of " + format_count(report.rows.size(), "kernel") + " failed");
  }

 private:
  // Adds the library's rows and the time to the report.
  void warm(const Session& session, const std::string* manifest, const quern_model* model, WarmReport& report) const {
    ContextOptions context_options = session.global.context;
    context_options.compile_threads = jobs_;
    const Context context =
        list_only_ ? session.open_existing(context_options).context : Context(context_options, session.console);
    std::vector<const char*> targets;
    for (const std::string& target : targets_) targets.push_back(target.c_str());
    Progress progress(session.console);
    auto options = sized<quern_warm_options>();
    if (list_only_) options.flags |= QUERN_WARM_LIST_ONLY;
    options.targets = targets.data();
    options.target_count = targets.size();
    if (manifest != nullptr) {
      options.manifest = manifest->c_str();
      options.manifest_length = manifest->size();
    }
    options.model = model;
    options.progress = warm_progress;
    options.progress_user = &progress;
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_warm(context.get(), &options, list.out(), &error);
    if (status != QUERN_PARTIAL) check(status, error);
    report.milliseconds = progress.milliseconds();
    for (const quern_warm_result& result : list.items(quern_list_warm_result)) {
      report.rows.push_back({result.outcome, result.status, result.line, result.op, result.target, result.key,
                             result.spec, without_line(result.text, result.line), result.milliseconds});
    }
  }

  std::string manifest_;
  ModelArguments model_;
  std::vector<std::string> targets_;
  std::int32_t jobs_ = 0;
  bool list_only_ = false;
};

}  // namespace

std::unique_ptr<Command> make_warm() { return std::make_unique<Warm>(); }

}  // namespace quern::cli
