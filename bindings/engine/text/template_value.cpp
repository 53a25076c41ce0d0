// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/template_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

namespace quern::engine {
namespace {

constexpr int kMostDeep = 16;   // of values in values
constexpr int kMostCalls = 64;  // of macros in macros
constexpr std::ptrdiff_t kMostStack = 1 << 20;
constexpr std::size_t kMostSteps = 1'000'000, kMostBytes = 64u << 20;

int depth_of(const Json& json) {
  int depth = 0;
  if (json.is_array()) {
    for (const Json& item : json.items()) depth = std::max(depth, depth_of(item));
  } else if (json.is_object()) {
    for (const Json::Member& member : json.members()) depth = std::max(depth, depth_of(member.value));
  } else {
    return 0;
  }
  return depth + 1;
}

std::int64_t whole_of(const Value& value) {
  if (value == nullptr || !value->is_number()) throw std::runtime_error("a whole number is wanted");
  const double number = value->number();
  if (std::floor(number) != number || std::abs(number) > 1e15) throw std::runtime_error("a whole number is wanted");
  return static_cast<std::int64_t>(number);
}

}  // namespace

Json not_too_deep(Json json) {
  if (depth_of(json) > kMostDeep) throw std::runtime_error("values lie in each other more than 16 deep");
  return json;
}

bool are_equal(const Value& a, const Value& b) { return a == nullptr || b == nullptr ? a == b : *a == *b; }

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
    all.push_back(text.substr(at, end - at));
    at = end;
  }
  return all;
}

std::size_t weight_of(const Json& json) {
  std::size_t weight = sizeof json;
  if (json.is_string()) weight += json.string().size();
  if (json.is_array()) {
    for (const Json& item : json.items()) weight += weight_of(item);
  } else if (json.is_object()) {
    for (const Json::Member& member : json.members()) weight += member.name.size() + weight_of(member.value);
  }
  return weight;
}

bool is_in(const Value& item, const Value& in) {
  if (in == nullptr) return false;  // as Jinja has it: nothing is in what is undefined
  if (item == nullptr) throw std::runtime_error("`in` is asked of something undefined");
  if (in->is_string()) return in->string().find(item->string()) != std::string::npos;
  if (in->is_object()) return in->find(item->string()) != nullptr;
  return std::find(in->items().begin(), in->items().end(), *item) != in->items().end();
}

bool is_less(const Value& a, const Value& b) {
  if (a == nullptr || b == nullptr) throw std::runtime_error("something undefined is compared");
  return a->is_string() ? a->string() < b->string() : a->number() < b->number();
}

Value number_of(double value) {
  if (std::floor(value) == value && std::abs(value) <= 1e15) return value_of(static_cast<std::int64_t>(value));
  return value_of(value);
}

Value calculate(char what, const Value& a, const Value& b, Scope& scope) {
  if (what == '~' || (what == '+' && a != nullptr && a->is_string())) {
    if (what == '+' && (b == nullptr || !b->is_string()))
      throw std::runtime_error("a text and something else are added");
    std::string text = text_of(a) + text_of(b);
    scope.charge(text.size());
    return value_of(std::move(text));
  }
  if (a == nullptr || b == nullptr) throw std::runtime_error("something undefined is calculated with");
  if (what == '+' && a->is_array()) {
    std::vector<Json> items = a->items();
    items.insert(items.end(), b->items().begin(), b->items().end());
    scope.charge(items.size() * sizeof(Json));
    return value_of(Json::array(std::move(items)));
  }
  if (what == '*' && a->is_string()) {
    const auto times = static_cast<std::size_t>(std::max<std::int64_t>(whole_of(b), 0));
    if (times > kMostBytes) throw std::runtime_error("it makes more than 64 MiB of text");
    scope.charge(times * a->string().size());
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += a->string();
    return value_of(std::move(text));
  }
  const double x = a->number(), y = b->number();
  if ((what == '/' || what == '%') && y == 0.0) throw std::runtime_error("something is divided by 0");
  if (what == '/') return value_of(x / y);  // 2.0, as Python's
  return number_of(what == '+' ? x + y : what == '-' ? x - y : what == '*' ? x * y : x - y * std::floor(x / y));
}

