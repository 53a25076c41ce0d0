// How --help looks: lines of 80 columns, examples and exit codes at the end.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/help.h"

#include <memory>
#include <sstream>
#include <string>

namespace quern::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kLeft = 26;  // of names; what they mean stands to the right

std::string wrap(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string wrapped;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size()) {
    if (column != 0 && column + 1 + word.size() > width) {
      wrapped += '\n';
      column = 0;
    } else if (column != 0) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
  }
  return wrapped;
}

class Help : public CLI::Formatter {
 public:
  Help() {
    column_width(kLeft);
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
    label("REQUIRED", "(required)");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(Formatter::make_option_desc(option), kWidth - kLeft);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream text;
    CLI::detail::format_help(text, command->get_name(), wrap(command->get_description(), kWidth - kLeft), kLeft);
    return text.str();
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = make_usage(app, std::move(name)) + '\n' + wrap(app->get_description(), kWidth) + '\n' +
                       make_positionals(app) + make_groups(app, mode) + make_subcommands(app, mode) + '\n' +
                       make_footer(app);
    // One empty line between the parts, whichever of them are there.
    for (std::size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at)) text.erase(at, 1);
    return text;
  }
};

}  // namespace

void set_help(CLI::App& app, const char* examples) {
  app.formatter(std::make_shared<Help>());
  app.footer(std::string("Examples:\n") + examples +
             "\n\nExit codes: 0 success, 1 failure, 2 wrong usage, 3 damage found");
  app.group("Commands");
}

}  // namespace quern::cli
