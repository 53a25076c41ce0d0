// The element types of what is computed and moved element by element, by their names in manifests and in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/description.h"

namespace quern::ops {

inline constexpr Names<Dtype, 11> kElementNames = {{{"f32", Dtype::f32},
                                                    {"f16", Dtype::f16},
                                                    {"bf16", Dtype::bf16},
                                                    {"e4m3", Dtype::e4m3},
                                                    {"e5m2", Dtype::e5m2},
                                                    {"int8", Dtype::i8},
                                                    {"uint8", Dtype::u8},
                                                    {"int16", Dtype::i16},
                                                    {"int32", Dtype::i32},
                                                    {"int64", Dtype::i64},
                                                    {"bool", Dtype::boolean}}};

inline const char* device_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::i8:
      return "i8";
    case Dtype::u8:
      return "u8";
    case Dtype::i16:
      return "i16";
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
    case Dtype::boolean:
      return "boolean";
    default:
      return name_of(dtype);
  }
}

}  // namespace quern::ops
