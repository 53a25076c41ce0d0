// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/vocabulary.h"

#include "bindings/json/json.h"

namespace quern::engine {
namespace {

constexpr std::uint64_t kMostTokens = 1u << 22;

std::int32_t token_of(const Json& json) {
  const std::uint64_t token = json.whole();
  if (token >= kMostTokens) throw JsonError("there is a token " + std::to_string(token));
  return static_cast<std::int32_t>(token);
}

bool flag(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found != nullptr && !found->is_null() && found->boolean();
}

void read_model(const Json& model, Vocabulary* vocabulary) {
  if (model.at("type").string() != "BPE")
    throw JsonError("model.type is " + model.at("type").string() + "; allowed: BPE");
  vocabulary->whole_pieces = flag(model, "ignore_merges");
  for (const auto& [entry, id] : model.at("vocab").members()) {
    const auto token = static_cast<std::size_t>(token_of(id));
    if (vocabulary->entries.size() <= token) vocabulary->entries.resize(token + 1);
    vocabulary->entries[token] = entry;
  }
  for (const Json& merge : model.at("merges").items()) {
    if (merge.is_array()) {
      if (merge.items().size() != 2) throw JsonError("a merge is not of two entries");
      vocabulary->merges.emplace_back(merge.items()[0].string(), merge.items()[1].string());
    } else {
      const std::string& text = merge.string();
      if (text.find(' ') == std::string::npos) throw JsonError("the merge " + text + " is not of two entries");
      vocabulary->merges.emplace_back(text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1));
    }
  }
}

void read_splits(const Json& step, std::vector<std::string>* patterns) {
  const std::string& type = step.at("type").string();
  if (type == "Sequence") {
    for (const Json& each : step.at("pretokenizers").items()) read_splits(each, patterns);
  } else if (type == "Split") {
    if (step.at("behavior").string() != "Isolated" || flag(step, "invert"))
      throw JsonError("a Split is not isolated; allowed: behavior Isolated, invert false");
    patterns->push_back(step.at("pattern").at("Regex").string());
  } else if (type == "Digits") {
    patterns->emplace_back(flag(step, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "ByteLevel") {
    if (flag(step, "add_prefix_space")) throw JsonError("add_prefix_space is true; allowed: false");
    const Json* use = step.find("use_regex");
    if (use == nullptr || use->boolean()) patterns->emplace_back(kWords);
  } else {
    throw JsonError("pre_tokenizer is " + type + "; allowed: Sequence, Split, Digits, ByteLevel");
  }
}

}  // namespace

Vocabulary vocabulary_of_json(const Json& json) {
  Vocabulary vocabulary;
  read_model(json.at("model"), &vocabulary);
  for (const Json& added : json.at("added_tokens").items()) {
    const Json* special = added.find("special");
    vocabulary.specials.push_back(
        {added.at("content").string(), token_of(added.at("id")), special != nullptr && !special->boolean()});
  }
  if (const Json* normalizer = json.find("normalizer"); normalizer != nullptr && !normalizer->is_null())
    throw JsonError("there is a normalizer; allowed: null");
  const Json* splits = json.find("pre_tokenizer");
  if (splits != nullptr && !splits->is_null()) read_splits(*splits, &vocabulary.patterns);
  return vocabulary;
}

}  // namespace quern::engine
