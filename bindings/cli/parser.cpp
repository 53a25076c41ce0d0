// The one unit that includes CLI11: its header costs many seconds wherever it comes in.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/parser.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr const char* kExamples =
    "  quern warm --config config.json --tp 8 --target sm_90a\n"
    "  quern export kernels.quern && scp kernels.quern host:\n"
    "  quern list --bundle kernels.quern\n"
    "  quern doctor";

// ---- How --help looks: lines of 80 columns, examples and exit codes at the end.

constexpr std::size_t kWidth = 80;
constexpr std::size_t kLeft = 26;  // of names; what they mean stands to the right

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

void set_help(CLI::App& app, const char* examples) {
  app.formatter(std::make_shared<Help>());
  app.footer(std::string("Examples:\n") + examples +
             "\n\nExit codes: 0 success, 1 failure, 2 wrong usage, 3 damage found");
  app.group("Commands");
}

// ---- Arguments, as CLI11 knows them.

CLI::Validator validator(Check check) {
  return {[check = std::move(check)](std::string& given) { return check(given); }, std::string{}};
}

class Declared final : public Arguments {
 public:
  explicit Declared(CLI::App& app) : app_(app) {}

  void positional(const char* name, std::string& value, const char* help, bool required) override {
    app_.add_option(name, value, help)->type_name("")->required(required)->check(validator(not_empty()));
  }
  void positionals(const char* name, std::vector<std::string>& values, const char* help) override {
    app_.add_option(name, values, help)->type_name("")->check(validator(not_empty()));
  }
  void text(const char* names, std::string& value, const char* type, const char* help, Check check) override {
    app_.add_option(names, value, help)->type_name(type)->check(validator(std::move(check)));
  }
  void number(const char* names, std::int64_t& value, const char* type, const char* help, Check check) override {
    app_.add_option(names, value, help)->type_name(type)->check(validator(std::move(check)));
  }
  void texts(const char* names, std::vector<std::string>& values, const char* type, const char* help,
             Check check) override {
    list(app_.add_option(names, values, help), type, std::move(check));
  }
  void numbers(const char* names, std::vector<std::int64_t>& values, const char* type, const char* help,
               Check check) override {
    list(app_.add_option(names, values, help), type, std::move(check));
  }
  void flag(const char* names, bool& value, const char* help) override { app_.add_flag(names, value, help); }

 private:
  static void list(CLI::Option* option, const char* type, Check check) {
    option->type_name(type)->delimiter(',')->allow_extra_args(false)->check(validator(std::move(check)));
  }

  CLI::App& app_;
};

// Every command takes them, before its name or after it; lists given in both places add up.
void declare_global(CLI::App& app, GlobalOptions& global) {
  const auto text = [&](const char* name, std::string& value, const char* description) {
    return app.add_option(name, value, description)->check(validator(not_empty()));
  };
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* description) {
    const auto append = [&values](const std::vector<std::string>& more) {
      values.insert(values.end(), more.begin(), more.end());
    };
    return app.add_option_function<std::vector<std::string>>(name, append, description)
        ->allow_extra_args(false)
        ->check(validator(not_empty()));
  };
  const std::vector<CLI::Option*> options = {
      text("--cache", global.context.cache, "Folder of the cache ($XDG_CACHE_HOME/quern)")->type_name("DIR"),
      list("--bundle", global.context.bundles, "Look into this bundle too, below the cache")->type_name("FILE"),
      list("--trust", global.context.trusted_keys,
           "Take bundles only that this public key (64 digits) or another one given has signed")
          ->type_name("KEY"),
      text("--cache-key", global.cache_key_file,
           "Of a shared cache: a file with the key (64 digits) that its entries carry a code of")
          ->type_name("KEYFILE"),
      list("--search-dir", global.context.search_dirs,
           "Look here first for NVRTC, hipRTC and drivers (a pip wheel's lib folder)")
          ->type_name("DIR"),
      app.add_flag("--shared-cache", global.context.shared_cache, "Accept a cache folder that others own or can write"),
      app.add_flag("--json", global.console.json, "Print one JSON object on standard output"),
      app.add_flag("--quiet,-q", global.console.quiet, "Say nothing but errors and data"),
      app.add_flag("--verbose,-v", global.console.verbose, "Say more: a line a kernel, what the library logs"),
      app.add_flag("--no-color", global.console.no_color, "No colours (as with NO_COLOR in the environment)"),
  };
  for (CLI::Option* option : options) option->group("Global options");
}

// What to say of words that are no command and no argument of one.
std::string unexpected(const CLI::App& app, const std::string& commands) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::vector<std::string> words = app.remaining(true);
  const std::string given = words.empty() ? "" : printable(words.front());
  if (!chosen.empty()) return '\'' + given + "' given; it is no argument of quern " + chosen.front()->get_name();
  if (given.starts_with('-')) return '\'' + given + "' given; it is no option of quern";
  return "COMMAND: '" + given + "' given; allowed: " + commands;
}

Command* chosen_of(const CLI::App& app, const Commands& commands) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  for (const auto& command : commands) {
    if (!chosen.empty() && chosen.front()->get_name() == command->name()) return command.get();
  }
  return nullptr;
}

}  // namespace

Parsed parse_command_line(int argc, char** argv, const Commands& commands, GlobalOptions& global) {
  using What = Parsed::What;
  bool version = false;
  CLI::App app("quern: GPU kernels ground to order. Warms, ships and looks after the cache of compiled kernels.",
               "quern");
  set_help(app, kExamples);
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.require_subcommand(0, 1);
  app.add_flag("--version", version, "Print the version and exit");
  declare_global(app, global);
  std::string names;
  for (const auto& command : commands) {
    CLI::App& sub = *app.add_subcommand(command->name(), command->summary());
    Declared declared(sub);
    command->declare(declared);
    declare_global(sub, global);
    set_help(sub, command->examples());
    names += (names.empty() ? "" : ", ") + std::string(command->name());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {  // --help
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    return {What::help, nullptr, chosen.empty() ? app.help() : chosen.front()->help(app.get_name())};
  } catch (const CLI::ExtrasError&) {
    return {What::wrong, chosen_of(app, commands), unexpected(app, names)};
  } catch (const CLI::ParseError& error) {
    return {What::wrong, chosen_of(app, commands), error.what()};
  }
  if (version) return {What::version, nullptr, ""};
  if (Command* command = chosen_of(app, commands)) return {What::command, command, ""};
  return {What::wrong, nullptr, "COMMAND: none given; allowed: " + names};
}

}  // namespace quern::cli
