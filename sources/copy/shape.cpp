// A copy's constants, as they stand in a Spec, a manifest line and the source.
// SPDX-License-Identifier: Apache-2.0
#include "sources/copy/shape.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/element_names.h"
#include "sources/embedded.h"

namespace quern::ops::copy {
namespace {

constexpr Names<Form, 3> kForms = {{{"rows", Form::rows}, {"transpose", Form::transpose}, {"tiles", Form::tiles}}};
constexpr Names<int, 6> kRanks = {{{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}, {"5", 5}, {"6", 6}}};
constexpr Names<int, 5> kWidths = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}, {"1", 1}}};
constexpr Names<int, 3> kParts = {{{"1", 1}, {"4", 4}, {"16", 16}}};

constexpr bool is_rows(const Shape& shape) { return shape.form == Form::rows; }
constexpr bool is_transpose(const Shape& shape) { return shape.form == Form::transpose; }

constexpr auto kConstants = describe<Shape>(
    tag_copy, "copy", choice<&Shape::form>("form", nullptr, kForms).optional(),
    choice<&Shape::from>("from", nullptr, kElementNames), choice<&Shape::to>("to", nullptr, kElementNames),
    choice<&Shape::rank>("rank", nullptr, kRanks).optional(), choice<&Shape::width>("width", nullptr, kWidths),
    choice<&Shape::from_width>("from_width", nullptr, kWidths).when(is_transpose),
    choice<&Shape::parts>("parts", nullptr, kParts).optional().when(is_rows),
    flag<&Shape::wide>("wide", nullptr).optional().when(is_rows));

// So are all elements whose bits are only moved.
bool is_bits(Dtype dtype) {
  return dtype == Dtype::u8 || dtype == Dtype::i16 || dtype == Dtype::i32 || dtype == Dtype::i64;
}

}  // namespace

int steps(const Shape& shape) {
  const std::int64_t words = (shape.width * bytes_of(shape.from) + 3) / 4;
  return words >= 2 ? 2 : 4;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if (shape.from == shape.to && !is_bits(shape.from)) {
    throw Error(QUERN_INVALID,
                std::string("copy: from and to are both ") + name_of(shape.from) +
                    "; elements that are not changed are named by their size: uint8, int16, int32, int64");
  }
  const std::int64_t most = is_rows(shape) ? 16 / std::max(bytes_of(shape.from), bytes_of(shape.to))
                                           : std::min(16 / bytes_of(shape.from), 16 / bytes_of(shape.to));
  if (shape.width > most) {
    throw Error(QUERN_INVALID, "copy: width is " + std::to_string(shape.width) + "; allowed: powers of two up to " +
                                   std::to_string(most));
  }
  if (is_transpose(shape) && shape.from_width > 16 / bytes_of(shape.from)) {
    throw Error(QUERN_INVALID, "copy: from_width is " + std::to_string(shape.from_width) +
                                   "; allowed: powers of two up to " + std::to_string(16 / bytes_of(shape.from)));
  }
  if (!is_rows(shape) && shape.rank < 2)
    throw Error(QUERN_INVALID, "copy: rank is 1; allowed: 2 to 6 in the forms transpose and tiles");
  if (shape.form == Form::tiles && shape.width != 1) {
    throw Error(QUERN_INVALID, "copy: width is " + std::to_string(shape.width) + "; allowed in the form tiles: 1");
  }
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "copy";
  unit.target = jit::Target::from_tag(spec.target);
  const auto define = [&](const char* name, auto value) { unit.constants.push_back({name, std::to_string(value)}); };
  unit.constants.push_back({"FROM", device_type(shape.from)});
  unit.constants.push_back({"TO", device_type(shape.to)});
  define("THREADS", kThreads);
  if (is_rows(shape)) {
    unit.entry = "quern_copy_rows";
    unit.source = embedded("copy/rows.cuh");
    define("BLOCKS_PER_SM", shape.rank > 2 ? 6 : 8);
    define("RANK", shape.rank);
    define("WIDTH", shape.width);
    define("STEPS", steps(shape));
    define("PARTS", shape.parts);
    define("WIDE", shape.wide ? 1 : 0);
  } else if (shape.form == Form::tiles) {
    unit.entry = "quern_copy_tiles";
    unit.source = embedded("copy/tiles.cuh");
    define("BLOCKS_PER_SM", 8);
    define("OUTER", shape.rank - 2);
  } else {
    unit.entry = "quern_transpose";
    unit.source = embedded("copy/transpose.cuh");
    define("BLOCKS_PER_SM", kTransposeBlocks);
    define("OUTER", shape.rank - 2);
    define("FROM_WIDTH", shape.from_width);
    define("TO_WIDTH", shape.width);
  }
  unit.headers = device_headers(unit.target);
  return unit;
}

}  // namespace quern::ops::copy
