// `quern warm`: compiles what a manifest or a model needs, for any target, without a device.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "bindings/cli/command.h"
#include "bindings/cli/device.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/interruption.h"
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

// The library speaks of its struct's fields, the user of the option they come from.
std::string as_option(const std::string& text) {
  for (std::size_t end = text.find("]: "); text.starts_with("targets[") && end != std::string::npos;) {
    std::string rest = text.substr(end + 3);
    if (rest.starts_with("target: ")) rest.erase(0, 8);
    return "--target: " + rest;
  }
  return text;
}

std::string cache_path(const Context& context) { return cache_stats(context).path; }

// Minutes of compiling are not to end in a cache that takes nothing: that is said before the first.
void expect_room(const Context& context) {
  constexpr std::uint64_t kLeastFree = std::uint64_t{8} << 20;
  const quern_cache_stats stats = cache_stats(context);
  const std::string path = printable(stats.path), why = *stats.reason != '\0' ? ": " + printable(stats.reason) : "";
  const std::string what = (path.empty() ? "there is no cache" : path) + why;
  static constexpr const char* kElse =
      "; nothing was compiled, because nothing could be kept; name another folder with --cache";
  switch (stats.state) {
    case QUERN_CACHE_READ_ONLY:
      throw Failure(QUERN_IO, what + (why.empty() ? ": is read-only" : "") + kElse);
    case QUERN_CACHE_OFF:
    case QUERN_CACHE_REFUSED:
      throw Failure(QUERN_IO, what + kElse);
    case QUERN_CACHE_DAMAGED:
      throw Failure(QUERN_DAMAGED, what + "; nothing was compiled; mend it with: quern trim --rebuild");
    default:
      break;
  }
  std::error_code failed;
  const std::filesystem::space_info space =
      std::filesystem::space(std::filesystem::path(stats.path).parent_path(), failed);
  if (!failed && space.available < kLeastFree) {
    throw Failure(QUERN_IO, path + ": its file system has " + format_bytes(space.available) + " left, at least " +
                                format_bytes(kLeastFree) + " are needed" + kElse);
  }
}

