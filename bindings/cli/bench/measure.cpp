// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/measure.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "bindings/cli/bench/call.h"
#include "bindings/cli/bench/element.h"
#include "bindings/cli/device.h"
#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr int kCallsInGraph = 20;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<std::string> specialised(const Context& context) {
  auto error = sized<quern_error>();
  std::uint64_t length = 0;
  check(quern_manifest(context.get(), nullptr, &length, &error), error);
  std::string text(length + 1, '\0');
  std::uint64_t size = text.size();
  check(quern_manifest(context.get(), text.data(), &size, &error), error);
  text.resize(size);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  return lines;
}

// Of what ran, the value of a constant; "" where no line has it.
std::string constant_of(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.starts_with(name + '=')) return word.substr(name.size() + 1);
    }
  }
  return "";
}

// Constants that were asked for and are no argument: what ran has them, or it is said; no kernel has them: refused.
std::string held_against(const Problem& problem, const std::vector<std::string>& lines) {
  std::string differences;
  for (const auto& [name, value] : problem.asked) {
    const std::string ran = constant_of(lines, name);
    if (ran.empty()) {
      throw Failure(QUERN_INVALID, name + ": given, and neither an argument of quern_" + problem.op->name +
                                       ", a name of its recipe, nor a constant of what runs: " +
                                       (lines.empty() ? "nothing" : lines.front()));
    }
    if (ran != value) differences += "; " + name + '=' + value + " was asked for, " + name + '=' + ran + " ran";
  }
  return differences;
}

// How a product's kernel was chosen: quern_tune knows.
std::string choice_of(const Problem& problem, const Context& context, const std::vector<std::string>& lines) {
  const auto a = problem.tensors.find("a"), b = problem.tensors.find("b");
  if ((problem.op->name != "gemm" && problem.op->name != "fp8_gemm") || lines.empty()) return "";
  const std::vector<std::int64_t>&left = a->second.front().shape, &right = b->second.front().shape;
  std::istringstream words(lines.front());
  std::string product = problem.op->name + " *", word;
  words >> word >> word;
  while (words >> word) {
    if (!word.starts_with("variant=")) product += ' ' + word;
  }
  product += " n=" + std::to_string(right[right.size() - 2]) + " k=" + std::to_string(right.back());
  if (left.size() == 3) product += " batch=" + std::to_string(left.front());
  const std::int64_t rows = left[left.size() - 2];
  auto options = sized<quern_tune_options>();
  options.flags = QUERN_TUNE_LIST_ONLY;
  options.manifest = product.c_str();
  options.manifest_length = product.size();
  options.rows = &rows;
  options.row_count = 1;
  List list;
  auto error = sized<quern_error>();
  const std::int32_t status = quern_tune(context.get(), &options, list.out(), &error);
  if (status != QUERN_OK) return "";  // a product that tuning knows nothing of, such as one in another order
  for (const quern_tune_result& row : list.items(quern_list_tune_result)) {
    if (row.outcome != QUERN_TUNE_KNOWN) {
      const std::string model = *row.model_choice != '\0' ? row.model_choice : row.choice;
      return "by the model of waves and bytes" + (model.empty() ? "" : ": " + model) + "; not tuned here (quern tune)";
    }
    std::array<char, 64> gain{};
    std::snprintf(gain.data(), gain.size(), "%.2fx of the model's",
                  row.microseconds > 0 ? row.model_microseconds / row.microseconds : 0);
    return std::string("by tuning: ") + row.choice + ", " + gain.data() + ' ' + row.model_choice;
  }
  return "";
}

int repetitions(double milliseconds, double microseconds, int least, int most) {
  return static_cast<int>(std::clamp(milliseconds * 1e3 / std::max(microseconds, 0.1), double(least), double(most)));
}

// Copies so that what one call leaves in the L2 is gone when its turn comes again.
std::size_t copies_for(std::uint64_t bytes, const quern_device_info& device) {
  if (bytes == 0 || device.l2_bytes == 0) return 1;
  const std::uint64_t wanted = 3 * device.l2_bytes / bytes + 1, room = device.memory_bytes / 4 / bytes;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(std::min(wanted, room), 1, kCallsInGraph));
}

}  // namespace

Measured measure(const Problem& problem, const ContextOptions& given, Console& console, Machine& machine,
                 const MeasureOptions& options) {
  const Context context(given, console);
  const quern_device_info device = device_info(context);
  Measured measured;
  std::vector<std::unique_ptr<Call>> calls;
  calls.push_back(std::make_unique<Call>(problem, context, device, machine, options.seed));
  calls.front()->run();
  machine.synchronise();
  measured.kernels = specialised(context);
  const std::string differences = held_against(problem, measured.kernels);
  measured.why = choice_of(problem, context, measured.kernels) + differences;
  if (measured.why.starts_with("; ")) measured.why.erase(0, 2);

  const auto run = [&] { calls.front()->run(); };
  const double probe = median(machine.time_runs(run, device.device_type == kDLCPU ? 1 : 3, true));
  measured.call = median(machine.time_runs(run, repetitions(options.milliseconds, probe, 3, 200), true));
  if (device.device_type == kDLCPU) return measured;
  const std::size_t copies = copies_for(calls.front()->bytes(), device);
  while (calls.size() < copies) {
    calls.push_back(std::make_unique<Call>(problem, context, device, machine, options.seed, calls.front().get()));
  }
  const auto record = [&] {
    for (std::size_t i = 0; i < kCallsInGraph; ++i) calls[i % calls.size()]->run();
  };
  const int replays = repetitions(options.milliseconds, 2 * kCallsInGraph * probe, 5, 50);
  measured.graph = median(machine.time_graph(record, replays)) / kCallsInGraph;
  machine.synchronise();
  return measured;
}

}  // namespace quern::cli
