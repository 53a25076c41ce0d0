// quern-engine-bench: what the engine's steps take, of a model's shapes with random weights. Every figure is printed as
// soon as it is there; --json FILE keeps them, one object a line.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/engine/checkpoint/config.h"
#include "bindings/engine/model.h"
#include "bindings/engine/parallel/devices.h"
#include "bindings/engine/parallel/ranks.h"
#include "bindings/json/json.h"
#include "tests/bench/engine/random_weights.h"

namespace quern::bench {
namespace {

using Clock = std::chrono::steady_clock;
using engine::Config;
using engine::Limits;
using engine::Part;

constexpr const char* kUsage =
    "usage: quern-engine-bench --config FILE [OPTION...]\n"
    "  --config FILE        a model's config.json; its weights are random\n"
    "  --step BATCHxTOKENS  a step of BATCH sequences, each of TOKENS tokens with the new one (any number of times)\n"
    "  --prefill TOKENS     one prompt of so many tokens in one step (any number of times)\n"
    "  --fp8-weights, --fp8-cache, --graph\n"
    "  --parts              also what a step takes without each of its ops\n"
    "  --page-size N        tokens of a page (16)\n"
    "  --device NAME        cuda (the default), cuda:N, several as cuda:0,cuda:1, or host\n"
    "  --nccl               several devices' parts are summed by NCCL alone\n"
    "  --cache FOLDER       of kernels\n"
    "  --repeats N          of each measurement (50)\n"
    "  --json FILE          adds a line for each figure\n";

struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Step {
  std::int64_t batch, context;
};
struct Options {
  std::string config, device = "cuda", cache, json;
  std::vector<Step> steps;
  std::vector<std::int64_t> prefills;
  std::int64_t page_size = 16, repeats = 50;
  bool fp8_weights = false, fp8_cache = false, graph = false, parts = false, nccl = false;
};

std::int64_t number(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 1)
    throw Usage(name + " is " + text + ", which is no number above 0");
  return value;
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw Usage(name + " needs a value");
      return argv[++i];
    };
    if (name == "--config") {
      options.config = value();
    } else if (name == "--step") {
      const std::string text = value();
      const std::size_t by = text.find('x');
      if (by == std::string::npos) throw Usage("--step is " + text + "; it is written BATCHxTOKENS");
      options.steps.push_back({number(name, text.substr(0, by)), number(name, text.substr(by + 1))});
    } else if (name == "--prefill") {
      options.prefills.push_back(number(name, value()));
    } else if (name == "--page-size") {
      options.page_size = number(name, value());
    } else if (name == "--repeats") {
      options.repeats = number(name, value());
    } else if (name == "--device") {
      options.device = value();
    } else if (name == "--cache") {
      options.cache = value();
    } else if (name == "--json") {
      options.json = value();
    } else if (name == "--fp8-weights") {
      options.fp8_weights = true;
    } else if (name == "--fp8-cache") {
      options.fp8_cache = true;
    } else if (name == "--parts") {
      options.parts = true;
    } else if (name == "--graph") {
      options.graph = true;
    } else if (name == "--nccl") {
      options.nccl = true;
    } else {
      throw Usage(name == "--help" ? "" : "there is no option " + name);
    }
  }
  if (options.config.empty()) throw Usage("--config is missing");
  return options;
}

double milliseconds_since(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

// Prints figures, and keeps them.
class Report {
 public:
  // `sums`: what sums a few rows of several devices' parts; "" of one.
  Report(const Options& options, std::string sums) : options_(options), sums_(std::move(sums)) {}

  void add(const std::string& what, double milliseconds) const {
    std::printf("%-44s %10.3f ms\n", what.c_str(), milliseconds);
    std::fflush(stdout);
    if (options_.json.empty()) return;
    std::string line =
        "{\"config\": \"" + options_.config + "\", \"device\": \"" + options_.device + "\", \"what\": \"" + what + "\"";
    for (const auto& [name, on] : {std::pair{"fp8_weights", options_.fp8_weights},
                                   std::pair{"fp8_cache", options_.fp8_cache}, std::pair{"graph", options_.graph}})
      line += std::string(", \"") + name + "\": " + (on ? "true" : "false");
    if (!sums_.empty()) line += ", \"sums\": \"" + sums_ + "\"";
    std::ofstream(options_.json, std::ios::app) << line << ", \"milliseconds\": " << milliseconds << "}\n";
  }

 private:
  const Options& options_;
  const std::string sums_;
};

// Sequences on pages of their own, and the steps of a model that fill them.
class Sequences {
 public:
  Sequences(engine::Steps& model, std::int64_t count, std::int64_t context) : model_(model), pages_(count) {
    const std::int64_t size = model.limits().page_size, each = (context + size - 1) / size;
    // Neighbours in a text lie anywhere in the cache.
    std::vector<std::int32_t> all(static_cast<std::size_t>(model.limits().pages));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    std::shuffle(all.begin(), all.end(), random_);
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i) * each;
      pages_[i].assign(first, first + each);
    }
  }

  // Tokens from `position` on of each sequence.
  std::vector<Part> parts(std::int64_t position, std::int64_t tokens, std::size_t first, std::size_t count) {
    std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(model_.config().vocabulary - 1));
    std::vector<Part> made;
    for (std::size_t i = first; i < first + count; ++i) {
      Part& part = made.emplace_back();
      part.position = position;
      part.pages = &pages_[i];
      for (std::int64_t t = 0; t < tokens; ++t) part.tokens.push_back(token(random_));
    }
    return made;
  }

  // The keys of all positions before `end`.
  void fill(std::int64_t end) {
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      for (std::int64_t at = 0; at < end; at += model_.limits().tokens)
        model_.step(parts(at, std::min(model_.limits().tokens, end - at), i, 1));
    }
  }
  std::size_t count() const { return pages_.size(); }

 private:
  engine::Steps& model_;
  std::mt19937 random_{1};
  std::vector<std::vector<std::int32_t>> pages_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What a caller waits for, and what the device takes with nothing to wait for in between.
