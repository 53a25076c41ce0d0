// `quern manifest`: writes what a model needs as a manifest, says what one holds, and checks one.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "bindings/cli/command.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/manifest.h"
#include "bindings/cli/model_arguments.h"
#include "bindings/cli/table.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

// What quern_warm says of a line, without making anything.
struct Line {
  std::int32_t outcome;
  std::uint32_t number;
  std::string op, target, key, text, why;
};

class ManifestCommand : public Command {
 public:
  const char* name() const override { return "manifest"; }
  const char* summary() const override { return "Write, show or check lists of kernels, without making them"; }
  const char* examples() const override {
    return "  quern manifest --config config.json --target sm_90a > llama.manifest\n"
           "  quern manifest llama.manifest --summary\n"
           "  quern manifest llama.manifest --check --config config.json --target sm_90a";
  }

  void declare(Arguments& arguments) override {
    arguments.positional("MANIFEST", file_, "A manifest to read, check or join with the model's; - is standard input",
                         false);
    arguments.texts("--target", targets_, "T[,T]", "What '*' and --config stand for: sm_90a, gfx90a, host, ...",
                    not_empty());
    model_.declare(arguments, "A model's config.json or GGUF file: every kernel that it needs", true);
    arguments.flag(
        "--check", check_,
        "Print nothing: fail where a line cannot be read, or with --config where the manifest lacks a kernel");
    arguments.flag("--summary", summary_,
                   "A line an op and target: how many kernels, how many of them are in the cache");
    arguments.flag("--allow-missing", allow_missing_, "With --config: what no kernel does is told, and is no failure");
    arguments.flag("--any-path", any_path_, "Lines may name files outside of the manifest's folder (source=@PATH)");
  }

  int run(const Session& session) override {
    if (file_.empty() && model_.path().empty()) {
      throw Failure(QUERN_INVALID,
                    "MANIFEST: none given; allowed: a file, - for standard input, or --config FILE instead");
    }
    const std::optional<ModelConfig> config = model_.read(session);
    if (config && targets_.empty()) {
      throw Failure(QUERN_INVALID, "--target: none given; with --config name one or more, such as --target sm_90a");
    }
    std::vector<Line> written, needed;
    std::uint64_t bad = 0;
    if (!file_.empty()) written = read_file_lines(session, bad);
    std::vector<std::string> unserved;
    if (config) {
      for (Line& line : ask(session, &config->manifest, &config->model)) {
        if (line.outcome == QUERN_WARM_UNSERVED) {
          unserved.push_back(line.op + ": " + line.why);
        } else {
          needed.push_back(std::move(line));
        }
      }
      for (const std::string& text : config->unserved) unserved.push_back(text);
    }
    for (const std::string& text : unserved) session.console.warning("no kernel here: " + printable(text));
    session.result["unserved"] = Json(unserved);
    const std::uint64_t lacking = check_ && !file_.empty() ? tell_lacking(session, written, needed) : 0;
    show(session, written, needed);
    if (bad != 0 || lacking != 0) {
      throw Failure(QUERN_PARTIAL,
                    printable(file_) + ": " + (bad != 0 ? format_count(bad, "line") + " cannot be read" : "") +
                        (bad != 0 && lacking != 0 ? ", " : "") +
                        (lacking != 0 ? format_count(lacking, "kernel") + " that the model needs missing" : ""));
    }
    if (unserved.empty() || allow_missing_) return kExitOk;
    throw Failure(QUERN_UNSUPPORTED, format_count(unserved.size(), "need") + " of " + model_.path() +
                                         (unserved.size() == 1 ? " has" : " have") +
                                         " no kernel here, as said above. With --allow-missing this is no failure");
  }

