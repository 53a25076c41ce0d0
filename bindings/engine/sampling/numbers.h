// Sampling's numbers as a step's arrays, and as sample's args.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "bindings/engine/sampling/sampling.h"
#include "quern.h"

namespace quern::engine {

// Which field of sample's args a number goes to, and what it is part of.
struct Number {
  float Sampling::* from;
  const DLTensor* quern_sample_args::* to;
  std::int32_t choice;  // 0: always there
};
inline constexpr std::array<Number, 12> kNumbers{{
    {&Sampling::temperature, &quern_sample_args::temperatures, 0},
    {&Sampling::top_p, &quern_sample_args::top_ps, kFilters},
    {&Sampling::min_p, &quern_sample_args::min_ps, kFilters},
    {&Sampling::typical_p, &quern_sample_args::typical_ps, kRare},
    {&Sampling::n_sigma, &quern_sample_args::n_sigmas, kRare},
    {&Sampling::xtc_probability, &quern_sample_args::xtc_probabilities, kRare},
    {&Sampling::xtc_threshold, &quern_sample_args::xtc_thresholds, kRare},
    {&Sampling::dynamic_range, &quern_sample_args::dynamic_ranges, kRare},
    {&Sampling::dynamic_exponent, &quern_sample_args::dynamic_exponents, kRare},
    {&Sampling::repetition, &quern_sample_args::repetitions, kEdits},
    {&Sampling::presence, &quern_sample_args::presences, kEdits},
    {&Sampling::frequency, &quern_sample_args::frequencies, kEdits},
}};

}  // namespace quern::engine
