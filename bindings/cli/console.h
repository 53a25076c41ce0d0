// Where text goes: data to stdout, everything else to stderr, with a status line at the bottom of a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "bindings/cli/table.h"

namespace quern::cli {

struct ConsoleOptions {
  bool json = false;   // stdout is kept for the one JSON object
  bool quiet = false;  // errors only
  bool verbose = false;
  bool no_color = false;  // the environment's NO_COLOR and TERM=dumb say the same
};

// Thread-safe. Text handed in is shown as it is, but for messages made elsewhere: those are for `printable` first.
class Console {
 public:
  explicit Console(const ConsoleOptions& options);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool verbose() const { return options_.verbose; }
  bool json() const { return options_.json; }

  // Data, on stdout; nothing when JSON is asked for.
  void data(std::string_view text);
  void data(const Table& table);
  std::string styled_data(std::string text, Style style) const { return styled(std::move(text), style, colour_out_); }
  // The terminal's columns on stdout; 0 where it is none.
  std::size_t data_width() const { return width_out_; }
  // The JSON object, on stdout.
  void json_text(std::string_view text);

  // One line on stderr each.
  void detail(std::string_view text);   // with --verbose
  void note(std::string_view text);     // unless --quiet
  void warning(std::string_view text);  // unless --quiet, as "quern: warning: text"
  void error(std::string_view text);    // always, as "quern: text"

  // Whether there is a status line: stderr is a terminal and --quiet was not given.
  bool has_status() const { return has_status_; }
  // The terminal's columns on stderr.
  std::size_t status_width() const;
  // Shows `text` (no line feed) at the bottom until the next call; "" takes it away.
  void status(std::string text);

  // False when stdout did not take everything (a full disk).
  bool flush();

 private:
  void line(std::string_view prefix, Style style, std::string_view text);
  void erase_status();

  ConsoleOptions options_;
  std::mutex mutex_;
  std::string status_;
  std::size_t width_out_ = 0;
  bool colour_out_ = false;
  bool colour_err_ = false;
  bool has_status_ = false;
};

}  // namespace quern::cli
