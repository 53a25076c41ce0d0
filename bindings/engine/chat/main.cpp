// quern-chat: a model and some prompts in, text out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/engine.h"
#include "bindings/engine/parallel/devices.h"
#include "bindings/engine/text/template.h"
#include "bindings/engine/text/tokenizer.h"
#include "bindings/json/json.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: quern-chat --model PATH [OPTION...] PROMPT...\n"
    "  --model PATH        a folder as Hugging Face stores it (config.json, tokenizer.json, safetensors), or a .gguf "
    "file\n"
    "  --chat              prompts are what a user says, put into the model's chat template\n"
    "  --text              prompts are texts to go on with; so they are unless --chat is said\n"
    "  --system TEXT       with --chat: what the model is told before\n"
    "  --tokens N          of each answer, at most (64; on the CPU 16)\n"
    "  --temperature T     0, the most probable token, unless said otherwise\n"
    "  --top-k K, --top-p P, --min-p P, --seed N\n"
    "  --typical-p P, --n-sigma N, --xtc-probability P, --xtc-threshold P, --dynamic-range R, --dynamic-exponent E\n"
    "  --repetition R, --presence P, --frequency F\n"
    "  --device NAME       cuda, cuda:N, several as cuda:0,cuda:1, or host; else the first NVIDIA GPU, and the CPU "
    "where there is none\n"
    "  --drafts N          speculate: at most N tokens of what followed the last words before (0)\n"
    "  --fp8-cache         keys and values in e4m3; --fp8-weights: weights, and what they multiply\n"
    "  --graph             on a GPU: replay steps of single tokens as CUDA graphs\n"
    "  --cache FOLDER      of kernels; --cached-only: compile nothing\n"
    "  --ignore-end        write on behind a token that ends a text\n"
    "Several prompts are answered at once.\n";

struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string model, device, cache, system;
  std::vector<std::string> prompts;
  std::int64_t tokens = 0;  // 0: as many as the device is good for
  std::int64_t drafts = 0;
  Sampling sampling;
  bool fp8_cache = false, fp8_weights = false, graph = false, cached_only = false, ignore_end = false, chat = false;
};

template <class T>
void read_number(const std::string& name, const std::string& text, T* value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (failure != std::errc{} || end != text.data() + text.size())
    throw Usage(name + " is " + text + ", which is no number");
}

// Options that are a number of Sampling.
constexpr std::array<std::pair<const char*, float Sampling::*>, 12> kNumbers{
    {{"--temperature", &Sampling::temperature},
     {"--top-p", &Sampling::top_p},
     {"--min-p", &Sampling::min_p},
     {"--typical-p", &Sampling::typical_p},
     {"--n-sigma", &Sampling::n_sigma},
     {"--xtc-probability", &Sampling::xtc_probability},
     {"--xtc-threshold", &Sampling::xtc_threshold},
     {"--dynamic-range", &Sampling::dynamic_range},
     {"--dynamic-exponent", &Sampling::dynamic_exponent},
     {"--repetition", &Sampling::repetition},
     {"--presence", &Sampling::presence},
     {"--frequency", &Sampling::frequency}}};

Options read_options(int argc, char** argv) {
  Options options;
  const auto value = [&](int* i) -> std::string {
    if (*i + 1 >= argc) throw Usage(std::string(argv[*i]) + " needs a value");
    return argv[++*i];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") throw Usage("");
    const auto* const number =
        std::find_if(kNumbers.begin(), kNumbers.end(), [&](const auto& each) { return name == each.first; });
    if (number != kNumbers.end()) {
      read_number(name, value(&i), &(options.sampling.*number->second));
    } else if (name == "--model") {
      options.model = value(&i);
    } else if (name == "--chat") {
      options.chat = true;
    } else if (name == "--text") {
      options.chat = false;
    } else if (name == "--system") {
      options.system = value(&i);
    } else if (name == "--tokens") {
      read_number(name, value(&i), &options.tokens);
      if (options.tokens < 1) throw Usage("--tokens must be 1 or more");
    } else if (name == "--top-k") {
      read_number(name, value(&i), &options.sampling.top_k);
    } else if (name == "--seed") {
      read_number(name, value(&i), &options.sampling.seed);
    } else if (name == "--drafts") {
      read_number(name, value(&i), &options.drafts);
      if (options.drafts < 0 || options.drafts > 64) throw Usage("--drafts must be 0 to 64");
    } else if (name == "--device") {
      options.device = value(&i);
    } else if (name == "--cache") {
      options.cache = value(&i);
    } else if (name == "--fp8-cache") {
      options.fp8_cache = true;
    } else if (name == "--fp8-weights") {
      options.fp8_weights = true;
    } else if (name == "--graph") {
      options.graph = true;
    } else if (name == "--cached-only") {
      options.cached_only = true;
    } else if (name == "--ignore-end") {
      options.ignore_end = true;
    } else if (name.starts_with("--")) {
      throw Usage("there is no option " + name);
    } else {
      options.prompts.push_back(name);
    }
  }
  if (options.model.empty()) throw Usage("--model is missing");
  if (options.prompts.empty()) throw Usage("there is no prompt");
  return options;
}

