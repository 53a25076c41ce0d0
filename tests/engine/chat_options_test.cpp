// What quern-chat takes as arguments, and what it refuses before it opens a model.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bindings/engine/chat/options.h"

namespace quern::test {
namespace {

using engine::Options;

Options read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"quern-chat", "--model", "folder"});
  arguments.push_back("a prompt");
  return engine::read_options(static_cast<int>(arguments.size()), arguments.data());
}
std::string refusal(const std::vector<const char*>& arguments) {
  try {
    read(arguments);
    return "";
  } catch (const engine::Usage& error) {
    return error.what();
  }
}

TEST(ChatOptions, SamplingIsThatOfARequest) {
  const engine::Sampling s =
      read({"--temperature", "0.7", "--top-p", "0.9", "--top-k", "40", "--dynamic-exponent", "-1", "--seed", "7",
            "--bias", "5=-2.5", "--bias", "6=1", "--ban", "9", "--logprobs", "3"})
          .sampling;
  EXPECT_EQ(s.temperature, 0.7f);
  EXPECT_EQ(s.top_p, 0.9f);
  EXPECT_EQ(s.top_k, 40);
  EXPECT_EQ(s.dynamic_exponent, -1.0f);
  EXPECT_EQ(s.seed, 7u);
  EXPECT_EQ(s.bias, (std::vector<std::pair<std::int32_t, float>>{{5, -2.5f}, {6, 1.0f}}));
  EXPECT_EQ(s.banned, std::vector<std::int32_t>{9});
  EXPECT_EQ(s.top_logprobs, 3);
  // Each number has an option of its name, and is refused by it.
  for (const engine::SamplingRange& range : engine::kSamplingRanges) {
    std::string name = std::string("--") + range.name;
    for (char& c : name) c = c == '_' ? '-' : c;
    EXPECT_EQ(read({name.c_str(), "0.25"}).sampling.*range.number, 0.25f) << name;
    EXPECT_EQ(refusal({name.c_str(), "nan"}), name + " is nan; allowed: " + range.range);
    EXPECT_NE(std::string(engine::kUsage).find(name + " "), std::string::npos) << name << " is not in the help";
  }
}

TEST(ChatOptions, RefusesByName) {
  EXPECT_EQ(refusal({"--temperature", "-1"}), "--temperature is -1; allowed: 0 and more");
  EXPECT_EQ(refusal({"--top-p", "7"}), "--top-p is 7; allowed: 0 to 1");
  EXPECT_EQ(refusal({"--top-k", "-2"}), "--top-k is -2; allowed: -1 and more");
  EXPECT_EQ(refusal({"--top-k", "4.5"}), "--top-k is 4.5, which is no number");
  EXPECT_EQ(refusal({"--bias", "5"}), "--bias is 5; allowed: TOKEN=VALUE");
  EXPECT_EQ(refusal({"--bias", "x=1"}), "--bias is x, which is no number");
  EXPECT_EQ(refusal({"--bias", "5=inf"}), "--bias is 5=inf; allowed: a finite number");
  EXPECT_EQ(refusal({"--logprobs", "21"}), "--logprobs is 21; allowed: 0 to 20");
  EXPECT_EQ(refusal({"--logprobs", "-1"}), "--logprobs is -1; allowed: 0 to 20");
  EXPECT_EQ(refusal({"--beam", "3"}), "there is no option --beam");
}

TEST(ChatOptions, GraphsAreAsTold) {
  EXPECT_FALSE(read({}).graph.has_value()) << "as many devices as there are say it";
  EXPECT_EQ(read({"--graph"}).graph, true);
  EXPECT_EQ(read({"--no-graph"}).graph, false);
}

}  // namespace
}  // namespace quern::test