void time_steps(engine::Steps& model, const std::vector<Part>& parts, const std::string& what, std::int64_t repeats,
                const Report& report, bool of_parts) {
  for (int i = 0; i < 3; ++i) model.step(parts);
  std::vector<double> times;
  for (std::int64_t i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    model.step(parts);
    times.push_back(milliseconds_since(begin));
  }
  report.add(what + ", a call", median(times));
  const auto begin = Clock::now();
  model.repeat(repeats);
  report.add(what + ", one behind the other", milliseconds_since(begin) / static_cast<double>(repeats));
  if (!of_parts) return;
  for (const char* op : {"rmsnorm", "quantize", "gemm", "fp8_gemm", "kv_append", "attention", "sample", "gather"}) {
    model.leave_out(op);
    model.repeat(3);
    const auto from = Clock::now();
    model.repeat(repeats);
    report.add(what + ", without " + op, milliseconds_since(from) / static_cast<double>(repeats));
  }
  model.leave_out(nullptr);
}

void run(const Options& options) {
  std::ifstream file(options.config, std::ios::binary);
  if (!file) throw std::runtime_error(options.config + " cannot be opened");
  const Config config = engine::config_of_json(Json::parse(std::string(std::istreambuf_iterator<char>(file), {})));
  auto wanted = demo::sized<quern_context_options>();
  wanted.cache_path = options.cache.empty() ? nullptr : options.cache.c_str();
  const engine::Devices devices(options.device, wanted, options.nccl ? engine::Sums::nccl : engine::Sums::fastest);
  const std::vector<engine::Rank> ranks = devices.ranks();
  const std::string sums = ranks.size() > 1 ? ranks[0].communicator->how() : "";
  std::printf("%zu x %s, %s%s%s%s%s%s\n", ranks.size(), devices.first().name, options.config.c_str(),
              options.fp8_weights ? ", FP8 weights" : "", options.fp8_cache ? ", FP8 cache" : "",
              options.graph ? ", graphs" : "", sums.empty() ? "" : ", few rows summed by ", sums.c_str());

  Limits limits;
  limits.fp8_weights = options.fp8_weights, limits.fp8_cache = options.fp8_cache, limits.graph = options.graph;
  limits.page_size = options.page_size;
  limits.sequences = 1, limits.tokens = 512, limits.context = 64;
  std::int64_t tokens = 0;
  for (const Step& step : options.steps) {
    limits.sequences = std::max(limits.sequences, step.batch);
    limits.context = std::max(limits.context, step.context);
    tokens = std::max(tokens, step.batch * (step.context + limits.page_size));
  }
  for (const std::int64_t prefill : options.prefills) {
    limits.tokens = std::max(limits.tokens, prefill), limits.context = std::max(limits.context, prefill);
    tokens = std::max(tokens, prefill + limits.page_size);
  }
  limits.pages = std::max<std::int64_t>(tokens, 1024) / limits.page_size;

  const Report report(options, sums);
  const auto parts = static_cast<std::int64_t>(ranks.size());
  const Config part = engine::part_of(config, parts);
  std::vector<engine::Weights> weights;
  auto begin = Clock::now();
  for (const engine::Rank& rank : ranks)
    weights.push_back(random_weights(part, engine::Placer(rank.context, rank.device, options.fp8_weights)));
  report.add("weights", milliseconds_since(begin));
  const std::uint64_t compiled = devices.compiled();
  begin = Clock::now();
  const auto make = [&](const engine::Rank& rank) {
    const auto at = static_cast<std::size_t>(rank.communicator == nullptr ? 0 : rank.communicator->rank());
    return std::make_unique<engine::Model>(rank.context, rank.device, part, std::move(weights[at]), limits,
                                           rank.communicator);
  };
  std::unique_ptr<engine::Steps> made;
  if (parts == 1) {
    made = make(ranks[0]);
  } else {
    made = std::make_unique<engine::Ranks>(ranks, config, make);
  }
  engine::Steps& model = *made;
  report.add("ready, " + std::to_string(devices.compiled() - compiled) + " kernels compiled",
             milliseconds_since(begin));
  {
    Sequences one(model, 1, 64);
    model.step(one.parts(0, 16, 0, 1));
    report.add("first token, from the beginning of ready", milliseconds_since(begin));
  }
  for (const Step& step : options.steps) {
    Sequences all(model, step.batch, step.context);
    all.fill(step.context - 1);
    time_steps(model, all.parts(step.context - 1, 1, 0, all.count()),
               "step of " + std::to_string(step.batch) + " at " + std::to_string(step.context), options.repeats, report,
               options.parts);
  }
  for (const std::int64_t prefill : options.prefills) {
    Sequences one(model, 1, prefill);
    time_steps(model, one.parts(0, prefill, 0, 1), "prompt of " + std::to_string(prefill),
               std::max<std::int64_t>(options.repeats / 10, 2), report, options.parts);
  }
}

}  // namespace
}  // namespace quern::bench

int main(int argc, char** argv) {
  try {
    quern::bench::run(quern::bench::read_options(argc, argv));
    return 0;
  } catch (const quern::bench::Usage& error) {
    if (*error.what() == '\0') return std::fputs(quern::bench::kUsage, stdout) < 0 ? 1 : 0;
    std::fprintf(stderr, "quern-engine-bench: %s\n%s", error.what(), quern::bench::kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern-engine-bench: %s\n", error.what());
    return 1;
  }
}
