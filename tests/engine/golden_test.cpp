// The small model on quern's ops against golden outputs: tokens, logits, and what it makes of text held out.
// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bindings/engine/engine.h"
#include "bindings/engine/model.h"
#include "bindings/engine/text/tokenizer.h"

namespace quern::test {
namespace {

using engine::Engine;
using engine::Limits;
using engine::Model;
using engine::Request;

double logsumexp(const float* logits, std::size_t count) {
  const double most = *std::max_element(logits, logits + count);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
  return most + std::log(sum);
}

// A text read in chunks.
class Reading {
 public:
  Reading(quern_context* context, const Limits& limits)
      : limits_(limits), model_(context, device_of(context), *engine::open_checkpoint(kModel), limits) {
    for (std::int32_t page = 0; page < static_cast<std::int32_t>(limits.context / limits.page_size); ++page)
      pages_.push_back(page);
  }
  // Calls take(position, logits) for the last of each `chunk` tokens.
  template <class Take>
  void read(const std::vector<std::int32_t>& tokens, std::size_t chunk, const Take& take) {
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const std::size_t end = std::min(at + chunk, tokens.size());
      model_.step(
          {{{tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens.begin() + static_cast<std::ptrdiff_t>(end)},
            static_cast<std::int64_t>(at),
            &pages_,
            {}}});
      take(end - 1, model_.logits());
    }
  }

 private:
  Limits limits_;
  Model model_;
  std::vector<std::int32_t> pages_;
};

Limits one_sequence() {
  Limits limits;
  limits.sequences = 1, limits.tokens = 64, limits.context = 512, limits.graph = true;
  return limits;
}

TEST(Tokenizer, MakesGoldenTokens) {
  const engine::Tokenizer tokenizer(engine::open_checkpoint(kModel)->vocabulary());
  for (const GoldenCase& c : read_golden().cases) {
    std::vector<std::int32_t> tokens = tokenizer.encode("<|begin|>" + c.prompt);
    EXPECT_EQ(tokens, c.ids) << c.prompt;
    EXPECT_EQ(tokenizer.decode(tokens), c.prompt);
  }
}

// bf16 has 8 bits: each of some 30 roundings on the way leaves 2^-9 of a number.
TEST(Golden, LogitsAreWithinBf16sError) {
  const demo::Context context = engine_context();
  Reading reading(context.get(), one_sequence());
  for (const GoldenCase& c : read_golden().cases) {
    double worst = 0.0;
    reading.read(c.ids, 3, [&](std::size_t position, const std::vector<float>& logits) {
      for (std::size_t i = 0; i < c.top_ids[position].size(); ++i) {
        const auto id = static_cast<std::size_t>(c.top_ids[position][i]);
        worst = std::max(worst, std::abs(static_cast<double>(logits[id]) - c.top_logits[position][i]));
      }
      EXPECT_NEAR(logsumexp(logits.data(), logits.size()), c.logsumexp[position], 0.15) << c.prompt << " " << position;
    });
    EXPECT_LT(worst, 0.15) << c.prompt;
  }
}

// The mean negative log-likelihood of text that the model has not seen. Each token of a chunk is a sequence of its own
// here, over pages that all of them have, and so gets logits of its own: a cache that is shared by tokens of one step.
double nll_of(Model& model, const std::vector<std::int32_t>& text) {
  const auto chunk = static_cast<std::size_t>(model.limits().sequences);
  const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary);
  std::vector<std::int32_t> pages(static_cast<std::size_t>(model.limits().pages));
  std::iota(pages.begin(), pages.end(), 0);
  double sum = 0.0;
  for (std::size_t at = 0; at + 1 < text.size(); at += chunk) {
    const std::size_t end = std::min(at + chunk, text.size() - 1);
    std::vector<engine::Part> parts;
    for (std::size_t i = at; i < end; ++i) parts.push_back({{text[i]}, static_cast<std::int64_t>(i), &pages, {}});
    model.step(parts);
    const std::vector<float> logits = model.logits();
    for (std::size_t i = at; i < end; ++i) {
      const float* row = &logits[(i - at) * vocabulary];
      sum += logsumexp(row, vocabulary) - static_cast<double>(row[static_cast<std::size_t>(text[i + 1])]);
    }
  }
  return sum / static_cast<double>(text.size() - 1);
}

// On `host`, where it takes its time, one text of eight.
void expect_nll(bool fp8_cache, bool fp8_weights, double allowed) {
  const demo::Context context = engine_context();
  const quern_device_info device = device_of(context.get());
  const Golden golden = read_golden();
  Limits limits;
  limits.sequences = limits.tokens = 128, limits.context = limits.page_size * 32, limits.pages = 32;
  limits.fp8_cache = fp8_cache, limits.fp8_weights = fp8_weights, limits.graph = true;
  limits.mixed_pages = true;
  Model model(context.get(), device, *engine::open_checkpoint(kModel), limits);
  const std::size_t count = device.device_type == kDLCUDA ? golden.sequences.size() : 1;
  double sum = 0.0, exact = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += nll_of(model, golden.sequences[i]);
    exact += golden.sequence_nll[i];
  }
  EXPECT_NEAR(sum / static_cast<double>(count), exact / static_cast<double>(count), allowed);
}

