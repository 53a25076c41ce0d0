// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/problem.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "bindings/cli/bench/element.h"
#include "bindings/cli/bench/names.h"
#include "bindings/cli/bench/recipes.h"
#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"
#include "bindings/cli/manifest.h"

namespace quern::cli {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

// Names that are nobody's argument and have a meaning here.
constexpr std::string_view kBytes = "bytes", kFlops = "flops", kRate = "rate";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::vector<std::string> split_words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(percent_decode(word));
  return words;
}

// At `sign` outside of parentheses and brackets.
std::vector<std::string> split(std::string_view text, char sign) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == sign && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Words pairs_of(const std::vector<std::string>& words) {
  Words pairs;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Failure(QUERN_INVALID, "PROBLEM: '" + printable(word) + "' given; allowed: NAME=VALUE behind the op");
    }
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

bool is_tensor(const OpField& field) { return field.kind == FieldKind::kTensor || field.kind == FieldKind::kTensors; }

// The call being put together.
class Reading {
 public:
  Reading(const OpTable& op, const Words& given)
      : op_(op), names_(op.name), recipe_(pairs_of(split_words(recipe_of(op.name)))) {
    for (const auto& [name, value] : recipe_) {
      if (!is_tensor_of_recipe(name, value) && !is_text(name)) names_.set(name, value);
    }
    for (const auto& [name, value] : given) take(name, value);
  }

  Problem read() {
    Problem problem;
    problem.op = &op_;
    for (const OpField& field : op_.fields) {
      if (is_tensor(field)) {
        std::vector<ProblemTensor> tensors = tensors_of(field.name);
        if (!tensors.empty()) problem.tensors[field.name] = std::move(tensors);
      } else if (field.kind == FieldKind::kExpression) {
        if (const std::string* text = text_of(field.name)) problem.expressions[field.name] = *text;
      } else if (field.kind == FieldKind::kFloats) {
        if (const std::string* text = text_of(field.name)) {
          for (const std::string& each : split(*text, ';')) {
            problem.floats[field.name].push_back(static_cast<float>(names_.number(each, field.name)));
          }
        }
      } else if (names_.has(field.name)) {
        problem.numbers[field.name] = names_.number(field.name, field.name);
      }
    }
    problem.asked = asked_;
    problem.flops = names_.has(std::string(kFlops)) ? names_.number(kFlops, std::string(kFlops)) : 0;
    problem.rate = names_.has(std::string(kRate)) ? names_.word(std::string(kRate)) : "";
    if (const auto a = problem.tensors.find("a"); !problem.rate.empty() && a != problem.tensors.end()) {
      problem.rate = element_name(a->second.front().type);  // a product's operand may have been given as another type
    }
    if (names_.has(std::string(kBytes))) {
      problem.bytes = names_.number(kBytes, std::string(kBytes));
    } else {
      for (const auto& [name, tensors] : problem.tensors) {
        for (const ProblemTensor& tensor : tensors) problem.bytes += static_cast<double>(tensor.bytes());
      }
    }
    return problem;
  }

 private:
  const OpField* field(const std::string& name) const { return op_.find(name); }
  bool is_text(const std::string& name) const {
    const OpField* found = field(name);
    return found != nullptr && (found->kind == FieldKind::kExpression || found->kind == FieldKind::kFloats);
  }
  bool is_tensor_of_recipe(const std::string& name, const std::string& value) const {
    const OpField* found = field(name);
    return found != nullptr && is_tensor(*found) && value.find('[') != std::string::npos;
  }
  bool recipe_has_tensor(const std::string& name) const {
    return std::any_of(recipe_.begin(), recipe_.end(),
                       [&](const auto& each) { return each.first == name && is_tensor_of_recipe(name, each.second); });
  }

  // A word of the user's.
  void take(const std::string& name, const std::string& value) {
    if (is_text(name)) {
      texts_[name] = value;
    } else if (is_tensor_of_recipe(name, value)) {
      written_[name] = value;
    } else if (const OpField* found = field(name); found != nullptr && is_tensor(*found)) {
      take_tensor(name, value);
    } else if (found != nullptr || names_.has(name) || name == kBytes || name == kFlops || name == kRate) {
      names_.set(name, value);
    } else {
      asked_[name] = value;
    }
  }

  // A tensor's name with no extents: a type, yes or no, or a name of the recipe's that is called like it.
  void take_tensor(const std::string& name, const std::string& value) {
    const bool known = recipe_has_tensor(name);
    if (value == "none" || value == "0") {
      switches_[name] = "none";
    } else if (known && (value == "1" || element_type(value))) {
      switches_[name] = value;
    } else if (names_.has(name)) {
      names_.set(name, value);
    } else {
      throw Failure(QUERN_INVALID, name + ": '" + printable(value) + "' given; allowed: none, " +
                                       (known ? "1, a type (" + known_elements() + "), " : "") +
                                       "or TYPE[EXTENT,...] as quern.h has it");
    }
  }

  const std::string* text_of(const std::string& name) const {
    if (const auto found = texts_.find(name); found != texts_.end()) return &found->second;
    for (const auto& [each, value] : recipe_) {
      if (each == name) return &value;
    }
    return nullptr;
  }

  std::vector<ProblemTensor> tensors_of(const std::string& name) const {
    const auto written = written_.find(name);
    const auto switched = switches_.find(name);
    const std::string set = switched == switches_.end() ? "" : switched->second;
    if (written != written_.end()) return parse(name, written->second, "1");
    if (set == "none") return {};
    for (const auto& [each, value] : recipe_) {
      if (each != name || !is_tensor_of_recipe(each, value)) continue;
      std::vector<ProblemTensor> tensors = parse(name, value, set);
      if (!tensors.empty()) return tensors;
    }
    return {};
  }

