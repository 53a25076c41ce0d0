// A call of pointwise with its tensors, and what is expected of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ops/field.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rows.h"

namespace quern::test {

inline constexpr ThreeCalls<quern_pointwise_args> kPointwise = {quern_pointwise, quern_pointwise_workspace,
                                                                quern_pointwise_prepare};

inline const quern_expression* expression(const std::string& text, quern_context* in = context()) {
  const quern_expression* made = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_expression_create(in, text.c_str(), &made, &error), QUERN_OK) << error.text;
  return made;
}

// A call with its tensors.
class Pointing {
 public:
  explicit Pointing(std::vector<std::string> texts) : args(sized<quern_pointwise_args>()), texts_(std::move(texts)) {}

  Field& operand(Stored type, Extents shape, Extents strides = {}, std::int64_t offset = 0) {
    operands.push_back(std::make_unique<Field>(type, std::move(shape), std::move(strides), offset));
    return *operands.back();
  }
  Field& out(Stored type, Extents shape, Extents strides = {}, std::int64_t offset = 0) {
    outs.push_back(std::make_unique<Field>(type, std::move(shape), std::move(strides), offset));
    return *outs.back();
  }
  void fill(std::string_view name) {
    Random random(name);
    for (const auto& one : operands) one->fill(random);
  }
  // Everything but `alignment` and scalars.
  void set(quern_context* in = context()) {
    const DLTensor** const places[] = {&args.out, &args.out1, &args.out2, &args.out3};
    const quern_expression** const formulas[] = {&args.expression, &args.expression1, &args.expression2,
                                                 &args.expression3};
    for (std::size_t i = 0; i < outs.size(); ++i) {
      *places[i] = outs[i]->tensor();
      *formulas[i] = expression(texts_[i], in);
    }
    given_.clear();
    for (const auto& one : operands) given_.push_back(one->tensor());
    args.operands = given_.data(), args.operand_count = static_cast<std::uint32_t>(given_.size());
    args.scalars = scalars.data(), args.scalar_count = static_cast<std::uint32_t>(scalars.size());
    for (const auto& one : operands) one->upload();
    for (const auto& one : outs) one->upload();
  }
  void run(quern_context* in = context()) {
    set(in);
    ASSERT_NO_FATAL_FAILURE(run_op(in, kPointwise, args));
    for (const auto& one : outs) one->download();
  }
  // Each element of a result against what `exact` makes of the operands' numbers: to the bit, or with `ulp` within so
  // many of f32 and the rounding of the type.
  void check(std::size_t which, const std::function<double(const std::vector<double>&)>& exact, double ulp = 0) {
    const Field& field = *outs[which];
    std::int64_t wrong = 0;
    each_index(field.shape(), [&](const Extents& index) {
      std::vector<double> x;
      for (const auto& one : operands) x.push_back(one->number(index));
      const double expected = exact(x);
      const Held got = field.get(index), stored_exactly = stored(field.type(), expected);
      if (got == stored_exactly) return;
      const double step = 1 + std::ldexp(ulp, -23);
      const Held low = stored(field.type(), expected / step - 0x1p-126), high = stored(field.type(), expected * step);
      const double error = std::abs(got.real - expected), allowed = ulp * (std::abs(expected) * 0x1p-23 + 0x1p-126);
      if (ulp > 0 && (got == low || got == high || error <= allowed)) return;
      if (wrong++ < 3) {
        ADD_FAILURE() << texts_[which] << " of " << (x.empty() ? 0 : x[0]) << " is " << got.real << " or " << got.whole
                      << ", not " << expected;
      }
    });
    EXPECT_EQ(wrong, 0) << "QUERN_TEST_SEED=" << run_seed();
    EXPECT_TRUE(field.is_clean_outside());
  }

  quern_pointwise_args args;
  std::vector<std::unique_ptr<Field>> operands, outs;
  std::vector<float> scalars;

 private:
  std::vector<std::string> texts_;
  std::vector<const DLTensor*> given_;
};

}  // namespace quern::test
