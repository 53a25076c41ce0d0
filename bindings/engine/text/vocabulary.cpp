// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/vocabulary.h"

#include <algorithm>

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
  vocabulary->by_characters = flag(model, "byte_fallback");
  vocabulary->fuse_unknown = flag(model, "fuse_unk");
  for (const auto& [entry, id] : model.at("vocab").members()) {
    const auto token = static_cast<std::size_t>(token_of(id));
    if (vocabulary->entries.size() <= token) vocabulary->entries.resize(token + 1);
    vocabulary->entries[token] = entry;
  }
  if (const Json* unknown = model.find("unk_token"); unknown != nullptr && !unknown->is_null()) {
    const Json* token = model.at("vocab").find(unknown->string());
    if (token != nullptr) vocabulary->unknown = token_of(*token);
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

// Each type of a step that a tokenizer.json may have in this place, or the steps of a sequence of them.
template <class Read>
void each_step(const Json* step, const char* steps, const Read& read) {
  if (step == nullptr || step->is_null()) return;
  if (step->at("type").string() != "Sequence") return read(*step, step->at("type").string());
  for (const Json& each : step->at(steps).items()) each_step(&each, steps, read);
}

void expect(bool good, const std::string& what) {
  if (!good) throw JsonError(what);
}

// By characters: spaces become U+2581, and one may be put in front.
void read_spaces(const Json& json, Vocabulary* vocabulary) {
  bool replaced = false;
  each_step(json.find("normalizer"), "normalizers", [&](const Json& step, const std::string& type) {
    if (type == "Prepend") {
      expect(step.at("prepend").string() == kSpace, "normalizer Prepend is of " + step.at("prepend").string());
      vocabulary->prefix = Vocabulary::Prefix::anyway;
    } else if (type == "Replace") {
      const Json* from = step.at("pattern").find("String");
      expect(from != nullptr && from->string() == " " && step.at("content").string() == kSpace,
             "normalizer Replace is not of a space by U+2581");
      replaced = true;
    } else {
      throw JsonError("normalizer is " + type + "; allowed with byte_fallback: Prepend, Replace");
    }
  });
  each_step(json.find("pre_tokenizer"), "pretokenizers", [&](const Json& step, const std::string& type) {
    const Json* pattern = step.find("pattern");
    // Of spaces that have been replaced there are none to split at.
    if (type == "Split" && replaced && pattern != nullptr && pattern->find("String") != nullptr &&
        pattern->at("String").string() == " ")
      return;
    expect(type == "Metaspace" && !replaced, "pre_tokenizer is " + type + "; allowed with byte_fallback: Metaspace");
    expect(step.at("replacement").string() == kSpace, "Metaspace's replacement is not U+2581");
    const Json *scheme = step.find("prepend_scheme"), *old = step.find("add_prefix_space"), *split = step.find("split");
    const std::string kind = scheme != nullptr                  ? scheme->string()
                             : old == nullptr || old->boolean() ? "always"
                                                                : "never";
    expect(kind == "always" || kind == "first" || kind == "never",
           "Metaspace's prepend_scheme is " + kind + "; allowed: always, first, never");
    using Prefix = Vocabulary::Prefix;
    vocabulary->prefix = kind == "always" ? Prefix::each : kind == "first" ? Prefix::first : Prefix::none;
    if (split == nullptr || split->boolean()) vocabulary->patterns = {"\u2581?[^\u2581]*"};
    replaced = true;
  });
  expect(replaced, "spaces are not replaced by U+2581, as they are where there is byte_fallback");
  each_step(json.find("decoder"), "decoders", [&](const Json& step, const std::string& type) {
    const Json* scheme = step.find("prepend_scheme");
    if (type == "Strip") vocabulary->drops_prefix = step.at("start").whole() > 0;
    if (type == "Metaspace") vocabulary->drops_prefix = scheme == nullptr || scheme->string() != "never";
  });
}

// Before a text is cut, byte-level: nothing, or Unicode's normal form C.
void read_normalizer(const Json& json, Vocabulary* vocabulary) {
  each_step(json.find("normalizer"), "normalizers", [&](const Json&, const std::string& type) {
    expect(type == "NFC", "normalizer is " + type + "; allowed without byte_fallback: null, NFC");
    vocabulary->nfc = true;
  });
}

// The tokens of a template's piece of this name: {"id": "<s>", "ids": [1], ...}.
std::vector<std::int32_t> tokens_of_piece(const Json& processor, const std::string& name) {
  const Json* found = processor.at("special_tokens").find(name);
  expect(found != nullptr, "post_processor's template has " + name + ", which is not among its special_tokens");
  std::vector<std::int32_t> tokens;
  for (const Json& id : found->at("ids").items()) tokens.push_back(token_of(id));
  return tokens;
}

// What a text of its own has around it. Processors of a sequence follow each other, each around what is there.
void read_around(const Json& json, Vocabulary* vocabulary) {
  each_step(json.find("post_processor"), "processors", [&](const Json& step, const std::string& type) {
    std::vector<std::int32_t> front, behind;
    if (type == "TemplateProcessing") {
      int sequences = 0;
      for (const Json& piece : step.at("single").items()) {
        if (piece.find("Sequence") != nullptr) {
          ++sequences;
          continue;
        }
        std::vector<std::int32_t>& side = sequences > 0 ? behind : front;
        const std::vector<std::int32_t> tokens = tokens_of_piece(step, piece.at("SpecialToken").at("id").string());
        side.insert(side.end(), tokens.begin(), tokens.end());
      }
      expect(sequences == 1, "post_processor's template of a single text has the text " + std::to_string(sequences) +
                                 " times; allowed: once");
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      front = {token_of(step.at("cls").items().at(1))}, behind = {token_of(step.at("sep").items().at(1))};
    } else {
      expect(type == "ByteLevel", "post_processor is " + type +
                                      "; allowed: Sequence, TemplateProcessing, ByteLevel, BertProcessing, "
                                      "RobertaProcessing");
    }
    vocabulary->front.insert(vocabulary->front.begin(), front.begin(), front.end());
    vocabulary->behind.insert(vocabulary->behind.end(), behind.begin(), behind.end());
  });
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
  read_around(json, &vocabulary);
  if (vocabulary.by_characters) {
    read_spaces(json, &vocabulary);
    return vocabulary;
  }
  read_normalizer(json, &vocabulary);
  const Json* splits = json.find("pre_tokenizer");
  if (splits != nullptr && !splits->is_null()) read_splits(*splits, &vocabulary.patterns);
  return vocabulary;
}

void read_tokenizer_config(const Json& json, Vocabulary* vocabulary) {
  // A token is its text, or an object with it.
  const auto read_token = [&](const char* name, std::int32_t* token) {
    const Json* found = json.find(name);
    if (found != nullptr && found->is_object()) found = &found->at("content");
    if (found == nullptr || found->is_null()) return;
    const auto& specials = vocabulary->specials;
    const auto special = std::find_if(specials.begin(), specials.end(),
                                      [&](const Vocabulary::Special& each) { return each.text == found->string(); });
    expect(special != specials.end(),
           std::string(name) + " is " + found->string() + ", which is not among tokenizer.json's added_tokens");
    *token = special->token;
  };
  read_token("bos_token", &vocabulary->begin);
  read_token("eos_token", &vocabulary->end);
  const auto rule = [&](const char* name, std::int32_t token, std::vector<std::int32_t>* side) {
    const Json* found = json.find(name);
    if (found == nullptr || found->is_null()) return;
    const bool there = std::find(side->begin(), side->end(), token) != side->end();
    if (!found->boolean()) {
      std::erase(*side, token);
    } else if (!there) {
      expect(token >= 0, std::string(name) + " is true, but there is no such token");
      side->push_back(token);
    }
  };
  rule("add_bos_token", vocabulary->begin, &vocabulary->front);
  rule("add_eos_token", vocabulary->end, &vocabulary->behind);
}

}  // namespace quern::engine
