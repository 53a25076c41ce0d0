// The command `quern`: arguments, exit codes and the frame of the JSON output. The commands themselves stand each in
// its file.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "bindings/cli/command.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/help.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

constexpr const char* kExamples =
    "  quern warm --config config.json --tp 8 --target sm_90a\n"
    "  quern export kernels.quern && scp kernels.quern host:\n"
    "  quern list --bundle kernels.quern\n"
    "  quern doctor";

Commands make_commands() {
  Commands commands;
  commands.push_back(make_warm());
  commands.push_back(make_tune());
  commands.push_back(make_list());
  commands.push_back(make_inspect());
  commands.push_back(make_verify());
  commands.push_back(make_trim());
  commands.push_back(make_export());
  commands.push_back(make_import());
  commands.push_back(make_stats());
  commands.push_back(make_doctor());
  return commands;
}

// Every command takes them, before its name or after it; lists given in both places add up.
void declare_global(CLI::App& app, GlobalOptions& global) {
  const auto text = [&](const char* name, std::string& value, const char* description) {
    return app.add_option(name, value, description)->check(not_empty());
  };
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* description) {
    const auto append = [&values](const std::vector<std::string>& more) {
      values.insert(values.end(), more.begin(), more.end());
    };
    return app.add_option_function<std::vector<std::string>>(name, append, description)
        ->allow_extra_args(false)
        ->check(not_empty());
  };
  const std::vector<CLI::Option*> options = {
      text("--cache", global.context.cache, "Folder of the cache ($XDG_CACHE_HOME/quern)")->type_name("DIR"),
      list("--bundle", global.context.bundles, "Look into this bundle too, below the cache")->type_name("FILE"),
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

void print_json(Console& console, const std::string& command, const Json& result, const Json& error) {
  Json whole;
  whole["command"] = command;
  whole["ok"] = error.is_null();
  if (!error.is_null()) whole["error"] = error;
  whole.update(result);
  // Logs and names come from elsewhere: what is not UTF-8 in them is replaced.
  console.json_text(whole.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

// Says what went wrong, on stderr or as JSON.
int fail(Console& console, const std::string& command, const Json& result, const Failure& failure) {
  console.status("");
  if (console.json()) {
    print_json(
        console, command, result,
        {{"status", quern_status_name(failure.status())}, {"native", failure.native()}, {"text", failure.what()}});
  }
  console.error(printable(failure.what(), true));
  return failure.exit_code();
}

int run_command(Command& command, const GlobalOptions& global, Console& console) {
  Json result = Json::object();
  try {
    const int code = command.run(Session{global, console, result});
    if (console.json()) print_json(console, command.name(), result, nullptr);
    return code;
  } catch (const Failure& failure) {
    return fail(console, command.name(), result, failure);
  } catch (const std::bad_alloc&) {
    return fail(console, command.name(), result, Failure(QUERN_NO_MEMORY, "out of memory"));
  } catch (const std::exception& error) {
    return fail(console, command.name(), result, Failure(QUERN_INTERNAL, error.what()));
  }
}

int print_version(Console& console) {
  const std::string version = quern_version();
  const std::uint32_t abi = quern_abi_version();
  if (console.json()) {
    print_json(console, "version", {{"version", version}, {"abi", abi}}, nullptr);
  } else {
    console.data("quern " + version + " (ABI " + std::to_string(abi) + ")\n");
  }
  return kExitOk;
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

// The arguments could not be read, so what was asked about the output is looked for by hand.
int usage_error(const CLI::App& app, std::vector<std::string> arguments, const std::string& text) {
  const auto given = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  Console console({given("--json"), given("--quiet"), false, given("--no-color")});
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen.front()->get_name();
  const int code = fail(console, command, Json::object(), Failure(QUERN_INVALID, text));
  console.note("Try: quern " + command + (command.empty() ? "" : " ") + "--help");
  return console.flush() ? code : kExitFailure;
}

int run(int argc, char** argv) {
  GlobalOptions global;
  bool version = false;
  CLI::App app("quern: GPU kernels ground to order. Warms, ships and looks after the cache of compiled kernels.",
               "quern");
  set_help(app, kExamples);
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.require_subcommand(0, 1);
  app.add_flag("--version", version, "Print the version and exit");
  declare_global(app, global);
  const Commands commands = make_commands();
  std::string names;
  for (const auto& command : commands) {
    CLI::App& sub = *app.add_subcommand(command->name(), command->summary());
    command->declare(sub);
    declare_global(sub, global);
    set_help(sub, command->examples());
    names += (names.empty() ? "" : ", ") + std::string(command->name());
  }

  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty() && !version) {
      return usage_error(app, arguments, "COMMAND: none given; allowed: " + names);
    }
  } catch (const CLI::Success&) {  // --help
    Console console({});
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    console.data(chosen.empty() ? app.help() : chosen.front()->help(app.get_name()));
    return console.flush() ? kExitOk : kExitFailure;
  } catch (const CLI::ExtrasError&) {
    return usage_error(app, arguments, unexpected(app, names));
  } catch (const CLI::ParseError& error) {
    return usage_error(app, arguments, error.what());
  }

  ContextOptions& context = global.context;
  context.cache = absolute_path(context.cache);
  for (std::string& path : context.bundles) path = absolute_path(path);
  for (std::string& path : context.search_dirs) path = absolute_path(path);

  Console console(global.console);
  int code = kExitOk;
  if (version) {
    code = print_version(console);
  } else {
    const std::string chosen = app.get_subcommands().front()->get_name();
    const auto command =
        std::find_if(commands.begin(), commands.end(), [&](const auto& one) { return one->name() == chosen; });
    code = run_command(**command, global, console);
  }
  if (!console.flush()) {
    console.error("cannot write to standard output");
    return kExitFailure;
  }
  return code;
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) { return quern::cli::run(argc, argv); }
