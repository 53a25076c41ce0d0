// A checkpoint as Hugging Face stores it: config.json, tokenizer.json, tokenizer_config.json where there is one, and
// model.safetensors or the shards that model.safetensors.index.json lists.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "bindings/demo/safetensors.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/json/json.h"

namespace quern::engine {
namespace {

constexpr const char* kOneFile = "model.safetensors";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What read makes of a file's JSON; its errors name the file.
template <class Read>
auto of_json(const std::string& path, const Read& read) {
  try {
    return read(Json::parse(read_file(path)));
  } catch (const JsonError& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

class Folder final : public Checkpoint {
 public:
  explicit Folder(const std::string& folder) : folder_(folder) {
    if (std::filesystem::exists(folder + "/" + kOneFile)) return;
    const std::string index = folder + "/" + kOneFile + ".index.json";
    if (!std::filesystem::exists(index))
      throw std::runtime_error(folder + " has neither " + kOneFile + " nor " + kOneFile + ".index.json");
    of_json(index, [&](const Json& json) {
      for (const auto& [name, shard] : json.at("weight_map").members()) shards_[name] = shard.string();
    });
  }

  Config config() const override {
    Config config = of_json(folder_ + "/config.json", config_of_json);
    // What a model's answers end with: a chat's turns end with other tokens than texts do, and only this file has them.
    const std::string path = folder_ + "/generation_config.json";
    if (std::filesystem::exists(path)) of_json(path, [&](const Json& json) { read_ends(json, &config); });
    return config;
  }

  Vocabulary vocabulary() const override {
    const std::string path = folder_ + "/tokenizer.json", beside = folder_ + "/tokenizer_config.json";
    const Config config = this->config();
    bool has_processor = false;
    Vocabulary vocabulary = of_json(path, [&](const Json& json) {
      const Json* processor = json.find("post_processor");
      has_processor = processor != nullptr && !processor->is_null();
      return vocabulary_of_json(json);
    });
    vocabulary.source = path;
    vocabulary.begin = static_cast<std::int32_t>(config.begin);
    if (!config.ends.empty()) vocabulary.end = static_cast<std::int32_t>(config.ends[0]);
    if (std::filesystem::exists(beside)) {
      of_json(beside, [&](const Json& json) { read_tokenizer_config(json, &vocabulary); });
    } else if (!has_processor && vocabulary.begin >= 0) {
      vocabulary.front = {vocabulary.begin};  // nothing says whether it is put there
    }
    return vocabulary;
  }

  std::string chat_template() const override {
    if (std::filesystem::exists(folder_ + "/chat_template.jinja")) return read_file(folder_ + "/chat_template.jinja");
    const std::string path = folder_ + "/tokenizer_config.json";
    if (!std::filesystem::exists(path)) return "";
    return of_json(path, [](const Json& json) {
      const Json* found = json.find("chat_template");
      if (found == nullptr || found->is_null()) return std::string();
      if (!found->is_array()) return found->string();
      // Several by their names: one for tools, one for documents.
      std::string names;
      for (const Json& each : found->items()) {
        const std::string& name = each.at("name").string();
        if (name == "default") return each.at("template").string();
        names += (names.empty() ? "" : ", ") + name;
      }
      throw JsonError("chat_template has none that is called default, but " + (names.empty() ? "no others" : names));
    });
  }

  bool has(const std::string& name) const override {
    return shards_.empty() ? file_of(name).has(name) : shards_.contains(name);
  }

  std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>& shape) const override {
    const demo::Safetensors::Found found = file_of(name).find(name);
    check_shape(name, found.shape, shape);
    const auto read = [&]<class T>(T, auto convert) {
      std::vector<std::uint16_t> values(found.bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < values.size(); ++i) {
        T value;
        std::memcpy(&value, found.bytes.data() + i * sizeof(T), sizeof(T));
        values[i] = convert(value);
      }
      return values;
    };
    if (found.dtype == "BF16") return read(std::uint16_t{}, [](std::uint16_t bits) { return bits; });
    if (found.dtype == "F16")
      return read(std::uint16_t{}, [](std::uint16_t bits) { return bf16_of(f16_to_float(bits)); });
    if (found.dtype == "F32") return read(float{}, bf16_of);
    throw std::runtime_error(name + " is " + std::string(found.dtype) + "; allowed: BF16, F16, F32");
  }

 private:
  const demo::Safetensors& file_of(const std::string& name) const {
    const auto shard = shards_.find(name);
    const std::string file = shard == shards_.end() ? kOneFile : shard->second;
    const std::lock_guard lock(mutex_);  // ranks read side by side
    std::unique_ptr<demo::Safetensors>& opened = files_[file];
    if (opened == nullptr) opened = std::make_unique<demo::Safetensors>(folder_ + "/" + file);
    return *opened;
  }

  std::string folder_;
  std::map<std::string, std::string> shards_;  // by tensor; empty: one file
  mutable std::mutex mutex_;                   // over files_
  mutable std::map<std::string, std::unique_ptr<demo::Safetensors>> files_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_folder(const std::string& folder) { return std::make_unique<Folder>(folder); }

}  // namespace quern::engine
