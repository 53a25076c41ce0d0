// Random input with a seed that is printed and can be given again: QUERN_TEST_SEED.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/ops/number.h"

namespace quern::test {

// The run's seed: QUERN_TEST_SEED, else drawn when the program starts.
std::uint64_t run_seed();

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014 (splitmix64).
class Random {
 public:
  // A stream of its own for each name, whatever other tests do.
  explicit Random(std::string_view name);
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  // 0 .. bound-1
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal();
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

// Normally distributed numbers of a format, drawn once: long inputs are made of pieces of it.
class NormalNumbers {
 public:
  explicit NormalNumbers(Format format);
  // `count` numbers from a place of the generator's choosing.
  void fill(Random& random, std::uint16_t* to, std::size_t count) const;

 private:
  std::vector<std::uint16_t> numbers_;
};
const NormalNumbers& normal_numbers(Format format);

}  // namespace quern::test