// A quern_warm_callback whose `user` is a Progress.
std::int32_t warm_progress(void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result* result) {
  std::string what = std::string(result->op) + ' ' + result->target;
  if (*result->op == '\0') what = "line " + std::to_string(result->line);
  std::string detail = outcome_name(result->outcome) + (' ' + what);
  if (result->outcome == QUERN_WARM_UNSERVED) detail += ": " + std::string(result->text);
  if (*result->key != '\0') detail += std::string(" ") + result->key;
  if (result->milliseconds > 0) detail += ", " + format_milliseconds(result->milliseconds);
  static_cast<Progress*>(user)->show(
      done, total, {what, detail, result->outcome == QUERN_WARM_FAILED, result->outcome == QUERN_WARM_COMPILED});
  return 0;
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

  void declare(Arguments& arguments) override {
    arguments.positional("MANIFEST", manifest_, "File of specialisations, one a line; - reads standard input", false);
    arguments.texts("--target", targets_, "T[,T]",
                    "What to compile for: sm_90a, gfx90a, host, ...; without it, the device here", not_empty());
    model_.declare(arguments, "A model's config.json or GGUF file: every kernel that it needs", true);
    arguments.flag("--allow-missing", allow_missing_,
                   "With --config: what the model needs and no kernel does is told, and is no failure");
    arguments.flag("--any-path", any_path_,
                   "Lines of the manifest may name files outside of its folder (source=@PATH)");
    arguments.number("--jobs,-j", jobs_, "N", "Compilations at once (the number of cores, at most 8)",
                     whole_number(1, 256));
    arguments.flag("--list-only,--dry-run", list_only_,
                   "Say what would be compiled and what is there; compile nothing");
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
      manifest = read_manifest(read_input(manifest_), folder, any_path_);
    }
    if (allow_missing_ && !config) {
      throw Failure(QUERN_INVALID, "--allow-missing: given without --config; allowed: with --config FILE only");
    }
    if (targets_.empty() && (config || manifest->for_every_target)) targets_.push_back(device_target(session));

    WarmReport report;
    report.manifest = manifest_;
    report.list_only = list_only_;
    warm(session, manifest ? manifest->text : "", config ? &*config : nullptr, report);
    if (manifest) {
      for (const BadLine& bad : manifest->bad) {
        report.rows.push_back({QUERN_WARM_FAILED, QUERN_INVALID, bad.line, "kernel", bad.target, "", "", bad.text, 0});
      }
    }
    const auto by_line = [](const WarmRow& a, const WarmRow& b) { return a.line < b.line; };
    std::stable_sort(report.rows.begin(), report.rows.end(), by_line);
    if (config) {
      for (const std::string& text : config->unserved) {
        report.unserved.push_back({QUERN_WARM_UNSERVED, QUERN_UNSUPPORTED, 0, "projections", "", "", "", text, 0});
      }
    }
    session.result["targets"] = Json(targets_);
    report.allowed = allow_missing_;
    report.show(session);

    const std::uint64_t failed = report.count(QUERN_WARM_FAILED);
    if (failed != 0) {
      throw Failure(QUERN_PARTIAL,
                    std::to_string(failed) + " of " + format_count(report.rows.size(), "kernel") + " failed");
    }
    if (report.unserved.empty() || allow_missing_) return kExitOk;
    throw Failure(QUERN_UNSUPPORTED,
                  format_count(report.unserved.size(), "need") + " of " + model_.path() +
                      (report.unserved.size() == 1 ? " has" : " have") + " no kernel here, as said above; all else " +
                      (list_only_ ? "is listed" : "was made") + ". With --allow-missing this is no failure");
  }

 private:
  // Adds the library's rows and the time to the report.
  void warm(const Session& session, const std::string& written, const ModelConfig* config, WarmReport& report) const {
    ContextOptions context_options = session.global.context;
    context_options.compile_threads = static_cast<std::int32_t>(jobs_);
    const Context context =
        list_only_ ? session.open_existing(context_options).context : Context(context_options, session.console);
    if (!list_only_) expect_room(context);
    std::vector<const char*> targets;
    for (const std::string& target : targets_) targets.push_back(target.c_str());
    Progress progress(session.console);
    const Interruption interruption(progress, list_only_ ? "" : cache_path(context));
    auto options = sized<quern_warm_options>();
    if (list_only_) options.flags |= QUERN_WARM_LIST_ONLY;
    options.targets = targets.data();
    options.target_count = targets.size();
    // What the file of the model adds stands behind what was given, on lines that are nobody's.
    const std::string manifest = config == nullptr ? written : written + '\n' + config->manifest;
    const auto lines = static_cast<std::uint32_t>(std::count(written.begin(), written.end(), '\n') + 1);
    options.manifest = manifest.c_str();
    options.manifest_length = manifest.size();
    options.model = config == nullptr ? nullptr : &config->model;
    options.progress = warm_progress;
    options.progress_user = &progress;
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_warm(context.get(), &options, list.out(), &error);
    if (status != QUERN_PARTIAL) {
      if (status == QUERN_INVALID) throw Failure(status, as_option(error.text));
      check(status, error);
    }
    report.milliseconds = progress.milliseconds();
    for (const quern_warm_result& result : list.items(quern_list_warm_result)) {
      std::vector<WarmRow>& rows = result.outcome == QUERN_WARM_UNSERVED ? report.unserved : report.rows;
      rows.push_back({result.outcome, result.status, result.line > lines ? 0 : result.line, result.op, result.target,
                      result.key, result.spec, without_line(result.text, result.line), result.milliseconds});
    }
  }

  std::string manifest_;
  ModelArguments model_;
  std::vector<std::string> targets_;
  std::int64_t jobs_ = 0;
  bool list_only_ = false, allow_missing_ = false, any_path_ = false;
};

}  // namespace

std::unique_ptr<Command> make_warm() { return std::make_unique<Warm>(); }

}  // namespace quern::cli
