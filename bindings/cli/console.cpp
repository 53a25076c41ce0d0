// Where text goes: data to stdout, everything else to stderr, with a status line at the bottom of a terminal.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace quern::cli {
namespace {

constexpr std::size_t kUsualWidth = 80;

// 0 where `descriptor` is no terminal.
std::size_t terminal_width(int descriptor) {
  if (!isatty(descriptor)) return 0;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

void write(std::FILE* file, std::string_view text) { std::fwrite(text.data(), 1, text.size(), file); }

}  // namespace

Console::Console(const ConsoleOptions& options) : options_(options) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  const bool colour = !options.no_color && (no_color == nullptr || *no_color == '\0') && !dumb;
  width_out_ = terminal_width(STDOUT_FILENO);
  colour_out_ = colour && width_out_ != 0;
  const bool error_terminal = isatty(STDERR_FILENO) != 0;
  colour_err_ = colour && error_terminal;
  has_status_ = error_terminal && !dumb && !options.quiet;
}

Console::~Console() { status(""); }

void Console::data(std::string_view text) {
  if (options_.json) return;
  const std::lock_guard lock(mutex_);
  erase_status();
  write(stdout, text);
}

void Console::data(const Table& table) { data(table.render(width_out_, colour_out_)); }

void Console::json_text(std::string_view text) {
  const std::lock_guard lock(mutex_);
  erase_status();
  write(stdout, text);
}

void Console::detail(std::string_view text) {
  if (options_.verbose) line("", Style::plain, text);
}

void Console::note(std::string_view text) {
  if (!options_.quiet) line("", Style::plain, text);
}

void Console::warning(std::string_view text) {
  if (!options_.quiet) line("quern: warning: ", Style::warning, text);
}

void Console::error(std::string_view text) { line("quern: ", Style::bad, text); }

void Console::line(std::string_view prefix, Style style, std::string_view text) {
  const std::lock_guard lock(mutex_);
  erase_status();
  std::fflush(stdout);  // so that both streams of one terminal come out in order
  std::string whole = styled(std::string(prefix), style, colour_err_);
  whole += text;
  whole += '\n';
  write(stderr, whole);
  if (!status_.empty()) {
    write(stderr, status_);
    std::fflush(stderr);
  }
}

std::size_t Console::status_width() const {
  const std::size_t width = terminal_width(STDERR_FILENO);
  return width != 0 ? width : kUsualWidth;
}

void Console::status(std::string text) {
  if (!has_status_) return;
  const std::lock_guard lock(mutex_);
  erase_status();
  status_ = std::move(text);
  write(stderr, status_);
  std::fflush(stderr);
}

void Console::erase_status() {
  if (!status_.empty()) write(stderr, "\r\033[K");
}

bool Console::flush() {
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::ferror(stdout) == 0;
}

}  // namespace quern::cli
