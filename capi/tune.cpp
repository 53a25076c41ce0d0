// Tuning: which products at how many rows, one after the other, since each wants the device for itself.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "capi/context.h"
#include "capi/list.h"
#include "capi/requests.h"
#include "sources/manifest.h"

namespace quern::capi {
namespace {

constexpr std::int64_t kRows[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
constexpr std::uint64_t kMostRowCounts = 4096;
constexpr double kMilliseconds = 20;

// One product at one number of rows, or a line or op that could not say which.
struct TuneItem {
  const ops::Op* op = nullptr;  // none: `row` already holds the failure
  ops::Constants product;
  TuneRow row;
};

class Plan {
 public:
  explicit Plan(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}

  void add(const ops::Op& op, const ops::Constants& product, std::uint32_t line) {
    for (const std::int64_t rows : rows_) {
      TuneItem item;
      item.op = &op;
      item.product = product;
      item.row.op = op.name;
      item.row.line = line;
      item.row.rows = rows;
      item.row.product = ops::constants_text(product);
      items_.push_back(std::move(item));
    }
  }
  void add_failure(const Error& failure, std::uint32_t line, std::string op) {
    TuneItem item;
    item.row.op = std::move(op);
    item.row.status = failure.status();
    item.row.line = line;
    item.row.text = text_of_failure(failure.text(), line);
    items_.push_back(std::move(item));
  }
  std::vector<TuneItem> take() { return std::move(items_); }

 private:
  std::vector<std::int64_t> rows_;
  std::vector<TuneItem> items_;
};

std::string tunable_ops() {
  std::string names;
  for (const ops::Op& op : ops::all()) {
    if (op.tune != nullptr) names += (names.empty() ? "" : ", ") + std::string(op.name);
  }
  return names;
}

void add_line(std::string_view text, std::uint32_t number, jit::Target own, Plan& plan) {
  std::string op;
  try {
    const std::optional<ops::ManifestLine> line = ops::parse_line(text);
    if (!line) return;
    op = line->op->name;
    if (line->op->tune == nullptr)
      throw Error(QUERN_INVALID, "op \"" + op + "\" has nothing to tune; allowed: " + tunable_ops());
    if (line->target && *line->target != own) {
      throw Error(QUERN_INVALID, "the target is \"" + line->target->name() +
                                     "\"; tuning measures on the context's device, \"" + own.name() +
                                     "\": give that or '*'");
    }
    plan.add(*line->op, line->constants, number);
  } catch (const Error& failure) {
    plan.add_failure(failure, number, op);
  }
}

std::vector<std::int64_t> read_rows(const quern_tune_options& options) {
  if (options.row_count == 0) return {std::begin(kRows), std::end(kRows)};
  if (options.rows == nullptr || options.row_count > kMostRowCounts) {
    throw Error(QUERN_INVALID, std::string("rows is ") + (options.rows == nullptr ? "NULL" : "given") +
                                   " with a row_count of " + std::to_string(options.row_count) + "; at most " +
                                   std::to_string(kMostRowCounts) + " are allowed");
  }
  for (std::uint64_t i = 0; i < options.row_count; ++i) {
    if (options.rows[i] < 1 || options.rows[i] > INT32_MAX) {
      throw Error(QUERN_INVALID, "rows[" + std::to_string(i) + "] is " + std::to_string(options.rows[i]) +
                                     "; 1 to 2^31 - 1 are allowed");
    }
  }
  return {options.rows, options.rows + options.row_count};
}

double read_milliseconds(const quern_tune_options& options) {
  if (!std::isfinite(options.milliseconds) || options.milliseconds < 0 || options.milliseconds > 60'000) {
    throw Error(QUERN_INVALID,
                "milliseconds is " + std::to_string(options.milliseconds) + "; 0 (20) to 60000 are allowed");
  }
  return options.milliseconds == 0 ? kMilliseconds : options.milliseconds;
}

void tune_item(const ops::Runtime& runtime, const ops::TuneOptions& options, TuneItem& item) noexcept {
  TuneRow& row = item.row;
  quern_error error{};
  error.size = sizeof(error);
  row.status = guarded(&error, [&] {
    ops::TuneFinding found = item.op->tune(runtime, item.product, row.rows, options);
    using Outcome = ops::TuneFinding::Outcome;
    row.outcome = found.outcome == Outcome::measured ? QUERN_TUNE_MEASURED
                  : found.outcome == Outcome::known  ? QUERN_TUNE_KNOWN
                                                     : QUERN_TUNE_ABSENT;
    row.product = std::move(found.product);
    row.choice = std::move(found.choice);
    row.model_choice = std::move(found.model_choice);
    row.microseconds = found.microseconds;
    row.model_microseconds = found.model_microseconds;
    row.candidates = static_cast<std::uint32_t>(found.candidates);
    return QUERN_OK;
  });
  if (row.status == QUERN_OK) return;
  row.outcome = QUERN_TUNE_FAILED;
  // No memory for a text: the status says what happened.
  static_cast<void>(guarded(nullptr, [&] {
    row.text = text_of_failure(error.text, row.line);
    return QUERN_OK;
  }));
}

}  // namespace
}  // namespace quern::capi

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_tune(quern_context* context, const quern_tune_options* options, quern_list** results,
                   quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    const In<quern_tune_options> given(options, "quern_tune_options");
    if (alive.checked != nullptr)
      throw Error(QUERN_INVALID, "context is checked (QUERN_CONTEXT_CHECKED): tune with one that is not");
    check_flags("quern_tune_options.flags", given->flags, QUERN_TUNE_AGAIN | QUERN_TUNE_LIST_ONLY);
    check_request(given->manifest, given->manifest_length, given->model, "tune");
    const ops::TuneOptions how{read_milliseconds(*given), (given->flags & QUERN_TUNE_AGAIN) != 0,
                               (given->flags & QUERN_TUNE_LIST_ONLY) != 0};
    Plan plan(read_rows(*given));
    const jit::TargetInfo& limits = alive.driver->device().limits;
    if (given->manifest != nullptr) {
      for_each_line({given->manifest, given->manifest_length},
                    [&](std::string_view text, std::uint32_t number) { add_line(text, number, limits.target, plan); });
    }
    if (given->model != nullptr) {
      const In<quern_model> model(given->model, "quern_model");
      check_model(*model);
      for (const ops::Op& op : ops::all()) {
        if (op.products == nullptr) continue;
        std::vector<ops::Constants> products;
        op.products(*model, limits, &products);
        for (const ops::Constants& product : products) plan.add(op, product, 0);
      }
    }
    // What is measured must be there: nothing is put off.
    ops::Runtime runtime = alive.runtime;
    if (runtime.miss == jit::Miss::background) runtime.miss = jit::Miss::compile;
    std::vector<TuneItem> items = plan.take();
    std::vector<TuneRow> rows;
    rows.reserve(items.size());
    for (TuneItem& item : items) {
      if (item.op != nullptr) tune_item(runtime, how, item);
      if (alive.repeats != nullptr) alive.repeats->forget();
      rows.push_back(std::move(item.row));
      if (!tell_progress(*given, rows.size(), items.size(), rows.back())) break;
    }
    return finish_request(std::move(rows), items.size(), results, "tuned",
                          [](const TuneRow& row) { return row.status != QUERN_OK; });
  });
}

}  // extern "C"
