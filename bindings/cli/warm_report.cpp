// What a warm-up did, for people and for scripts.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/warm_report.h"

#include <algorithm>
#include <map>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr std::size_t kShortKey = 12;
constexpr std::int32_t kOutcomes[] = {QUERN_WARM_COMPILED, QUERN_WARM_HIT, QUERN_WARM_ABSENT, QUERN_WARM_FAILED};

Style style_of(std::int32_t outcome) {
  if (outcome == QUERN_WARM_FAILED) return Style::bad;
  return outcome == QUERN_WARM_ABSENT ? Style::warning : Style::good;
}

// Constants as a table shows them: a value that is a whole source would fill the screen.
std::string brief(std::string_view spec) {
  constexpr std::size_t kMost = 40;
  std::string text;
  while (!spec.empty()) {
    const std::string_view word = spec.substr(0, spec.find(' '));
    spec.remove_prefix(std::min(word.size() + 1, spec.size()));
    text += (text.empty() ? "" : " ") + shorten(word, kMost);
  }
  return text;
}

// A compiler may say the same of a hundred kernels, each time over pages.
std::string first_lines(const std::string& text) {
  constexpr int kMost = 12;
  std::size_t end = 0;
  for (int line = 0; line < kMost; ++line) {
    end = text.find('\n', end);
    if (end == std::string::npos) return text;
    ++end;
  }
  if (end == text.size()) return text;
  const auto more = std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n');
  return text.substr(0, end) + "... (--verbose and --json show the rest, " +
         format_count(static_cast<std::uint64_t>(more), "line") + ')';
}

// A line a kernel.
Table kernel_table(const std::vector<WarmRow>& rows) {
  Table table({{"STATE"}, {"KEY"}, {"TARGET"}, {"OP"}, {"COMPILE", true}, {"CONSTANTS", false, true}});
  for (const WarmRow& row : rows) {
    table.add({{outcome_name(row.outcome), style_of(row.outcome)},
               {row.key.empty() ? "-" : row.key.substr(0, kShortKey)},
               {row.target.empty() ? "-" : row.target},
               {row.op.empty() ? "-" : row.op},
               {row.outcome == QUERN_WARM_COMPILED ? format_milliseconds(row.milliseconds) : "-"},
               {brief(row.spec)}});
  }
  return table;
}

struct Sum {
  std::map<std::int32_t, std::uint64_t> outcomes;
  std::uint64_t kernels = 0;
  double compile_ms = 0;
};

// A line a target.
Table target_table(const std::vector<WarmRow>& rows) {
  std::map<std::string, Sum> targets;
  for (const WarmRow& row : rows) {
    Sum& sum = targets[row.target.empty() ? "-" : row.target];
    ++sum.kernels;
    ++sum.outcomes[row.outcome];
    if (row.outcome == QUERN_WARM_COMPILED) sum.compile_ms += row.milliseconds;
  }
  Table table(
      {{"TARGET"}, {"KERNELS", true}, {"COMPILED", true}, {"CACHED", true}, {"FAILED", true}, {"COMPILE TIME", true}});
  for (auto& [target, sum] : targets) {
    const std::uint64_t failed = sum.outcomes[QUERN_WARM_FAILED];
    table.add({{target},
               {std::to_string(sum.kernels)},
               {std::to_string(sum.outcomes[QUERN_WARM_COMPILED])},
               {std::to_string(sum.outcomes[QUERN_WARM_HIT])},
               {std::to_string(failed), failed != 0 ? Style::bad : Style::plain},
               {format_milliseconds(sum.compile_ms)}});
  }
  return table;
}

Json rows_to_json(const std::vector<WarmRow>& rows) {
  Json kernels = Json::array();
  for (const WarmRow& row : rows) {
    kernels.push_back({{"outcome", outcome_name(row.outcome)},
                       {"status", quern_status_name(row.status)},
                       {"line", row.line},
                       {"op", row.op},
                       {"target", row.target},
                       {"key", row.key},
                       {"spec", row.spec},
                       {"text", row.text},
                       {"milliseconds", row.milliseconds}});
  }
  return kernels;
}

}  // namespace

const char* outcome_name(std::int32_t outcome) {
  switch (outcome) {
    case QUERN_WARM_HIT:
      return "cached";
    case QUERN_WARM_COMPILED:
      return "compiled";
    case QUERN_WARM_FAILED:
      return "failed";
    case QUERN_WARM_ABSENT:
      return "absent";
    case QUERN_WARM_UNSERVED:
      return "unserved";
    default:
      return "unknown";
  }
}

std::uint64_t WarmReport::count(std::int32_t outcome) const {
  return static_cast<std::uint64_t>(
      std::count_if(rows.begin(), rows.end(), [&](const WarmRow& row) { return row.outcome == outcome; }));
}

void WarmReport::show(const Session& session) const {
  Console& console = session.console;
  for (const WarmRow& row : rows) {
    if (row.outcome != QUERN_WARM_FAILED) continue;
    const std::string where =
        row.line != 0 ? manifest + ':' + std::to_string(row.line) : row.op + ' ' + row.target + ' ' + brief(row.spec);
    const std::string text = printable(row.text, true);
    console.error(printable(where) + ": " + (console.verbose() ? text : first_lines(text)));
  }
  Json needs = Json::array();
  for (const WarmRow& need : unserved) {
    const std::string target = need.target.empty() ? "" : " on " + need.target;
    const std::string text = "not served: " + need.op + target + ": " + need.text;
    allowed ? console.warning(printable(text)) : console.error(printable(text));
    needs.push_back({{"need", need.op}, {"target", need.target}, {"text", need.text}});
    session.result["notes"].push_back(text);
  }
  session.result["unserved"] = std::move(needs);
  if (!rows.empty()) console.data(list_only || console.verbose() ? kernel_table(rows) : target_table(rows));

  std::string summary = format_count(rows.size(), "kernel");
  session.result["list_only"] = list_only;
  for (const std::int32_t outcome : kOutcomes) {
    const std::uint64_t number = count(outcome);
    session.result["counts"][outcome_name(outcome)] = number;
    if (number != 0) summary += ", " + std::to_string(number) + ' ' + outcome_name(outcome);
  }
  if (!unserved.empty()) summary += "; " + format_count(unserved.size(), "need") + " not served";
  console.note(summary + ", in " + format_milliseconds(milliseconds));
  session.result["milliseconds"] = milliseconds;
  session.result["kernels"] = rows_to_json(rows);
}

}  // namespace quern::cli
