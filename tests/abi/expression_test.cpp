// Pointwise expressions through the C ABI: one handle a formula, errors that name the place, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include "tests/abi/support.h"

namespace quern::test {
namespace {

const quern_expression* made(quern_context* context, const char* text) {
  const quern_expression* expression = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_expression_create(context, text, &expression, &error), QUERN_OK) << error.text;
  return expression;
}

TEST(ExpressionHandle, IsTheSameForTheSameFormula) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  const quern_expression* const first = made(context.get(), "silu(acc + col0) * row1");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(made(context.get(), " silu((acc+col0)) *row1\n"), first);
  EXPECT_NE(made(context.get(), "silu(col0 + acc) * row1"), first);
}

TEST(ExpressionHandle, NeedsNoDevice) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  EXPECT_NE(made(context.get(), "acc * scalar0"), nullptr);
}

TEST(ExpressionHandle, IsNotTouchedByARefusal) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  const quern_expression* const before = made(context.get(), "acc");
  const quern_expression* handle = before;
  expect_refused(QUERN_INVALID, {"expression, byte 4", "found \"acc\"", "an operator or the end"},
                 [&](quern_error* error) { return quern_expression_create(context.get(), "acc acc", &handle, error); });
  EXPECT_EQ(handle, before);
  expect_refused(QUERN_INVALID, {"context is NULL"},
                 [&](quern_error* error) { return quern_expression_create(nullptr, "acc", &handle, error); });
  expect_refused(QUERN_INVALID, {"text is NULL"},
                 [&](quern_error* error) { return quern_expression_create(context.get(), nullptr, &handle, error); });
  expect_refused(QUERN_INVALID, {"expression is NULL"},
                 [&](quern_error* error) { return quern_expression_create(context.get(), "acc", nullptr, error); });
  EXPECT_EQ(handle, before);
}

}  // namespace
}  // namespace quern::test
