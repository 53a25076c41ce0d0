// Tokenizers of bytes against the library that they come from (bytelevels.py), with what texts have around them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "bindings/engine/text/tokenizer.h"
#include "bindings/json/json.h"

namespace quern::test {
namespace {

TEST(ByteLevel, FilesMakeTheTokensOfTheirLibrary) {
  std::ifstream file(QUERN_TEST_DATA "/../engine/bytelevels.json", std::ios::binary);
  const Json all = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_EQ(all.at("files").items().size(), 3u);
  for (const Json& each : all.at("files").items()) {
    const engine::Tokenizer tokenizer(engine::vocabulary_of_json(each.at("json")));
    for (std::size_t i = 0; i < all.at("texts").items().size(); ++i) {
      const std::string& text = all.at("texts").items()[i].string();
      std::vector<std::int32_t> expected;
      for (const Json& id : each.at("ids").items()[i].items())
        expected.push_back(static_cast<std::int32_t>(id.whole()));
      std::vector<std::int32_t> tokens = tokenizer.encode(text);
      // The library puts its tokens there even where the text begins with them.
      const bool twice = text.starts_with("<s>") && each.at("name").string() == "llama-3";
      tokens = tokenizer.framed(std::move(tokens));
      if (twice) expected.erase(expected.begin());
      EXPECT_EQ(tokens, expected) << each.at("name").string() << ": " << text;
    }
  }
}

}  // namespace
}  // namespace quern::test