Devices open_devices(const Options& options) {
  auto wanted = demo::sized<quern_context_options>();
  wanted.cache_path = options.cache.empty() ? nullptr : options.cache.c_str();
  wanted.miss_policy = options.cached_only ? QUERN_MISS_CACHED_ONLY : QUERN_MISS_COMPILE;
  try {
    return {options.device, wanted};
  } catch (const DeviceName& error) {
    throw Usage(error.what());
  }
}

double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// The bytes that can be shown: up to the last whole character.
std::size_t whole_characters(const std::string& text) {
  std::size_t end = text.size();
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (length > back) end = text.size() - back;
    break;
  }
  return end;
}

// What the model reads for a prompt: the text itself, or the user's turn and the beginning of the answer.
std::string prompt_of(const Options& options, const Checkpoint& checkpoint, const Vocabulary& vocabulary,
                      const Tokenizer& tokenizer, const std::string& text) {
  if (!options.chat) return text;
  const std::string source = checkpoint.chat_template();
  if (source.empty()) throw std::runtime_error(options.model + " has no chat template: leave out --chat");
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back(Json{{"role", "system"}, {"content", options.system}});
  messages.push_back(Json{{"role", "user"}, {"content", text}});
  return Template(source).render(Json{{"messages", messages},
                                      {"add_generation_prompt", true},
                                      {"bos_token", tokenizer.special_of(vocabulary.begin)},
                                      {"eos_token", tokenizer.special_of(vocabulary.end)}});
}

void chat(const Options& options) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(options.model);
  const Vocabulary vocabulary = checkpoint->vocabulary();
  const Tokenizer tokenizer(vocabulary);
  const Config config = checkpoint->config();
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : options.prompts) {
    std::vector<std::int32_t> tokens = tokenizer.encode(prompt_of(options, *checkpoint, vocabulary, tokenizer, text));
    // A chat's prompt ends where the answer begins; its template may have put there what it begins with.
    prompts.push_back(options.chat ? tokenizer.begun(std::move(tokens)) : tokenizer.framed(std::move(tokens)));
  }
  const Devices devices = open_devices(options);
  const quern_device_info& device = devices.first();

  Limits limits;
  limits.sequences = static_cast<std::int64_t>(options.prompts.size());
  limits.context = std::min<std::int64_t>(config.positions, 4096);
  limits.fp8_cache = options.fp8_cache;
  limits.drafts = options.drafts;
  limits.fp8_weights = options.fp8_weights, limits.graph = options.graph;
  limits.cached_only = options.cached_only;
  const auto begin = Clock::now();
  const std::unique_ptr<Steps> model = devices.make_model(*checkpoint, limits);
  Engine engine(*model);
  const auto ready = Clock::now();

  std::fprintf(stderr, "%s: ready in %.0f ms, %llu kernels compiled\n", device.name, milliseconds(begin, ready),
               static_cast<unsigned long long>(devices.compiled()));

  const bool streams = options.prompts.size() == 1;
  std::vector<std::string> answers(options.prompts.size());
  std::size_t shown = 0;
  Clock::time_point first{};
  for (std::size_t i = 0; i < options.prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.most_new = options.tokens > 0 ? options.tokens : device.device_type == kDLCPU ? 16 : 64;
    request.sampling = options.sampling;
    request.stop_at_end = !options.ignore_end;
    request.take = [&, i](std::int32_t token) {
      if (first == Clock::time_point{}) first = Clock::now();
      answers[i] += tokenizer.bytes_of(token);
      if (streams) {
        const std::size_t end = whole_characters(answers[i]);
        std::fwrite(answers[i].data() + shown, 1, end - shown, stdout);
        std::fflush(stdout);
        shown = end;
      }
      return true;
    };
    if (streams && !options.chat) std::fputs(options.prompts[i].c_str(), stdout);
    engine.add(std::move(request));
  }
  engine.run();
  const auto end = Clock::now();
  if (streams) std::puts(answers[0].c_str() + shown);
  for (std::size_t i = 0; i < answers.size() && !streams; ++i)
    std::printf("%s%s%s%s\n", i > 0 ? "---\n" : "", options.prompts[i].c_str(), options.chat ? "\n" : "",
                answers[i].c_str());

  std::fflush(stdout);
  const double seconds = milliseconds(first, end) / 1000.0;
  const auto after_first = static_cast<double>(engine.counts().answered) - static_cast<double>(answers.size());
  std::fprintf(stderr, "first token after %.1f ms, then %.1f tokens a second\n", milliseconds(ready, first),
               seconds > 0.0 ? after_first / seconds : 0.0);
}

}  // namespace
}  // namespace quern::engine

int main(int argc, char** argv) {
  using namespace quern::engine;
  try {
    chat(read_options(argc, argv));
    return 0;
  } catch (const Usage& error) {
    if (*error.what() == '\0') return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
    std::fprintf(stderr, "quern-chat: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern-chat: %s\n", error.what());
    return 1;
  }
}
