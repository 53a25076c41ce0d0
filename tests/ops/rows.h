// Rows of numbers that selection finds easy and hard, and an op's call with the tensors of such rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {

enum class Numbers { normal, peaked, equal, two, staircase, denormal, huge, holes, rising, least, infinite, nan };
constexpr Numbers kAllNumbers[] = {Numbers::normal,    Numbers::peaked,   Numbers::equal,    Numbers::two,
                                   Numbers::staircase, Numbers::denormal, Numbers::huge,     Numbers::holes,
                                   Numbers::rising,    Numbers::least,    Numbers::infinite, Numbers::nan};
inline const char* name_of(Numbers kind) {
  constexpr const char* kNames[] = {"normal", "peaked", "equal",  "two",   "staircase", "denormal",
                                    "huge",   "holes",  "rising", "least", "infinite",  "nan"};
  return kNames[static_cast<int>(kind)];
}

// Number i of n.
inline double draw(Numbers kind, Random& random, std::int64_t i, std::int64_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  switch (kind) {
    case Numbers::normal:
      return 3 * random.normal();
    case Numbers::peaked:
      return random.below(200) == 0 ? 12 + random.normal() : random.normal();
    case Numbers::equal:
      return 1.5;
    case Numbers::two:
      return random.below(2) == 0 ? 1.0 : 1.25;
    case Numbers::staircase:  // 64 neighbours
      return 1.0 + static_cast<double>(random.below(64)) * 0x1p-20;
    case Numbers::denormal:
      return static_cast<double>(random.below(1000)) * 0x1p-149;
    case Numbers::huge:
      return random.normal() * 1e30;
    case Numbers::holes:
      return random.below(3) == 0 ? -kInfinity : random.below(5) == 0 ? kNan : random.normal();
    case Numbers::rising:
      return static_cast<double>(i - n / 2) * 0.25;
    case Numbers::least:
      return -kInfinity;
    case Numbers::infinite:
      return random.below(7) == 0 ? kInfinity : random.normal();
    case Numbers::nan:
      return kNan;
  }
  return 0;
}

// Where rows lie: `padding` elements after each, the first `offset` elements behind a 16-byte boundary.
struct Layout2 {
  std::int64_t padding = 0, offset = 0;
};

// Rows of an element type on the device, not necessarily at aligned places.
class Rows {
 public:
  Rows(Element element, std::int64_t rows, std::int64_t n, Layout2 where = {})
      : array_(element, {rows + 1, n + where.padding}), rows_(rows), n_(n), offset_(where.offset) {
    DLTensor& t = array_.box().tensor;
    array_.box().shape[0] = rows, array_.box().shape[1] = n;
    t.byte_offset = static_cast<std::uint64_t>(offset_) * element.bytes();
  }
  double get(std::int64_t r, std::int64_t i) const {
    return array_.get(r + (i + offset_) / pitch(), (i + offset_) % pitch());
  }
  void set(double v, std::int64_t r, std::int64_t i) {
    array_.set(v, r + (i + offset_) / pitch(), (i + offset_) % pitch());
  }
  void fill(Random& random, Numbers kind, std::int64_t r) {
    for (std::int64_t i = 0; i < n_; ++i) set(draw(kind, random, i, n_), r, i);
  }
  // Whether what lies between and behind the rows is as it was.
  bool is_clean_outside() const {
    for (std::int64_t at = 0; at < (rows_ + 1) * pitch(); ++at) {
      const std::int64_t from = at - offset_;
      const bool inside = from >= 0 && from / pitch() < rows_ && from % pitch() < n_;
      if (!inside && !array_.is_untouched(at / pitch(), at % pitch())) return false;
    }
    return true;
  }
  bool is_untouched() const {
    for (std::int64_t at = 0; at < (rows_ + 1) * pitch(); ++at)
      if (!array_.is_untouched(at / pitch(), at % pitch())) return false;
    return true;
  }
  Array& array() { return array_; }
  const std::vector<unsigned char>& memory() const { return array_.memory(); }
  const DLTensor* tensor() { return array_.tensor(); }
  Element element() const { return array_.element(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t n() const { return n_; }

 private:
  std::int64_t pitch() const { return array_.extent(1); }

  Array array_;
  std::int64_t rows_, n_, offset_;
};

// The three calls, the last with kernels that are there; the workspace's counters must be zero when it is done.
template <class Args>
void run_op(quern_context* context, const ThreeCalls<Args>& op, Args args) {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(op.workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
  Buffer workspace(bytes, 0);
  args.workspace = bytes != 0 ? workspace.data() : nullptr, args.workspace_size = bytes;
  ASSERT_EQ(op.prepare(context, &args, &error), QUERN_OK) << error.text;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(op.run(context, &args, &error), QUERN_OK) << error.text;
  synchronize();
}

// A context whose schedule is unfair, by a seed of the run's.
inline Context unfair_context(std::uint64_t seed) {
  return make_context([&](quern_context_options& o) {
    o.flags |= QUERN_CONTEXT_HOST_SEED;
    o.host_seed = run_seed() * 3 + seed;
  });
}

// The indices of numbers, the largest first, equal ones by index; NaN is left out.
inline std::vector<std::int64_t> ranked(const std::vector<double>& numbers) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isnan(numbers[i])) order.push_back(static_cast<std::int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return numbers[static_cast<std::size_t>(a)] > numbers[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace quern::test
