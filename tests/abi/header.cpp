// The header alone, as a C++20 compiler sees it, and that a C++ program links what C declares.
// SPDX-License-Identifier: Apache-2.0
#include "quern.h"

static_assert(sizeof(DLTensor) == 48 && sizeof(quern_error) == 4096);
extern const decltype(&quern_context_create) quern_test_create_cpp;
const decltype(&quern_context_create) quern_test_create_cpp = quern_context_create;