  // "bf16[m,k]:transposed;..."; none where it is off or a condition does not hold.
  std::vector<ProblemTensor> parse(const std::string& name, const std::string& text, const std::string& set) const {
    std::vector<ProblemTensor> tensors;
    for (const std::string& part : split(text, ';')) {
      const std::optional<ProblemTensor> tensor = parse_one(name, part, set);
      if (!tensor) return {};
      tensors.push_back(*tensor);
    }
    return tensors;
  }

  std::optional<ProblemTensor> parse_one(const std::string& name, const std::string& text,
                                         const std::string& set) const {
    const std::vector<std::string> parts = split(text, ':');
    const std::size_t open = parts[0].find('[');
    if (open == std::string::npos || parts[0].back() != ']') {
      throw Failure(QUERN_INVALID, name + ": '" + printable(text) + "' given; allowed: TYPE[EXTENT,...]");
    }
    ProblemTensor tensor{};
    const std::string type = names_.word(parts[0].substr(0, open));
    const std::optional<DLDataType> known = element_type(set.empty() || set == "1" ? type : set);
    if (!known) {
      throw Failure(QUERN_INVALID, name + ": type '" + printable(type) + "' given; allowed: " + known_elements());
    }
    tensor.type = *known;
    for (const std::string& attribute : std::vector<std::string>(parts.begin() + 1, parts.end())) {
      if (!take_attribute(name, attribute, set, tensor)) return {};
    }
    std::int64_t elements = 1;
    for (const std::string& extent : split(parts[0].substr(open + 1, parts[0].size() - open - 2), ',')) {
      const double value = names_.number(extent, name);
      if (value < 0 || value != std::floor(value) ||
          value * static_cast<double>(elements) > static_cast<double>(kMostElements)) {
        std::ostringstream shown;
        shown << value;
        throw Failure(QUERN_INVALID, name + ": extent " + printable(extent) + " is " + shown.str() +
                                         "; allowed: whole numbers from 0 on, 2^40 elements in all");
      }
      tensor.shape.push_back(static_cast<std::int64_t>(value));
      elements *= std::max<std::int64_t>(tensor.shape.back(), 1);
    }
    return tensor;
  }

  // Whether the tensor is there.
  bool take_attribute(const std::string& name, const std::string& text, const std::string& set,
                      ProblemTensor& tensor) const {
    static const std::map<std::string, Filling, std::less<>> kFillings = {
        {"value", Filling::value},       {"steps", Filling::steps},
        {"shares", Filling::shares},     {"below", Filling::below},
        {"shuffled", Filling::shuffled}, {"positive", Filling::positive},
        {"boxes", Filling::boxes},       {"probabilities", Filling::probabilities},
    };
    const std::size_t open = text.find('(');
    const std::string word = text.substr(0, open);
    const std::string inside = open == std::string::npos ? "" : text.substr(open + 1, text.size() - open - 2);
    if (word == "off") return !set.empty();
    if (word == "if") return names_.number(inside, name) != 0;
    if (word == "transposed") {
      tensor.transposed = true;
      return true;
    }
    const auto filling = kFillings.find(word);
    if (filling == kFillings.end()) {
      throw Failure(QUERN_INVALID, name + ": ':" + printable(word) +
                                       "' given; allowed: :transposed, :if(X), :value(X), :steps(X), :shares(X), "
                                       ":below(X), :shuffled, :positive, :probabilities, :boxes");
    }
    tensor.filling = filling->second;
    if (inside.empty()) return true;
    std::size_t place = 0;
    for (const std::string& number : split(inside, ',')) {
      if (place < 2) tensor.numbers[place++] = names_.number(number, name);
    }
    return true;
  }

  const OpTable& op_;
  Names names_;
  const Words recipe_;
  std::map<std::string, std::string> written_, switches_, texts_, asked_;
};

}  // namespace

std::uint64_t ProblemTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

std::string ProblemTensor::text() const {
  std::string text = element_name(type) + '[';
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + (transposed ? "]:transposed" : "]");
}

Problem read_problem(const std::vector<std::string>& words) {
  if (words.empty()) throw Failure(QUERN_INVALID, "PROBLEM: none given; allowed: an op and NAME=VALUE words behind it");
  const OpTable& op = op_named(words.front());
  std::size_t first = 1;
  std::string target;
  if (words.size() > 1 && words[1].find('=') == std::string::npos) target = words[first++];
  Problem problem = Reading(op, pairs_of({words.begin() + static_cast<std::ptrdiff_t>(first), words.end()})).read();
  problem.target = target;
  problem.line = op.name;
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    problem.line += ' ' + words[i].substr(0, equals + 1);
    for (const char c : words[i].substr(equals + 1)) problem.line += c == ' ' ? std::string("%20") : std::string(1, c);
  }
  return problem;
}

std::vector<Problem> read_problems(const std::string& text, const std::string& name) {
  std::vector<Problem> problems;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = split_words(line);
    if (words.empty() || words.front().starts_with('#')) continue;
    try {
      problems.push_back(read_problem(words));
    } catch (const Failure& failure) {
      throw BadInput(printable(name) + ", line " + std::to_string(number) + ": " + failure.what());
    }
  }
  return problems;
}

}  // namespace quern::cli
