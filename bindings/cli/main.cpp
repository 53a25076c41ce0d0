// The command `quern`: exit codes and the frame of the JSON output. The commands themselves stand each in its file.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/parser.h"

namespace quern::cli {
namespace {

Commands make_commands() {
  Commands commands;
  commands.push_back(make_warm());
  commands.push_back(make_tune());
  commands.push_back(make_bench());
  commands.push_back(make_manifest());
  commands.push_back(make_list());
  commands.push_back(make_inspect());
  commands.push_back(make_verify());
  commands.push_back(make_trim());
  commands.push_back(make_export());
  commands.push_back(make_import());
  commands.push_back(make_keys());
  commands.push_back(make_stats());
  commands.push_back(make_doctor());
  return commands;
}

void print_json(Console& console, const std::string& command, const Json& result, const Json& error) {
  Json whole = Json::object();
  whole["command"] = command;
  whole["ok"] = error.is_null();
  if (!error.is_null()) whole["error"] = error;
  whole.update(result);
  console.json_text(whole.dump(2) + '\n');
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

int run_command(Command& command, GlobalOptions& global, Console& console) {
  Json result = Json::object();
  try {
    // Nobody sees a key in a list of processes: it stands in a file.
    if (!global.cache_key_file.empty()) global.context.cache_key = read_secret(global.cache_key_file);
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

// The arguments could not be read, so what was asked about the output is looked for by hand.
int usage_error(const std::vector<std::string>& arguments, const Parsed& parsed) {
  const auto given = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  Console console({given("--json"), given("--quiet"), false, given("--no-color")});
  const std::string command = parsed.command == nullptr ? "" : parsed.command->name();
  const int code = fail(console, command, Json::object(), Failure(QUERN_INVALID, parsed.text));
  console.note("Try: quern " + command + (command.empty() ? "" : " ") + "--help");
  return console.flush() ? code : kExitFailure;
}

int run(int argc, char** argv) {
  GlobalOptions global;
  const Commands commands = make_commands();
  const Parsed parsed = parse_command_line(argc, argv, commands, global);
  if (parsed.what == Parsed::What::wrong) return usage_error({argv + 1, argv + argc}, parsed);
  if (parsed.what == Parsed::What::help) {
    Console console({});
    console.data(parsed.text);
    return console.flush() ? kExitOk : kExitFailure;
  }

  ContextOptions& context = global.context;
  context.cache = absolute_path(context.cache);
  for (std::string& path : context.bundles) path = absolute_path(path);
  for (std::string& path : context.search_dirs) path = absolute_path(path);

  Console console(global.console);
  const int code =
      parsed.what == Parsed::What::version ? print_version(console) : run_command(*parsed.command, global, console);
  if (!console.flush()) {
    console.error("cannot write to standard output");
    return kExitFailure;
  }
  return code;
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) { return quern::cli::run(argc, argv); }
