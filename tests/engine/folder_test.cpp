// What a folder's files say of a model: what its texts begin and end with, its template, its tensors wherever they are
// and whatever they are of.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <stdexcept>

#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/text/tokenizer.h"
#include "tests/engine/model_folder.h"

namespace quern::test {
namespace {

using Tokens = std::vector<std::int32_t>;

Json config_of(const std::string& type) {
  return Json{{"model_type", type},     {"hidden_size", 8}, {"num_hidden_layers", 1}, {"num_attention_heads", 2},
              {"intermediate_size", 8}, {"vocab_size", 16}, {"bos_token_id", 4},      {"eos_token_id", 5}};
}

Json added(std::int64_t id, const char* text) { return Json{{"id", id}, {"content", text}, {"special", true}}; }

Json tokenizer_with(const Json& processor) {
  return Json{{"added_tokens", Json::array({added(4, "<s>"), added(5, "</s>"), added(6, "<turn>"), added(7, "<cls>")})},
              {"pre_tokenizer", Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
              {"post_processor", processor},
              {"model", Json{{"type", "BPE"}, {"vocab", Json{{"a", 0}, {"b", 1}}}, {"merges", Json::array()}}}};
}

Json special(const char* name) { return Json{{"SpecialToken", Json{{"id", name}, {"type_id", 0}}}}; }
const Json kText{{"Sequence", Json{{"id", "A"}, {"type_id", 0}}}};

Json template_of(const std::vector<Json>& single) {
  const auto token = [](const char* name, const std::vector<Json>& ids) {
    return Json{{"id", name}, {"ids", Json::array(ids)}, {"tokens", Json::array({name})}};
  };
  return Json{{"type", "TemplateProcessing"},
              {"single", Json::array(single)},
              {"pair", Json::array()},
              {"special_tokens",
               Json{{"<s>", token("<s>", {4})}, {"</s>", token("</s>", {5})}, {"two", token("two", {6, 7})}}}};
}
const Json kBytes{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}};
Json sequence(const std::vector<Json>& processors) {
  return Json{{"type", "Sequence"}, {"processors", Json::array(processors)}};
}

class Folder : public testing::Test {
 protected:
  Folder() {
    folder_.write("config.json", config_of("llama"));
    folder_.write("tokenizer.json", tokenizer_with(nullptr));
    folder_.write_tensors("model.safetensors", {});
  }
  std::unique_ptr<engine::Checkpoint> open() const { return engine::open_checkpoint(folder_.path()); }
  Tokens framed(const Tokens& tokens) const { return engine::Tokenizer(open()->vocabulary()).framed(tokens); }
  // With this post_processor, and this tokenizer_config.json where it is one.
  Tokens framed_by(const Json& processor, const Json& beside = nullptr) const {
    folder_.write("tokenizer.json", tokenizer_with(processor));
    if (!beside.is_null()) folder_.write("tokenizer_config.json", beside);
    return framed({0, 1});
  }
  template <class Run>
  std::string refusal(const Run& run) const {
    try {
      run();
      return "";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      return text.starts_with(folder_.path()) ? text.substr(folder_.path().size()) : text;
    }
  }
  std::string refusal_of_config(const std::string& name, const Json& value) const {
    Json config = config_of("llama");
    config[name] = value;
    folder_.write("config.json", config);
    return refusal([&] { open()->config(); });
  }

