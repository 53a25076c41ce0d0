// A pointwise kernel's constants, as they stand in a Spec, a manifest line and the source.
// SPDX-License-Identifier: Apache-2.0
#include "sources/pointwise/shape.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/element_names.h"
#include "sources/embedded.h"

namespace quern::ops::pointwise {
namespace {

using expression::OperandKind;

constexpr const char* kFormulaNames[] = {"expression", "expression1", "expression2", "expression3"};
constexpr const char* kOperandNames[] = {"operand0", "operand1", "operand2", "operand3",
                                         "operand4", "operand5", "operand6", "operand7"};
constexpr const char* kOperandAlongNames[] = {"along0", "along1", "along2", "along3",
                                              "along4", "along5", "along6", "along7"};
constexpr const char* kOutNames[] = {"out", "out1", "out2", "out3"};
constexpr const char* kOutAlongNames[] = {"out_along", "out1_along", "out2_along", "out3_along"};
constexpr const char* kAlongNames[] = {"each", "same", "any", "shifted", "across"};

// What an expression is in a Spec: its number in this process; in a manifest line its text.
template <std::size_t which>
struct Formula {
  static constexpr int kBits = 32;
  const char* name = kFormulaNames[which];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return static_cast<int>(which) < shape.results; }
  static std::uint32_t bits_of(const Shape& shape) { return shape.formulas[which]->number; }
  static void set(Shape& shape, std::uint32_t bits) { shape.formulas[which] = &expression::interned(bits); }
  static std::string text(const Shape& shape) { return shape.formulas[which]->text; }
  void read(ConstantReader& reader, Shape& shape) const {
    shape.formulas[which] = &expression::intern(reader.text(name, ""));
    check_formula(shape, which);
  }
};

Dtype read_dtype(ConstantReader& reader, const char* name) {
  std::array<const char*, kElementNames.size()> allowed;
  for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = kElementNames[i].name;
  return kElementNames[reader.one_of(name, std::span<const char* const>(allowed))].value;
}
template <std::size_t number>
struct Operand {
  static constexpr int kBits = 8;
  const char* name = kOperandNames[number];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return shape.uses(number); }
  static std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.operands[number]); }
  static void set(Shape& shape, std::uint32_t bits) { shape.operands[number] = static_cast<Dtype>(bits); }
  static std::string text(const Shape& shape) { return name_of(shape.operands[number]); }
  void read(ConstantReader& reader, Shape& shape) const {
    shape.operands[number] = read_dtype(reader, name);
    check_operand(shape, number);
  }
};
template <std::size_t number>
struct Out {
  static constexpr int kBits = 8;
  const char* name = kOutNames[number];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return static_cast<int>(number) < shape.results; }
  static std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.outs[number]); }
  static void set(Shape& shape, std::uint32_t bits) { shape.outs[number] = static_cast<Dtype>(bits); }
  static std::string text(const Shape& shape) { return name_of(shape.outs[number]); }
  void read(ConstantReader& reader, Shape& shape) const { shape.outs[number] = read_dtype(reader, name); }
};

Along read_along(ConstantReader& reader, const char* name) {
  return static_cast<Along>(reader.one_of(name, std::span<const char* const>(kAlongNames), 0));
}
template <std::size_t number>
struct OperandAlong {
  static constexpr int kBits = 8;
  const char* name = kOperandAlongNames[number];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return shape.uses(number); }
  static std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.operands_along[number]); }
  static void set(Shape& shape, std::uint32_t bits) { shape.operands_along[number] = static_cast<Along>(bits); }
  static std::string text(const Shape& shape) { return kAlongNames[bits_of(shape)]; }
  void read(ConstantReader& reader, Shape& shape) const { shape.operands_along[number] = read_along(reader, name); }
};
template <std::size_t number>
struct OutAlong {
  static constexpr int kBits = 8;
  const char* name = kOutAlongNames[number];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return static_cast<int>(number) < shape.results; }
  static std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.outs_along[number]); }
  static void set(Shape& shape, std::uint32_t bits) { shape.outs_along[number] = static_cast<Along>(bits); }
  static std::string text(const Shape& shape) { return kAlongNames[bits_of(shape)]; }
  void read(ConstantReader& reader, Shape& shape) const { shape.outs_along[number] = read_along(reader, name); }
};

constexpr Names<int, 4> kResultCounts = {{{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}}};
constexpr Names<int, 6> kRanks = {{{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}, {"5", 5}, {"6", 6}}};
constexpr Names<int, 5> kWidths = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}, {"1", 1}}};

constexpr Names<Span, 3> kSpans = {{{"none", Span::none}, {"rows", Span::rows}, {"tiles", Span::tiles}}};

