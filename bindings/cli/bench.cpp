// `quern bench`: how long calls take on the device here, what of the device's ceilings that is, and which kernel ran.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "bindings/cli/bench/ceiling.h"
#include "bindings/cli/bench/chart.h"
#include "bindings/cli/bench/measure.h"
#include "bindings/cli/bench/model_steps.h"
#include "bindings/cli/bench/problem.h"
#include "bindings/cli/command.h"
#include "bindings/cli/device.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/model_arguments.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/table.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

std::string shown(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string microseconds(double value) {
  if (value <= 0) return "-";
  return shown(value < 100 ? "%.2f" : value < 10000 ? "%.1f" : "%.0f", value);
}
std::string percent(double share) { return share > 0 ? shown("%.0f %%", 100 * share) : "-"; }

// A line of the table.
struct Row {
  Row(std::string step, std::uint32_t times, Problem given)
      : what(std::move(step)), count(times), problem(std::move(given)) {}

  std::string what;  // of a model's step; else ""
  std::uint32_t count;
  Problem problem;
  Measured measured{};
  double against = 0;  // us of the other target's kernel
  double memory_share = 0, product_share = 0;
  std::string failure;

  double terabytes() const { return measured.per_call() > 0 ? problem.bytes / measured.per_call() / 1e6 : 0; }
  double teraflops() const { return measured.per_call() > 0 ? problem.flops / measured.per_call() / 1e6 : 0; }
  double share() const { return std::max(memory_share, product_share); }
  bool bound_by_products() const { return product_share > memory_share; }
};

// What tells kernels of one op apart for people: constants without op and target. Of several kernels the one that is
// most specialised, and of the others the first constant, which says what they are.
std::string variants_of(const std::vector<std::string>& lines) {
  std::vector<std::string> constants;
  for (const std::string& line : lines) {
    const std::size_t op = line.find(' ');
    const std::size_t target = op == std::string::npos ? op : line.find(' ', op + 1);
    constants.push_back(target == std::string::npos ? line : line.substr(target + 1));
  }
  if (constants.empty()) return "";
  const auto longer = [](const std::string& a, const std::string& b) { return a.size() < b.size(); };
  const auto most = std::max_element(constants.begin(), constants.end(), longer);
  std::string text = *most;
  constants.erase(most);
  for (const std::string& other : constants) text = other.substr(0, other.find(' ')) + ", " + text;
  return text;
}

class Bench : public Command {
 public:
  const char* name() const override { return "bench"; }
  const char* summary() const override { return "Measure ops on the device here, against what the device can do"; }
  const char* examples() const override {
    return "  quern bench gemm dtype=bf16 m=64 n=7168 k=2048\n"
           "  quern bench attention batch=64 kv=8192 heads=32 group=4 page_size=16\n"
           "  quern bench rmsnorm rows=64 n=8192 residual=1 'x=f16[64,8192]'\n"
           "  quern bench --config config.json --batch 64 --context 8192 --svg step.svg\n"
           "  quern bench --problems shapes.txt --against sm_90 --json";
  }

  void declare(Arguments& arguments) override {
    arguments.positionals(
        "PROBLEM", words_,
        "An op and NAME=VALUE words: constants as in a manifest, extents, any argument of its struct in "
        "quern.h (tensors as TYPE[EXTENT,...])");
    arguments.text("--problems", problems_, "FILE", "Problems, one a line; - reads standard input", not_empty());
    model_.declare(arguments, "A model's config.json or GGUF file: every call of one step", true);
    arguments.number("--batch", shape_.batch, "N", "With --config: sequences (16)", whole_number(1, 1 << 20));
    arguments.number("--context", shape_.context, "N", "With --config: keys of each sequence (4096)",
                     whole_number(1, 1 << 24));
    arguments.number("--queries", shape_.queries, "N", "With --config: new tokens of each sequence (1: a decode)",
                     whole_number(1, 1 << 24));
    arguments.text("--device", device_, "NAME",
                   "What to measure on: cuda or host, with :NUMBER; without it, the first GPU here", not_empty());
    arguments.text("--against", against_, "TARGET",
                   "Measure this target's kernels too, such as sm_90, the portable ones, on an H100", not_empty());
    arguments.number("--milliseconds", milliseconds_, "N", "To measure each call, and each graph, for (50)",
                     whole_number(1, 60000));
    arguments.number("--seed", seed_, "N", "Of the random contents (1)", whole_number(0, UINT32_MAX));
    arguments.flag("--no-ceiling", no_ceiling_, "Do not measure what the device can do");
    arguments.text("--svg", svg_, "FILE", "Draw the shares of the ceilings there", not_empty());
    arguments.flag("--list-only,--dry-run", list_only_, "Say what would be measured: tensors, bytes and operations");
  }

  int run(const Session& session) override {
    std::vector<Row> rows = read(session);
    if (list_only_) {
      list(session, rows);
      return kExitOk;
    }
    ContextOptions options = session.global.context;
    const Context context = open(session, options);
    const quern_device_info device = device_info(context);
    options.device_type = device.device_type;
    options.device_id = device.device_id;
    session.result["device"] = {{"name", device.name}, {"target", device.target}, {"sm_count", device.sm_count}};
    check_targets(rows, device);
    const std::unique_ptr<Machine> machine = machine_of(device);
    {
      Progress progress(session.console);
      measure_all(session, rows, options, *machine, progress);
    }
    Ceilings ceilings(context, device, *machine);
    if (device.device_type == kDLCPU) {
      session.console.note("host has no ceiling: it is for tests, and its times say nothing of any GPU");
    } else if (!no_ceiling_) {
      hold_against(session, rows, ceilings);
    }
    show(session, rows, device);
    if (!svg_.empty()) draw(rows, device);
    const auto failed = static_cast<std::uint64_t>(
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.failure.empty(); }));
    if (failed == 0) return kExitOk;
    throw Failure(QUERN_PARTIAL, std::to_string(failed) + " of " + format_count(rows.size(), "problem") + " failed");
  }

 private:
  std::vector<Row> read(const Session& session) {
    std::vector<Row> rows;
    if (!words_.empty()) rows.emplace_back("", 1, read_problem(words_));
    if (!problems_.empty()) {
      for (Problem& problem : read_problems(read_input(problems_), problems_))
        rows.emplace_back("", 1, std::move(problem));
    }
    if (const std::optional<ModelConfig> config = model_.read(session)) {
      std::vector<std::string> left_out = config->unserved;
      if (!config->manifest.empty())
        left_out.emplace_back("quantized_gemm: layers are counted with weights of 16 bits");
      for (const ModelStep& step : model_steps(config->model, shape_, left_out)) {
        for (Problem& problem : read_problems(step.line, model_.path())) {
          rows.emplace_back(step.what, step.count, std::move(problem));
        }
      }
      for (const std::string& what : left_out) session.console.note("not counted: " + printable(what));
      session.result["left_out"] = Json(left_out);
      session.result["step"] = {{"batch", shape_.batch}, {"context", shape_.context}, {"queries", shape_.queries}};
    }
    if (rows.empty()) {
      throw Failure(QUERN_INVALID,
                    "PROBLEM: none given; allowed: an op and its words, --problems FILE, or --config FILE instead");
    }
    return rows;
  }

  Context open(const Session& session, const ContextOptions& options) const {
    if (!device_.empty()) return open_device(session, options, device_);
    if (std::optional<Context> first = open_first_device(session, options)) return std::move(*first);
    throw Failure(QUERN_NOT_FOUND,
                  "no GPU was found here to measure on ('quern doctor' says what was tried); --device host measures "
                  "the host target");
  }

  static void check_targets(const std::vector<Row>& rows, const quern_device_info& device) {
    for (const Row& row : rows) {
      const std::string& target = row.problem.target;
      if (!target.empty() && target != "*" && target != device.target) {
        throw Failure(QUERN_INVALID,
                      "TARGET: '" + printable(target) + "' given; allowed: * or the device's, " + device.target);
      }
    }
  }

  void measure_all(const Session& session, std::vector<Row>& rows, const ContextOptions& options, Machine& machine,
                   Progress& progress) const {
    MeasureOptions how;
    how.milliseconds = static_cast<double>(milliseconds_ == 0 ? 50 : milliseconds_);
    how.seed = static_cast<std::uint64_t>(seed_);
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Row& row = rows[i];
      // A model's steps repeat: what was measured once holds.
      const auto same = std::find_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Row& each) { return each.problem.line == row.problem.line; });
      try {
        if (same != rows.begin() + static_cast<std::ptrdiff_t>(i)) {
          row.measured = same->measured, row.against = same->against, row.failure = same->failure;
        } else {
          row.measured = measure(row.problem, options, session.console, machine, how);
          if (!against_.empty()) {
            ContextOptions other = options;
            other.target = against_;
            row.against = measure(row.problem, other, session.console, machine, how).per_call();
          }
        }
      } catch (const Failure& failure) {
        if (rows.size() == 1) throw;
        row.failure = failure.what();
      }
      progress.show(++done, rows.size(), {row.problem.op->name, row.problem.line, !row.failure.empty(), true});
    }
  }

  static void hold_against(const Session& session, std::vector<Row>& rows, Ceilings& ceilings) {
    const auto tell = [&](const std::string& what, const Ceiling& ceiling, const char* unit) {
      session.result["ceilings"][what] = {{"how", ceiling.how}, {"per_second", ceiling.per_second}};
      session.console.note("ceiling: " + shown("%.2f ", ceiling.per_second / 1e12) + unit + ", " + ceiling.how);
    };
    const double memory = ceilings.memory().per_second;
    tell("memory", ceilings.memory(), "TB/s");
    std::vector<std::string> told;
    for (Row& row : rows) {
      const double time = row.measured.per_call();
      if (time <= 0) continue;
      row.memory_share = row.problem.bytes / time * 1e6 / memory;
      if (row.problem.rate.empty()) continue;
      const std::string& rate = row.problem.rate;
      try {
        const Ceiling& products = ceilings.products(rate);
        row.product_share = row.problem.flops / time * 1e6 / products.per_second;
        if (std::find(told.begin(), told.end(), rate) == told.end()) tell(rate, products, "TFLOP/s");
      } catch (const Failure& failure) {
        if (std::find(told.begin(), told.end(), rate) == told.end()) {
          session.console.warning("no ceiling of " + rate + " products: " + printable(failure.what(), true));
        }
      }
      told.push_back(rate);
    }
  }

  static void list(const Session& session, const std::vector<Row>& rows) {
    Json problems = Json::array();
    for (const Row& row : rows) {
      std::string text = row.problem.line + '\n';
      Json tensors = Json::object();
      for (const auto& [name, all] : row.problem.tensors) {
        std::string written;
        for (const ProblemTensor& each : all) written += (written.empty() ? "" : ";") + each.text();
        text += "  " + name + '=' + written + '\n';
        tensors[name] = written;
      }
      text += "  bytes=" + shown("%.0f", row.problem.bytes) + " flops=" + shown("%.0f", row.problem.flops) + '\n';
      session.console.data(printable(text, true));
      problems.push_back({{"op", row.problem.op->name},
                          {"problem", row.problem.line},
                          {"tensors", tensors},
                          {"bytes", row.problem.bytes},
                          {"flops", row.problem.flops}});
    }
    session.result["problems"] = std::move(problems);
  }

  void show(const Session& session, const std::vector<Row>& rows, const quern_device_info& device) const {
    const bool model = !model_.path().empty();
    std::vector<Column> columns;
    if (model) columns = {{"STEP"}, {"TIMES", true}};
    for (const Column& column :
         {Column{"OP"}, {"CALL us", true}, {"GRAPH us", true}, {"TB/s", true}, {"TFLOP/s", true}, {"CEILING", true}}) {
      columns.push_back(column);
    }
    if (!against_.empty()) columns.push_back({against_, true});
    columns.push_back({"KERNEL", false, true});
    Table table(columns);
    Json problems = Json::array();
    double step = 0;
    for (const Row& row : rows) {
      if (!row.failure.empty()) session.console.error(printable(row.problem.line + ": " + row.failure, true));
      step += row.count * row.measured.per_call();
      std::vector<Cell> cells;
      if (model) cells = {{row.what}, {std::to_string(row.count)}};
      const std::string share =
          row.share() > 0 ? percent(row.share()) + (row.bound_by_products() ? " of products" : " of memory") : "-";
      for (const std::string& text :
           {row.problem.op->name, microseconds(row.measured.call), microseconds(row.measured.graph),
            row.terabytes() > 0 ? shown("%.3f", row.terabytes()) : "-",
            row.problem.flops > 0 && row.teraflops() > 0 ? shown("%.2f", row.teraflops()) : "-", share}) {
        cells.push_back({text});
      }
      if (!against_.empty())
        cells.push_back({row.against > 0 ? shown("%.2fx", row.against / row.measured.per_call()) : "-"});
      cells.push_back({row.failure.empty() ? variants_of(row.measured.kernels) : "failed",
                       row.failure.empty() ? Style::plain : Style::bad});
      table.add(std::move(cells));
      problems.push_back(to_json(row));
    }
    session.console.data(table);
    if (rows.size() == 1) explain(session, rows.front());
    if (model) {
      const double tokens = static_cast<double>(shape_.batch * shape_.queries);
      session.console.data("a step of " + shown("%.0f", tokens) + " tokens: " + microseconds(step) + " us, " +
                           shown("%.0f", tokens / step * 1e6) + " tokens a second, on " + printable(device.name) +
                           "\n");
      session.result["step"]["microseconds"] = step;
    }
    session.result["problems"] = std::move(problems);
  }

  // All that ran, and why.
  static void explain(const Session& session, const Row& row) {
    for (const std::string& line : row.measured.kernels) session.console.data("ran: " + printable(line) + '\n');
    if (!row.measured.why.empty()) session.console.data("chosen " + printable(row.measured.why) + '\n');
  }

  static Json to_json(const Row& row) {
    Json json = {{"op", row.problem.op->name},
                 {"problem", row.problem.line},
                 {"call_us", row.measured.call},
                 {"graph_us", row.measured.graph},
                 {"bytes", row.problem.bytes},
                 {"flops", row.problem.flops},
                 {"terabytes_per_second", row.terabytes()},
                 {"teraflops", row.teraflops()},
                 {"memory_share", row.memory_share},
                 {"product_share", row.product_share},
                 {"kernels", Json(row.measured.kernels)},
                 {"why", row.measured.why}};
    if (!row.what.empty()) json["what"] = row.what, json["times"] = row.count;
    if (row.against > 0) json["against_us"] = row.against;
    if (!row.failure.empty()) json["error"] = row.failure;
    return json;
  }

  void draw(const std::vector<Row>& rows, const quern_device_info& device) const {
    std::vector<Bar> bars;
    for (const Row& row : rows) {
      if (!row.failure.empty()) continue;
      const std::string label = row.what.empty() ? row.problem.line : row.what;
      const std::string figure =
          row.bound_by_products() ? shown("%.1f TFLOP/s", row.teraflops()) : shown("%.2f TB/s", row.terabytes());
      bars.push_back(
          {label, microseconds(row.measured.per_call()) + " us, " + figure, row.share(), row.bound_by_products()});
    }
    write_atomically(absolute_path(svg_),
                     bar_chart(std::string("quern on ") + device.name,
                               "share of the measured ceiling: memory (blue) or products (orange)", bars));
  }

  std::vector<std::string> words_;
  std::string problems_, device_, against_, svg_;
  ModelArguments model_;
  StepShape shape_;
  std::int64_t milliseconds_ = 0, seed_ = 1;
  bool no_ceiling_ = false, list_only_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace quern::cli
