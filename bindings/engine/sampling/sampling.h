// How a sequence's next token is chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quern::engine {

// What each of them does, and in which order, says quern_sample_args.
struct Sampling {
  float temperature = 0.0f;  // 0: the most probable one
  std::int32_t top_k = 0;    // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;
  float typical_p = 1.0f, n_sigma = 0.0f, xtc_probability = 0.0f, xtc_threshold = 0.1f;
  float dynamic_range = 0.0f, dynamic_exponent = 1.0f;
  float repetition = 1.0f, presence = 0.0f, frequency = 0.0f;
  std::vector<std::pair<std::int32_t, float>> bias = {};  // of tokens, each once; at most kMostBiases
  std::vector<std::int32_t> banned = {};                  // at most kMostBanned
  std::int32_t top_logprobs = -1;  // of so many of the most probable tokens, to kMostTop; -1: none
};
inline constexpr std::int64_t kMostBiases = 256, kMostBanned = 256, kMostTop = 20;

// What of sample's arrays a step has, or-ed: kernels that do less are faster ones.
enum Choice : std::int32_t {
  kChoosePlainly = 0,
  kFilters = 1,  // top_k, top_p, min_p
  kRare = 2,     // typical_p to dynamic_exponent
  kEdits = 4,    // penalties, biases, tokens that may not be
  kLogprobs = 8,
  kAllChoices = 16,
};

// What a number of Sampling may be.
struct SamplingRange {
  const char* name;  // "top_p"
  float Sampling::* number;
  bool (*allowed)(float);
  const char* range;  // in words
};
extern const std::array<SamplingRange, 12> kSamplingRanges;

bool has_penalties(const Sampling& sampling);
// Whether drafts may stand behind it. Of what is drawn there are none: its text would depend on how many of them a step
// has room for, and so on the others. Nor are there where a mask is made anew for each token, or all that is told of
// one is wanted.
bool may_draft(const Sampling& sampling, bool all_allowed);
// Of enum Choice, what a part needs.
std::int32_t choice_of(const Sampling& sampling, bool all_allowed);
// Throws std::runtime_error naming a number that is out of its range.
void check_numbers(const Sampling& sampling);
// That, and: what a step would have no room for is refused when it is asked for: throws std::runtime_error. `most_new`:
// tokens of the answer; `most_penalised`: those of one with penalties.
void check_sampling(const Sampling& sampling, std::int64_t most_new, std::int64_t most_penalised,
                    std::int64_t vocabulary);

}  // namespace quern::engine
