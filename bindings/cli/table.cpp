// Columns that line up, for people to read.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/table.h"

#include <algorithm>
#include <utility>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 12;  // of a flexible column

}  // namespace

std::string styled(std::string text, Style style, bool colour) {
  if (!colour || style == Style::plain || text.empty()) return text;
  const char* code = "";
  switch (style) {
    case Style::heading:
      code = "1";
      break;
    case Style::good:
      code = "32";
      break;
    case Style::warning:
      code = "33";
      break;
    case Style::bad:
      code = "31";
      break;
    case Style::faint:
      code = "2";
      break;
    case Style::plain:
      break;
  }
  return "\033[" + std::string(code) + 'm' + std::move(text) + "\033[0m";
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

std::string Table::render(std::size_t width, bool colour) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = display_width(columns_[i].heading);
    for (const auto& row : rows_) widest = std::max(widest, display_width(row[i].text));
    widths.push_back(widest);
    total += widest + (i == 0 ? 0 : kGap);
  }
  if (width != 0 && total > width) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].flexible) continue;
      const std::size_t others = total - widths[i];
      widths[i] = std::max(std::min(widths[i], kNarrowest), width > others ? width - others : 0);
    }
  }

  std::string text;
  const auto line = [&](const auto& cell_at) {
    std::string padding;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      Cell cell = cell_at(i);
      cell.text = shorten(cell.text, widths[i]);
      const std::size_t free = widths[i] - display_width(cell.text);
      if (i != 0) padding.append(kGap, ' ');
      if (columns_[i].right) padding.append(free, ' ');
      if (!cell.text.empty()) {  // spaces are owed only once something follows them: no line ends in a space
        text += padding + styled(std::move(cell.text), cell.style, colour);
        padding.clear();
      }
      if (!columns_[i].right) padding.append(free, ' ');
    }
    text += '\n';
  };
  line([&](std::size_t i) { return Cell{columns_[i].heading, Style::heading}; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i]; });
  }
  return text;
}

}  // namespace quern::cli
