// Reads quern_epilogue into one formula, whichever way it was asked for, and the views of its operands.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <string>

#include "jit/error.h"
#include "sources/args.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {
namespace {

using expression::OperandKind;

constexpr int kActivations = 6;
// The numbers of the operands in formulas that quern writes itself: c, with a gate for each of its halves, then the
// bias likewise.
constexpr int kC = 0, kBias = 2;

std::string formula_of(bool gate, int activation, bool bias, bool c) {
  constexpr const char* kNames[kActivations] = {"", "relu", "gelu", "gelu_tanh", "silu", ""};
  const auto sum = [&](const char* result, int half) {
    std::string text = result;
    if (c) text += "+tensor" + std::to_string(kC + half);
    if (bias) text += "+col" + std::to_string(kBias + half);
    return text;
  };
  std::string first = sum(gate ? "gate" : "acc", 0);
  const char* name = kNames[gate && activation == QUERN_ACTIVATION_DEFAULT ? QUERN_ACTIVATION_SILU : activation];
  if (*name != 0) first = std::string(name) + "(" + first + ")";
  return gate ? "(" + first + ")*(" + sum("up", 1) + ")" : first;
}

// Every formula is interned once, so that a repeated call builds no text.
const quern_expression& standard_formula(bool gate, int activation, bool bias, bool c) {
  static std::array<std::atomic<const quern_expression*>, 2 * kActivations * 2 * 2> known{};
  auto& place =
      known[static_cast<std::size_t>(((gate ? 1 : 0) * kActivations + activation) * 4 + (bias ? 2 : 0) + (c ? 1 : 0))];
  if (const quern_expression* found = place.load(std::memory_order_acquire)) return *found;
  const quern_expression& made = expression::intern(formula_of(gate, activation, bias, c));
  place.store(&made, std::memory_order_release);
  return made;
}

constexpr std::initializer_list<Dtype> kDense = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr std::initializer_list<Dtype> kAny = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2};

class Reader {
 public:
  Reader(const Tensor& out, const Results& results, Problem& problem)
      : out_(out), results_(results), problem_(problem) {}

  // A vector over rows or columns, or a tensor of the result's shape, with or without the groups in front.
  void view(const DLTensor* given, const char* name, int index, OperandKind kind, std::initializer_list<Dtype> dtypes,
            std::int64_t columns, std::int64_t first_column) {
    const bool tensor = kind == OperandKind::tensor, row = kind == OperandKind::row;
    const int own = tensor ? 2 : 1;
    const bool may_lead = results_.leading || (kind == OperandKind::column && results_.column_groups);
    // All groups may share a vector over columns, except in a grouped product, where it belongs to the expert.
    const bool must_lead = results_.leading && (kind != OperandKind::column);
    int rank = given != nullptr ? given->ndim : own;
    if (rank != own && !(may_lead && rank == own + 1)) rank = must_lead ? own + 1 : own;
    if (must_lead) rank = own + 1;
    const Tensor t = read(given, name, rank, dtypes, problem_.call.place);
    const bool leads = rank == own + 1;
    if (tensor) expect_like_out(t, name);
    int d = 0;
    q::GemmOperand& o = problem_.params.operands[index];
    o = {};
    if (leads) {
      expect_extent(t, name, 0, results_.groups);
      o.group = stride_of(t, d++);
    }
    if (tensor || row) {
      expect_extent(t, name, d, results_.m);
      o.row = stride_of(t, d++);
    }
    if (tensor || !row) {
      expect_extent(t, name, d, columns);
      o.column = stride_of(t, d);
    }
    o.data = t.data == nullptr ? nullptr : t.data + first_column * o.column * bytes_of(t.dtype);
    o.vectors = vectors(o, bytes_of(t.dtype));
    problem_.shape.operands[static_cast<std::size_t>(index)] = t.dtype;
  }

 private:
  // Whether eight columns, from any multiple of eight on, are contiguous and aligned.
  static std::uint32_t vectors(const q::GemmOperand& o, std::int64_t bytes) {
    const std::uint64_t mask = static_cast<std::uint64_t>(bytes) * 8 < 16 ? 7 : 15;
    const auto aligned = [&](std::int64_t elements) {
      return (static_cast<std::uint64_t>(elements * bytes) & mask) == 0;
    };
    return o.column == 1 && (reinterpret_cast<std::uintptr_t>(o.data) & mask) == 0 && aligned(o.group) &&
           aligned(o.row);
  }

