// What sample is to draw: the rows' distributions by a plain loop, and whether results agree with them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/ops/sample_problem.h"

namespace quern::test {
namespace {

constexpr double kClose = 3e-6;  // relative: what f32 arithmetic may turn

float or_else(const std::vector<float>& values, std::size_t i, float off) { return values.empty() ? off : values[i]; }

struct Edit {
  bool repeated = false;
  std::int32_t count = 0;
};

std::vector<float> edit(const SampleInput& in, std::size_t i) {
  std::vector<float> x = in.logits[in.rows.empty() ? i : static_cast<std::size_t>(in.rows[i])];
  const auto vocab = static_cast<std::size_t>(in.vocab);
  std::vector<Edit> edits(vocab);
  const auto is_token = [&](std::int32_t t) { return t >= 0 && t < in.vocab; };
  if (!in.prompt.empty()) {
    for (const auto t : in.prompt[i])
      if (is_token(t)) edits[static_cast<std::size_t>(t)].repeated = true;
  }
  if (!in.output.empty()) {
    for (const auto t : in.output[i])
      if (is_token(t)) edits[static_cast<std::size_t>(t)].repeated = true, ++edits[static_cast<std::size_t>(t)].count;
  }
  const float r = or_else(in.repetition, i, 1.0f), presence = or_else(in.presence, i, 0.0f),
              frequency = or_else(in.frequency, i, 0.0f);
  for (std::size_t t = 0; t < vocab; ++t) {
    if (edits[t].repeated) x[t] = x[t] > 0 ? x[t] / r : x[t] * r;
    if (edits[t].count > 0) x[t] = std::fma(-frequency, static_cast<float>(edits[t].count), x[t] - presence);
  }
  if (!in.bias.empty()) {
    for (const auto& [t, v] : in.bias[i]) x[static_cast<std::size_t>(t)] += v;
  }
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  if (!in.banned.empty()) {
    for (const auto t : in.banned[i])
      if (is_token(t)) x[static_cast<std::size_t>(t)] = kOut;
  }
  for (std::size_t t = 0; t < vocab; ++t) {
    if (std::isnan(x[t]) || (!in.allowed.empty() && in.allowed[i][t] == 0)) x[t] = kOut;
  }
  return x;
}

double distance(double max, double x, double temperature) { return x == max ? 0.0 : (max - x) / temperature; }

// Natural logarithms of the shares of `tokens`.
std::vector<double> shares(const std::vector<float>& x, const std::vector<std::int32_t>& tokens, double temperature) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const auto t : tokens) max = std::max(max, double{x[static_cast<std::size_t>(t)]});
  std::vector<double> out;
  for (const auto t : tokens) {
    out.push_back(-distance(max, x[static_cast<std::size_t>(t)], temperature));
    sum += std::exp(out.back());
  }
  for (double& v : out) v -= std::log(sum);
  return out;
}

}  // namespace

