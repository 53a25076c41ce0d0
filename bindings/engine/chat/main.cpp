// quern-chat: a model and some prompts in, text out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "bindings/engine/chat/options.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/engine.h"
#include "bindings/engine/parallel/devices.h"
#include "bindings/engine/text/template.h"
#include "bindings/engine/text/tokenizer.h"
#include "bindings/json/json.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;

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

// A token as a text in quotes; special ones by their names.
std::string quoted(const Tokenizer& tokenizer, std::int32_t token) {
  const std::string special = tokenizer.special_of(token);
  return Json(special.empty() ? tokenizer.bytes_of(token) : special).dump();
}

// A line for each token of an answer: its number, its text, its log-probability; behind it the most probable ones'.
void print_logprobs(const Tokenizer& tokenizer, const std::vector<Next>& answer) {
  for (const Next& next : answer) {
    const std::int32_t token = next.tokens.back();
    if (token < 0) continue;
    std::fprintf(stderr, "%d %s %.4f%s", token, quoted(tokenizer, token).c_str(), static_cast<double>(next.logprob),
                 next.top.empty() ? "" : ":");
    for (const auto& [other, logprob] : next.top)
      std::fprintf(stderr, " %s %.4f", quoted(tokenizer, other).c_str(), static_cast<double>(logprob));
    std::fputc('\n', stderr);
  }
}

void print_figures(Clock::time_point ready, Clock::time_point first, Clock::time_point end, std::int64_t after_first) {
  const double seconds = milliseconds(first, end) / 1000.0;
  std::fprintf(stderr, "first token after %.1f ms", milliseconds(ready, first));
  if (after_first > 0 && seconds > 0.0)
    std::fprintf(stderr, ", then %.1f tokens a second", static_cast<double>(after_first) / seconds);
  std::fputc('\n', stderr);
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
  limits.fp8_weights = options.fp8_weights;
  limits.graph = options.graph.value_or(devices.ranks().size() == 1);
  limits.cached_only = options.cached_only;
  const auto begin = Clock::now();
  const std::unique_ptr<Steps> model = devices.make_model(*checkpoint, limits);
  Engine engine(*model);
  const auto ready = Clock::now();

  std::fprintf(stderr, "%s: ready in %.0f ms, %llu kernels compiled\n", device.name, milliseconds(begin, ready),
               static_cast<unsigned long long>(devices.compiled()));

  const bool streams = options.prompts.size() == 1;
  std::vector<std::string> answers(options.prompts.size());
  std::vector<std::vector<Next>> looked(options.prompts.size());
  std::size_t shown = 0;
  Clock::time_point first{};
  for (std::size_t i = 0; i < options.prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.most_new = options.tokens > 0 ? options.tokens : device.device_type == kDLCPU ? 16 : 64;
    request.sampling = options.sampling;
    request.stop_at_end = !options.ignore_end;
    request.look = [&, i](const Next& next) { looked[i].push_back(next); };
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
    engine.add(std::move(request));
    if (streams && !options.chat) std::fputs(options.prompts[i].c_str(), stdout);
  }
  engine.run();
  const auto end = Clock::now();
  if (streams) std::puts(answers[0].c_str() + shown);
  for (std::size_t i = 0; i < answers.size() && !streams; ++i)
    std::printf("%s%s%s%s\n", i > 0 ? "---\n" : "", options.prompts[i].c_str(), options.chat ? "\n" : "",
                answers[i].c_str());

  std::fflush(stdout);
  for (std::size_t i = 0; i < looked.size(); ++i) {
    if (i > 0 && !looked[i].empty()) std::fputs("---\n", stderr);
    print_logprobs(tokenizer, looked[i]);
  }
  const Engine::Counts& counts = engine.counts();
  if (counts.barren > 0)
    std::fprintf(stderr, "%lld answers ended where no token may follow\n", static_cast<long long>(counts.barren));
  if (counts.answered > 0)
    print_figures(ready, first, end, counts.answered - static_cast<std::int64_t>(answers.size()));
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
