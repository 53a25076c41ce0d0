// Shapes to specs, manifest constants and units.
// SPDX-License-Identifier: Apache-2.0
#include "sources/reduce/shape.h"

#include <algorithm>
#include <bit>
#include <string>

#include "jit/error.h"
#include "jit/lazy.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"

namespace quern::ops::reduce {
namespace {

constexpr int kRowTeam = 32;        // lanes that take a row of few vectors,
constexpr std::int64_t kFew = 256;  // that is of no more than so many
constexpr int kMostAtOnce = 4;

constexpr Names<Way, 4> kWays = {
    {{"rows", Way::rows}, {"columns", Way::columns}, {"join", Way::join}, {"few", Way::few}}};
constexpr Names<Dtype, 6> kElements = {{{"f32", Dtype::f32},
                                        {"f16", Dtype::f16},
                                        {"bf16", Dtype::bf16},
                                        {"e4m3", Dtype::e4m3},
                                        {"e5m2", Dtype::e5m2},
                                        {"int8", Dtype::i8}}};
constexpr Names<Dtype, 6> kOuts = {{{"f32", Dtype::f32},
                                    {"f16", Dtype::f16},
                                    {"bf16", Dtype::bf16},
                                    {"int32", Dtype::i32},
                                    {"int64", Dtype::i64},
                                    {"uint8", Dtype::u8}}};
constexpr Names<Reduction, 12> kKinds = {{{"sum", Reduction::sum},
                                          {"mean", Reduction::mean},
                                          {"max", Reduction::max},
                                          {"min", Reduction::min},
                                          {"argmax", Reduction::argmax},
                                          {"argmin", Reduction::argmin},
                                          {"l2", Reduction::l2},
                                          {"dot", Reduction::dot},
                                          {"logsumexp", Reduction::logsumexp},
                                          {"any", Reduction::any},
                                          {"all", Reduction::all},
                                          {"none", Reduction::none}}};
constexpr Names<int, 7> kTeams = {{{"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}, {"16", 16}, {"32", 32}, {"256", 256}}};
constexpr Names<int, 3> kAtOnce = {{{"1", 1}, {"2", 2}, {"4", 4}}};

// A formula: its interned number in a Spec, its text in a manifest line.
template <auto member>
struct Formula {
  static constexpr int kBits = 32;
  const char* name;
  const char* macro = nullptr;

  constexpr bool is_in(const Shape&) const { return true; }
  static std::uint32_t bits_of(const Shape& shape) { return (shape.*member)->number; }
  static void set(Shape& shape, std::uint32_t bits) { shape.*member = &expression::interned(bits); }
  std::string text(const Shape& shape) const { return (shape.*member)->text; }
  void read(ConstantReader& reader, Shape& shape) const {
    shape.*member = &expression::intern(reader.text(name, "acc"));
  }
};

constexpr auto kConstants = describe<Shape>(
    tag_reduce, "reduce", choice<&Shape::way>("way", nullptr, kWays),
    choice<&Shape::element>("dtype", nullptr, kElements), choice<&Shape::kind>("kind", "KIND0", kKinds),
    choice<&Shape::kind1>("kind1", "KIND1", kKinds).optional(),
    choice<&Shape::kind2>("kind2", "KIND2", kKinds).optional(),
    choice<&Shape::kind3>("kind3", "KIND3", kKinds).optional(), choice<&Shape::out>("out", nullptr, kOuts).optional(),
    choice<&Shape::out1>("out1", nullptr, kOuts).optional(), choice<&Shape::out2>("out2", nullptr, kOuts).optional(),
    choice<&Shape::out3>("out3", nullptr, kOuts).optional(), Formula<&Shape::before>{"before"},
    Formula<&Shape::after>{"after"}, Formula<&Shape::after1>{"after1"}, Formula<&Shape::after2>{"after2"},
    Formula<&Shape::after3>{"after3"}, flag<&Shape::y>("y", "HAS_Y").optional(),
    flag<&Shape::exact>("exact", "EXACT").optional(), flag<&Shape::halves>("halves", "HALVES").optional(),
    flag<&Shape::vectors>("vectors", nullptr).optional(), flag<&Shape::segments>("segments", "SEGMENTS").optional(),
    choice<&Shape::team>("team", "TEAM", kTeams).optional(),
    choice<&Shape::at_once>("at_once", "AT_ONCE", kAtOnce).optional());

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, "reduce: " + text); }

// The type that a dtype is in a kernel.
const char* type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
    case Dtype::u8:
      return "u8";
    case Dtype::i8:
      return "i8";
    default:
      return name_of(dtype);
  }
}

struct Layout {
  std::int64_t bytes, alignment;
};
Layout layout_of(Reduction kind, bool exact) {
  if (kind == Reduction::none) return {1, 1};
  if (is_place(kind)) return {16, 8};
  if (exact && is_sum(kind)) return {8, 8};
  return {kind == Reduction::logsumexp ? 8 : 4, 4};
}

// That a kernel can store a result so. `out` is the dtype of what is not there, too.
void expect_out(const Shape& shape, Reduction kind, Dtype out, const quern_expression& after, const char* name) {
  const bool number = out == Dtype::f32 || out == Dtype::f16 || out == Dtype::bf16;
  const bool fits = is_place(kind)   ? out == Dtype::i32 || out == Dtype::i64
                    : is_truth(kind) ? out == Dtype::u8 || out == Dtype::i32 || out == Dtype::f32
                    : kind == Reduction::none
                        ? out == Dtype::f32
                        : number || (out == Dtype::i32 && shape.exact && is_sum(kind) && kind != Reduction::mean);
  if (!fits)
    refuse(std::string(name) + " is " + name_of(out) + "; allowed: " +
           (is_place(kind)            ? "int32, int64"
            : is_truth(kind)          ? "uint8, int32, f32"
            : kind == Reduction::none ? "f32, as there is none"
                                      : "f32, f16, bf16, and int32 of exact sums and dot products"));
  if (&after != identity() && (kind == Reduction::none || is_place(kind) || is_truth(kind) || !number))
    refuse(std::string("a formula behind the reduction of ") + name + "; allowed: none");
}

}  // namespace