constexpr auto kConstants = describe<Shape>(
    tag_pointwise, "pointwise", choice<&Shape::results>("results", nullptr, kResultCounts).optional(), Formula<0>{},
    Formula<1>{}, Formula<2>{}, Formula<3>{}, choice<&Shape::rank>("rank", "RANK", kRanks).optional(),
    choice<&Shape::width>("width", "WIDTH", kWidths), Operand<0>{}, Operand<1>{}, Operand<2>{}, Operand<3>{},
    Operand<4>{}, Operand<5>{}, Operand<6>{}, Operand<7>{}, Out<0>{}, Out<1>{}, Out<2>{}, Out<3>{}, OperandAlong<0>{},
    OperandAlong<1>{}, OperandAlong<2>{}, OperandAlong<3>{}, OperandAlong<4>{}, OperandAlong<5>{}, OperandAlong<6>{},
    OperandAlong<7>{}, OutAlong<0>{}, OutAlong<1>{}, OutAlong<2>{}, OutAlong<3>{},
    flag<&Shape::wide>("wide", "WIDE").optional(),
    choice<&Shape::span>("span", nullptr, kSpans).optional().when([](const Shape& s) { return s.rank > 1; }),
    flag<&Shape::tail>("tail", nullptr).optional().when([](const Shape& s) {
      return s.rank > 1 && s.width > 1 && s.span == Span::none;
    }));

bool has_integers(Dtype dtype) {
  return dtype == Dtype::i8 || dtype == Dtype::u8 || dtype == Dtype::i16 || dtype == Dtype::i32 ||
         dtype == Dtype::i64 || dtype == Dtype::boolean;
}

constexpr const char* kAlongCode[] = {"kEach", "kSame", "kAny", "kShifted", "kAcross"};

// "OPERAND(0, f16, kEach, f32)" of each.
std::string operands_of(const Shape& shape) {
  std::string text;
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (!shape.uses(i)) continue;
    text += "OPERAND(" + std::to_string(i) + ", " + device_type(shape.operands[i]) + ", " +
            kAlongCode[static_cast<int>(shape.operands_along[i])] + ", " +
            (shape.kind(i) == OperandKind::integer ? "i64" : "f32") + ") ";
  }
  return text;
}
std::string results_of(const Shape& shape) {
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.results); ++i) {
    const quern_expression& formula = *shape.formulas[i];
    text += "RESULT(" + std::to_string(i) + ", " + device_type(shape.outs[i]) + ", " +
            kAlongCode[static_cast<int>(shape.outs_along[i])] + ", " +
            ((formula.leaves & expression::leaf_integer_value) != 0 ? "i64" : "f32") + ", " + formula.code + ") ";
  }
  return text;
}
std::string numbered(const char* macro, std::uint32_t bits, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if ((bits >> i & 1) != 0) text += std::string(macro) + "(" + std::to_string(i) + ") ";
  }
  return text;
}

std::int64_t cost_of(const Shape& shape) {
  std::int64_t cost = 1;
  for (const quern_expression* formula : shape.formulas) cost += formula != nullptr ? formula->cost : 0;
  return cost;
}

// Registers that the operands of a vector take as they are loaded.
std::int64_t held_words(const Shape& shape) {
  std::int64_t words = 0;
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.uses(i) && shape.operands_along[i] != Along::same)
      words += (shape.width * bytes_of(shape.operands[i]) + 3) / 4;
  }
  return words;
}

// Whether all results are of 16 bits or fewer.
bool is_quick(const Shape& shape) {
  bool quick = true;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.results); ++i) {
    const Dtype out = shape.outs[i];
    quick = quick && (out == Dtype::f16 || out == Dtype::bf16 || out == Dtype::e4m3 || out == Dtype::e5m2);
  }
  return quick;
}

// Blocks of 256 threads, as many as registers allow.
int resident(const Shape& shape) {
  const std::int64_t held = held_words(shape), words = held * steps(shape);
  if (held > 20 || words > 40) return 3;
  return words > 24 || cost_of(shape) > 24 ? 4 : 5;
}

}  // namespace

void check_formula(const Shape& shape, std::size_t which) {
  const quern_expression& formula = *shape.formulas[which];
  constexpr std::uint32_t kOffered =
      expression::leaf_integer_operand | expression::leaf_place | expression::leaf_integer_value;
  bool vectors = false;
  for (const OperandKind kind : formula.operands)
    vectors = vectors || kind == OperandKind::row || kind == OperandKind::column;
  if ((formula.leaves & ~kOffered) != 0 || vectors) {
    throw Error(QUERN_INVALID, std::string(kFormulaNames[which]) + " is \"" + formula.text +
                                   "\"; allowed are tensorN, integerN, scalarN, indexN and place");
  }
  for (std::size_t i = 0; i < formula.operands.size(); ++i) {
    if (formula.operands[i] == OperandKind::unused || formula.operands[i] == shape.kind(i)) continue;
    throw Error(QUERN_INVALID, std::string(kFormulaNames[which]) + " is \"" + formula.text + "\" and reads operand " +
                                   std::to_string(i) + " otherwise than an expression before it; allowed: tensor" +
                                   std::to_string(i) + " or integer" + std::to_string(i) + " in all of them");
  }
}