  ModelFolder folder_;
};

TEST_F(Folder, TextsHaveTheTokensOfThePostProcessor) {
  const Tokens plain = {0, 1}, begun = {4, 0, 1};
  EXPECT_EQ(framed({0, 1}), begun) << "where nothing is said of it";
  const Json llama = template_of({special("<s>"), kText});
  EXPECT_EQ(framed_by(llama), begun);
  EXPECT_EQ(framed_by(sequence({kBytes, llama})), begun);
  EXPECT_EQ(framed_by(kBytes), plain);
  EXPECT_EQ(framed_by(template_of({special("two"), special("<s>"), kText, special("</s>")})),
            (Tokens{6, 7, 4, 0, 1, 5}));
  EXPECT_EQ(framed_by(sequence({llama, template_of({special("two"), kText, special("</s>")})})),
            (Tokens{6, 7, 4, 0, 1, 5}));
  EXPECT_EQ(framed_by(Json{
                {"type", "RobertaProcessing"}, {"sep", Json::array({"</s>", 5})}, {"cls", Json::array({"<cls>", 7})}}),
            (Tokens{7, 0, 1, 5}));
  // A tokenizer_config.json without a word of it, as Llama-3's.
  EXPECT_EQ(framed_by(sequence({kBytes, llama}), Json{{"bos_token", "<s>"}}), begun);
  EXPECT_EQ(framed_by(nullptr, Json{{"bos_token", "<s>"}}), plain);
  EXPECT_EQ(framed_by(llama, Json{{"add_bos_token", nullptr}}), begun);
}

TEST_F(Folder, ATokenizerConfigRulesWhereItSaysSo) {
  const Json llama = template_of({special("<s>"), kText});
  EXPECT_EQ(framed_by(llama, Json{{"add_bos_token", true}}), (Tokens{4, 0, 1})) << "not twice";
  EXPECT_EQ(framed_by(llama, Json{{"add_bos_token", false}}), (Tokens{0, 1}));
  EXPECT_EQ(framed_by(nullptr, Json{{"add_bos_token", true}, {"add_eos_token", true}}), (Tokens{4, 0, 1, 5}));
  EXPECT_EQ(framed_by(nullptr, Json{{"add_bos_token", true}, {"bos_token", Json{{"content", "<cls>"}}}}),
            (Tokens{7, 0, 1}));
  const engine::Vocabulary vocabulary = open()->vocabulary();
  EXPECT_EQ(vocabulary.begin, 7) << "what templates call bos_token";
  EXPECT_EQ(vocabulary.end, 5);
}

TEST_F(Folder, WhatIsThereAlreadyIsNotPutThereAgain) {
  framed_by(template_of({special("<s>"), kText, special("</s>")}));
  EXPECT_EQ(framed({4, 0}), (Tokens{4, 0, 5}));
  EXPECT_EQ(framed({}), (Tokens{4, 5}));
  const engine::Tokenizer tokenizer(open()->vocabulary());
  EXPECT_EQ(tokenizer.begun({0}), (Tokens{4, 0})) << "nothing behind what goes on";
  EXPECT_EQ(tokenizer.begun({4, 0}), (Tokens{4, 0}));
}

TEST_F(Folder, RefusesProcessorsThatItDoesNotKnow) {
  const auto refused = [&](const Json& processor, const Json& beside = nullptr) {
    return refusal([&] { framed_by(processor, beside); });
  };
  EXPECT_EQ(refused(Json{{"type", "Other"}}),
            "/tokenizer.json: post_processor is Other; allowed: Sequence, TemplateProcessing, ByteLevel, "
            "BertProcessing, RobertaProcessing");
  EXPECT_EQ(refused(template_of({special("<turn>"), kText})),
            "/tokenizer.json: post_processor's template has <turn>, which is not among its special_tokens");
  EXPECT_EQ(refused(template_of({special("<s>")})),
            "/tokenizer.json: post_processor's template of a single text has the text 0 times; allowed: once");
  EXPECT_EQ(refused(nullptr, Json{{"bos_token", "<none>"}}),
            "/tokenizer_config.json: bos_token is <none>, which is not among tokenizer.json's added_tokens");
  Json config = config_of("llama");
  config["bos_token_id"] = nullptr;
  folder_.write("config.json", config);
  EXPECT_EQ(refused(nullptr, Json{{"add_bos_token", true}}),
            "/tokenizer_config.json: add_bos_token is true, but there is no such token");
}

TEST_F(Folder, AnswersEndWithTheTokensOfTheGenerationConfig) {
  using Ends = std::vector<std::int64_t>;
  EXPECT_EQ(open()->config().ends, Ends{5});
  folder_.write("generation_config.json", Json{{"eos_token_id", Json::array({5, 6})}});
  EXPECT_EQ(open()->config().ends, (Ends{5, 6}));
  folder_.write("generation_config.json", Json{{"eos_token_id", 7}});
  EXPECT_EQ(open()->config().ends, Ends{7});
  folder_.write("generation_config.json", Json{{"temperature", 0.6}, {"eos_token_id", nullptr}});
  EXPECT_EQ(open()->config().ends, Ends{5});
  folder_.write("generation_config.json", Json{{"eos_token_id", 16}});
  EXPECT_EQ(refusal([&] { open()->config(); }),
            "/generation_config.json: the token 16 ends a text, but is not of the vocabulary");
}

TEST_F(Folder, TheDefaultOfSeveralTemplatesIsTaken) {
  const auto named = [](const char* name, const char* text) { return Json{{"name", name}, {"template", text}}; };
  folder_.write("tokenizer_config.json",
                Json{{"chat_template", Json::array({named("tool_use", "tools"), named("default", "turns")})}});
  EXPECT_EQ(open()->chat_template(), "turns");
  folder_.write("tokenizer_config.json",
                Json{{"chat_template", Json::array({named("tool_use", "a"), named("rag", "b")})}});
  EXPECT_EQ(refusal([&] { open()->chat_template(); }),
            "/tokenizer_config.json: chat_template has none that is called default, but tool_use, rag");
  folder_.write("chat_template.jinja", std::string("a file of its own"));
  EXPECT_EQ(open()->chat_template(), "a file of its own");
}

TEST_F(Folder, ReadsOrRefusesWhatAConfigSays) {
  const std::string partial = "; allowed: above 0 to 1, so that an even number of a head's 4 dimensions turn";
  EXPECT_EQ(refusal_of_config("mlp_bias", true), "/config.json: mlp_bias is true; allowed: false");
  EXPECT_EQ(refusal_of_config("mlp_bias", false), "");
  EXPECT_EQ(refusal_of_config("partial_rotary_factor", 0.0), "/config.json: partial_rotary_factor is 0.0" + partial);
  EXPECT_EQ(refusal_of_config("partial_rotary_factor", 1.5), "/config.json: partial_rotary_factor is 1.5" + partial);
  EXPECT_EQ(refusal_of_config("partial_rotary_factor", 0.25), "/config.json: partial_rotary_factor is 0.25" + partial);
  EXPECT_EQ(refusal_of_config("partial_rotary_factor", 0.5), "");
  EXPECT_EQ(open()->config().rope.rotary_dim, 2);
  EXPECT_EQ(refusal_of_config("partial_rotary_factor", 1.0), "");
  EXPECT_EQ(open()->config().rope.rotary_dim, 0);
  EXPECT_EQ(refusal_of_config("rope_parameters", Json{{"rope_theta", 100.0}, {"partial_rotary_factor", 0.5}}), "");
  EXPECT_EQ(open()->config().rope.rotary_dim, 2);
  const auto biases = [&](const char* type) {
    Json config = config_of(type);
    config["attention_bias"] = true;
    folder_.write("config.json", config);
    const engine::Config read = open()->config();
    return std::pair(read.qkv_bias, read.output_bias);
  };
  EXPECT_EQ(biases("llama"), std::pair(true, true));
  EXPECT_EQ(biases("qwen3"), std::pair(true, true));
  EXPECT_EQ(biases("qwen2"), std::pair(true, false));
  EXPECT_EQ(biases("mistral"), std::pair(false, false));
}

TEST_F(Folder, TensorsOfAnyTypeAreRoundedToBf16) {
  const std::vector<float> values = {1.0f, -2.5f, 0.00390625f, 3.0f + 0x1p-7f};  // the last lies between two
  std::vector<std::uint16_t> bf16, expected = {0x3f80, 0xc020, 0x3b80, 0x4040};
  for (const std::uint16_t bits : expected) bf16.push_back(bits);
  const std::vector<std::uint16_t> f16 = {0x3c00, 0xc100, 0x1c00, 0x4204};  // the last is 3 + 2^-7, too
  folder_.write_tensors("model.safetensors", {{"bf16", "BF16", {2, 2}, ModelFolder::bytes_of(bf16)},
                                              {"f16", "F16", {2, 2}, ModelFolder::bytes_of(f16)},
                                              {"f32", "F32", {2, 2}, ModelFolder::bytes_of(values)},
                                              {"i8", "I8", {2, 2}, "abcd"}});
  const std::unique_ptr<engine::Checkpoint> checkpoint = open();
  for (const char* name : {"bf16", "f16", "f32"}) {
    EXPECT_TRUE(checkpoint->has(name));
    EXPECT_EQ(checkpoint->bf16(name, {2, 2}), expected) << name;
  }
  EXPECT_FALSE(checkpoint->has("f64"));
  EXPECT_EQ(refusal([&] { checkpoint->bf16("i8", {2, 2}); }), "i8 is I8; allowed: BF16, F16, F32");
  EXPECT_EQ(refusal([&] { checkpoint->bf16("f32", {4}); }), "f32 has the shape [2, 2]; by the model's sizes it is [4]");
}

TEST_F(Folder, TensorsOfShardsAreFoundByTheIndex) {
  folder_.remove("model.safetensors");
  EXPECT_NE(refusal([&] { open(); }).find("has neither model.safetensors nor"), std::string::npos);
  const auto tensor = [](const char* name, std::uint16_t value) {
    return ModelFolder::Tensor{name, "BF16", {1}, ModelFolder::bytes_of(std::vector<std::uint16_t>{value})};
  };
  folder_.write_tensors("model-00001-of-00002.safetensors", {tensor("one", 1), tensor("both", 2)});
  folder_.write_tensors("model-00002-of-00002.safetensors", {tensor("two", 3), tensor("both", 4)});
  folder_.write("model.safetensors.index.json",
                Json{{"metadata", Json{{"total_size", 8}}},
                     {"weight_map", Json{{"one", "model-00001-of-00002.safetensors"},
                                         {"two", "model-00002-of-00002.safetensors"},
                                         {"both", "model-00002-of-00002.safetensors"},
                                         {"lost", "model-00003-of-00002.safetensors"}}}});
  const std::unique_ptr<engine::Checkpoint> checkpoint = open();
  using Values = std::vector<std::uint16_t>;
  EXPECT_EQ(checkpoint->bf16("one", {1}), Values{1});
  EXPECT_EQ(checkpoint->bf16("two", {1}), Values{3});
  EXPECT_EQ(checkpoint->bf16("both", {1}), Values{4}) << "of the shard that the index names";
  EXPECT_TRUE(checkpoint->has("two"));
  EXPECT_FALSE(checkpoint->has("three"));
  EXPECT_NE(refusal([&] { checkpoint->bf16("lost", {1}); }).find("model-00003-of-00002.safetensors"),
            std::string::npos);
  folder_.write("model.safetensors.index.json", std::string("{\"weight_map\": {\"one\": 1}}"));
  EXPECT_NE(refusal([&] { open(); }).find("/model.safetensors.index.json: "), std::string::npos);
}

}  // namespace
}  // namespace quern::test
