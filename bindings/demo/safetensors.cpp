// Reading a .safetensors file.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/safetensors.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bindings/json/json.h"

namespace quern::demo {
namespace {

std::vector<std::uint64_t> numbers(const Json& array) {
  std::vector<std::uint64_t> all;
  for (const Json& item : array.items()) all.push_back(item.whole());
  return all;
}

}  // namespace

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
    const Json header = Json::parse(std::string_view(text_).substr(sizeof length, length));
    for (const auto& [name, tensor] : header.members()) {
      if (name == "__metadata__") continue;
      const std::vector<std::uint64_t> offsets = numbers(tensor.at("data_offsets"));
      if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > text_.size() - data) {
        std::string text = path;
        throw std::runtime_error(text.append(": the offsets of ").append(name).append(" are no part of the file"));
      }
      const std::vector<std::uint64_t> shape = numbers(tensor.at("shape"));
      entries_[name] = {
          tensor.at("dtype").string(), {shape.begin(), shape.end()}, data + offsets[0], data + offsets[1]};
    }
  } catch (const JsonError& error) {
    throw std::runtime_error(path + ": the header is not as it should be: " + error.what());
  }
}

Safetensors::Found Safetensors::find(const std::string& name) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) throw std::runtime_error(path_ + " has no tensor " + name);
  const Entry& at = entry->second;
  return {at.dtype, at.shape, std::string_view(text_).substr(at.begin, at.end - at.begin)};
}

Safetensors::Found Safetensors::find(const std::string& name, std::string_view dtype) const {
  const Found found = find(name);
  if (found.dtype == dtype) return found;
  throw std::runtime_error(path_ + ": " + name + " is " + std::string(found.dtype) + ", not " + std::string(dtype));
}

}  // namespace quern::demo
