// `quern warm`: compiles what a manifest or a model needs, for any target, without a device.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "bindings/cli/command.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/manifest.h"
#include "bindings/cli/model_config.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/validators.h"
#include "bindings/cli/warm_report.h"

namespace quern::cli {
namespace {

constexpr std::array<std::string_view, 2> kDtypes = {"bf16", "f16"};
constexpr std::array<std::string_view, 5> kKvDtypes = {"bf16", "f16", "e4m3", "e5m2", "int8"};
constexpr std::array<std::string_view, 3> kWeights = {"bf16", "fp8", "fp8-block"};

// What the first device here is, as a target.
std::string device_target(const Session& session) {
  std::string tried;
  for (const std::int32_t type : {std::int32_t{kDLCUDA}, std::int32_t{kDLROCM}}) {
    ContextOptions options = session.global.context;
    options.flags |= QUERN_CONTEXT_NO_CACHE;
    options.device_type = type;
    try {
      const Context context(options, session.console);
      auto info = sized<quern_device_info>();
      auto error = sized<quern_error>();
      check(quern_device(context.get(), &info, &error), error);
      return info.target;
    } catch (const Failure& failure) {
      session.console.detail(printable(failure.what(), true));
    }
  }
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

std::string weights_name(const quern_model& model) {
  if ((model.flags & QUERN_MODEL_BLOCK_FP8) != 0) return "fp8-block";
  return (model.flags & QUERN_MODEL_FP8) != 0 ? "fp8" : dtype_name(model.dtype);
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
    app.add_option("--config", config_, "A model's config.json: every kernel that it needs")
        ->type_name("FILE")
        ->check(not_empty());
    app.add_option("--target", targets_, "What to compile for: sm_90a, gfx90a, host, ...; without it, the device here")
        ->type_name("T[,T]")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(not_empty());
    app.add_option("--tp", tensor_parallel_, "With --config: ranks that the heads are divided over (1)")
        ->type_name("N")
        ->check(whole_number(1, 1024));
    app.add_option("--dtype", dtype_, "With --config: of activations, bf16 or f16 (the file's)")
        ->type_name("TYPE")
        ->check(one_of(kDtypes));
    app.add_option("--kv-dtype", kv_dtype_,
                   "With --config: of the KV cache, bf16, f16, e4m3, e5m2 or int8 (as --dtype)")
        ->type_name("TYPE")
        ->check(one_of(kKvDtypes));
    app.add_option("--weights", weights_,
                   "With --config: how weights are stored, bf16 (as activations), fp8 or fp8-block (the file's)")
        ->type_name("TYPE")
        ->check(one_of(kWeights));
    app.add_option("--page-size", page_size_, "With --config: tokens a page of the KV cache (16 and 64)")
        ->type_name("N")
        ->check(whole_number(1, 65536));
    app.add_option("--jobs,-j", jobs_, "Compilations at once (the number of cores, at most 8)")
        ->type_name("N")
        ->check(whole_number(1, 256));
    app.add_flag("--list-only,--dry-run", list_only_, "Say what would be compiled and what is there; compile nothing");
  }

  int run(const Session& session) override {
    check_arguments();
    std::optional<Manifest> manifest;
    if (!manifest_.empty()) {
      const std::string folder = manifest_ == "-" ? "." : std::filesystem::path(manifest_).parent_path().string();
      manifest = read_manifest(read_input(manifest_), folder);
    }
    std::optional<ModelConfig> config;
    if (!config_.empty()) config = read_config(session);
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
    if (config && !served) throw Failure(QUERN_UNSUPPORTED, config_ + ": no op here has kernels for this model");
    const std::uint64_t failed = report.count(QUERN_WARM_FAILED);
    if (failed == 0) return kExitOk;
    throw Failure(QUERN_PARTIAL,
                  std::to_string(failed) + " of " + format_count(report.rows.size(), "kernel") + " failed");
  }

 private:
  void check_arguments() const {
    if (manifest_.empty() && config_.empty()) {
      throw Failure(QUERN_INVALID,
                    "MANIFEST: none given; allowed: a file, - for standard input, or --config FILE instead");
    }
    const std::pair<const char*, bool> needs_config[] = {
        {"--tp", tensor_parallel_ != 0},  {"--dtype", !dtype_.empty()},     {"--kv-dtype", !kv_dtype_.empty()},
        {"--weights", !weights_.empty()}, {"--page-size", page_size_ != 0},
    };
    for (const auto& [option, given] : needs_config) {
      if (given && config_.empty())
        throw Failure(QUERN_INVALID,
                      std::string(option) + ": given without --config; allowed: with --config FILE only");
    }
  }

  ModelConfig read_config(const Session& session) const {
    ModelOptions options;
    options.tensor_parallel = tensor_parallel_ == 0 ? 1 : tensor_parallel_;
    options.page_size = page_size_;
    if (!dtype_.empty()) options.dtype = dtype_named(dtype_);
    if (!kv_dtype_.empty()) options.kv_dtype = dtype_named(kv_dtype_);
    if (!weights_.empty()) {
      options.weights = weights_ == "fp8" ? Weights::fp8 : weights_ == "bf16" ? Weights::dense : Weights::fp8_block;
    }
    ModelConfig config = read_model_config(read_input(config_), config_, options);
    const quern_model& model = config.model;
    session.console.detail("model: " + config.model_type + ", " + format_count(model.layers, "layer") + ", " +
                           std::to_string(model.heads) + '/' + std::to_string(model.kv_heads) + " heads of " +
                           std::to_string(model.head_dim) + ", " + dtype_name(model.dtype) + ", KV " +
                           dtype_name(model.kv_dtype) + ", weights " + weights_name(model) + ", tensor parallel " +
                           std::to_string(model.tensor_parallel));
    for (const std::string& note : config.notes) session.console.note(config_ + ": " + printable(note));
    session.result["model"] = model_to_json(model);
    session.result["model"]["model_type"] = config.model_type;
    session.result["notes"] = config.notes;
    return config;
  }

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
    options.progress = Progress::report;
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

  std::string manifest_, config_, dtype_, kv_dtype_, weights_;
  std::vector<std::string> targets_;
  std::uint32_t tensor_parallel_ = 0;
  std::uint32_t page_size_ = 0;
  std::int32_t jobs_ = 0;
  bool list_only_ = false;
};

}  // namespace

std::unique_ptr<Command> make_warm() { return std::make_unique<Warm>(); }

}  // namespace quern::cli
