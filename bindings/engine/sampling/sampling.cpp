// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>

namespace quern::engine {
namespace {

bool is_finite(float v) { return std::isfinite(v); }
bool from_zero(float v) { return v >= 0.0f && std::isfinite(v); }
bool above_zero(float v) { return v > 0.0f && std::isfinite(v); }
bool is_share(float v) { return v >= 0.0f && v <= 1.0f; }

std::string shown(float value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

// Those of quern_sample, and no infinities: a negative n_sigma would leave nothing to choose.
const std::array<SamplingRange, 12> kSamplingRanges{{
    {"temperature", &Sampling::temperature, from_zero, "0 and more"},
    {"top_p", &Sampling::top_p, is_share, "0 to 1"},
    {"min_p", &Sampling::min_p, is_share, "0 to 1"},
    {"typical_p", &Sampling::typical_p, is_share, "0 to 1"},
    {"n_sigma", &Sampling::n_sigma, from_zero, "0 and more"},
    {"xtc_probability", &Sampling::xtc_probability, is_share, "0 to 1"},
    {"xtc_threshold", &Sampling::xtc_threshold, from_zero, "0 and more"},
    {"dynamic_range", &Sampling::dynamic_range, from_zero, "0 and more"},
    {"dynamic_exponent", &Sampling::dynamic_exponent, is_finite, "a finite number"},
    {"repetition", &Sampling::repetition, above_zero, "above 0"},
    {"presence", &Sampling::presence, is_finite, "a finite number"},
    {"frequency", &Sampling::frequency, is_finite, "a finite number"},
}};

void check_numbers(const Sampling& s) {
  for (const SamplingRange& each : kSamplingRanges) {
    if (!each.allowed(s.*each.number))
      throw std::runtime_error(std::string(each.name) + " is " + shown(s.*each.number) + "; allowed: " + each.range);
  }
  if (s.top_k < -1) throw std::runtime_error("top_k is " + std::to_string(s.top_k) + "; allowed: -1 and more");
  for (const auto& [token, value] : s.bias) {
    if (!std::isfinite(value))
      throw std::runtime_error("the bias of token " + std::to_string(token) + " is " + shown(value) +
                               "; allowed: a finite number");
  }
}

bool has_penalties(const Sampling& s) { return s.repetition != 1.0f || s.presence != 0.0f || s.frequency != 0.0f; }

bool may_draft(const Sampling& s, bool all_allowed) {
  return s.temperature == 0.0f && s.top_logprobs < 0 && all_allowed;
}

std::int32_t choice_of(const Sampling& s, bool all_allowed) {
  std::int32_t choice = s.top_logprobs >= 0 ? kLogprobs : kChoosePlainly;
  if (s.temperature > 0.0f) {
    if (s.top_k > 0 || s.top_p < 1.0f || s.min_p > 0.0f) choice |= kFilters;
    if (s.typical_p < 1.0f || s.xtc_probability > 0.0f || s.dynamic_range > 0.0f || s.n_sigma > 0.0f) choice |= kRare;
  }
  if (has_penalties(s) || !s.bias.empty() || !s.banned.empty() || !all_allowed) choice |= kEdits;
  return choice;
}

void check_sampling(const Sampling& s, std::int64_t most_new, std::int64_t most_penalised, std::int64_t vocabulary) {
  check_numbers(s);
  const auto most = [](const char* what, std::size_t given, std::int64_t allowed) {
    if (given > static_cast<std::size_t>(allowed))
      throw std::runtime_error(std::string(what) + " are " + std::to_string(given) + "; allowed: at most " +
                               std::to_string(allowed));
  };
  most("biases", s.bias.size(), kMostBiases);
  most("banned tokens", s.banned.size(), kMostBanned);
  most("log-probabilities", static_cast<std::size_t>(std::max(s.top_logprobs, 0)), std::min(kMostTop, vocabulary));
  if (has_penalties(s))
    most("the tokens of an answer with penalties", static_cast<std::size_t>(std::max<std::int64_t>(most_new, 0)),
         most_penalised);
  std::set<std::int32_t> biased;
  for (const auto& [token, value] : s.bias) {
    if (token < 0 || token >= vocabulary)
      throw std::runtime_error("a bias is of token " + std::to_string(token) + ", which is not of the vocabulary");
    if (!biased.insert(token).second)
      throw std::runtime_error("token " + std::to_string(token) + " has two biases; allowed: one");
  }
  for (const std::int32_t token : s.banned) {
    if (token < 0 || token >= vocabulary)
      throw std::runtime_error("token " + std::to_string(token) + " is banned, which is not of the vocabulary");
  }
}

}  // namespace quern::engine