SampleRow expect_row(const SampleInput& in, std::size_t i) {
  SampleRow row;
  const std::vector<float> x = row.edited = edit(in, i);
  std::vector<std::int32_t> kept;
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (x[t] > -std::numeric_limits<float>::infinity()) kept.push_back(static_cast<std::int32_t>(t));
  }
  if (kept.empty()) return row;
  std::stable_sort(kept.begin(), kept.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  row.largest = kept[0];
  const double max = x[static_cast<std::size_t>(kept[0])];
  const float temperature = or_else(in.temperature, i, 1.0f), range = or_else(in.dynamic_range, i, 0.0f);
  row.greedy = temperature == 0.0f;
  const bool last = (in.flags & QUERN_SAMPLE_TEMPERATURE_LAST) != 0 || range > 0.0f;
  const double first = row.greedy || last ? 1.0 : double{temperature};
  {
    row.whole_logprob.assign(x.size(), -std::numeric_limits<double>::infinity());
    const std::vector<double> all = shares(x, kept, first);
    for (std::size_t j = 0; j < kept.size(); ++j) row.whole_logprob[static_cast<std::size_t>(kept[j])] = all[j];
  }
  const auto close = [&](double a, double b) {
    if (std::fabs(a - b) <= kClose * std::max({std::fabs(a), std::fabs(b), 1e-3})) row.close = true;
  };
  const auto cut_below = [&](double least, bool exact) {
    std::size_t n = 0;
    while (n < kept.size() && x[static_cast<std::size_t>(kept[n])] >= least) ++n;
    if (!exact) {
      if (n < kept.size()) close(x[static_cast<std::size_t>(kept[n])], least);
      if (n > 0) close(x[static_cast<std::size_t>(kept[n - 1])], least);
    }
    kept.resize(std::max<std::size_t>(n, 1));
  };
  if (const float n = or_else(in.n_sigma, i, 0.0f); n > 0.0f) {
    double sum = 0, squares = 0, count = 0;
    for (const auto t : kept)
      if (std::isfinite(x[static_cast<std::size_t>(t)])) sum += x[static_cast<std::size_t>(t)], ++count;
    for (const auto t : kept)
      if (std::isfinite(x[static_cast<std::size_t>(t)]))
        squares += std::pow(x[static_cast<std::size_t>(t)] - sum / count, 2);
    cut_below(max - n * std::sqrt(squares / count), false);
  }
  if (const float m = or_else(in.min_p, i, 0.0f); m > 0.0f)
    cut_below(m == 1.0f ? max : max + first * std::log(double{m}), m == 1.0f);
  const std::vector<std::int32_t> before_k = kept;
  if (const auto k = in.top_k.empty() ? 0 : in.top_k[i]; k > 0 && static_cast<std::size_t>(k) < kept.size())
    kept.resize(static_cast<std::size_t>(k));
  if (const float p = or_else(in.top_p, i, 1.0f); p < 1.0f) {
    const std::vector<double> of = shares(x, (in.flags & QUERN_SAMPLE_JOINT) != 0 ? before_k : kept, first);
    double sum = 0;
    std::size_t n = 0;
    while (n < kept.size()) {
      sum += std::exp(of[n++]);
      // Exact where the sum is: equal logits.
      close(sum, p);
      if (sum >= p * (1 - 1e-12)) break;
    }
    kept.resize(n);
  }
  if (const float p = or_else(in.typical_p, i, 1.0f); p < 1.0f) {
    const std::vector<double> of = shares(x, kept, first);
    double entropy = 0;
    for (const double l : of) entropy -= std::isinf(l) ? 0 : std::exp(l) * l;
    std::vector<std::size_t> order(kept.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto score = [&](std::size_t j) { return std::fabs(-of[j] - entropy); };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score(a) < score(b); });
    double sum = 0;
    std::size_t n = 0;
    while (n < order.size()) {
      sum += std::exp(of[order[n++]]);
      if (std::fabs(sum - p) <= kClose) row.close = true;
      if (sum > p) break;
    }
    if (n < order.size() && std::fabs(score(order[n]) - score(order[n - 1])) < 1e-5) row.close = true;
    order.resize(n);
    std::sort(order.begin(), order.end());
    std::vector<std::int32_t> typical;
    for (const std::size_t j : order) typical.push_back(kept[j]);
    kept = typical;
  }
  const auto with_logprobs = [&](const std::vector<std::int32_t>& tokens) {
    double t = temperature;
    if (range > 0.0f && tokens.size() > 1) {
      const std::vector<double> of = shares(x, tokens, 1.0);
      double entropy = 0;
      for (const double l : of) entropy -= std::isinf(l) ? 0 : std::exp(l) * l;
      const double low = std::max(t - range, 0.0), high = t + range;
      t = low + (high - low) * std::pow(entropy / std::log(static_cast<double>(tokens.size())),
                                        or_else(in.dynamic_exponent, i, 1.0f));
    }
    return shares(x, tokens, row.greedy ? 1.0 : std::max(t, 1e-12));
  };
  const float chance = or_else(in.xtc_probability, i, 0.0f), threshold = or_else(in.xtc_threshold, i, 0.0f);
  if (chance > 0.0f && threshold <= 0.5f) {
    const std::vector<double> of = shares(x, kept, first);
    std::size_t n = 0;
    while (n < kept.size() && std::exp(of[n]) >= threshold) close(std::exp(of[n++]), threshold);
    if (n < kept.size()) close(std::exp(of[n]), threshold);
    row.struck = kept;
    if (n > 1) row.struck.erase(row.struck.begin(), row.struck.begin() + static_cast<std::ptrdiff_t>(n) - 1);
    row.struck_logprob = with_logprobs(row.struck);
    row.xtc_open = chance < 1.0f;
    if (chance >= 1.0f) kept = row.struck;
  }
  row.kept = kept;
  row.logprob = with_logprobs(kept);
  return row;
}

