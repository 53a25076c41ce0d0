// SPDX-License-Identifier: Apache-2.0
#include "sources/rope/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "jit/error.h"
#include "sources/args.h"
#include "sources/index_data.h"

namespace quern::ops::rope {
namespace {

constexpr std::uint32_t kFlags = QUERN_ROPE_INTERLEAVED | QUERN_ROPE_EXACT_RAMP;

// A number of the options, or its default where it is 0.
double read_number(double given, double otherwise, const char* name) {
  if (given == 0.0) return otherwise;
  if (!(given > 0.0) || std::isinf(given)) refuse_value(name, given, "0 (the default) or a positive number");
  return given;
}

struct Options {
  int rotary;
  int scaling;
  // In the widest type there is: times a position of 2^31 an error of 2^-53 would be one of 2^-22 turns.
  long double theta, factor, attention, low, high, fast, slow;
  long double positions;  // L
  bool exact_ramp;
};

Options read_numbers(const quern_rope_options& given, int rotary) {
  if (given.scaling < QUERN_ROPE_PLAIN || given.scaling > QUERN_ROPE_LLAMA3) {
    refuse_value("rope.scaling", std::int64_t{given.scaling}, "enum quern_rope_scaling");
  }
  Options o{};
  o.rotary = rotary;
  o.scaling = given.scaling;
  o.theta = read_number(given.theta, 10000.0, "rope.theta");
  if (o.theta <= 1.0) refuse_value("rope.theta", static_cast<double>(o.theta), "0 (10000) or more than 1");
  o.factor = read_number(given.factor, 1.0, "rope.factor");
  o.low = read_number(given.low_freq_factor, 1.0, "rope.low_freq_factor");
  o.high = read_number(given.high_freq_factor, 4.0, "rope.high_freq_factor");
  o.fast = read_number(given.beta_fast, 32.0, "rope.beta_fast");
  o.slow = read_number(given.beta_slow, 1.0, "rope.beta_slow");
  o.attention = read_number(given.attention_factor, 1.0, "rope.attention_factor");
  o.exact_ramp = (given.flags & QUERN_ROPE_EXACT_RAMP) != 0;
  if (o.scaling == QUERN_ROPE_YARN && given.attention_factor == 0.0 && o.factor > 1.0)
    o.attention = 0.1L * std::log(o.factor) + 1.0L;
  if (o.scaling == QUERN_ROPE_YARN || o.scaling == QUERN_ROPE_LLAMA3) {
    if (given.original_positions < 1) {
      refuse_value("rope.original_positions", std::int64_t{given.original_positions},
                   "1 and more with QUERN_ROPE_YARN and QUERN_ROPE_LLAMA3");
    }
    o.positions = given.original_positions;
  }
  if (o.scaling == QUERN_ROPE_LLAMA3 && o.high <= o.low) {
    refuse_value("rope.high_freq_factor", static_cast<double>(o.high), "more than low_freq_factor");
  }
  if (o.scaling == QUERN_ROPE_NTK) {
    if (rotary <= 2) refuse_value("rope.rotary_dim", std::int64_t{rotary}, "more than 2 with QUERN_ROPE_NTK");
    o.theta *= std::pow(o.factor, rotary / (rotary - 2.0L));
  }
  return o;
}

// Where YaRN's ramp begins and ends, in pairs.
struct Ramp {
  long double begin, end;
};
Ramp ramp_of(const Options& o) {
  const auto pair_that_turns = [&](long double times) {
    return o.rotary * std::log(o.positions / (times * 2.0L * std::numbers::pi_v<long double>)) /
           (2.0L * std::log(o.theta));
  };
  Ramp ramp{pair_that_turns(o.fast), pair_that_turns(o.slow)};
  if (!o.exact_ramp) ramp = {std::floor(ramp.begin), std::ceil(ramp.end)};
  ramp = {std::max(ramp.begin, 0.0L), std::min(ramp.end, o.rotary - 1.0L)};
  if (ramp.begin == ramp.end) ramp.end += 0.001L;
  return ramp;
}

// Of pair i, `plain` being theta^(-2i/r): radians from one position to the next.
long double scaled(const Options& o, const Ramp& ramp, int pair, long double plain) {
  switch (o.scaling) {
    case QUERN_ROPE_LINEAR:
      return plain / o.factor;
    case QUERN_ROPE_YARN: {
      const long double divided = std::clamp((pair - ramp.begin) / (ramp.end - ramp.begin), 0.0L, 1.0L);
      return plain * (1.0L - divided) + plain / o.factor * divided;
    }
    case QUERN_ROPE_LLAMA3: {
      const long double turns = o.positions * plain / (2.0L * std::numbers::pi_v<long double>);  // L / wavelength
      const long double kept = std::clamp((turns - o.low) / (o.high - o.low), 0.0L, 1.0L);
      return plain / o.factor * (1.0L - kept) + plain * kept;
    }
    default:
      return plain;
  }
}

void set_frequencies(const Options& o, q::Rope* rope) {
  const Ramp ramp = o.scaling == QUERN_ROPE_YARN ? ramp_of(o) : Ramp{};
  const long double ratio = std::pow(o.theta, -2.0L / o.rotary);
  long double plain = 1.0L;
  for (int pair = 0; pair < o.rotary / 2; ++pair, plain *= ratio) {
    const long double turns = scaled(o, ramp, pair, plain) / (2.0L * std::numbers::pi_v<long double>);
    rope->frequency[pair] = static_cast<q::u64>(std::ldexp(turns - std::floor(turns), 64));
  }
  rope->factor = static_cast<float>(o.attention);
}

}  // namespace

RopeShape read_options(const quern_rope_options* given, int dim, const Place& place, q::Rope* rope) {
  quern_rope_options plain{};
  plain.size = sizeof(plain);
  const In<quern_rope_options> options(given != nullptr ? given : &plain, "quern_rope_options");
  if (options->flags & ~kFlags) refuse_value("rope.flags", std::int64_t{options->flags}, "enum quern_rope_flags");
  RopeShape shape;
  shape.interleaved = (options->flags & QUERN_ROPE_INTERLEAVED) != 0;
  shape.rotary = options->rotary_dim != 0 ? options->rotary_dim : dim;
  const int most = std::min(dim, 2 * q::kMostPairs);
  if (shape.rotary < 2 || shape.rotary > most || shape.rotary % 2 != 0) {
    refuse_value("rope.rotary_dim", std::int64_t{shape.rotary},
                 "0 (all of a head's), or even numbers up to a head's dimensions and 256");
  }
  if (options->table == nullptr) {
    set_frequencies(read_numbers(*options, shape.rotary), rope);
    return shape;
  }
  if (options->scaling != QUERN_ROPE_PLAIN) {
    refuse_value("rope.scaling", std::int64_t{options->scaling}, "0 with table, which is to be scaled already");
  }
  const Tensor table = read(options->table, "rope.table", 2, {Dtype::f32, Dtype::f16, Dtype::bf16}, place);
  expect_extent(table, "rope.table", 1, shape.rotary);
  expect_unit_stride(table, "rope.table", 1);
  shape.table = table.dtype;
  rope->table = table.data;
  rope->table_stride = table.strides[0];
  rope->table_positions = table.shape[0];
  rope->factor = 1.0f;
  return shape;
}

int vector_width(const RopeShape& shape, int dim_k, int dim_v, Dtype element, int alignment) {
  int width = std::min(16, alignment) / static_cast<int>(bytes_of(element));
  const auto fits = [&](int w) {
    if (dim_k % w != 0 || dim_v % w != 0) return false;
    if (shape.rotary == 0) return true;
    return shape.interleaved ? dim_k % (2 * w) == 0 : shape.rotary / 2 % w == 0;
  };
  while (!fits(width)) width /= 2;
  return width;
}

namespace {

// As rope/rotate.cuh has it: Head::kUnits.
int units_of(int dim, int rotary, bool interleaved, int width) {
  const int vectors = dim / width, paired = interleaved ? vectors / 2 : rotary / 2 / width;
  return paired + (vectors - 2 * paired + 1) / 2;
}

}  // namespace

void define_table(const RopeShape& shape, jit::Unit* unit) {
  const bool table = shape.table != Dtype::other;
  unit->constants.push_back({"HAS_TABLE", table ? "1" : "0"});
  unit->constants.push_back({"TABLE_ELEMENT", table ? name_of(shape.table) : "f32"});
}

void list_positions(const q::Integers& positions, std::int64_t tokens, const q::Rope& rope, IndexList* list) {
  list->in_range("positions", positions, tokens, 0, rope.table_positions - 1, "token",
                 "rope.table's rows; a negative position turns nothing")
      .flags |= q::kLessAllowed;
}

void take_width(const char* op, int widest, int* width) {
  if (*width == 0) *width = widest;
  if (widest % *width == 0) return;
  throw Error(QUERN_INVALID, std::string(op) + ": width is " + std::to_string(*width) +
                                 "; allowed: powers of two up to " + std::to_string(widest));
}

int team_lanes(const RopeShape& shape, int dim_k, int dim_v, int width) {
  const int units = std::max(units_of(dim_k, shape.rotary, shape.interleaved && shape.rotary != 0, width),
                             units_of(dim_v, 0, false, width));
  int lanes = 1;
  while (lanes < units && lanes < 32) lanes *= 2;
  return lanes;
}

int strips_of(std::int64_t heads, std::int64_t all_heads, std::int64_t tokens, std::int64_t teams) {
  if (heads == 0) return 0;
  const std::int64_t each = std::clamp<std::int64_t>(tokens * all_heads / std::max<std::int64_t>(teams, 1), 1, 4);
  return static_cast<int>((heads + each - 1) / each);
}

}  // namespace quern::ops::rope
