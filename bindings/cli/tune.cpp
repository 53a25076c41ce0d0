// `quern tune`: measures on the device here which kernels do a model's or a manifest's matrix products fastest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "bindings/cli/command.h"
#include "bindings/cli/device.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/interruption.h"
#include "bindings/cli/model_arguments.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/table.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

constexpr std::int32_t kOutcomes[] = {QUERN_TUNE_MEASURED, QUERN_TUNE_KNOWN, QUERN_TUNE_ABSENT, QUERN_TUNE_FAILED};

const char* tuned_name(std::int32_t outcome) {
  switch (outcome) {
    case QUERN_TUNE_MEASURED:
      return "measured";
    case QUERN_TUNE_KNOWN:
      return "known";
    case QUERN_TUNE_FAILED:
      return "failed";
    case QUERN_TUNE_ABSENT:
      return "absent";
    default:
      return "unknown";
  }
}

Style style_of(std::int32_t outcome) {
  if (outcome == QUERN_TUNE_FAILED) return Style::bad;
  return outcome == QUERN_TUNE_ABSENT ? Style::warning : Style::good;
}

// "1.23x": how much faster than the model's choice.
std::string gain_of(const quern_tune_result& row) {
  if (row.microseconds <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.2fx", row.model_microseconds / row.microseconds);
  return text;
}

std::string time_of(double microseconds) { return microseconds > 0 ? format_milliseconds(microseconds / 1e3) : "-"; }

// A quern_tune_callback whose `user` is a Progress.
std::int32_t tune_progress(void* user, std::uint64_t done, std::uint64_t total, const quern_tune_result* result) {
  std::string what = std::string(result->op) + " rows=" + std::to_string(result->rows);
  if (*result->op == '\0') what = "line " + std::to_string(result->line);
  std::string detail = tuned_name(result->outcome) + (' ' + what) + ' ' + result->product;
  if (*result->choice != '\0') detail += std::string(": ") + result->choice + ", " + gain_of(*result);
  static_cast<Progress*>(user)->show(
      done, total, {what, detail, result->outcome == QUERN_TUNE_FAILED, result->outcome == QUERN_TUNE_MEASURED});
  return 0;
}

class Tune : public Command {
 public:
  const char* name() const override { return "tune"; }
  const char* summary() const override {
    return "Measure which kernels are the fastest for matrix products, on the device here";
  }
  const char* examples() const override {
    return "  quern tune --config config.json --tp 8\n"
           "  quern tune --config config.json --weights fp8-block --rows 16,64,4096\n"
           "  quern tune products.manifest --device cuda:1 --again\n"
           "  echo 'fp8_gemm * scales=blocks n=7168 k=2048' | quern tune -\n"
           "  quern export tuned.quern && scp tuned.quern host:";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("MANIFEST", manifest_, "File of products, one a line; - reads standard input", false);
    model_.declare(arguments, "A model's config.json or GGUF file: every dense product that it needs", false);
    arguments.numbers("--rows", rows_, "N[,N]", "Numbers of rows (16, 32, 64, 128 and on in powers of two to 8192)",
                      whole_number(1, INT32_MAX));
    arguments.text("--device", device_, "NAME",
                   "What to measure on: cuda, hip or host, with :NUMBER; without it, the first GPU here", not_empty());
    arguments.number("--milliseconds", milliseconds_, "N", "To measure each candidate for (20)",
                     whole_number(1, 60000));
    arguments.flag("--again", again_, "Measure what is known, too");
    arguments.flag("--list-only,--dry-run", list_only_,
                   "Say what would be measured and what is known; measure nothing");
  }

  int run(const Session& session) override {
    if (manifest_.empty() && model_.path().empty()) {
      throw Failure(QUERN_INVALID,
                    "MANIFEST: none given; allowed: a file, - for standard input, or --config FILE instead");
    }
    const std::optional<ModelConfig> config = model_.read(session);
    const std::string manifest = manifest_.empty() ? "" : read_input(manifest_);
    const Context context = open(session);
    const quern_device_info device = device_info(context);
    session.console.detail(std::string("device: ") + printable(device.name) + ", " + device.target);
    session.result["device"] = {{"name", device.name}, {"target", device.target}};

    Progress progress(session.console);
    const Interruption interruption(progress, list_only_ ? "" : cache_stats(context).path, "products", "measured");
    auto options = sized<quern_tune_options>();
    if (again_) options.flags |= QUERN_TUNE_AGAIN;
    if (list_only_) options.flags |= QUERN_TUNE_LIST_ONLY;
    if (!manifest_.empty()) options.manifest = manifest.c_str(), options.manifest_length = manifest.size();
    options.model = config ? &config->model : nullptr;
    options.rows = rows_.data();
    options.row_count = rows_.size();
    options.milliseconds = static_cast<double>(milliseconds_);
    options.progress = tune_progress;
    options.progress_user = &progress;
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_tune(context.get(), &options, list.out(), &error);
    if (status != QUERN_PARTIAL) check(status, error);
    const std::vector<quern_tune_result> rows = list.items(quern_list_tune_result);
    show(session, rows, progress.milliseconds());
    if (rows.empty())
      throw Failure(QUERN_UNSUPPORTED, (config ? model_.path() : manifest_) + ": there is no product to tune");
    const auto failed = static_cast<std::uint64_t>(
        std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.outcome == QUERN_TUNE_FAILED; }));
    if (failed == 0) return kExitOk;
    throw Failure(QUERN_PARTIAL, std::to_string(failed) + " of " + format_count(rows.size(), "product") + " failed");
  }

 private:
  Context open(const Session& session) const {
    if (!device_.empty()) return open_device(session, session.global.context, device_);
    if (std::optional<Context> first = open_first_device(session, session.global.context)) return std::move(*first);
    throw Failure(QUERN_NOT_FOUND,
                  "no GPU was found here to measure on ('quern doctor' says what was tried); --device host measures "
                  "the host target");
  }

  void show(const Session& session, const std::vector<quern_tune_result>& rows, double milliseconds) const {
    Table table(
        {{"STATE"}, {"OP"}, {"ROWS", true}, {"CHOICE"}, {"TIME", true}, {"GAIN", true}, {"PRODUCT", false, true}});
    Json products = Json::array();
    for (const quern_tune_result& row : rows) {
      if (row.outcome == QUERN_TUNE_FAILED) {
        const std::string where =
            row.line != 0 ? manifest_ : std::string(row.op) + ' ' + row.product + " rows=" + std::to_string(row.rows);
        session.console.error(printable(where) + ": " + printable(row.text, true));
      }
      table.add({{tuned_name(row.outcome), style_of(row.outcome)},
                 {*row.op == '\0' ? "-" : row.op},
                 {row.rows == 0 ? "-" : std::to_string(row.rows)},
                 {*row.choice == '\0' ? "-" : row.choice},
                 {time_of(row.microseconds)},
                 {gain_of(row)},
                 {printable(row.product)}});
      products.push_back({{"outcome", tuned_name(row.outcome)},
                          {"status", quern_status_name(row.status)},
                          {"line", row.line},
                          {"op", row.op},
                          {"product", row.product},
                          {"rows", row.rows},
                          {"choice", row.choice},
                          {"model_choice", row.model_choice},
                          {"microseconds", row.microseconds},
                          {"model_microseconds", row.model_microseconds},
                          {"candidates", row.candidates},
                          {"text", row.text}});
    }
    if (!rows.empty()) session.console.data(table);
    std::string summary = format_count(rows.size(), "product");
    session.result["list_only"] = list_only_;
    for (const std::int32_t outcome : kOutcomes) {
      const auto number =
          std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.outcome == outcome; });
      session.result["counts"][tuned_name(outcome)] = number;
      if (number != 0) summary += ", " + std::to_string(number) + ' ' + tuned_name(outcome);
    }
    session.console.note(summary + ", in " + format_milliseconds(milliseconds));
    session.result["milliseconds"] = milliseconds;
    session.result["products"] = std::move(products);
  }

  std::string manifest_, device_;
  ModelArguments model_;
  std::vector<std::int64_t> rows_;
  std::int64_t milliseconds_ = 0;
  bool again_ = false, list_only_ = false;
};

}  // namespace

std::unique_ptr<Command> make_tune() { return std::make_unique<Tune>(); }

}  // namespace quern::cli
