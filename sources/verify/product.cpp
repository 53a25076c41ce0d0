// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/product.h"

#include <algorithm>
#include <cmath>

#include "sources/verify/sequences.h"

namespace quern::ops::verify {

Epilogue::Epilogue(const Given& given, Trial& trial, std::int64_t m, std::int64_t n)
    : m_(m), n_(n), gate_(given.flag("gate")), operands_(expression::kOperands, nullptr) {
  const std::string plain = gate_ ? "silu(gate)*up" : "acc", text = given.text("epilogue", plain.c_str());
  formula_ = std::make_shared<Formula>(text);
  const quern_expression& interned = expression::intern(text);
  kinds_.assign(interned.operands.begin(), interned.operands.end());
  quern_epilogue epilogue{};
  epilogue.size = sizeof(epilogue);
  std::vector<const DLTensor*> tensors(expression::kOperands, nullptr);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (kinds_[i] == expression::OperandKind::unused) continue;
    const Dtype dtype = given.dtype(("operand" + std::to_string(i)).c_str(), Dtype::f32);
    const bool row = kinds_[i] == expression::OperandKind::row, column = kinds_[i] == expression::OperandKind::column;
    operands_[i] = row      ? &trial.given(dtype, {m})
                   : column ? &trial.given(dtype, {columns()})
                            : &trial.given(dtype, {m, columns()});
    tensors[i] = operands_[i]->tensor();
    epilogue.operand_count = static_cast<std::uint32_t>(i + 1);
  }
  if (gate_) epilogue.flags |= QUERN_EPILOGUE_GATE;
  if (text != plain) epilogue.expression = &interned;
  if (interned.scalars != 0) {
    epilogue.scalars = trial.keep(std::vector<float>(expression::kScalars, 1.25f)).data();
    epilogue.scalar_count = expression::kScalars;
  }
  if (given.flag("out_scale")) {
    scale_ = &trial.result(Dtype::f32, {m, (columns() + 127) / 128}, 0x1p-9);
    epilogue.out_scale = scale_->tensor();
  }
  if (epilogue.operand_count != 0) epilogue.operands = trial.keep(tensors).data();
  if (gate_ || text != plain || scale_ != nullptr) asked_ = &trial.keep(epilogue);
}

double Epilogue::at(std::int64_t row, std::int64_t column, const std::function<double(std::int64_t)>& acc) const {
  Leaves leaves;
  leaves.scalars.fill(1.25);
  if (gate_)
    leaves.gate = acc(column), leaves.up = acc(column + n_ / 2);
  else
    leaves.acc = acc(column);
  leaves.operand = [&](int i) {
    const auto which = static_cast<std::size_t>(i);
    const Field& field = *operands_[which];
    if (kinds_[which] == expression::OperandKind::row) return field.get(row);
    return field.get(kinds_[which] == expression::OperandKind::column ? column : row * columns() + column);
  };
  return formula_->at(leaves);
}

void Epilogue::fill(Field& out, const std::function<double(std::int64_t, std::int64_t)>& acc, Random& random) const {
  out.unknown();
  if (scale_ != nullptr) scale_->unknown();
  const auto value = [&](std::int64_t row, std::int64_t column) {
    return at(row, column, [&](std::int64_t of) { return acc(row, of); });
  };
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  for (int tries = 0; tries < (scale_ != nullptr ? 2 : 256); ++tries) {
    const std::int64_t row = below(m_), column = below(columns());
    if (scale_ == nullptr) {
      const double limit = bytes_of(out.dtype) == 1 ? largest_of(out.dtype) : kInfinity;
      out.truth[static_cast<std::size_t>(row * columns() + column)] = std::clamp(value(row, column), -limit, limit);
      continue;
    }
    // All that share a scale.
    const std::int64_t part = column / 128, end = std::min(columns(), part * 128 + 128);
    std::vector<double> values;
    double most = 0;
    for (std::int64_t i = part * 128; i < end; ++i)
      values.push_back(value(row, i)), most = std::max(most, std::abs(values.back()));
    if (std::isnan(values.front())) continue;  // a row of no expert
    const double by = found_scale(most, out.dtype);
    scale_->truth[static_cast<std::size_t>(row * scale_->shape[1] + part)] = by;
    for (std::int64_t i = part * 128; i < end; ++i)
      out.truth[static_cast<std::size_t>(row * columns() + i)] = values[static_cast<std::size_t>(i - part * 128)] / by;
  }
}

}  // namespace quern::ops::verify
