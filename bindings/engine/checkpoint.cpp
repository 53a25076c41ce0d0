// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bindings/json/json.h"

namespace quern::engine {
namespace {

constexpr const char* kOneFile = "model.safetensors";

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  float value = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                : exponent == 31 ? (mantissa != 0 ? std::nanf("") : INFINITY)
                                 : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  const std::string index = folder + "/" + kOneFile + ".index.json";
  if (std::filesystem::exists(folder + "/" + kOneFile)) return;
  std::ifstream file(index, std::ios::binary);
  if (!file) throw std::runtime_error(folder + " has neither " + kOneFile + " nor " + kOneFile + ".index.json");
  try {
    const Json json = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    for (const auto& [name, shard] : json.at("weight_map").members()) shards_[name] = shard.string();
  } catch (const JsonError& error) {
    throw std::runtime_error(index + ": " + error.what());
  }
}

const demo::Safetensors& Checkpoint::file_of(const std::string& name) const {
  const auto shard = shards_.find(name);
  const std::string file = shard == shards_.end() ? kOneFile : shard->second;
  std::unique_ptr<demo::Safetensors>& opened = files_[file];
  if (opened == nullptr) opened = std::make_unique<demo::Safetensors>(folder_ + "/" + file);
  return *opened;
}

bool Checkpoint::has(const std::string& name) const {
  return shards_.empty() ? file_of(name).has(name) : shards_.contains(name);
}

std::vector<std::uint16_t> Checkpoint::bf16(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const demo::Safetensors::Found found = file_of(name).find(name);
  if (found.shape != shape)
    throw std::runtime_error(name + " has the shape " + shown(found.shape) + "; config.json says " + shown(shape));
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

}  // namespace quern::engine
