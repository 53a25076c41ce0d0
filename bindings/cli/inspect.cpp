// `quern inspect`: everything about one kernel, and its image as a file.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ctime>

#include "bindings/cli/command.h"
#include "bindings/cli/entry.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

std::string date(std::int64_t seconds) {
  if (seconds == 0) return "-";
  const std::time_t time = seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return std::to_string(seconds);
  }
  return text.data();
}

std::string known(std::int32_t value, const char* unit) { return value < 0 ? "unknown" : std::to_string(value) + unit; }

class Inspect : public Command {
 public:
  const char* name() const override { return "inspect"; }
  const char* summary() const override {
    return "Show one kernel: what it was made from, its resources and the compiler's log";
  }
  const char* examples() const override {
    return "  quern inspect 3fa91c07\n"
           "  quern inspect 3fa91c07 --extract attention.cubin\n"
           "  quern inspect 3fa91c07 --json";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("KEY", key_, "The key, or its first digits (4 at least)", true);
    arguments.text("--extract", extract_, "FILE", "Write the image (cubin, code object, shared object) to this file",
                   not_empty());
  }

  int run(const Session& session) override {
    const Existing existing = session.open_existing();
    List list;
    auto error = sized<quern_error>();
    check(quern_cache_inspect(existing.context.get(), key_.c_str(), list.out(), &error), error);
    const std::vector<quern_entry> entries = list.items(quern_list_entry);
    if (entries.empty())
      throw Failure(QUERN_NOT_FOUND, "KEY: '" + printable(key_) + "' given; no entry's key begins so");
    const quern_entry& entry = entries.front();
    session.result["entry"] = entry_to_json(entry);
    session.result["entry"]["log"] = entry.log;
    show(session, entry);
    if (!extract_.empty()) {
      if (entry.image == nullptr) throw Failure(QUERN_INTERNAL, "the entry came without its image");
      write_atomically(extract_, {static_cast<const char*>(entry.image), entry.image_size});
      session.result["extracted"] = extract_;
      session.console.note(format_bytes(entry.image_size) + " written to " + printable(extract_));
    }
    return kExitOk;
  }

 private:
  static void show(const Session& session, const quern_entry& entry) {
    Console& console = session.console;
    const std::pair<const char*, std::string> facts[] = {
        {"key", entry.key},
        {"op", entry.op},
        {"target", entry.target},
        {"kernel", manifest_line(entry)},
        {"entry", entry.entry_name},
        {"layer", layer_name(entry.layer, session.global.context.bundles)},
        {"compiler", entry.compiler},
        {"compiled",
         date(entry.created) + (entry.compile_ms > 0 ? ", in " + format_milliseconds(entry.compile_ms) : "")},
        {"image", format_bytes(entry.image_size)},
        {"registers", known(entry.registers, " a thread")},
        {"shared", known(entry.shared_bytes, " bytes a block, static")},
        {"local", known(entry.local_bytes, " bytes a thread, spills included")},
    };
    for (const auto& [name, value] : facts) {
      std::string label = name;
      label.resize(11, ' ');
      console.data(console.styled_data(label, Style::faint) + printable(value) + '\n');
    }
    block(console, "made from", entry.text);
    block(console, "log", entry.log);
  }

  static void block(Console& console, const char* heading, const char* text) {
    std::string shown = printable(text, true);
    while (!shown.empty() && shown.back() == '\n') shown.pop_back();
    if (shown.empty()) shown = "(empty)";
    console.data('\n' + console.styled_data(heading, Style::heading) + '\n' + shown + '\n');
  }

  std::string key_, extract_;
};

}  // namespace

std::unique_ptr<Command> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace quern::cli
