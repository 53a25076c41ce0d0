// Drafts change no token of a text whose logits are edited, and are accepted there.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/engine/engine.h"
#include "bindings/engine/model.h"
#include "bindings/engine/sampling/room.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Engine;
using engine::Limits;
using engine::Model;
using engine::Request;
using engine::Sampling;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kTokens = 14;

class DraftsTest : public testing::Test {
 protected:
  static Limits limits(std::int64_t drafts) {
    Limits limits;
    limits.sequences = 8, limits.tokens = 48, limits.context = 64, limits.page_size = 4, limits.drafts = drafts;
    limits.batch_invariant = limits.graph = true;
    return limits;
  }
  std::unique_ptr<Model> model_of(const engine::Checkpoint& checkpoint, const Limits& limits) const {
    return std::make_unique<Model>(context_.get(), device_of(context_.get()), checkpoint, limits);
  }
  Request request(const Sampling& sampling, Tokens* answer) const {
    Request request;
    request.prompt = text_, request.most_new = kTokens, request.stop_at_end = false;
    request.sampling = sampling;
    request.take = [answer](std::int32_t token) {
      answer->push_back(token);
      return true;
    };
    return request;
  }
  // By one engine all prompts are the same pages, computed once.
  Tokens alone(Engine& engine, const Sampling& sampling) const {
    Tokens answer;
    engine.add(request(sampling, &answer));
    engine.run();
    return answer;
  }

  const demo::Context context_ = engine_context();
  const std::unique_ptr<engine::Checkpoint> checkpoint_ = engine::open_checkpoint(kModel);
  // Says the same twice.
  const Tokens text_ = [] {
    Tokens text = read_golden().cases[0].ids;
    const std::size_t length = text.size();
    text.resize(2 * length);
    std::copy_n(text.begin(), length, text.begin() + static_cast<std::ptrdiff_t>(length));
    return text;
  }();
};

// What edits logits, of the tokens that the model says of itself.
struct Kind {
  const char* name;
  Sampling (*sampling)(const Tokens& text, const Tokens& plain);
};
const Kind kKinds[] = {
    {"repetition", [](const Tokens&, const Tokens&) { return Sampling{.repetition = 0.9f}; }},
    {"presence", [](const Tokens&, const Tokens&) { return Sampling{.presence = -2.0f}; }},
    {"frequency", [](const Tokens&, const Tokens&) { return Sampling{.frequency = 0.4f}; }},
    {"biases",
     [](const Tokens& text, const Tokens& plain) {
       return Sampling{.bias = {{plain[0], -3.0f}, {text[0], 2.0f}, {text[1], 2.0f}}};
     }},
    {"banned", [](const Tokens&, const Tokens& plain) { return Sampling{.banned = {plain[1], plain[4]}}; }},
    {"all",
     [](const Tokens&, const Tokens& plain) {
       Sampling all{.repetition = 1.1f, .presence = -1.5f, .frequency = 0.3f};
       all.bias = {{plain[2], -2.0f}}, all.banned = {plain[0]};
       return all;
     }},
};

// A draft counts in the penalties of those behind it.
class EditedDraftsTest : public DraftsTest, public testing::WithParamInterface<Kind> {};

TEST_P(EditedDraftsTest, ChangeNoToken) {
  const std::unique_ptr<Model> without = model_of(*checkpoint_, limits(0)), with = model_of(*checkpoint_, limits(3));
  Engine one_by_one(*without), engine(*with);
  const Tokens plain = alone(one_by_one, {});
  const Sampling sampling = GetParam().sampling(text_, plain);
  const Tokens expected = alone(one_by_one, sampling);
  EXPECT_NE(expected, plain) << "edits nothing that matters";
  EXPECT_EQ(alone(engine, sampling), expected);
  EXPECT_GT(engine.counts().accepted, 0);
  EXPECT_EQ(one_by_one.counts().drafted, 0);
}
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
INSTANTIATE_TEST_SUITE_P(Kinds, EditedDraftsTest, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.name); });

// All at once, beside one that has nothing edited and one that is drawn.
TEST_F(DraftsTest, OfAllKindsBesideEachOther) {
  const std::unique_ptr<Model> without = model_of(*checkpoint_, limits(0)), with = model_of(*checkpoint_, limits(3));
  Engine one_by_one(*without), engine(*with);
  const Tokens plain = alone(one_by_one, {});
  std::vector<Sampling> samplings = {{}, {.temperature = 1.0f, .seed = 3, .frequency = 0.5f}};
  for (const Kind& kind : kKinds) samplings.push_back(kind.sampling(text_, plain));
  std::vector<Tokens> answers[2];
  for (Engine* each : {&one_by_one, &engine}) {
    std::vector<Tokens>& told = answers[each == &engine ? 1 : 0];
    told.resize(samplings.size());
    for (std::size_t i = 0; i < samplings.size(); ++i) each->add(request(samplings[i], &told[i]));
    each->run();
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0][0], plain);
  EXPECT_GT(engine.counts().accepted, static_cast<std::int64_t>(samplings.size()));
  EXPECT_GT(engine.counts().drafted, engine.counts().accepted) << "none is refused";
}