Value item_of(const Value& of, const Value& index) {
  if (of == nullptr) throw std::runtime_error("something undefined has no members");
  if (index == nullptr) throw std::runtime_error("an index is undefined");
  if (of->is_object()) {
    const Json* found = of->find(index->string());
    return found == nullptr ? nullptr : Value(of, found);
  }
  if (index->is_string()) return nullptr;  // of no object: undefined, as in Jinja
  const std::vector<std::string> characters =
      of->is_string() ? characters_of(of->string()) : std::vector<std::string>();
  const auto size = static_cast<std::int64_t>(of->is_string() ? characters.size() : of->items().size());
  std::int64_t at = whole_of(index);
  if (at < 0) at += size;
  if (at < 0 || at >= size) return nullptr;
  const auto place = static_cast<std::size_t>(at);
  return of->is_string() ? value_of(characters[place]) : Value(of, &of->items()[place]);
}

Value slice_of(const Value& of, const Value& from, const Value& to, const Value& by) {
  if (of == nullptr) throw std::runtime_error("something undefined has no members");
  const std::vector<std::string> characters =
      of->is_string() ? characters_of(of->string()) : std::vector<std::string>();
  const auto size = static_cast<std::int64_t>(of->is_string() ? characters.size() : of->items().size());
  const std::int64_t step = by == nullptr ? 1 : whole_of(by);
  if (step == 0) throw std::runtime_error("a slice's step is 0");
  const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  const auto bound = [&](const Value& given, std::int64_t otherwise) {
    if (given == nullptr) return otherwise;
    const std::int64_t at = whole_of(given);
    return std::clamp(at < 0 ? at + size : at, least, most);
  };
  const std::int64_t begin = bound(from, step > 0 ? 0 : size - 1), end = bound(to, step > 0 ? size : -1);
  std::string text;
  std::vector<Json> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    const auto at = static_cast<std::size_t>(i);
    if (of->is_string()) {
      text += characters[at];
    } else {
      items.push_back(of->items()[at]);
    }
  }
  return of->is_string() ? value_of(std::move(text)) : value_of(Json::array(std::move(items)));
}

Value value_of(Json json) { return std::make_shared<const Json>(std::move(json)); }

bool is_true(const Value& value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_boolean()) return value->boolean();
  if (value->is_number()) return value->number() != 0.0;
  if (value->is_string()) return !value->string().empty();
  return value->is_array() ? !value->items().empty() : !value->members().empty();
}

std::string text_of(const Value& value) {
  if (value == nullptr) return "";
  if (value->is_string()) return value->string();
  if (value->is_null()) return "None";
  if (value->is_boolean()) return value->boolean() ? "True" : "False";
  if (!value->is_number()) throw std::runtime_error("a list or a mapping is written: join and tojson say how");
  return value->dump();
}

Value Scope::find(std::string_view name) const {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (const auto found = frame->find(name); found != frame->end()) return found->second;
  }
  return nullptr;
}

const Macro* Scope::macro(std::string_view name) const {
  const auto found = macros_.find(name);
  return found == macros_.end() ? nullptr : &found->second;
}

std::string Scope::within(Frame variables, const std::function<std::string()>& run) {
  const std::ptrdiff_t stack = bottom_ - static_cast<const char*>(__builtin_frame_address(0));
  if (++calls_ > kMostCalls || std::abs(stack) > kMostStack)
    throw std::runtime_error("macros call each other more than 64 deep");
  std::vector<Frame> callers(std::make_move_iterator(frames_.begin() + 1), std::make_move_iterator(frames_.end()));
  frames_.resize(1);
  frames_.push_back(std::move(variables));
  std::string text = run();
  frames_.resize(1);
  frames_.insert(frames_.end(), std::make_move_iterator(callers.begin()), std::make_move_iterator(callers.end()));
  --calls_;
  return text;
}

void Scope::set_field(const std::string& name, const std::string& field, const Value& value) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    const auto found = frame->find(name);
    if (found == frame->end()) continue;
    if (found->second == nullptr || !found->second->is_object()) break;
    Json changed = *found->second;
    changed[field] = value == nullptr ? Json() : *value;
    found->second = value_of(not_too_deep(std::move(changed)));
    return;
  }
  throw std::runtime_error(name + " is no namespace");
}

void Scope::charge(std::size_t bytes) {
  bytes_ += bytes;
  if (++steps_ > kMostSteps) throw std::runtime_error("it takes more than 1000000 steps");
  if (bytes_ > kMostBytes) throw std::runtime_error("it makes more than 64 MiB of text");
}

}  // namespace quern::engine
