// A JSON object that people wrote, read field by field: what is wrong is named with the file and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace quern::cli {

// Every function throws BadInput.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  // `text` are the contents of the file `path`.
  ConfigReader(std::string_view text, const std::string& path);

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const char* name, const Json& given, const std::string& allowed) const;

  // Null where the field is missing or null.
  const Json* find(const char* name) const;
  // Empty where it is missing or null.
  std::string string(const char* name) const;
  // False where it is missing or null.
  bool truth(const char* name) const;
  std::uint32_t whole(const char* name, const Json& value, std::uint32_t most, std::uint32_t least = 1) const;

 private:
  std::string path_;
  Json json_;
};

}  // namespace quern::cli
