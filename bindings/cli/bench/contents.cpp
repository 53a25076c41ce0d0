// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/contents.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "bindings/cli/bench/element.h"

namespace quern::cli {
namespace {

constexpr std::size_t kMostDrawn = std::size_t{2} << 20;  // elements; what is longer repeats them
constexpr std::size_t kDistinct = 1U << 16;               // encoded numbers to draw from: encoding each would take long

// Elements of one type, side by side.
class Elements {
 public:
  Elements(DLDataType type, std::size_t count) : type_(type), size_(type.bits / 8), bytes_(count * size_) {}

  void put(std::size_t at, double value) {
    if (is_float(type_)) {
      put_bits(at, encode(value, type_));
    } else {
      put_bits(at, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    }
  }
  void put_bits(std::size_t at, std::uint64_t bits) { std::memcpy(bytes_.data() + at * size_, &bits, size_); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  DLDataType type_;
  std::size_t size_;
  std::vector<unsigned char> bytes_;
};

// One of a distribution's numbers for each place.
template <class Draw>
void draw(Elements& elements, std::size_t count, DLDataType type, std::mt19937_64& random, Draw one) {
  std::vector<std::uint32_t> numbers(kDistinct);
  for (std::uint32_t& number : numbers) number = encode(one(random), type);
  // Marsaglia's xorshift: millions of draws are to take milliseconds.
  std::uint64_t state = random() | 1;
  for (std::size_t i = 0; i < count; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    elements.put_bits(i, numbers[state % kDistinct]);
  }
}

void boxes(Elements& elements, std::size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> corner(0, 1000), side(1, 120);
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    const double x = corner(random), y = corner(random);
    elements.put(i, x), elements.put(i + 1, y);
    elements.put(i + 2, x + side(random)), elements.put(i + 3, y + side(random));
  }
}

void whole(Elements& elements, std::size_t count, const ProblemTensor& tensor, std::mt19937_64& random) {
  std::vector<std::int64_t> values(count, 0);
  const double by = tensor.numbers[0], first = tensor.numbers[1];
  switch (tensor.filling) {
    case Filling::value:
      std::fill(values.begin(), values.end(), static_cast<std::int64_t>(by));
      break;
    case Filling::steps:
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<std::int64_t>(first + by * static_cast<double>(i));
      break;
    case Filling::shares:  // where each of count-1 equal parts of `by` begins
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<std::int64_t>(
            std::floor(by * static_cast<double>(i) / std::max(1.0, static_cast<double>(count - 1))));
      }
      break;
    case Filling::below:
      for (std::int64_t& value : values)
        value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(std::max(1.0, by)));
      break;
    case Filling::shuffled:
      std::iota(values.begin(), values.end(), 0);
      std::shuffle(values.begin(), values.end(), random);
      break;
    default:
      break;
  }
  for (std::size_t i = 0; i < count; ++i) elements.put_bits(i, static_cast<std::uint64_t>(values[i]));
}

}  // namespace

void fill(Machine& machine, void* memory, std::size_t bytes, const ProblemTensor& tensor, std::uint64_t seed) {
  const std::size_t size = tensor.type.bits / 8, all = bytes / size;
  if (all == 0) return;
  std::mt19937_64 random(seed);
  const bool floats = is_float(tensor.type);
  const std::size_t count = floats ? std::min(all, kMostDrawn) : all;
  Elements elements(tensor.type, count);
  std::normal_distribution<double> normal;
  if (!floats) {
    whole(elements, count, tensor, random);
  } else if (tensor.filling == Filling::boxes) {
    boxes(elements, count, random);
  } else if (tensor.filling == Filling::positive) {
    std::uniform_real_distribution<double> around_one(0.5, 1.5);
    draw(elements, count, tensor.type, random, around_one);
  } else if (tensor.filling == Filling::probabilities) {
    // As a softmax of normal logits has them, nearly: the mean of a row's exponentials is e^(1/2).
    const double share = std::exp(-0.5) / static_cast<double>(std::max<std::int64_t>(1, tensor.shape.back()));
    draw(elements, count, tensor.type, random, [&](std::mt19937_64& from) { return share * std::exp(normal(from)); });
  } else if (tensor.filling == Filling::value) {
    for (std::size_t i = 0; i < count; ++i) elements.put(i, tensor.numbers[0]);
  } else {
    draw(elements, count, tensor.type, random, normal);
  }
  machine.upload(memory, elements.bytes().data(), count * size);
  machine.repeat(memory, count * size, all * size);
}

}  // namespace quern::cli
