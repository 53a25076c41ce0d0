// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/sample_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr LogitShape kShapes[] = {LogitShape::normal,    LogitShape::peaked,   LogitShape::equal, LogitShape::two,
                                  LogitShape::staircase, LogitShape::denormal, LogitShape::huge,  LogitShape::offset,
                                  LogitShape::rising,    LogitShape::holes,    LogitShape::one};

}  // namespace

std::vector<float> make_logits(Random& random, LogitShape shape, std::int64_t vocab, Element element) {
  std::vector<float> x(static_cast<std::size_t>(vocab));
  for (std::size_t t = 0; t < x.size(); ++t) {
    double v = random.normal() * 3;
    switch (shape) {
      case LogitShape::normal:
        break;
      case LogitShape::peaked:
        v = random.below(200) == 0 ? 12 + random.normal() : random.normal();
        break;
      case LogitShape::equal:
        v = 1.5;
        break;
      case LogitShape::two:
        v = random.below(2) == 0 ? 1.0 : 1.25;
        break;
      case LogitShape::staircase:
        v = 1.0 + static_cast<double>(random.below(64)) * 0x1p-20;
        break;
      case LogitShape::heaps:  // thousands within a few of the smallest steps, and as many a little lower
        v = 2.0 - (random.below(2) == 0 ? 0.0 : 1e-3) + static_cast<double>(random.below(40)) * 0x1p-22;
        break;
      case LogitShape::denormal:
        v = static_cast<double>(random.below(1000)) * 0x1p-149;
        break;
      case LogitShape::huge:
        v = element.kind() == Element::f16 ? v * 10000 : v * 1e30;
        break;
      case LogitShape::offset:
        v = 1000 + v;
        break;
      case LogitShape::rising:
        v = static_cast<double>(t) * 12 / static_cast<double>(vocab);
        break;
      case LogitShape::holes:
        v = random.below(3) == 0 ? -kInfinity : random.below(9) == 0 ? kNan : v;
        break;
      case LogitShape::one:
        v = static_cast<std::int64_t>(t) == vocab / 2 ? 0.5 : -kInfinity;
        break;
    }
    x[t] = static_cast<float>(element.rounded(v));
  }
  return x;
}

SampleInput make_input(Random& random, std::int64_t vocab, Element element, std::size_t rows) {
  SampleInput in;
  in.element = element, in.vocab = vocab;
  for (std::size_t i = 0; i < rows; ++i)
    in.logits.push_back(make_logits(random, kShapes[random.below(std::size(kShapes))], vocab, element));
  return in;
}
void add_filters(Random& random, SampleInput* in) {
  const std::size_t n = in->count();
  in->temperature = drawn(random, n, {1.0f, 0.7f, 1.3f, 0.0f, 2.0f, 0.25f});
  if (random.below(4) != 0) in->top_k = drawn(random, n, {0, -1, 1, 2, 50, 40, 300, 1500, 1 << 21});
  if (random.below(4) != 0) in->top_p = drawn(random, n, {1.0f, 0.9f, 0.5f, 0.95f, 1e-6f, 0.0f, 0.999f});
  if (random.below(2) != 0) in->min_p = drawn(random, n, {0.0f, 0.05f, 1.0f, 0.3f, 1e-4f});
  if (random.below(4) == 0) in->typical_p = drawn(random, n, {1.0f, 0.9f, 0.3f});
  if (random.below(4) == 0) in->n_sigma = drawn(random, n, {0.0f, 1.0f, 2.5f});
  if (random.below(4) == 0)
    in->xtc_probability = drawn(random, n, {0.0f, 1.0f, 0.5f}),
    in->xtc_threshold = drawn(random, n, {0.1f, 0.02f, 0.5f, 0.6f});
  if (random.below(4) == 0)
    in->dynamic_range = drawn(random, n, {0.0f, 0.5f, 2.0f}), in->dynamic_exponent = drawn(random, n, {1.0f, 2.0f});
  if (random.below(3) == 0) in->flags |= QUERN_SAMPLE_JOINT;
  if (random.below(4) == 0) in->flags |= QUERN_SAMPLE_TEMPERATURE_LAST;
}
void add_edits(Random& random, SampleInput* in) {
  const auto vocab = static_cast<std::uint64_t>(in->vocab);
  const std::size_t n = in->count();
  const auto tokens = [&](std::size_t most) {
    std::vector<std::int32_t> list(random.below(most + 1));
    const std::uint64_t first = random.below(vocab), reach = 1 + random.below(vocab);
    for (auto& t : list) t = static_cast<std::int32_t>((first + random.below(reach)) % vocab);
    return list;
  };
  // Powers of two where the quotient of a subnormal number could be rounded twice.
  in->repetition = drawn(random, n, {1.0f, 1.2f, 0.8f, 3.0f});
  for (std::size_t i = 0; i < n; ++i) {
    const auto& x = in->logits[i];
    if (std::fabs(x[0]) < 1e-37f && std::fabs(x[x.size() / 2]) < 1e-37f) in->repetition[i] = 1.0f;
  }
  in->presence = drawn(random, n, {0.0f, 0.5f, -0.5f}), in->frequency = drawn(random, n, {0.0f, 0.25f, 1.5f});
  in->prompt_as_mask = random.below(2) != 0, in->output_as_counts = random.below(3) == 0;
  for (std::size_t i = 0; i < n; ++i) {
    in->prompt.push_back(tokens(100)), in->output.push_back(tokens(200));
  }
  if (random.below(2) != 0) {
    for (std::size_t i = 0; i < n; ++i) in->banned.push_back(tokens(5));
  }
  if (random.below(2) != 0) {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<std::uint8_t> allowed(vocab);
      const std::uint64_t every = 1 + random.below(9);
      for (auto& a : allowed) a = random.below(every) == 0;
      in->allowed.push_back(allowed);
    }
  }
  if (random.below(2) != 0) {
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<std::pair<std::int32_t, float>> bias;
      std::vector<std::int32_t> list = tokens(40);
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      for (const auto t : list) bias.emplace_back(t, static_cast<float>(random.normal() * 5));
      in->bias.push_back(bias);
    }
  }
}

}  // namespace quern::test