// A sequence with a mask or with log-probabilities has none, and gets what it asks for beside one that has.
TEST_F(DraftsTest, AMaskBesideThem) {
  const std::unique_ptr<Model> with = model_of(*checkpoint_, limits(3));
  const Sampling presence{.presence = -2.0f};
  Engine engine(*with);
  const Tokens expected = alone(engine, presence), plain = alone(engine, {});
  const std::int64_t accepted = engine.counts().accepted;
  Tokens edited, masked, told;
  std::size_t looks = 0;
  engine.add(request(presence, &edited));
  Request made = request({}, &masked);
  made.allow = [&](std::span<const std::int32_t> so_far) {
    std::vector<std::uint32_t> bits(1024 / 32);
    bits[0] = so_far.size() % 2 == 0 ? 1u << 5 : 1u << 6;
    return bits;
  };
  engine.add(std::move(made));
  made = request({.top_logprobs = 2}, &told);
  made.look = [&](const engine::Next& next) { looks += next.top.size() == 2 && next.tokens.size() == 1 ? 1u : 0u; };
  engine.add(std::move(made));
  engine.run();
  EXPECT_EQ(edited, expected);
  EXPECT_EQ(told, plain);
  EXPECT_EQ(looks, std::size_t{kTokens});
  ASSERT_EQ(masked.size(), std::size_t{kTokens});
  for (std::size_t i = 0; i < masked.size(); ++i) EXPECT_EQ(masked[i], (text_.size() + i) % 2 == 0 ? 5 : 6);
  EXPECT_GT(engine.counts().accepted, accepted);
}

// A model whose logits are all zero: they are logits, of which zero is one like another, not probabilities.
class Silent final : public engine::Checkpoint {
 public:
  engine::Config config() const override { return from_->config(); }
  engine::Vocabulary vocabulary() const override { return from_->vocabulary(); }
  std::string chat_template() const override { return from_->chat_template(); }
  bool has(const std::string& name) const override { return from_->has(name); }
  std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>& shape) const override {
    std::vector<std::uint16_t> values = from_->bf16(name, shape);
    if (name == "model.norm.weight") std::fill(values.begin(), values.end(), std::uint16_t{0});
    return values;
  }

 private:
  const std::unique_ptr<engine::Checkpoint> from_ = engine::open_checkpoint(kModel);
};
TEST_F(DraftsTest, LogitsNeedNotBeAboveZero) {
  const std::unique_ptr<Model> silent = model_of(Silent(), limits(3));
  const Tokens pages = {0};
  EXPECT_EQ(silent->step({{{5, 0, 0, 7}, 0, &pages, {}, 3}})[0].tokens, (Tokens{0, 0, 0}));
  EXPECT_EQ(silent->step({{{5, 1, 0, 7}, 0, &pages, {.banned = {0}}, 3}})[0].tokens, (Tokens{1, 1}));
}

TEST_F(DraftsTest, StandBehindNothingThatIsDrawnMaskedOrToldOf) {
  const std::unique_ptr<Model> model = model_of(*checkpoint_, limits(2));
  const Tokens pages = {0};
  const auto step = [&](const Sampling& sampling, std::vector<std::uint32_t> allowed) {
    model->step({{{1, 2}, 0, &pages, sampling, 1, {}, 0, std::move(allowed)}});
  };
  step({.presence = 1.0f}, {});
  EXPECT_THROW(step({.temperature = 1.0f}, {}), std::runtime_error);
  EXPECT_THROW(step({.top_logprobs = 0}, {}), std::runtime_error);
  EXPECT_THROW(step({}, std::vector<std::uint32_t>(1024 / 32, ~0u)), std::runtime_error);
}

// Lists share the room that a device has for them with the drafts.
TEST_F(DraftsTest, AnAnswerWithPenaltiesIsAsLongAsTheDeviceCanList) {
  Limits wanted = limits(3);
  EXPECT_EQ(model_of(*checkpoint_, wanted)->limits().penalised, wanted.context);
  wanted.context = 4000, wanted.sequences = 1;
  const std::int64_t listed = engine::most_listed(context_.get(), {device_of(context_.get()).device_type, 0}, 1024);
  EXPECT_GE(listed, 1024);
  const std::unique_ptr<Model> model = model_of(*checkpoint_, wanted);
  const std::int64_t most = model->limits().penalised;
  EXPECT_EQ(most, std::min(wanted.context, listed - 256 - 256 - 3));
  Engine engine(*model);
  const auto refused = [&](std::int64_t count, const Sampling& sampling) -> std::string {
    Request asked;
    asked.prompt = {0}, asked.most_new = count, asked.sampling = sampling;
    try {
      engine.add(std::move(asked));
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refused(most + 1, {.presence = 1.0f}), "the tokens of an answer with penalties are " +
                                                       std::to_string(most + 1) + "; allowed: at most " +
                                                       std::to_string(most));
  EXPECT_EQ(refused(most, {.presence = 1.0f}), "");
  EXPECT_EQ(refused(most + 1, {}), "");
}

}  // namespace
}  // namespace quern::test
