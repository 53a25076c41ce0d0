// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/config_reader.h"

#include <algorithm>

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {

ConfigReader::ConfigReader(std::string_view text, const std::string& path) : path_(path) {
  try {
    json_ = Json::parse(text);
  } catch (const JsonError& error) {
    const std::string_view before = text.substr(0, std::min<std::size_t>(error.byte(), text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const bool deep = std::string_view(error.what()).starts_with("nested");
    fail("not valid JSON: it " + (deep ? "is " + std::string(error.what()) : "ends or goes wrong") + " at byte " +
         std::to_string(error.byte()) + ", line " + std::to_string(line) + "; allowed: one JSON object");
  }
  if (!json_.is_object()) fail("a JSON " + std::string(json_.type_name()) + " given; allowed: one JSON object");
  const Json* inner = json_.find("text_config");
  if (inner != nullptr && inner->is_object() && json_.find("num_hidden_layers") == nullptr) text_ = inner;
}

void ConfigReader::fail(const std::string& what) const { throw BadInput(path_ + ": " + what); }

void ConfigReader::fail(const char* name, const Json& given, const std::string& allowed) const {
  const std::string text = given.dump();
  fail("field " + std::string(name) + ": " + shorten(text, 60) + " given; allowed: " + allowed);
}

const Json* ConfigReader::find(const char* name) const {
  asked_for_.emplace(name);
  const Json* found = text_ == nullptr ? nullptr : text_->find(name);
  if (found == nullptr || found->is_null()) found = json_.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::vector<std::string> ConfigReader::not_asked_for() const {
  // By what stands in a field's name: how it was trained, what its tokens are, how its file is loaded.
  static constexpr const char* kOfNoKernel[] = {
      "_name_or_path", "architectures", "auto_map",      "dropout",  "dtype",     "_eps",    "epsilon",
      "id2label",      "initializer",   "label2id",      "loss",     "_pdrop",    "rope_",   "scaling_factor",
      "task_specific", "text_config",   "tie_",          "token_id", "use_cache", "version", "gradient_checkpointing",
      "output_",       "return_dict",   "pretraining_tp"};
  std::vector<std::string> found;
  for (const auto& [name, value] : (text_ == nullptr ? json_ : *text_).members()) {
    const bool off = value.is_null() || (value.is_boolean() && !value.boolean());
    const bool plain = std::any_of(std::begin(kOfNoKernel), std::end(kOfNoKernel),
                                   [&](const char* part) { return name.find(part) != std::string::npos; });
    if (!off && !plain && !asked_for_.contains(name)) found.push_back(name);
  }
  return found;
}

std::string ConfigReader::outer_string(const char* name) const {
  const Json* found = json_.find(name);
  return found != nullptr && found->is_string() ? found->string() : std::string();
}

std::string ConfigReader::string(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) fail(name, *value, "a string");
  return value->string();
}

bool ConfigReader::truth(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) fail(name, *value, "true or false");
  return value->boolean();
}

std::uint32_t ConfigReader::whole(const char* name, const Json& value, std::uint32_t most, std::uint32_t least) const {
  if (value.is_unsigned()) {
    const std::uint64_t number = value.whole();
    if (number >= least && number <= most) return static_cast<std::uint32_t>(number);
  }
  fail(name, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace quern::cli
