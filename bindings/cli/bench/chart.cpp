// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/chart.h"

#include <algorithm>
#include <cstdio>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr int kWidth = 900, kLeft = 330, kRight = 230, kTop = 64, kRow = 26, kBar = 16;
constexpr std::size_t kMostLabel = 48, kMostNote = 40;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string text_at(int x, int y, const char* anchor, const char* kind, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" text-anchor=\"" + anchor +
         "\" class=\"" + kind + "\">" + escaped(text) + "</text>\n";
}

}  // namespace

std::string bar_chart(const std::string& title, const std::string& unit, const std::vector<Bar>& bars) {
  const int height = kTop + kRow * static_cast<int>(bars.size()) + 34, inner = kWidth - kLeft - kRight;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + std::to_string(kWidth) + ' ' +
                    std::to_string(height) + "\" role=\"img\">\n<title>" + escaped(title) + "</title>\n";
  svg +=
      "<style>text{font:12px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}.note{fill:#666}"
      ".memory{fill:#2a78b5}.compute{fill:#c2691c}.line{stroke:#bbb;stroke-width:1}"
      "@media(prefers-color-scheme:dark){text{fill:#ddd}.note{fill:#999}.line{stroke:#555}}</style>\n";
  svg += text_at(12, 26, "start", "title", title);
  svg += text_at(kLeft, 46, "start", "note", unit);
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const std::string x = std::to_string(kLeft + inner * tenth / 10);
    svg += "<line class=\"line\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" + std::to_string(kTop - 6) + "\" y2=\"" +
           std::to_string(height - 28) + "\"/>\n";
    svg += text_at(kLeft + inner * tenth / 10, height - 12, "middle", "note", std::to_string(tenth * 10) + " %");
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const int y = kTop + kRow * static_cast<int>(i);
    const int length = static_cast<int>(inner * std::clamp(bar.length, 0.0, 1.0));
    svg += text_at(kLeft - 8, y + 13, "end", "label", shorten(bar.label, kMostLabel));
    svg += "<rect class=\"" + std::string(bar.compute ? "compute" : "memory") + "\" x=\"" + std::to_string(kLeft) +
           "\" y=\"" + std::to_string(y) + "\" width=\"" + std::to_string(length) + "\" height=\"" +
           std::to_string(kBar) + "\" rx=\"2\"><title>" + escaped(bar.label) + "</title></rect>\n";
    svg += text_at(kLeft + inner + 8, y + 13, "start", "note", shorten(bar.note, kMostNote));
  }
  return svg + "</svg>\n";
}

}  // namespace quern::cli
