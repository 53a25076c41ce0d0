// Unicode's normal form C against Python's unicodedata (normal_forms.py).
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/normal_form.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "bindings/engine/text/tokenizer.h"
#include "bindings/json/json.h"

namespace quern::test {
namespace {

using engine::normal_form_c;

TEST(NormalForm, IsThatOfUnicodedata) {
  std::ifstream file(QUERN_TEST_DATA "/../engine/normal_forms.json", std::ios::binary);
  const Json all = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_GT(all.at("pairs").items().size(), 3000u);
  for (const Json& pair : all.at("pairs").items()) {
    const std::string &text = pair.items()[0].string(), &form = pair.items()[1].string();
    EXPECT_EQ(normal_form_c(text), form) << text;
    EXPECT_EQ(normal_form_c(form), form) << text;
  }
}

TEST(NormalForm, LeavesWhatIsNoUtf8) {
  EXPECT_EQ(normal_form_c(""), "");
  EXPECT_EQ(normal_form_c("plain"), "plain");
  EXPECT_EQ(normal_form_c("e\u0301\xff"
                          "e\u0301\xe2\x82"),
            "\u00e9\xff\u00e9\xe2\x82");
  EXPECT_EQ(normal_form_c("e\xff\u0301"), "e\xff\u0301") << "it stands between them";
  EXPECT_EQ(normal_form_c(std::string("e\u0301\0e\u0301", 7)), std::string("\u00e9\0\u00e9", 5));
  EXPECT_EQ(normal_form_c("\xed\xa0\x80"), "\xed\xa0\x80") << "half of a pair";
}

// A vocabulary that has the letter in one piece, written as its two bytes are.
Json tokenizer(const Json& normalizer) {
  return Json{{"added_tokens", Json::array({Json{{"id", 4}, {"content", "<e\u0301>"}, {"special", true}}})},
              {"normalizer", normalizer},
              {"pre_tokenizer", Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
              {"model", Json{{"type", "BPE"},
                             {"vocab", Json{{"\u00c3", 0}, {"\u00a9", 1}, {"\u00c3\u00a9", 2}, {"e", 3}}},
                             {"merges", Json::array({"\u00c3 \u00a9"})}}}};
}

TEST(NormalForm, IsMadeBeforeATextIsCut) {
  using Tokens = std::vector<std::int32_t>;
  const Json form{{"type", "NFC"}};
  for (const Json& normalizer : {form, Json{{"type", "Sequence"}, {"normalizers", Json::array({form})}}}) {
    const engine::Tokenizer made(engine::vocabulary_of_json(tokenizer(normalizer)));
    EXPECT_EQ(made.encode("\u00e9e\u0301e"), (Tokens{2, 2, 3}));
    EXPECT_EQ(made.encode("<e\u0301>e\u0301"), (Tokens{4, 2})) << "tokens of their own are found before that";
  }
  const engine::Tokenizer plain(engine::vocabulary_of_json(tokenizer(nullptr)));
  EXPECT_EQ(plain.encode("\u00e9e"), (Tokens{2, 3}));
  EXPECT_THROW(plain.encode("e\u0301"), std::runtime_error) << "the vocabulary has no such bytes";
  try {
    engine::vocabulary_of_json(tokenizer(Json{{"type", "NFKC"}}));
    ADD_FAILURE() << "NFKC is taken";
  } catch (const JsonError& error) {
    EXPECT_STREQ(error.what(), "normalizer is NFKC; allowed without byte_fallback: null, NFC");
  }
}

}  // namespace
}  // namespace quern::test
