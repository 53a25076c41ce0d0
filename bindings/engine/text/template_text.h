// What chat templates do with texts, and how they write values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "bindings/engine/text/template_value.h"

namespace quern::engine {

inline constexpr const char* kBlanks = " \t\n\r\v\f";

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

// The n-th argument as text; `otherwise` where there is none.
std::string text_at(const Arguments& arguments, std::size_t n, const std::string& otherwise);

// Of letters these know ASCII's.
bool is_letter(char c);
std::string upper(std::string text);
std::string lower(std::string text);
std::string capitalized(std::string text);
// Each word begins with a capital, and has no other; `parts`: the characters that lie between words.
std::string titled(std::string text, bool (*parts)(char));

std::string stripped(const std::string& text, const std::string& of, bool left, bool right);
std::string replaced(const std::string& text, const std::string& from, const std::string& to);
// Items, or a field of each, with `by` between them.
Value joined(const Value& items, const std::string& by, const Value& attribute);

// An object's members as pairs.
Value items_of(const Json& object);
// A field of a value, by its name, or by names with dots between them; a number is a place in a list.
Value attribute_of(const Value& of, const Value& path);
// As Python's json writes it; in lines indented by so many spaces, or on one line where it is negative.
std::string json_of(const Json& json, int indent);

}  // namespace quern::engine
