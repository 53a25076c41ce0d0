// Types of elements by their names on the command line, and numbers as they are stored in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quern.h"

namespace quern::cli {

// "bf16", "f16", "f32", "e4m3", "e5m2", "int8", "uint8", "int32", "uint32", "int64", "bool".
std::optional<DLDataType> element_type(std::string_view name);
std::string element_name(DLDataType type);
std::string known_elements();
// The bytes of one; 0 where there is no such type.
std::size_t element_size(std::string_view name);

bool is_float(DLDataType type);
// A number rounded to the nearest of a floating-point type, too large ones to the largest; its bits.
std::uint32_t encode(double value, DLDataType type);

}  // namespace quern::cli
