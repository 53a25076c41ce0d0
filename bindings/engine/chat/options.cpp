// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/chat/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::engine {

const char* const kUsage =
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
    "  --bias TOKEN=VALUE  added to a token's logit, which is named by its number; --ban TOKEN: it never comes; each "
    "as "
    "often as wanted\n"
    "  --logprobs N        behind the answer, each token's log-probability and those of the N most probable (0 to 20)\n"
    "  --device NAME       cuda, cuda:N, several as cuda:0,cuda:1, or host; else the first NVIDIA GPU, and the CPU "
    "where there is none\n"
    "  --drafts N          speculate: at most N tokens of what followed the last words before (0)\n"
    "  --fp8-cache         keys and values in e4m3; --fp8-weights: weights, and what they multiply\n"
    "  --graph, --no-graph on GPUs: replay steps of single tokens as CUDA graphs, or launch them one by one (replayed "
    "on "
    "one GPU, launched on several)\n"
    "  --cache FOLDER      of kernels; --cached-only: compile nothing\n"
    "  --ignore-end        write on behind a token that ends a text\n"
    "Several prompts are answered at once.\n";

namespace {

template <class T>
void read_number(const std::string& name, const std::string& text, T* value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (failure != std::errc{} || end != text.data() + text.size())
    throw Usage(name + " is " + text + ", which is no number");
}

// "--top-p" for top_p.
std::string option_of(const SamplingRange& range) {
  std::string name = std::string("--") + range.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// An option that is a number of Sampling, and its value; false where it is another option.
template <class Value>
bool read_sampling(const std::string& name, const Value& value, Sampling* sampling) {
  const auto* const range = std::find_if(kSamplingRanges.begin(), kSamplingRanges.end(),
                                         [&](const SamplingRange& each) { return name == option_of(each); });
  if (range != kSamplingRanges.end()) {
    const std::string text = value();
    read_number(name, text, &(sampling->*range->number));
    if (!range->allowed(sampling->*range->number)) throw Usage(name + " is " + text + "; allowed: " + range->range);
  } else if (name == "--top-k") {
    read_number(name, value(), &sampling->top_k);
    if (sampling->top_k < -1) throw Usage(name + " is " + std::to_string(sampling->top_k) + "; allowed: -1 and more");
  } else if (name == "--seed") {
    read_number(name, value(), &sampling->seed);
  } else if (name == "--bias") {
    const std::string text = value();
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos) throw Usage(name + " is " + text + "; allowed: TOKEN=VALUE");
    auto& [token, by] = sampling->bias.emplace_back();
    read_number(name, text.substr(0, sign), &token);
    read_number(name, text.substr(sign + 1), &by);
    if (!std::isfinite(by)) throw Usage(name + " is " + text + "; allowed: a finite number");
  } else if (name == "--ban") {
    read_number(name, value(), &sampling->banned.emplace_back());
  } else if (name == "--logprobs") {
    read_number(name, value(), &sampling->top_logprobs);
    if (sampling->top_logprobs < 0 || sampling->top_logprobs > kMostTop)
      throw Usage(name + " is " + std::to_string(sampling->top_logprobs) + "; allowed: 0 to " +
                  std::to_string(kMostTop));
  } else {
    return false;
  }
  return true;
}

}  // namespace

Options read_options(int argc, const char* const* argv) {
  Options options;
  const auto value = [&](int* i) -> std::string {
    if (*i + 1 >= argc) throw Usage(std::string(argv[*i]) + " needs a value");
    return argv[++*i];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") throw Usage("");
    if (read_sampling(name, [&] { return value(&i); }, &options.sampling)) continue;
    if (name == "--model") {
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
    } else if (name == "--graph" || name == "--no-graph") {
      options.graph = name == "--graph";
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

}  // namespace quern::engine
