// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/sample_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace quern::test {
namespace {

constexpr DLDataType kInt64{kDLInt, 64, 1};
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

template <class T>
const DLTensor* SampleCall::vector(const std::vector<T>& values, DLDataType type) {
  if (values.empty()) return nullptr;
  buffers.emplace_back(values.size() * sizeof(T));
  buffers.back().write(values);
  TensorBox& box = boxes.emplace_back();
  box.set(type, {static_cast<std::int64_t>(values.size())});
  box.place(buffers.back().data());
  return box.get();
}
template <class T>
const DLTensor* SampleCall::matrix(const std::vector<std::vector<T>>& rows, DLDataType type, T fill,
                                   std::int64_t columns) {
  std::vector<T> flat(rows.size() * static_cast<std::size_t>(columns), fill);
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::copy(rows[r].begin(), rows[r].end(), flat.begin() + static_cast<std::ptrdiff_t>(r) * columns);
  if (flat.empty()) flat.resize(1);
  const DLTensor* tensor = vector(flat, type);
  boxes.back().set(type, {static_cast<std::int64_t>(rows.size()), columns});
  boxes.back().place(buffers.back().data());
  return tensor;
}

void SampleCall::lists() {
  const auto n = static_cast<std::int64_t>(in_.count());
  const std::int64_t words = (in_.vocab + 31) / 32;
  const auto longest = [](const std::vector<std::vector<std::int32_t>>& rows) {
    std::size_t most = 0;
    for (const auto& r : rows) most = std::max(most, r.size());
    return static_cast<std::int64_t>(most);
  };
  const auto lengths = [&](const std::vector<std::vector<std::int32_t>>& rows) {
    std::vector<std::int32_t> all;
    for (const auto& r : rows) all.push_back(static_cast<std::int32_t>(r.size()));
    return vector(all, kInt32);
  };
  if (!in_.prompt.empty() && in_.prompt_as_mask) {
    std::vector<std::vector<std::int32_t>> mask(static_cast<std::size_t>(n),
                                                std::vector<std::int32_t>(static_cast<std::size_t>(words)));
    for (std::size_t i = 0; i < mask.size(); ++i) {
      for (const auto t : in_.prompt[i])
        mask[i][static_cast<std::size_t>(t / 32)] |= static_cast<std::int32_t>(1u << t % 32);
    }
    args.prompt_mask = matrix(mask, kInt32, 0, words);
  } else if (!in_.prompt.empty()) {
    args.prompt_tokens = matrix(in_.prompt, kInt32, 5, longest(in_.prompt) + 1);
    args.prompt_lengths = lengths(in_.prompt);
  }
  if (!in_.output.empty() && in_.output_as_counts) {
    std::vector<std::vector<std::int32_t>> counts(static_cast<std::size_t>(n),
                                                  std::vector<std::int32_t>(static_cast<std::size_t>(in_.vocab)));
    for (std::size_t i = 0; i < counts.size(); ++i)
      for (const auto t : in_.output[i]) ++counts[i][static_cast<std::size_t>(t)];
    args.output_counts = matrix(counts, kInt32, 0, in_.vocab);
  } else if (!in_.output.empty()) {
    args.output_tokens = matrix(in_.output, kInt32, 3, longest(in_.output) + 2);
    args.output_lengths = lengths(in_.output);
  }
  if (!in_.banned.empty()) args.banned = matrix(in_.banned, kInt32, -1, longest(in_.banned) + 1);
  if (!in_.allowed.empty()) {
    std::vector<std::vector<std::int32_t>> mask(static_cast<std::size_t>(n),
                                                std::vector<std::int32_t>(static_cast<std::size_t>(words)));
    for (std::size_t i = 0; i < mask.size(); ++i) {
      for (std::size_t t = 0; t < in_.allowed[i].size(); ++t)
        if (in_.allowed[i][t] != 0) mask[i][t / 32] |= static_cast<std::int32_t>(1u << t % 32);
    }
    args.allowed = matrix(mask, kInt32, 0, words);
  }
  if (!in_.bias.empty()) {
    std::vector<std::int32_t> begins = {0}, ids;
    std::vector<float> values;
    for (const auto& row : in_.bias) {
      for (const auto& [t, v] : row) ids.push_back(t), values.push_back(v);
      begins.push_back(static_cast<std::int32_t>(ids.size()));
      args.max_bias = std::max(args.max_bias, static_cast<std::int32_t>(row.size()));
    }
    if (ids.empty()) ids.push_back(0), values.push_back(0.0f);
    args.bias_offsets = vector(begins, kInt32), args.bias_ids = vector(ids, kInt32),
    args.bias_values = vector(values, kFloat32);
  }
}

SampleCall::SampleCall(const SampleInput& input) : args(sized<quern_sample_args>()), in_(input) {
  const auto n = static_cast<std::int64_t>(in_.count());
  const std::int64_t pitch = in_.vocab + in_.padding;
  std::vector<unsigned char> logits(in_.logits.size() * static_cast<std::size_t>(pitch) * in_.element.bytes(), 0x7f);
  for (std::size_t r = 0; r < in_.logits.size(); ++r) {
    for (std::size_t t = 0; t < in_.logits[r].size(); ++t) {
      in_.element.store(&logits[(r * static_cast<std::size_t>(pitch) + t) * in_.element.bytes()],
                        double{in_.logits[r][t]});
    }
  }
  if (logits.empty()) logits.resize(4);
  args.logits = vector(logits, in_.element.type());
  boxes.back().set(in_.element.type(), {static_cast<std::int64_t>(in_.logits.size()), in_.vocab}, {pitch, 1});
  boxes.back().place(buffers.back().data());
  args.rows = vector(in_.rows, kInt32);
  const auto per_row = [&](const std::vector<float>& values) { return vector(values, kFloat32); };
  args.temperatures = per_row(in_.temperature), args.top_ps = per_row(in_.top_p), args.min_ps = per_row(in_.min_p);
  args.typical_ps = per_row(in_.typical_p), args.n_sigmas = per_row(in_.n_sigma),
  args.xtc_probabilities = per_row(in_.xtc_probability);
  args.xtc_thresholds = per_row(in_.xtc_threshold), args.dynamic_ranges = per_row(in_.dynamic_range),
  args.dynamic_exponents = per_row(in_.dynamic_exponent);
  args.repetitions = per_row(in_.repetition), args.presences = per_row(in_.presence),
  args.frequencies = per_row(in_.frequency);
  args.top_ks = vector(in_.top_k, kInt32), args.seeds = vector(in_.seeds, kInt64),
  args.offsets = vector(in_.offsets, kInt64);
  args.seed = in_.seed, args.offset = in_.offset, args.flags = in_.flags, args.max_sms = in_.max_sms;
  lists();
  const auto made = [&](std::size_t each, DLDataType type, std::int64_t columns) {
    buffers.emplace_back(
        std::max<std::size_t>(static_cast<std::size_t>(n * std::max<std::int64_t>(columns, 1)) * each, 1), 0x7b);
    TensorBox& box = boxes.emplace_back();
    if (columns == 0) {
      box.set(type, {n});
    } else {
      box.set(type, {n, columns});
    }
    box.place(buffers.back().data());
    return box.get();
  };
  args.ids = in_.wide_ids ? made(8, kInt64, 0) : made(4, kInt32, 0);
  args.status = made(4, kInt32, 0);
  if (in_.logprobs) args.logprobs = made(4, kFloat32, 0);
  if (in_.top_n > 0) args.top_ids = made(4, kInt32, in_.top_n), args.top_logprobs = made(4, kFloat32, in_.top_n);
  made_ = args;
}

void SampleCall::prepare() {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_sample_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_sample_prepare(context(), &args, &error), QUERN_OK) << error.text;
  workspace_ = Buffer(static_cast<std::size_t>(bytes), 0xcd);
  workspace_.write(std::vector<unsigned char>(256 * 1024, 0));
  args.workspace = workspace_.data(), args.workspace_size = bytes;
}
void SampleCall::launch(void* stream) {
  auto error = sized<quern_error>();
  args.stream = stream;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(quern_sample(context(), &args, &error), QUERN_OK) << error.text;
}
SampleOutput SampleCall::run() {
  prepare();
  if (testing::Test::HasFatalFailure()) return {};
  launch();
  synchronize();
  std::vector<unsigned char> counters(256 * 1024);
  workspace_.read(counters.data(), counters.size());
  EXPECT_TRUE(std::all_of(counters.begin(), counters.end(), [](unsigned char c) { return c == 0; }))
      << "the counters are not zero";
  return read();
}
Buffer& SampleCall::buffer_of(const DLTensor* tensor) {
  return *std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.data() == tensor->data; });
}
SampleOutput SampleCall::read() {
  SampleOutput out;
  const std::size_t n = in_.count();
  const auto take = [&]<class T>(const DLTensor* tensor, std::vector<T>* to, std::size_t count) {
    to->resize(count);
    if (count != 0) buffer_of(tensor).read(to->data(), count * sizeof(T));
  };
  if (in_.wide_ids) {
    take(made_.ids, &out.ids, n);
  } else {
    std::vector<std::int32_t> ids;
    take(made_.ids, &ids, n);
    out.ids.assign(ids.begin(), ids.end());
  }
  take(made_.status, &out.status, n);
  if (in_.logprobs) take(made_.logprobs, &out.logprobs, n);
  const auto rows_of = [&]<class T>(const DLTensor* tensor, std::vector<std::vector<T>>* to, std::size_t columns) {
    std::vector<T> flat;
    take(tensor, &flat, n * columns);
    for (std::size_t i = 0; i < n; ++i)
      to->emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i * columns),
                       flat.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
  };
  if (in_.top_n > 0) {
    rows_of(made_.top_ids, &out.top_ids, static_cast<std::size_t>(in_.top_n));
    rows_of(made_.top_logprobs, &out.top_logprobs, static_cast<std::size_t>(in_.top_n));
  }
  if (!in_.offsets.empty()) take(made_.offsets, &out.offsets, n);
  if (made_.output_counts != nullptr) rows_of(made_.output_counts, &out.counts, static_cast<std::size_t>(in_.vocab));
  return out;
}

}  // namespace quern::test
