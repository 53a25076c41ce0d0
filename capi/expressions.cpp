// Pointwise expressions.
// SPDX-License-Identifier: Apache-2.0
#include "capi/context.h"
#include "sources/expression/expression.h"

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_expression_create(quern_context* context, const char* text, const quern_expression** expression,
                                quern_error* error) {
  return guarded(error, [&] {
    live(context);
    if (text == nullptr) fail_null("text");
    const quern_expression*& out = out_parameter(expression, "expression");
    out = &ops::expression::intern(text);
    return QUERN_OK;
  });
}

}  // extern "C"
