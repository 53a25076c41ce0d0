/* The header alone, as a strict C99 compiler sees it; twice, as any program might include it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "quern.h"

/* Every function can be named without a prototype of another header. */
int32_t (*const quern_test_create)(const quern_context_options *, quern_context **,
                                   quern_error *) = quern_context_create;
