// The bits of an element that outputs are filled with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/tensor.h"

namespace quern::ops::copy {

// Rounded as a kernel stores results. Throws Error(QUERN_INVALID) for a number other than 0 of a type without a name.
std::uint64_t fill_bits(double value, Dtype dtype);

}  // namespace quern::ops::copy
