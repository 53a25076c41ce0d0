// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/random.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <random>

namespace quern::test {

std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    if (const char* given = std::getenv("QUERN_TEST_SEED"))
      return static_cast<std::uint64_t>(std::strtoull(given, nullptr, 0));
    return static_cast<std::uint64_t>(std::random_device{}());
  }();
  return seed;
}

Random::Random(std::string_view name) : state_(run_seed()) {
  for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  next();
}

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

NormalNumbers::NormalNumbers(Format format) : numbers_(std::size_t{1} << 17) {
  Random random(format == Format::f16 ? "f16 numbers" : "bf16 numbers");
  for (std::uint16_t& number : numbers_) number = encode(random.normal(), format);
}

void NormalNumbers::fill(Random& random, std::uint16_t* to, std::size_t count) const {
  while (count > 0) {
    const std::size_t from = random.below(numbers_.size() / 2);
    const std::size_t some = std::min(count, numbers_.size() / 2);
    std::memcpy(to, numbers_.data() + from, some * sizeof(std::uint16_t));
    to += some;
    count -= some;
  }
}

const NormalNumbers& normal_numbers(Format format) {
  static const NormalNumbers f16(Format::f16), bf16(Format::bf16);
  return format == Format::f16 ? f16 : bf16;
}

}  // namespace quern::test
