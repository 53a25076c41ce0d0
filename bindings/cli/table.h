// Columns that line up, for people to read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::cli {

enum class Style : std::uint8_t { plain, heading, good, warning, bad, faint };
// The text in the style's colour; as it is where `colour` is false.
std::string styled(std::string text, Style style, bool colour);

struct Column {
  std::string heading;
  bool right = false;     // aligned right: numbers
  bool flexible = false;  // may be cut where the terminal is too narrow; at most one column is
};

struct Cell {
  std::string text;
  Style style = Style::plain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  void add(std::vector<Cell> row);  // one cell a column
  bool empty() const { return rows_.empty(); }
  // Ends in a line feed. `width`: columns of the terminal; 0: as wide as it takes.
  std::string render(std::size_t width, bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace quern::cli