namespace {

bool agrees(const SampleInput& in, const SampleOutput& out, std::size_t i, const SampleRow& row,
            const std::vector<std::int32_t>& kept, const std::vector<double>& logprob, std::string* why) {
  const std::int64_t id = out.ids[i];
  const auto at = std::find(kept.begin(), kept.end(), id);
  if (at == kept.end()) {
    *why = "token " + std::to_string(id) + " is not among the " + std::to_string(kept.size()) + " that stay";
    return false;
  }
  const bool filtered = (in.flags & QUERN_SAMPLE_LOGPROBS_FILTERED) != 0 && !row.greedy;
  const auto tolerance = [](double v) { return 2e-5 + 4e-6 * std::fabs(v); };
  const double exact =
      filtered ? logprob[static_cast<std::size_t>(at - kept.begin())] : row.whole_logprob[static_cast<std::size_t>(id)];
  if (in.logprobs && !(std::fabs(out.logprobs[i] - exact) <= tolerance(exact))) {
    *why = "log-probability " + std::to_string(out.logprobs[i]) + ", not " + std::to_string(exact);
    return false;
  }
  if (in.top_n == 0) return true;
  std::vector<std::int32_t> order;
  if (filtered) {
    order = kept;
  } else {
    for (std::size_t t = 0; t < row.edited.size(); ++t)
      if (row.edited[t] > -std::numeric_limits<float>::infinity()) order.push_back(static_cast<std::int32_t>(t));
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return row.edited[static_cast<std::size_t>(a)] > row.edited[static_cast<std::size_t>(b)];
    });
  }
  for (std::size_t j = 0; j < static_cast<std::size_t>(in.top_n); ++j) {
    const std::int32_t expected = j < order.size() ? order[j] : -1;
    if (out.top_ids[i][j] != expected) {
      *why = "place " + std::to_string(j) + " of the largest is " + std::to_string(out.top_ids[i][j]) + ", not " +
             std::to_string(expected) + " of " + std::to_string(order.size());
      return false;
    }
    if (expected < 0) {
      if (out.top_logprobs[i][j] != -std::numeric_limits<float>::infinity())
        return *why = "a log-probability behind the last", false;
      continue;
    }
    const double own = filtered ? logprob[j] : row.whole_logprob[static_cast<std::size_t>(expected)];
    if (!(std::fabs(out.top_logprobs[i][j] - own) <= tolerance(own)) &&
        !(std::isinf(own) && std::isinf(out.top_logprobs[i][j])) && own > -80) {
      *why = "log-probability " + std::to_string(out.top_logprobs[i][j]) + " at place " + std::to_string(j) + ", not " +
             std::to_string(own);
      return false;
    }
  }
  return true;
}

}  // namespace

namespace {

std::string describe(const SampleInput& in, std::size_t i) {
  std::string text =
      "flags " + std::to_string(in.flags) + (in.top_k.empty() ? "" : " top_k " + std::to_string(in.top_k[i]));
  const std::pair<const char*, const std::vector<float>*> parameters[] = {{"temperature", &in.temperature},
                                                                          {"top_p", &in.top_p},
                                                                          {"min_p", &in.min_p},
                                                                          {"typical_p", &in.typical_p},
                                                                          {"n_sigma", &in.n_sigma},
                                                                          {"xtc_probability", &in.xtc_probability},
                                                                          {"xtc_threshold", &in.xtc_threshold},
                                                                          {"dynamic_range", &in.dynamic_range},
                                                                          {"dynamic_exponent", &in.dynamic_exponent},
                                                                          {"repetition", &in.repetition},
                                                                          {"presence", &in.presence},
                                                                          {"frequency", &in.frequency}};
  for (const auto& [name, values] : parameters)
    if (!values->empty()) text += std::string(" ") + name + " " + std::to_string((*values)[i]);
  return text;
}

}  // namespace

void check_sample(const SampleInput& in, const SampleOutput& out, const std::string& what) {
  for (std::size_t i = 0; i < in.count(); ++i) {
    const SampleRow row = expect_row(in, i);
    const std::string where = what + ", row " + std::to_string(i) + ", QUERN_TEST_SEED=" + std::to_string(run_seed());
    if (!in.offsets.empty()) {
      ASSERT_EQ(out.offsets[i], in.offsets[i] + 1) << where;
    }
    if (row.largest < 0) {
      ASSERT_EQ(out.ids[i], -1) << where;
      ASSERT_NE(out.status[i] & QUERN_SAMPLE_EMPTY, 0) << where;
      continue;
    }
    const auto& logits = in.logits[in.rows.empty() ? i : static_cast<std::size_t>(in.rows[i])];
    bool nan = false;
    for (std::size_t t = 0; t < logits.size(); ++t) {
      const bool banned =
          !in.banned.empty() && std::count(in.banned[i].begin(), in.banned[i].end(), static_cast<std::int32_t>(t)) != 0;
      nan |= std::isnan(logits[t]) && !banned && (in.allowed.empty() || in.allowed[i][t] != 0);
    }
    ASSERT_EQ(out.status[i], nan ? QUERN_SAMPLE_NAN : 0) << where;
    if (in.output_as_counts) {
      std::vector<std::int32_t> counts(static_cast<std::size_t>(in.vocab));
      for (const auto t : in.output[i]) ++counts[static_cast<std::size_t>(t)];
      ++counts[static_cast<std::size_t>(out.ids[i])];
      ASSERT_TRUE(out.counts[i] == counts) << where;
    }
    if (row.greedy) {
      ASSERT_EQ(out.ids[i], row.largest) << where;
      if (in.logprobs) {
        ASSERT_NEAR(out.logprobs[i], row.whole_logprob[static_cast<std::size_t>(row.largest)], 2e-5) << where;
      }
      continue;
    }
    if (row.close) continue;
    std::string why, or_why;
    const bool plain = agrees(in, out, i, row, row.kept, row.logprob, &why);
    const bool struck = row.xtc_open && !plain && agrees(in, out, i, row, row.struck, row.struck_logprob, &or_why);
    ASSERT_TRUE(plain || struck) << where << ": " << why << (row.xtc_open ? "; with xtc " + or_why : "") << "; "
                                 << describe(in, i);
  }
}

}  // namespace quern::test
