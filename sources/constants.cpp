// SPDX-License-Identifier: Apache-2.0
#include "sources/constants.h"

#include <charconv>

#include "jit/error.h"

namespace quern::ops {

void ConstantReader::refuse(const std::string& text) const {
  throw Error(QUERN_INVALID, std::string(op_) + ": " + text);
}

const std::string* ConstantReader::find(const char* name) {
  const std::string* found = nullptr;
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    if (constants_[i].name != name) continue;
    if (found != nullptr) refuse(std::string("constant ") + name + " is given twice");
    found = &constants_[i].value;
    asked_[i] = true;
  }
  return found;
}

std::size_t ConstantReader::one_of(const char* name, std::span<const char* const> allowed,
                                   std::optional<std::size_t> missing) {
  const std::string* given = find(name);
  std::string list;
  std::size_t index = 0;
  for (const char* value : allowed) {
    if (given != nullptr && *given == value) return index;
    list += (list.empty() ? "" : ", ") + std::string(value);
    ++index;
  }
  if (given == nullptr && missing) return *missing;
  if (given == nullptr) refuse(std::string("constant ") + name + " is missing; allowed: " + list);
  refuse(std::string("constant ") + name + " is \"" + *given + "\"; allowed: " + list);
}

std::int64_t ConstantReader::integer(const char* name, std::int64_t least, std::int64_t most, std::int64_t step,
                                     std::optional<std::int64_t> missing) {
  const std::string* given = find(name);
  if (given == nullptr && missing) return *missing;
  const std::string allowed = (step == 1 ? "integers" : "multiples of " + std::to_string(step)) + " from " +
                              std::to_string(least) + " to " + std::to_string(most);
  if (given == nullptr) refuse(std::string("constant ") + name + " is missing; allowed: " + allowed);
  std::int64_t value = 0;
  const char* end = given->data() + given->size();
  const auto [stop, failed] = std::from_chars(given->data(), end, value);
  if (failed != std::errc() || stop != end || value < least || value > most || value % step != 0) {
    refuse(std::string("constant ") + name + " is \"" + *given + "\"; allowed: " + allowed);
  }
  return value;
}

std::string_view ConstantReader::text(const char* name, std::string_view missing) {
  const std::string* given = find(name);
  return given != nullptr ? std::string_view(*given) : missing;
}

void ConstantReader::finish() const {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    if (!asked_[i]) refuse("there is no constant \"" + constants_[i].name + "\"");
  }
}

}  // namespace quern::ops