TEST(Golden, TextHeldOutIsAsLikely) { expect_nll(false, false, 0.005); }
TEST(Golden, TextHeldOutIsNearlyAsLikelyFromACacheOf8Bits) { expect_nll(true, false, 0.02); }
TEST(Golden, TextHeldOutIsNearlyAsLikelyByWeightsOf8Bits) { expect_nll(false, true, 0.03); }

// With all of 8 bits a prompt's queries are, too: what is written behind a prompt is as likely as behind single tokens.
TEST(Golden, PromptsOf8BitsAreReadAsTheyAre) {
  const demo::Context context = engine_context();
  const std::vector<std::int32_t> text = read_golden().sequences[0];
  constexpr std::size_t kPrompt = 64;
  const auto nll = [&](bool eights) {
    Limits limits;
    limits.sequences = 16, limits.tokens = 64, limits.context = 256, limits.pages = 16, limits.graph = true;
    limits.fp8_cache = limits.fp8_weights = eights;
    limits.mixed_pages = true;
    Model model(context.get(), device_of(context.get()), *engine::open_checkpoint(kModel), limits);
    std::vector<std::int32_t> pages(16);
    std::iota(pages.begin(), pages.end(), 0);
    model.step({{{text.begin(), text.begin() + kPrompt}, 0, &pages, {}}});
    std::vector<engine::Part> parts;
    for (std::size_t i = kPrompt; i < kPrompt + 16; ++i)
      parts.push_back({{text[i]}, static_cast<std::int64_t>(i), &pages, {}});
    model.step(parts);
    const std::vector<float> logits = model.logits();
    double sum = 0.0;
    for (std::size_t i = 0; i < 16; ++i) {
      const float* row = &logits[i * 1024];
      sum += logsumexp(row, 1024) - static_cast<double>(row[static_cast<std::size_t>(text[kPrompt + i + 1])]);
    }
    return sum / 16;
  };
  const double eights = nll(true), plain = nll(false);
  std::printf("%.4f by 8 bits, %.4f by bf16\n", eights, plain);
  EXPECT_NEAR(eights, plain, 0.05);  // of so few tokens
}

// The greedy tokens of all prompts at once, whose answers begin at different steps. Where the two largest logits lie
// within 0.02 of each other bf16 may choose either, and what follows is another text.
TEST(Golden, GreedyTokensAreTheSame) {
  const demo::Context context = engine_context();
  const Golden golden = read_golden();
  Limits limits;
  limits.sequences = 5, limits.tokens = 24, limits.context = 128, limits.graph = true;
  Model model(context.get(), device_of(context.get()), *engine::open_checkpoint(kModel), limits);
  Engine engine(model);
  constexpr std::size_t kTokens = 32;
  std::vector<std::vector<std::int32_t>> answers(golden.cases.size());
  for (std::size_t i = 0; i < golden.cases.size(); ++i) {
    Request request;
    request.prompt = golden.cases[i].ids;
    request.most_new = kTokens;
    request.stop_at_end = false;
    request.take = [&answers, i](std::int32_t token) {
      answers[i].push_back(token);
      return true;
    };
    engine.add(std::move(request));
  }
  engine.run();
  for (std::size_t i = 0; i < golden.cases.size(); ++i) {
    const GoldenCase& c = golden.cases[i];
    ASSERT_EQ(answers[i].size(), kTokens);
    const auto expected = c.greedy.begin();
    const auto differs = std::mismatch(answers[i].begin(), answers[i].end(), expected);
    if (differs.first == answers[i].end()) continue;
    // Both choices' logits behind the golden beginning.
    const auto place = static_cast<std::size_t>(differs.first - answers[i].begin());
    std::vector<std::int32_t> text = c.ids;
    text.insert(text.end(), expected, expected + static_cast<std::ptrdiff_t>(place));
    Reading reading(context.get(), one_sequence());
    double between = 0.0;
    reading.read(text, 64, [&](std::size_t, const std::vector<float>& logits) {
      between = static_cast<double>(logits[static_cast<std::size_t>(*differs.first)]) -
                static_cast<double>(logits[static_cast<std::size_t>(*differs.second)]);
    });
    EXPECT_LT(std::abs(between), 0.02) << c.prompt << ": token " << place << " is " << *differs.first << ", not "
                                       << *differs.second;
  }
}

}  // namespace
}  // namespace quern::test
