// What a step of a model is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace quern::engine {

// What a step may need at most; memory and kernels are made ready for it once.
struct Limits {
  std::int64_t sequences = 8;
  std::int64_t tokens = 256;    // of a step, of all sequences
  std::int64_t context = 1024;  // of a sequence
  std::int64_t pages = 0;       // of the cache; 0: as many as all sequences can fill
  std::int64_t page_size = 16;
  std::int64_t drafts = 0;       // of a sequence in a step
  bool fp8_cache = false;        // e4m3 instead of bf16
  bool fp8_weights = false;      // of the layers' products, with what they multiply; e4m3, quantised when loaded
  bool graph = false;            // on a GPU: a step of single tokens is captured once and then replayed
  bool batch_invariant = false;  // the bits of a sequence do not depend on the others'
  bool cached_only = false;      // kernels come from the cache: a missing one is an error when a model is made
};

// How a sequence's next token is chosen.
struct Sampling {
  float temperature = 0.0f;  // 0: the most probable one
  std::int32_t top_k = 0;    // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::uint64_t seed = 0;
};

// A sequence's part of a step.
struct Part {
  std::vector<std::int32_t> tokens;        // new ones, and drafts behind them
  std::int64_t position = 0;               // of the first of them
  const std::vector<std::int32_t>* pages;  // of the whole sequence, for these tokens too
  Sampling sampling;
  std::int64_t drafts = 0;  // how many of the tokens are; at most limits.drafts, and none but where temperature is 0
};

// Which of sample's arrays a step has: a kernel that filters nothing is the faster one.
enum class Choice : std::int32_t { plain, filtered };

struct Size {
  std::int64_t tokens, sequences, most_new;  // most_new: of one sequence
  std::int64_t each = 1;                     // rows of logits of a sequence: with drafts limits.drafts + 1
  Choice choice = Choice::plain;
};

}  // namespace quern::engine
