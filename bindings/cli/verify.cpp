// `quern verify`: reads and checks every entry of the cache and the bundles; with --run it runs them, too.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>

#include "bindings/cli/command.h"
#include "bindings/cli/device.h"
#include "bindings/cli/findings.h"
#include "bindings/cli/format.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/table.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

constexpr std::size_t kShortKey = 12;
constexpr std::int32_t kOutcomes[] = {QUERN_VERIFY_AGREES, QUERN_VERIFY_DIFFERS, QUERN_VERIFY_FAILED,
                                      QUERN_VERIFY_NOT_RUN};

const char* verified_name(std::int32_t outcome) {
  switch (outcome) {
    case QUERN_VERIFY_AGREES:
      return "agrees";
    case QUERN_VERIFY_DIFFERS:
      return "differs";
    case QUERN_VERIFY_FAILED:
      return "failed";
    case QUERN_VERIFY_NOT_RUN:
      return "not_run";
    default:
      return "unknown";
  }
}

bool is_bad(std::int32_t outcome) { return outcome == QUERN_VERIFY_DIFFERS || outcome == QUERN_VERIFY_FAILED; }

Style style_of(std::int32_t outcome) {
  if (is_bad(outcome)) return Style::bad;
  return outcome == QUERN_VERIFY_AGREES ? Style::good : Style::warning;
}

// Of what rounding allows.
std::string share(double error) {
  if (error < 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", error);
  return text;
}

// A quern_verify_callback whose `user` is a Progress.
std::int32_t verify_progress(void* user, std::uint64_t done, std::uint64_t total, const quern_verify_result* result) {
  const std::string what = std::string(result->op) + ' ' + result->target;
  static_cast<Progress*>(user)->show(
      done, total, {what, verified_name(result->outcome) + (' ' + what) + ' ' + result->spec, is_bad(result->outcome)});
  return 0;
}

class Verify : public Command {
 public:
  const char* name() const override { return "verify"; }
  const char* summary() const override { return "Check every entry of the cache and the bundles"; }
  const char* examples() const override {
    return "  quern verify\n"
           "  quern verify --bundle kernels.quern\n"
           "  quern verify || quern trim --rebuild\n"
           "  quern verify --run\n"
           "  quern verify --run attention --device cuda:1 --seed 7";
  }
  void declare(Arguments& arguments) override {
    arguments.flag("--run", run_,
                   "Run every kernel on the device here on random inputs, and hold its results against the host "
                   "target's and, where there are any, against those of a plain loop in double precision");
    arguments.positional("SELECT", select_, "With --run: an op, or the first digits of a key", false);
    arguments.text("--device", device_, "NAME",
                   "With --run: cuda, hip or host, with :NUMBER; without it, the first GPU here", not_empty());
    arguments.number("--seed", seed_, "N", "With --run: of the random inputs; without it, one is drawn and told",
                     whole_number(1, INT64_MAX));
  }

  int run(const Session& session) override {
    if (run_) return run_all(session);
    for (const auto& [given, option] :
         {std::pair{!select_.empty(), "SELECT"}, {!device_.empty(), "--device"}, {seed_ != 0, "--seed"}}) {
      if (given) throw Failure(QUERN_INVALID, std::string(option) + ": given without --run; allowed: with --run only");
    }
    const Existing existing = session.open_existing();
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_cache_verify(existing.context.get(), list.out(), &error);
    const std::vector<quern_finding> findings = list.items(quern_list_finding);
    const std::size_t wrong = show_findings(session, findings);
    check(status, error);
    session.console.note(wrong == 0 ? "no damage found" : format_count(wrong, "problem") + " found");
    return kExitOk;
  }

 private:
  Context open(const Session& session) const {
    ContextOptions options = session.global.context;
    options.flags |= QUERN_CONTEXT_READ_ONLY_CACHE;
    options.silent = !session.console.verbose();  // that it is read-only is as it should be
    if (!device_.empty()) return open_device(session, options, device_);
    if (std::optional<Context> first = open_first_device(session, options)) return std::move(*first);
    throw Failure(QUERN_NOT_FOUND,
                  "no GPU was found here to run kernels on ('quern doctor' says what was tried); --device host runs "
                  "those of the host target");
  }

  int run_all(const Session& session) const {
    const Context context = open(session);
    const quern_device_info device = device_info(context);
    session.console.detail(std::string("device: ") + printable(device.name) + ", " + device.target);
    session.result["device"] = {{"name", device.name}, {"target", device.target}};
    Progress progress(session.console);
    auto options = sized<quern_verify_options>();
    options.prefix = select_.c_str();
    options.seed = static_cast<std::uint64_t>(seed_);
    options.progress = verify_progress;
    options.progress_user = &progress;
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_verify(context.get(), &options, list.out(), &error);
    if (status != QUERN_PARTIAL && status != QUERN_DAMAGED) check(status, error);
    const std::vector<quern_verify_result> rows = list.items(quern_list_verify_result);
    show(session, rows, progress.milliseconds());
    check(status, error);
    return kExitOk;
  }

  static void show(const Session& session, const std::vector<quern_verify_result>& rows, double milliseconds) {
    Table table({{"STATE"}, {"KEY"}, {"OP"}, {"CALLS", true}, {"ERROR", true}, {"TO FP64", true}, {"TEXT", false, true}});
    Json kernels = Json::array();
    for (const quern_verify_result& row : rows) {
      if (is_bad(row.outcome)) {
        session.console.error(printable(std::string(row.op) + ' ' + row.target + ' ' + row.spec) + ": " +
                              printable(row.text, true));
      }
      const bool compared = row.trials != 0;
      table.add({{verified_name(row.outcome), style_of(row.outcome)},
                 {std::string(row.key).substr(0, kShortKey)},
                 {row.op},
                 {compared ? std::to_string(row.trials) : "-"},
                 {compared ? share(row.error) : "-"},
                 {compared ? share(row.truth_error) : "-"},
                 {printable(row.text)}});
      kernels.push_back({{"outcome", verified_name(row.outcome)},
                         {"status", quern_status_name(row.status)},
                         {"op", row.op},
                         {"target", row.target},
                         {"key", row.key},
                         {"spec", row.spec},
                         {"trials", row.trials},
                         {"error", compared ? Json(row.error) : Json()},
                         {"truth_error", row.truth_error < 0 ? Json() : Json(row.truth_error)},
                         {"text", row.text},
                         {"milliseconds", row.milliseconds}});
    }
    if (!rows.empty()) session.console.data(table);
    std::string summary = format_count(rows.size(), "kernel");
    for (const std::int32_t outcome : kOutcomes) {
      const auto number =
          std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.outcome == outcome; });
      session.result["counts"][verified_name(outcome)] = number;
      if (number != 0) summary += ", " + std::to_string(number) + ' ' + verified_name(outcome);
    }
    session.console.note(summary + ", in " + format_milliseconds(milliseconds));
    session.result["milliseconds"] = milliseconds;
    session.result["kernels"] = std::move(kernels);
  }

  std::string select_, device_;
  std::int64_t seed_ = 0;
  bool run_ = false;
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace quern::cli
