// Reading a .safetensors file.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/safetensors.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace quern::demo {

Safetensors::Safetensors(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  text_.assign(std::istreambuf_iterator<char>(file), {});
  std::uint64_t length = 0;
  if (text_.size() < sizeof length) throw std::runtime_error(path + " is too short for a safetensors file");
  std::memcpy(&length, text_.data(), sizeof length);
  if (length > text_.size() - sizeof length) throw std::runtime_error(path + ": the header goes past the end");
  const std::size_t data = sizeof length + static_cast<std::size_t>(length);
  try {
    const auto header = nlohmann::json::parse(std::string_view(text_).substr(sizeof length, length));
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const auto offsets = tensor.at("data_offsets").get<std::vector<std::size_t>>();
      if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > text_.size() - data) {
        std::string text = path;
        throw std::runtime_error(text.append(": the offsets of ").append(name).append(" are no part of the file"));
      }
      entries_[name] = {tensor.at("dtype").get<std::string>(), tensor.at("shape").get<std::vector<std::int64_t>>(),
                        data + offsets[0], data + offsets[1]};
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path + ": the header is not as it should be: " + error.what());
  }
}

Safetensors::Found Safetensors::find(const std::string& name, std::string_view dtype) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) throw std::runtime_error(path_ + " has no tensor " + name);
  if (entry->second.dtype != dtype) {
    throw std::runtime_error(path_ + ": " + name + " is " + entry->second.dtype + ", not " + std::string(dtype));
  }
  const Entry& at = entry->second;
  return {at.shape, std::string_view(text_).substr(at.begin, at.end - at.begin)};
}

}  // namespace quern::demo