  // An operand that is out itself must have out's layout: each element is read just before it is written.
  void expect_like_out(const Tensor& t, const char* name) const {
    if (t.data == nullptr || t.data != out_.data) return;
    bool like = t.dtype == out_.dtype && t.rank == out_.rank;
    for (int d = 0; like && d < t.rank; ++d)
      like = t.shape[d] == out_.shape[d] && (t.shape[d] <= 1 || t.strides[d] == out_.strides[d]);
    if (!like)
      throw Error(QUERN_INVALID,
                  std::string(name) + " begins where out does; allowed with out's dtype, shape and strides only");
  }

  const Tensor& out_;
  const Results& results_;
  Problem& problem_;
};

void read_formula(const quern_epilogue& e, bool gate, Problem& problem) {
  if (e.activation < 0 || e.activation >= kActivations)
    refuse_value("epilogue.activation", std::int64_t{e.activation}, "enum quern_activation, 0 to 5");
  if (e.expression == nullptr) {
    if (e.operand_count != 0)
      refuse_value("epilogue.operand_count", std::int64_t{e.operand_count}, "0 without an expression");
    if (e.scalar_count != 0)
      refuse_value("epilogue.scalar_count", std::int64_t{e.scalar_count}, "0 without an expression");
    problem.shape.epilogue = &standard_formula(gate, e.activation, e.bias != nullptr, e.c != nullptr);
    return;
  }
  if (e.activation != QUERN_ACTIVATION_DEFAULT || e.bias != nullptr || e.c != nullptr) {
    throw Error(QUERN_INVALID,
                "epilogue.expression is given together with activation, bias or c; allowed is one or the other");
  }
  const std::uint32_t offered = gate ? expression::leaf_gate | expression::leaf_up : expression::leaf_acc;
  if ((e.expression->leaves & ~offered) != 0) {
    throw Error(QUERN_INVALID,
                "epilogue.expression is \"" + e.expression->text +
                    "\"; allowed are a number as its value, rowN, colN, tensorN, scalarN and the results " +
                    (gate ? "gate and up, as QUERN_EPILOGUE_GATE is set" : "acc, as QUERN_EPILOGUE_GATE is not set"));
  }
  problem.shape.epilogue = e.expression;
}

void read_operands(const quern_epilogue& e, const Results& results, Problem& problem, Reader& reader) {
  static constexpr const char* kNames[] = {"epilogue.operands[0]", "epilogue.operands[1]", "epilogue.operands[2]",
                                           "epilogue.operands[3]", "epilogue.operands[4]", "epilogue.operands[5]",
                                           "epilogue.operands[6]", "epilogue.operands[7]"};
  if (e.operand_count > q::kMaxOperands)
    refuse_value("epilogue.operand_count", std::int64_t{e.operand_count}, "0 to 8");
  if (e.scalar_count > q::kMaxScalars) refuse_value("epilogue.scalar_count", std::int64_t{e.scalar_count}, "0 to 8");
  if (e.operand_count > 0 && e.operands == nullptr) refuse_missing("epilogue.operands");
  if (e.scalar_count > 0 && e.scalars == nullptr) refuse_missing("epilogue.scalars");
  for (std::uint32_t i = 0; i < q::kMaxOperands; ++i) {
    const OperandKind kind = e.expression->operands[i];
    if (kind == OperandKind::unused) continue;
    if (i >= e.operand_count) refuse_missing(kNames[i]);
    reader.view(e.operands[i], kNames[i], static_cast<int>(i), kind, kAny, results.columns, 0);
  }
  for (std::uint32_t i = 0; i < q::kMaxScalars; ++i) {
    if (i < e.scalar_count) problem.params.scalars[i] = e.scalars[i];
    if ((e.expression->scalars >> i & 1) != 0 && i >= e.scalar_count)
      refuse_value("epilogue.scalar_count", std::int64_t{e.scalar_count},
                   "more than the highest scalar of the expression");
  }
}

