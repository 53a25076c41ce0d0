// quern-demo: kernels ground ahead of time without a GPU, then paged attention on a real model's activations, held
// against the truth, then the same in a new process that compiles nothing; then a small model writes text.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/demo/process.h"
#include "bindings/demo/report.h"
#include "bindings/demo/run_result.h"

namespace quern::demo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: quern-demo [--config FILE] [--activations FILE]\n"
    "  --config FILE       a model's config.json to warm kernels for (Llama-3-8B's)\n"
    "  --activations FILE  q, k, v, out and lse of attention layers (tests/data/attention.safetensors)\n";

struct Options {
  fs::path config, activations;
  std::string worker_cache;  // set in the processes that the demo starts: run attention with this cache and report
};

struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

fs::path own_path() { return fs::read_symlink("/proc/self/exe"); }
// The build folder, with bin/ and lib/ in it. It lies in the project's, or deeper.
fs::path build_folder() { return own_path().parent_path().parent_path(); }
fs::path tests_folder() {
  fs::path folder = build_folder().parent_path();
  while (!fs::exists(folder / "tests/data") && folder != folder.root_path()) folder = folder.parent_path();
  return folder / "tests";
}

Options read_options(int argc, char** argv) {
  const fs::path tests = tests_folder();
  Options options{tests / "cli/data/configs/llama-3-8b.json", tests / "data/attention.safetensors", ""};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") throw Usage("");
    if (i + 1 >= argc) throw Usage(name + " needs a value");
    if (name == "--config") {
      options.config = argv[i + 1];
    } else if (name == "--activations") {
      options.activations = argv[i + 1];
    } else if (name == "--worker") {
      options.worker_cache = argv[i + 1];
    } else {
      throw Usage("there is no option " + name);
    }
  }
  for (const fs::path& file : {options.config, options.activations}) {
    if (!fs::exists(file)) throw std::runtime_error(file.string() + " is not there");
  }
  return options;
}

// What a compiler's finding says, or "" where it is not here.
std::string finding(const std::string& what, std::string* missing) {
  auto options = sized<quern_context_options>();
  options.flags = QUERN_CONTEXT_NO_CACHE;
  const Context context = make_context(options);
  quern_list* list = nullptr;
  call([&](quern_error* error) { return quern_doctor(context.get(), &list, error); });
  std::string found;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto item = sized<quern_finding>();
    if (quern_list_finding(list, i, &item) != QUERN_OK || item.what != what) continue;
    (item.status == QUERN_OK ? found : *missing) = item.status == QUERN_OK ? item.text : item.hint;
  }
  quern_list_free(list);
  return found;
}

std::string shown(const fs::path& path) {
  const fs::path relative = path.lexically_proximate(fs::current_path());
  return *relative.begin() == ".." ? path.string() : relative.string();
}

// Runs `quern warm`, and shows its command line unless `quiet`, and its output then too.
double warm(const fs::path& config, const std::string& targets, const fs::path& cache, bool quiet) {
  const fs::path command = own_path().parent_path() / "quern";
  std::vector<std::string> arguments = {command.string(), "warm",  "--config", config.string(),
                                        "--target",       targets, "--cache",  cache.string()};
  if (quiet) arguments.push_back("--quiet");
  if (!quiet) {
    show_command(shown(command) + " warm --config " + shown(config) + " --target " + targets + " --cache " +
                 shown(cache));
  }
  const Finished finished = run_process(arguments, quiet);
  if (finished.code != 0) {
    throw std::runtime_error("quern warm ended with code " + std::to_string(finished.code) + "; '" + shown(command) +
                             " doctor' says what is here and what is missing");
  }
  return finished.milliseconds;
}

RunResult run_worker(const Options& options, const fs::path& cache) {
  const Finished finished = run_process({own_path().string(), "--worker", cache.string(), "--config",
                                         options.config.string(), "--activations", options.activations.string()},
                                        true);
  if (finished.code != 0) {
    throw std::runtime_error("the process that runs attention ended with code " + std::to_string(finished.code));
  }
  return from_json(finished.output);
}

// A small model, its kernels ground from its own config.json, writes where nothing may be compiled any more. Whether
// it could.
bool write_text(const std::string& target, const fs::path& cache) {
  const fs::path command = own_path().parent_path() / "quern-chat", model = tests_folder() / "data/model";
  const double warmed = warm(model / "config.json", target, cache, true);
  show_note("kernels for " + target + " from " + shown(model / "config.json") + " in " +
            std::to_string(static_cast<int>(warmed / 1000.0 + 0.5)) + " s");
  show_command(shown(command) + " --model " + shown(model) + " --cached-only \"And the LORD said\"");
  const bool host = target == "host";
  return run_process({command.string(), "--model", model.string(), "--cache", cache.string(), "--cached-only",
                      "--device", host ? "host" : "cuda", "--tokens", host ? "24" : "96", "And the LORD said"},
                     false)
             .code == 0;
}

int demo(const Options& options) {
  const fs::path folder = build_folder() / "demo", cache = folder / "cache";
  fs::create_directories(folder);
  fs::remove_all(cache);  // the demo's own: it shows what a first day is like

  show_heading(1, "Kernels ground ahead of time, without a GPU, from a model's config.json");
  std::string hint, targets = "sm_90a";
  const bool hip = !finding("hiprtc", &hint).empty();
  if (hip) targets += ",gfx90a";
  const double cold = warm(options.config, targets, cache, false);
  const double again = warm(options.config, targets, cache, true);
  show_warmed(cold, again);
  if (!hip) show_note("gfx90a is left out: hipRTC is not here" + (hint.empty() ? "" : "; " + hint));

  show_heading(2, "Paged attention on a real model's activations, held against fp64");
  const RunResult first = run_worker(options, cache);
  show_run(first);

  show_heading(3, "The same in a new process: nothing is compiled");
  const RunResult second = run_worker(options, cache);
  show_comparison(first, second);

  std::vector<std::string> failures = judge(first, second);
  show_heading(4, "A small model writes text, by quern's ops alone, with nothing compiled");
  if (!write_text(first.target, cache)) failures.push_back("the small model wrote nothing");
  show_verdict(failures);
  return failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace quern::demo

int main(int argc, char** argv) {
  using namespace quern::demo;
  try {
    const Options options = read_options(argc, argv);
    if (options.worker_cache.empty()) return demo(options);
    std::puts(to_json(run_attention(options.activations.string(), options.worker_cache)).c_str());
    return 0;
  } catch (const Usage& error) {
    if (*error.what() == '\0') return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
    std::fprintf(stderr, "quern-demo: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern-demo: %s\n", error.what());
    return 1;
  }
}