void check_operand(const Shape& shape, std::size_t operand) {
  if (shape.kind(operand) != OperandKind::integer || has_integers(shape.operands[operand])) return;
  throw Error(QUERN_INVALID, "operands[" + std::to_string(operand) + "] is " + name_of(shape.operands[operand]) +
                                 ", and an expression reads it as integer" + std::to_string(operand) +
                                 "; allowed: int8, uint8, int16, int32, int64, bool");
}

int steps(const Shape& shape) {
  const std::int64_t words = held_words(shape);
  const std::int64_t cost = cost_of(shape);
  if (shape.span == Span::tiles) {
    const int side = q::span_side(shape.width);
    return std::max(side * side / shape.width / kThreads, 1);
  }
  if (shape.span == Span::rows) return words <= 2 ? 8 : 4;
  // Two vectors of many operands at once would have no room in registers.
  int steps = words > 12 ? 1 : words >= 2 ? 2 : 4;
  // Every step has the expressions of its own: long ones are not written out more often than they are worth.
  while (steps > 1 && cost * shape.width * steps > 320) steps /= 2;
  return steps;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

// Bytes of an element of the widest operand that lies across; 0: none does.
std::int64_t crossed_bytes(const Shape& shape) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.uses(i) && shape.operands_along[i] == Along::across) bytes = std::max(bytes, bytes_of(shape.operands[i]));
  }
  return bytes;
}

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (!shape.uses(i)) continue;
    const Along along = shape.operands_along[i];
    const bool fits = along == Along::shifted  ? shape.width * bytes_of(shape.operands[i]) >= 4 && shape.width > 1
                      : along == Along::across ? shape.span == Span::tiles
                                               : true;
    if (!fits) {
      throw Error(QUERN_INVALID, std::string("pointwise: ") + kOperandAlongNames[i] + " is " +
                                     kAlongNames[static_cast<int>(along)] + "; allowed: each, same, any" +
                                     (along == Along::shifted ? ", and it where vectors have 4 bytes and more"
                                                              : ", and it with the span tiles"));
    }
  }
  if (shape.span == Span::rows && shape.width > 1)
    throw Error(QUERN_INVALID,
                "pointwise: width is " + std::to_string(shape.width) + "; allowed with the span rows: 1");
  std::int64_t largest = 1;
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.uses(i) && shape.operands_along[i] != Along::same)
      largest = std::max(largest, bytes_of(shape.operands[i]));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.results); ++i) {
    largest = std::max(largest, bytes_of(shape.outs[i]));
    const Along along = shape.outs_along[i];
    if (along != Along::each && along != Along::any) {
      throw Error(QUERN_INVALID, std::string("pointwise: ") + kOutAlongNames[i] + " is " +
                                     kAlongNames[static_cast<int>(along)] + "; allowed: each, any");
    }
  }
  if (shape.width * largest > 16) {
    throw Error(QUERN_INVALID, "pointwise: width is " + std::to_string(shape.width) + "; allowed: up to " +
                                   std::to_string(16 / largest) + ", 16 bytes of the widest tensor");
  }
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "pointwise";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_pointwise";
  kConstants.define(shape, &unit);
  const bool tail = shape.width > 1 && shape.span == Span::none && (shape.rank == 1 || shape.tail);
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"TAIL", tail ? "1" : "0"},
                                    {"STEPS", std::to_string(steps(shape))},
                                    {"QUICK", is_quick(shape) ? "1" : "0"},
                                    {"CROSSED", std::to_string(crossed_bytes(shape))},
                                    {"SPAN", std::to_string(static_cast<int>(shape.span))},
                                    {"THREADS", std::to_string(kThreads)},
                                    {"BLOCKS_PER_SM", std::to_string(resident(shape))},
                                    {"OPERANDS", operands_of(shape)},
                                    {"RESULTS", results_of(shape)},
                                    {"SCALARS", numbered("SCALAR", shape.scalars(), q::kScalars)},
                                    {"INDICES", numbered("INDEX", shape.indices(), q::kMostDimensions)}}) {
    unit.constants.push_back({name, value});
  }
  unit.source = embedded("pointwise/pointwise.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

}  // namespace quern::ops::pointwise