void read_out_scale(const quern_epilogue& e, const Results& results, Problem& problem) {
  if (e.out_scale == nullptr) {
    if (e.flags & QUERN_EPILOGUE_POWER_OF_TWO)
      throw Error(QUERN_INVALID, "epilogue.flags has QUERN_EPILOGUE_POWER_OF_TWO; allowed with out_scale only");
    return;
  }
  if (bytes_of(problem.shape.out) != 1)
    throw Error(QUERN_INVALID, "epilogue.out_scale is given, and out is " + std::string(name_of(problem.shape.out)) +
                                   "; allowed: e4m3, e5m2");
  const int lead = results.leading ? 1 : 0;
  const Tensor t = read(e.out_scale, "epilogue.out_scale", 2 + lead, {Dtype::f32}, problem.call.place);
  if (lead != 0) expect_extent(t, "epilogue.out_scale", 0, results.groups);
  expect_extent(t, "epilogue.out_scale", lead, results.m);
  expect_extent(t, "epilogue.out_scale", lead + 1, (results.columns + 127) / 128);
  expect_apart(t, "epilogue.out_scale");
  q::GemmParams& p = problem.params;
  p.out_scale = reinterpret_cast<float*>(t.data);
  p.out_scale_group = lead != 0 ? stride_of(t, 0) : 0;
  p.out_scale_row = stride_of(t, lead);
  p.out_scale_column = stride_of(t, lead + 1);
  p.power_of_two = (e.flags & QUERN_EPILOGUE_POWER_OF_TWO) != 0;
  problem.shape.out_scale = true;
}

}  // namespace

bool wants_gate(const quern_epilogue* given) {
  if (given == nullptr) return false;
  const In<quern_epilogue> read(given, "quern_epilogue");
  if (read->flags & ~std::uint32_t{QUERN_EPILOGUE_GATE | QUERN_EPILOGUE_POWER_OF_TWO})
    refuse_value("epilogue.flags", std::int64_t{read->flags}, "enum quern_epilogue_flags");
  return (read->flags & QUERN_EPILOGUE_GATE) != 0;
}

std::int64_t stride_of(const Tensor& t, int dimension) { return t.shape[dimension] > 1 ? t.strides[dimension] : 0; }

void read_epilogue(const quern_epilogue* given, const Tensor& out, const Results& results, Problem& problem) {
  Shape& shape = problem.shape;
  q::GemmParams& p = problem.params;
  const int last = out.rank - 1;
  shape.out = out.dtype;
  expect_unit_stride(out, "out", last);
  expect_apart(out, "out");
  p.out = out.data;
  p.out_group = results.leading ? stride_of(out, 0) : 0;
  p.out_row = stride_of(out, last - 1);
  const std::uint64_t mask = bytes_of(out.dtype) == 1 ? 7 : 15;
  const auto aligned = [&](std::int64_t elements) {
    return (static_cast<std::uint64_t>(elements * bytes_of(out.dtype)) & mask) == 0;
  };
  p.out_vectors =
      (reinterpret_cast<std::uintptr_t>(out.data) & mask) == 0 && aligned(p.out_group) && aligned(p.out_row);
  if (given == nullptr) {
    shape.epilogue = &standard_formula(shape.gate, QUERN_ACTIVATION_DEFAULT, false, false);
    return;
  }
  const In<quern_epilogue> read(given, "quern_epilogue");
  const quern_epilogue& e = *read;
  read_formula(e, shape.gate, problem);
  Reader reader(out, results, problem);
  if (e.expression != nullptr) {
    read_operands(e, results, problem, reader);
  } else {
    const std::int64_t n = shape.gate ? 2 * results.columns : results.columns;
    for (int half = 0; half < (shape.gate ? 2 : 1); ++half) {
      if (e.c != nullptr)
        reader.view(e.c, "epilogue.c", kC + half, OperandKind::tensor, kDense, n, half * results.columns);
      if (e.bias != nullptr)
        reader.view(e.bias, "epilogue.bias", kBias + half, OperandKind::column, kDense, n, half * results.columns);
    }
  }
  read_out_scale(e, results, problem);
}

}  // namespace quern::ops::gemm