const quern_expression* identity() {
  struct Identity {
    const quern_expression& formula = expression::intern("acc");
  };
  static constinit jit::Lazy<Identity> kept;
  return &kept->formula;
}

std::int64_t state_bytes(const Shape& shape) {
  std::int64_t bytes = 0, alignment = 1;
  for (const Reduction kind : shape.kinds()) {
    const Layout layout = layout_of(kind, shape.exact);
    bytes = (bytes + layout.alignment - 1) / layout.alignment * layout.alignment + layout.bytes;
    alignment = std::max(alignment, layout.alignment);
  }
  return (bytes + alignment - 1) / alignment * alignment;
}

void fit_team(Shape& shape, std::int64_t vectors) {
  vectors = std::max<std::int64_t>(vectors, 1);
  const auto lanes = static_cast<std::uint64_t>((vectors + kMostAtOnce - 1) / kMostAtOnce);
  shape.team =
      vectors > kFew ? q::kReduceThreads : static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(lanes), kRowTeam));
  const std::int64_t each = (vectors + shape.team - 1) / shape.team;
  shape.at_once = each > 2 ? kMostAtOnce : each == 2 ? 2 : 1;
}

int threads_across(std::int64_t rows, std::int64_t vector) {
  const auto vectors = static_cast<std::uint64_t>((std::max<std::int64_t>(rows, 1) + vector - 1) / vector);
  return static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(vectors), kRowTeam));
}

// By columns a thread knows of as many rows as a vector has elements.
int blocks_per_sm(const Shape& shape) {
  if (shape.way == Way::rows || shape.way == Way::join)
    return shape.way == Way::rows && state_bytes(shape) > 32 ? 3 : 4;
  const std::int64_t words = (state_bytes(shape) - 1) / 4 * (16 / bytes_of(shape.element));
  return (words <= 16 ? 4 : words <= 32 ? 2 : 1) * (shape.way == Way::few ? 2 : 1);
}

Shape of_few(Shape columns, bool narrow) {
  const auto bytes = static_cast<int>(bytes_of(columns.element));
  columns.way = Way::few;
  columns.segments = false;
  columns.team = narrow ? std::max(4 / bytes, 2) : 16 / bytes;
  columns.at_once = 1;
  return columns;
}

Shape joining(Shape shape) {
  Shape join;
  join.way = Way::join;
  join.element = shape.exact ? Dtype::i8 : Dtype::f32;
  join.kind = shape.kind, join.kind1 = shape.kind1, join.kind2 = shape.kind2, join.kind3 = shape.kind3;
  join.out = shape.out, join.out1 = shape.out1, join.out2 = shape.out2, join.out3 = shape.out3;
  join.after = shape.after, join.after1 = shape.after1, join.after2 = shape.after2, join.after3 = shape.after3;
  join.exact = shape.exact, join.halves = shape.halves;
  return join;
}