 private:
  std::vector<Line> read_file_lines(const Session& session, std::uint64_t& bad) const {
    const std::string folder = file_ == "-" ? "." : std::filesystem::path(file_).parent_path().string();
    const Manifest manifest = read_manifest(read_input(file_), folder, any_path_);
    if (manifest.for_every_target && targets_.empty()) {
      throw Failure(QUERN_INVALID, "--target: none given, and the manifest has lines for '*'; name one or more");
    }
    std::vector<Line> lines;
    for (Line& line : ask(session, &manifest.text, nullptr)) {
      if (line.outcome != QUERN_WARM_FAILED) {
        lines.push_back(std::move(line));
        continue;
      }
      ++bad;
      session.console.error(printable(file_) + ": " + printable(line.why, true));
    }
    for (const BadLine& line : manifest.bad) {
      ++bad;
      session.console.error(printable(file_) + ": line " + std::to_string(line.line) + ": " +
                            printable(line.text, true));
    }
    return lines;
  }

  std::vector<Line> ask(const Session& session, const std::string* manifest, const quern_model* model) const {
    const Existing existing = session.open_existing();
    std::vector<const char*> targets;
    for (const std::string& target : targets_) targets.push_back(target.c_str());
    auto options = sized<quern_warm_options>();
    options.flags = QUERN_WARM_LIST_ONLY;
    options.targets = targets.data();
    options.target_count = targets.size();
    if (manifest != nullptr) options.manifest = manifest->c_str(), options.manifest_length = manifest->size();
    options.model = model;
    List list;
    auto error = sized<quern_error>();
    const std::int32_t status = quern_warm(existing.context.get(), &options, list.out(), &error);
    if (status != QUERN_PARTIAL) check(status, error);
    std::vector<Line> lines;
    for (const quern_warm_result& result : list.items(quern_list_warm_result)) {
      const std::string text =
          std::string(result.op) + ' ' + result.target + (*result.spec != '\0' ? " " : "") + result.spec;
      lines.push_back({result.outcome, result.line, result.op, result.target, result.key, text, result.text});
    }
    return lines;
  }

  static std::uint64_t tell_lacking(const Session& session, const std::vector<Line>& written,
                                    const std::vector<Line>& needed) {
    std::set<std::string> there;
    for (const Line& line : written) there.insert(line.key);
    Json lacking = Json::array();
    for (const Line& line : needed) {
      if (there.count(line.key) != 0) continue;
      session.console.error("not in the manifest: " + printable(line.text));
      lacking.push_back(line.text);
    }
    const std::uint64_t count = lacking.items().size();
    session.result["lacking"] = std::move(lacking);
    return count;
  }

  void show(const Session& session, const std::vector<Line>& written, const std::vector<Line>& needed) const {
    std::set<std::string> seen;
    std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>> sums;
    Json kernels = Json::array();
    std::uint64_t cached = 0;
    for (const std::vector<Line>* lines : {&written, &needed}) {
      for (const Line& line : *lines) {
        if (!seen.insert(line.key).second) continue;
        const bool hit = line.outcome == QUERN_WARM_HIT;
        auto& [count, there] = sums[{line.target, line.op}];
        ++count;
        there += hit ? 1 : 0;
        cached += hit ? 1 : 0;
        kernels.push_back(
            {{"kernel", line.text}, {"op", line.op}, {"target", line.target}, {"key", line.key}, {"cached", hit}});
        if (!check_ && !summary_) session.console.data(printable(line.text) + '\n');
      }
    }
    if (summary_) {
      Table table({{"TARGET"}, {"OP"}, {"KERNELS", true}, {"CACHED", true}});
      for (const auto& [name, sum] : sums) {
        table.add({{name.first},
                   {name.second},
                   {std::to_string(sum.first)},
                   {std::to_string(sum.second), sum.second == sum.first ? Style::good : Style::plain}});
      }
      session.console.data(table);
    }
    session.console.note(format_count(seen.size(), "kernel") + ", " + std::to_string(cached) + " in the cache");
    session.result["kernels"] = std::move(kernels);
    session.result["cached"] = cached;
  }

  std::string file_;
  ModelArguments model_;
  std::vector<std::string> targets_;
  bool check_ = false, summary_ = false, allow_missing_ = false, any_path_ = false;
};

}  // namespace

std::unique_ptr<Command> make_manifest() { return std::make_unique<ManifestCommand>(); }

}  // namespace quern::cli
