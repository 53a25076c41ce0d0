// What `verify` and `doctor` found, as a table and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/findings.h"

#include <algorithm>
#include <string>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

struct Mark {
  const char* text;
  Style style;
};

Mark mark_of(std::int32_t status) {
  switch (status) {
    case QUERN_OK:
      return {"ok", Style::good};
    case QUERN_NOT_FOUND:
      return {"missing", Style::warning};
    case QUERN_DAMAGED:
      return {"damaged", Style::bad};
    default:
      return {"problem", Style::bad};
  }
}

// Narrower columns are left to the terminal.
constexpr std::size_t kNarrowest = 24;

// Each line of its own, so that lists stay lists.
std::string wrap_lines(const std::string& text, std::size_t width) {
  std::string wrapped;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    wrapped += (at == 0 ? "" : "\n") + wrap(text.substr(at, end - at), width);
    at = end + 1;
  }
  return wrapped;
}

}  // namespace

std::size_t show_findings(const Session& session, const std::vector<quern_finding>& findings) {
  static constexpr std::size_t kMarkWidth = 9;
  Console& console = session.console;
  std::size_t widest = 0;
  for (const quern_finding& finding : findings) widest = std::max(widest, display_width(printable(finding.what)));
  session.result["findings"] = Json::array();
  std::size_t wrong = 0;
  for (const quern_finding& finding : findings) {
    if (finding.status != QUERN_OK) ++wrong;
    session.result["findings"].push_back({{"what", finding.what},
                                          {"status", quern_status_name(finding.status)},
                                          {"text", finding.text},
                                          {"hint", finding.hint}});
    const Mark mark = mark_of(finding.status);
    std::string state = mark.text;
    state.resize(kMarkWidth, ' ');
    std::string what = printable(finding.what);
    what.append(widest + 2 - display_width(what), ' ');
    // Further lines of a text, and the hint, stand under its first.
    const std::string margin(kMarkWidth + widest + 2, ' ');
    std::string text = printable(finding.text, true);
    text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (*finding.hint != '\0') text += "\n-> " + printable(finding.hint, true);
    if (const std::size_t width = console.data_width(); width > margin.size() + kNarrowest) {
      text = wrap_lines(text, width - margin.size());
    }
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
      text.insert(at + 1, margin);
    console.data(console.styled_data(state, mark.style) + what + text + '\n');
  }
  return wrong;
}

}  // namespace quern::cli
