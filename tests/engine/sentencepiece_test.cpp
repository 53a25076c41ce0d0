// Tokenizers of SentencePiece's kind against the libraries that they come from (sentencepieces.py).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/text/tokenizer.h"
#include "bindings/json/json.h"
#include "tests/engine/gguf_file.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Tokenizer;
using Tokens = std::vector<std::int32_t>;

Json expected() {
  std::ifstream file(QUERN_TEST_DATA "/../engine/sentencepieces.json", std::ios::binary);
  return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}
template <class T>
std::vector<T> numbers(const Json& array) {
  std::vector<T> all;
  for (const Json& each : array.items()) all.push_back(static_cast<T>(each.number()));
  return all;
}
std::vector<std::string> texts(const Json& array) {
  std::vector<std::string> all;
  for (const Json& each : array.items()) all.push_back(each.string());
  return all;
}

TEST(SentencePiece, FilesMakeTheTokensOfTheirLibrary) {
  const Json all = expected();
  const std::vector<std::string> given = texts(all.at("texts"));
  ASSERT_EQ(all.at("files").items().size(), 5u);
  for (const Json& each : all.at("files").items()) {
    const std::string& name = each.at("name").string();
    const Tokenizer tokenizer(engine::vocabulary_of_json(each.at("json")));
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tokens tokens = tokenizer.encode(given[i]);
      EXPECT_EQ(tokens, numbers<std::int32_t>(each.at("ids").items()[i])) << name << ": " << given[i];
      EXPECT_EQ(tokenizer.decode(tokens), each.at("decoded").items()[i].string()) << name << ": " << given[i];
    }
  }
}

// A GGUF file of nothing but what a vocabulary is read from.
GgufFile file_of(const Json& pieces) {
  GgufFile file;
  file.text("general.architecture", "llama");
  for (const char* name :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"})
    file.whole(std::string("llama.") + name, 64);
  file.whole("llama.attention.key_length", 2);
  file.text("tokenizer.ggml.model", "llama");
  file.whole("tokenizer.ggml.bos_token_id", 1);
  file.whole("tokenizer.ggml.eos_token_id", 2);
  file.whole("tokenizer.ggml.unknown_token_id", 0);
  file.boolean("tokenizer.ggml.add_space_prefix", pieces.at("prefix").boolean());
  file.texts("tokenizer.ggml.tokens", texts(pieces.at("tokens")));
  std::string scores =
      GgufFile::raw(std::uint32_t{6}) + GgufFile::raw(std::uint64_t{pieces.at("scores").items().size()});
  for (const float score : numbers<float>(pieces.at("scores"))) scores += GgufFile::raw(score);
  file.value("tokenizer.ggml.scores", 9, scores);
  file.wholes("tokenizer.ggml.token_type", numbers<std::int32_t>(pieces.at("types")));
  return file;
}

TEST(SentencePiece, GgufFilesMakeItsTokens) {
  const Json all = expected();
  ASSERT_EQ(all.at("pieces").items().size(), 2u);
  for (const Json& each : all.at("pieces").items()) {
    const Written written(file_of(each).bytes());
    const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(written.path());
    EXPECT_EQ(checkpoint->vocabulary().front, Tokens{1});
    const Tokenizer tokenizer(checkpoint->vocabulary());
    const std::vector<std::string> given = texts(each.at("texts"));
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tokens tokens = tokenizer.encode(given[i]);
      // Behind a symbol that stands for itself a file has the prefix once more, as other readers of such files do.
      const bool again = each.at("prefix").boolean() && given[i].find("<tab>") != std::string::npos;
      if (!again) {
        EXPECT_EQ(tokens, numbers<std::int32_t>(each.at("ids").items()[i])) << given[i];
        EXPECT_EQ(tokenizer.decode(tokens), given[i]);
      }
    }
    EXPECT_EQ(tokenizer.special_of(1), "<s>");
  }
}

// Merging by a queue is what merging by looking at all pairs is, on text of any kind.
TEST(SentencePiece, MergesAreThoseOfTheWholeSearch) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    engine::Merges merges;
    std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::int32_t, std::int32_t>> all;
    std::int32_t next = 4;
    for (std::int32_t rank = 0; rank < 30; ++rank) {
      const auto token = [&] { return static_cast<std::int32_t>(random() % static_cast<unsigned>(next)); };
      const std::pair pair{token(), token()};
      merges.add(pair.first, pair.second, rank / 2, next);
      all.emplace(pair, std::pair{rank / 2, next});
      ++next;
    }
    Tokens tokens(1 + random() % 60);
    for (std::int32_t& each : tokens) each = static_cast<std::int32_t>(random() % 4);
    Tokens slow = tokens;
    for (;;) {
      std::size_t best = slow.size();
      for (std::size_t i = 0; i + 1 < slow.size(); ++i) {
        const auto found = all.find({slow[i], slow[i + 1]});
        if (found == all.end()) continue;
        if (best == slow.size() || found->second.first < all.at({slow[best], slow[best + 1]}).first) best = i;
      }
      if (best == slow.size()) break;
      slow[best] = all.at({slow[best], slow[best + 1]}).second;
      slow.erase(slow.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    merges.apply(&tokens);
    EXPECT_EQ(tokens, slow);
  }
}

TEST(SentencePiece, RefusesWhatItDoesNotKnow) {
  const Json good = expected().at("files").items()[0].at("json");
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = good.dump();
    const std::size_t at = text.find(from);
    if (at == std::string::npos) return "the text to change is not there";
    text.replace(at, from.size(), to);
    try {
      engine::vocabulary_of_json(Json::parse(text));
      return "";
    } catch (const JsonError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refused("\"type\":\"Prepend\"", "\"type\":\"NFKC\""),
            "normalizer is NFKC; allowed with byte_fallback: Prepend, Replace");
  EXPECT_EQ(refused("\"prepend\":\"\u2581\"", "\"prepend\":\"_\""), "normalizer Prepend is of _");
  EXPECT_EQ(refused("\"content\":\"\u2581\"", "\"content\":\"_\""), "normalizer Replace is not of a space by U+2581");
  EXPECT_EQ(refused("\"type\":\"BPE\"", "\"type\":\"Unigram\""), "model.type is Unigram; allowed: BPE");
}

// A character that is neither an entry nor bytes is the unknown token, one for neighbours.
TEST(SentencePiece, WhatIsNoEntryIsUnknown) {
  engine::Vocabulary vocabulary;
  vocabulary.by_characters = true, vocabulary.entries = {"<unk>", "a", "b", "ab"}, vocabulary.merges = {{"a", "b"}};
  vocabulary.unknown = 0;
  EXPECT_EQ(Tokenizer(vocabulary).encode("abxyb"), (Tokens{3, 0, 0, 2}));
  vocabulary.fuse_unknown = true;
  EXPECT_EQ(Tokenizer(vocabulary).encode("abxyb\xff"), (Tokens{3, 0, 2, 0}));
  vocabulary.unknown = -1;
  EXPECT_THROW(Tokenizer(vocabulary).encode("x"), std::runtime_error);
}

}  // namespace
}  // namespace quern::test
