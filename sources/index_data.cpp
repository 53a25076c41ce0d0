// SPDX-License-Identifier: Apache-2.0
#include "sources/index_data.h"

#include "jit/error.h"

namespace quern::ops {
namespace {

std::string place_of(const char* name, std::int64_t index, const char* item) {
  return std::string(name) + "[" + std::to_string(index) + "] (" + item + " " + std::to_string(index) + ")";
}

}  // namespace

void refuse_index(const std::string& place, std::int64_t given, std::int64_t least, std::int64_t most,
                  const std::string& bound) {
  const std::string allowed = most < least ? "none" : std::to_string(least) + " to " + std::to_string(most);
  throw Error(QUERN_INVALID, place + " is " + std::to_string(given) + "; allowed: " + allowed + ", " + bound);
}

void expect_in_range(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t least,
                     std::int64_t most, const char* item, const char* bound) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] < least || values[i] > most) refuse_index(place_of(name, i, item), values[i], least, most, bound);
  }
}

void expect_in_range(const char* name, const q::Integers& values, std::int64_t count, std::int64_t least,
                     std::int64_t most, const char* item, const char* bound) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = q::integer_at(values, i);
    if (value < least || value > most) refuse_index(place_of(name, i, item), value, least, most, bound);
  }
}

void expect_offsets(const char* name, const std::int32_t* offsets, std::int64_t count, std::int64_t most,
                    const char* item, const char* bound) {
  if (offsets[0] < 0 || offsets[0] > most) refuse_index(place_of(name, 0, item), offsets[0], 0, most, bound);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t begin = offsets[i], end = offsets[i + 1];
    if (end >= begin && end <= most) continue;
    refuse_index(
        std::string(name) + "[" + std::to_string(i + 1) + "] (the end of " + item + " " + std::to_string(i) + ")", end,
        begin, most, std::string("from where it begins to ") + bound);
  }
}

}  // namespace quern::ops
