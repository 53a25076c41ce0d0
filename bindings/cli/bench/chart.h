// Bars as a picture (SVG): what each problem reaches of what its device can do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quern::cli {

struct Bar {
  std::string label;     // what was measured
  std::string note;      // behind the bar
  double length = 0;     // of 1; more is drawn as 1
  bool compute = false;  // bound by products, else by memory
};

// Legible on light and dark pages. `unit` says what the length of a bar is.
std::string bar_chart(const std::string& title, const std::string& unit, const std::vector<Bar>& bars);

}  // namespace quern::cli
