// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/sampling/sampling.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace quern::engine {

bool has_penalties(const Sampling& s) { return s.repetition != 1.0f || s.presence != 0.0f || s.frequency != 0.0f; }

std::int32_t choice_of(const Sampling& s, bool all_allowed) {
  std::int32_t choice = s.top_logprobs >= 0 ? kLogprobs : kChoosePlainly;
  if (s.temperature > 0.0f) {
    if (s.top_k > 0 || s.top_p < 1.0f || s.min_p > 0.0f) choice |= kFilters;
    if (s.typical_p < 1.0f || s.xtc_probability > 0.0f || s.dynamic_range > 0.0f || s.n_sigma > 0.0f) choice |= kRare;
  }
  if (has_penalties(s) || !s.bias.empty() || !s.banned.empty() || !all_allowed) choice |= kEdits;
  return choice;
}

void check_sampling(const Sampling& s, std::int64_t most_new, std::int64_t vocabulary) {
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
         kMostPenalised);
  for (const auto& [token, value] : s.bias) {
    if (token < 0 || token >= vocabulary)
      throw std::runtime_error("a bias is of token " + std::to_string(token) + ", which is not of the vocabulary");
  }
}

}  // namespace quern::engine
