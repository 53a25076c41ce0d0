// The process-wide table of expressions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>

#include "jit/error.h"
#include "jit/lazy.h"
#include "jit/process_mutex.h"
#include "sources/expression/tree.h"

namespace quern::ops::expression {
namespace {

// Expressions by number, read without a lock: segment k has kFirst << k places, and none ever moves.
class Numbered {
 public:
  static constexpr std::uint32_t most() { return kFirst * ((1U << kSegments) - 1); }

  void append(const quern_expression* expression) {
    const std::uint32_t number = count_.load(std::memory_order_relaxed);
    const Place place = place_of(number);
    std::unique_ptr<Slot[]>& segment = segments_[place.segment];
    if (segment == nullptr) segment = std::make_unique<Slot[]>(std::size_t{kFirst} << place.segment);
    segment[place.offset] = expression;
    count_.store(number + 1, std::memory_order_release);
  }
  const quern_expression* find(std::uint32_t number) const {
    if (number >= size()) return nullptr;
    const Place place = place_of(number);
    return segments_[place.segment][place.offset];
  }
  std::uint32_t size() const { return count_.load(std::memory_order_acquire); }

 private:
  using Slot = const quern_expression*;
  struct Place {
    std::uint32_t segment;
    std::uint32_t offset;
  };
  static constexpr std::uint32_t kFirst = 64;
  static constexpr std::uint32_t kSegments = 16;

  static Place place_of(std::uint32_t number) {
    const auto segment = static_cast<std::uint32_t>(std::countl_zero(1U) - std::countl_zero(number / kFirst + 1));
    return {segment, number - kFirst * ((1U << segment) - 1)};
  }

  std::array<std::unique_ptr<Slot[]>, kSegments> segments_;
  std::atomic<std::uint32_t> count_ = 0;
};

struct Table {
  std::map<std::string, std::unique_ptr<quern_expression>, std::less<>> known;  // by canonical text
  Numbered numbered;
};
jit::ProcessMutex mutex;
jit::Lazy<Table> table;

// A polynomial and what is around it counts as twelve operators.
std::uint32_t cost_of(const Node& node) {
  constexpr std::array<std::string_view, 6> kShort = {"abs", "relu", "min", "max", "clamp", "select"};
  if (node.kind == NodeKind::binary || node.kind == NodeKind::prefix) return 1;
  if (node.kind != NodeKind::call) return 0;
  const Function& function = kFunctions[node.which];
  const bool cast = function.takes == Takes::anything;
  return cast || std::find(kShort.begin(), kShort.end(), function.name) != kShort.end() ? 1 : 12;
}

std::unique_ptr<quern_expression> describe(const Tree& tree) {
  auto expression = std::make_unique<quern_expression>();
  expression->number = 0;
  expression->text = canonical(tree);
  expression->code = code(tree);
  expression->operands.fill(OperandKind::unused);
  expression->scalars = 0;
  expression->leaves = tree.root().type == Type::integer ? leaf_integer_value : 0U;
  expression->indices = 0;
  expression->cost = 0;
  for (const Node& node : tree.nodes) {
    expression->cost += cost_of(node);
    if (node.kind == NodeKind::result) expression->leaves |= kResults[node.which].leaf;
    if (node.kind == NodeKind::scalar) expression->scalars |= 1U << node.which;
    if (node.kind == NodeKind::index) {
      expression->leaves |= leaf_place;
      expression->indices |= 1U << node.which;
    }
    if (node.kind != NodeKind::operand) continue;
    expression->operands[node.index] = kOperandKinds[node.which].kind;
    if (node.type == Type::integer) expression->leaves |= leaf_integer_operand;
  }
  return expression;
}

void check(const quern_expression& expression) {
  bool reads = (expression.leaves & ~std::uint32_t{leaf_integer_value}) != 0 || expression.scalars != 0;
  for (const OperandKind kind : expression.operands) reads = reads || kind != OperandKind::unused;
  if (!reads) {
    throw Error(QUERN_INVALID,
                "expression \"" + expression.text +
                    "\" is a constant; it must read a result (acc, gate, up), an operand, a scalar or a place");
  }
  // Writing numbers in full can make a text longer.
  if (expression.text.size() > kMostBytes) {
    throw Error(QUERN_INVALID, "expression has " + std::to_string(expression.text.size()) +
                                   " bytes in its canonical form; at most " + std::to_string(kMostBytes) +
                                   " are allowed");
  }
}

}  // namespace

const quern_expression& intern(std::string_view text) {
  std::unique_ptr<quern_expression> made = describe(parse(text));
  check(*made);
  Table& all = *table;
  const std::lock_guard lock(mutex);
  const auto found = all.known.find(made->text);
  if (found != all.known.end()) return *found->second;
  made->number = all.numbered.size();
  if (made->number == Numbered::most()) {
    throw Error(QUERN_NO_MEMORY, "this process has made " + std::to_string(Numbered::most()) + " expressions already");
  }
  const auto added = all.known.emplace(made->text, std::move(made)).first;
  try {
    all.numbered.append(added->second.get());
  } catch (...) {
    all.known.erase(added);
    throw;
  }
  return *added->second;
}

const quern_expression& interned(std::uint32_t number) {
  const quern_expression* const known = table->numbered.find(number);
  if (known == nullptr) throw Error(QUERN_INTERNAL, "expression " + std::to_string(number) + " was never made");
  return *known;
}

}  // namespace quern::ops::expression
