// A JSON object that people wrote, read field by field: what is wrong is named with the file and what is allowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/json/json.h"

namespace quern::cli {

// Every function throws BadInput.
class ConfigReader {
 public:
  // `text` are the contents of the file `path`.
  ConfigReader(std::string_view text, const std::string& path);
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const char* name, const Json& given, const std::string& allowed) const;

  // Null where the field is missing or null. A model of several kinds of input keeps its transformer's fields in
  // text_config: these come before the file's own.
  const Json* find(const char* name) const;
  // Empty where it is missing or null.
  std::string string(const char* name) const;
  // False where it is missing or null.
  bool truth(const char* name) const;
  // Of the file itself where text_config has one too; empty where it is missing.
  std::string outer_string(const char* name) const;
  // Fields that nobody has asked for, of the transformer's own: in the file's order, without those that are false or
  // null and those that say nothing of what is computed.
  std::vector<std::string> not_asked_for() const;
  std::uint32_t whole(const char* name, const Json& value, std::uint32_t most, std::uint32_t least = 1) const;

 private:
  std::string path_;
  Json json_;
  const Json* text_ = nullptr;  // text_config, where that has the transformer
  mutable std::set<std::string, std::less<>> asked_for_;
};

}  // namespace quern::cli
