// What a step of a model is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bindings/engine/checkpoint/config.h"
#include "bindings/engine/sampling/sampling.h"

namespace quern::engine {

// What a step may need at most; memory and kernels are made ready for it once.
struct Limits {
  std::int64_t sequences = 8;
  std::int64_t tokens = 256;    // of a step, of all sequences
  std::int64_t context = 1024;  // of a sequence
  std::int64_t pages = 0;       // of the cache; 0: as many as all sequences can fill
  std::int64_t page_size = 16;
  std::int64_t drafts = 0;  // of a sequence in a step
  // Tokens of an answer that penalties count. A model makes them fewer where its device has no room for such a list.
  std::int64_t penalised = 4096;
  bool fp8_cache = false;        // e4m3 instead of bf16
  bool fp8_weights = false;      // of the layers' products, with what they multiply; e4m3, quantised when loaded
  bool graph = false;            // on a GPU: a step of single tokens is captured once and then replayed
  bool programmatic = true;      // on a GPU: a kernel is set up while the one before still runs
  bool batch_invariant = false;  // the bits of a sequence do not depend on the others'
  // A part may have pages into which others of its step write, and see what they do. An Engine's never has: elsewhere
  // earlier tokens are read before the step's own are stored.
  bool mixed_pages = false;
  bool cached_only = false;  // kernels come from the cache: a missing one is an error when a model is made
};

// A sequence's part of a step.
struct Part {
  std::vector<std::int32_t> tokens;        // new ones, and drafts behind them
  std::int64_t position = 0;               // of the first of them
  const std::vector<std::int32_t>* pages;  // of the whole sequence, for these tokens too
  Sampling sampling;
  // How many of the tokens are; at most limits.drafts, and none but where may_draft() says so.
  std::int64_t drafts = 0;
  // For penalties: the text so far, and where in it the answer begins.
  std::span<const std::int32_t> text = {};
  std::size_t prompt = 0;
  std::vector<std::uint32_t> allowed = {};  // a bit for each token that may be chosen; none: all may
};

struct Size {
  std::int64_t tokens, sequences, most_new;  // most_new: of one sequence
  std::int64_t each = 1;                     // rows of logits of a sequence: with drafts limits.drafts + 1
  std::int32_t choice = kChoosePlainly;      // enum Choice
};

// What became of a part.
struct Next {
  std::vector<std::int32_t> tokens;  // its drafts as far as the model says the same, and one more; -1: none may be
  float logprob = 0.0f;              // of the last one, where it was asked for
  std::vector<std::pair<std::int32_t, float>> top;  // the most probable tokens and their log-probabilities
};

// What computes steps: a model on one device, or on several.
class Steps {
 public:
  virtual ~Steps() = default;
  // What follows each part: at most limits().tokens tokens of at most limits().sequences parts.
  virtual std::vector<Next> step(const std::vector<Part>& parts) = 0;
  // Copies whole pages of the cache, (from, to), at most one a sequence.
  virtual void copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) = 0;
  // Computes the last step so many times more, one behind the other: for measuring.
  virtual void repeat(std::int64_t times) = 0;
  // From now on without the calls of this op (null: with all of them): what remains of a step's time tells theirs.
  virtual void leave_out(const char* op) = 0;
  virtual const Config& config() const = 0;
  virtual const Limits& limits() const = 0;
};

}  // namespace quern::engine