void expect_before(const quern_expression& formula, const char* name) {
  bool fits = (formula.leaves & ~std::uint32_t{expression::leaf_acc}) == 0;
  for (std::size_t i = 0; i < formula.operands.size(); ++i) {
    const expression::OperandKind kind = formula.operands[i];
    fits = fits && (kind == expression::OperandKind::unused || (i == 0 && kind == expression::OperandKind::tensor));
  }
  if (!fits)
    throw Error(QUERN_INVALID, std::string(name) + " is \"" + formula.text +
                                   "\"; allowed are acc (the element of x), tensor0 (that of y) and scalars");
}

void expect_after(const quern_expression& formula, const char* name) {
  bool fits = (formula.leaves & ~std::uint32_t{expression::leaf_acc}) == 0;
  for (const expression::OperandKind kind : formula.operands) fits = fits && kind == expression::OperandKind::unused;
  if (!fits)
    throw Error(QUERN_INVALID, std::string(name) + " is \"" + formula.text +
                                   "\"; allowed are acc (the reduction's result) and scalars");
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Constants to_constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  expect_before(*shape.before, "reduce: before");
  expect_after(*shape.after, "reduce: after"), expect_after(*shape.after1, "reduce: after1");
  expect_after(*shape.after2, "reduce: after2"), expect_after(*shape.after3, "reduce: after3");
  if (shape.kind == Reduction::none) refuse("kind is none; allowed: what out is of");
  bool reads_y = shape.before->operands[0] != expression::OperandKind::unused;
  for (const Reduction kind : shape.kinds()) reads_y = reads_y || (kind == Reduction::dot && shape.way != Way::join);
  if (reads_y != shape.y)
    refuse(shape.y ? "y is 1; allowed: 0, as nothing reads it" : "y is 0; allowed: 1, as it is read");
  if (shape.exact && (shape.element != Dtype::i8 || shape.before != identity()))
    refuse("exact is 1; allowed with int8 and without a formula before: 0 and 1");
  if ((shape.way == Way::columns || shape.way == Way::few) && !shape.vectors)
    refuse("vectors is 0; allowed by columns, and of few elements: 1");
  if (shape.way == Way::few &&
      (shape.team < 2 || shape.team * bytes_of(shape.element) < 4 || shape.team * bytes_of(shape.element) > 16))
    refuse("team is " + std::to_string(shape.team) +
           "; allowed of few elements: 4 to 16 bytes, and 2 elements at least");
  if (shape.way == Way::columns && shape.team > kRowTeam) refuse("team is 256; allowed by columns: 1 to 32");
  expect_out(shape, shape.kind, shape.out, *shape.after, "out");
  expect_out(shape, shape.kind1, shape.out1, *shape.after1, "out1");
  expect_out(shape, shape.kind2, shape.out2, *shape.after2, "out2");
  expect_out(shape, shape.kind3, shape.out3, *shape.after3, "out3");
  return kConstants.to_spec(shape, target.target);
}

jit::Unit to_unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "reduce";
  unit.target = jit::Target::from_tag(spec.target);
  const bool columns = shape.way == Way::columns, few = shape.way == Way::few;
  unit.entry = columns ? "quern_reduce_columns" : few ? "quern_reduce_few" : "quern_reduce";
  kConstants.define(shape, &unit);
  const auto define = [&](const char* name, const std::string& value) { unit.constants.push_back({name, value}); };
  define("ELEMENT", type_of(shape.element));
  define("IS_INT8", shape.element == Dtype::i8 ? "1" : "0");
  define("OUT0", type_of(shape.out)), define("OUT1", type_of(shape.out1));
  define("OUT2", type_of(shape.out2)), define("OUT3", type_of(shape.out3));
  define("BEFORE", shape.before->code);
  define("AFTER0", shape.after->code), define("AFTER1", shape.after1->code);
  define("AFTER2", shape.after2->code), define("AFTER3", shape.after3->code);
  define("VECTOR", std::to_string(shape.way == Way::few ? shape.team
                                  : shape.vectors       ? 16 / bytes_of(shape.element)
                                                        : 1));
  define("STATE_BYTES", std::to_string(state_bytes(shape)));
  define("BLOCKS_PER_SM", std::to_string(blocks_per_sm(shape)));
  if (few) define("THREADS", std::to_string(q::kReduceFewThreads));
  if (!columns && !few) define("JOIN", shape.way == Way::join ? "1" : "0");
  unit.source = embedded(columns ? "reduce/kernels/columns.cuh"
                         : few   ? "reduce/kernels/few.cuh"
                                 : "reduce/kernels/rows.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

}  // namespace quern::ops::reduce
