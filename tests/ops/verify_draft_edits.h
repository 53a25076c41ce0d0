// Calls of verify_draft with penalties, biases and masks on trees of drafts, and what sample says of their rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "tests/ops/rows.h"
#include "tests/ops/sample_inputs.h"

namespace quern::test {

inline constexpr ThreeCalls<quern_verify_draft_args> kVerifyEdits{quern_verify_draft, quern_verify_draft_workspace,
                                                                  quern_verify_draft_prepare};

// Sequences with trees of drafts. What edits, and how tokens are chosen, is a row a sequence of `sequence`; its logits
// and `allowed` are those of row 0.
struct Drafted {
  SampleInput sequence;
  std::vector<std::int64_t> parents;  // of all sequences; empty: a chain
  std::int64_t n = 0, depth = -1;
  std::vector<std::vector<std::int32_t>> drafts;                // [sequence][node]
  std::vector<std::int32_t> lengths;                            // none: n each
  std::vector<std::vector<std::vector<float>>> logits;          // [row][sequence]
  std::vector<std::vector<std::vector<std::uint8_t>>> allowed;  // [row][sequence]; none: all are

  std::size_t batch() const { return sequence.logits.size(); }
  std::int64_t deepest() const { return depth >= 0 ? depth : n; }
  std::int64_t parent(std::int64_t i) const { return parents.empty() ? i - 1 : parents[static_cast<std::size_t>(i)]; }
  std::int64_t length(std::size_t b) const { return lengths.empty() ? n : lengths[b]; }
  // The drafts from the root to the node that a row is behind.
  std::vector<std::int32_t> path_to(std::size_t b, std::int64_t row) const {
    std::vector<std::int32_t> path;
    for (std::int64_t i = row - 1; i >= 0; i = parent(i))
      path.insert(path.begin(), drafts[b][static_cast<std::size_t>(i)]);
    return path;
  }
  // A row of each sequence as sample would be given it, had the drafts before it been drawn.
  SampleInput behind(std::int64_t row) const {
    SampleInput in = sequence;
    in.logits = logits[static_cast<std::size_t>(row)];
    if (!allowed.empty()) in.allowed = allowed[static_cast<std::size_t>(row)];
    if (in.output.empty()) return in;
    for (std::size_t b = 0; b < batch(); ++b) {
      for (const std::int32_t token : path_to(b, row)) in.output[b].push_back(token);
    }
    return in;
  }
  SampleInput behind(std::int64_t row, std::size_t b) const {
    SampleInput all = behind(row), one = all;
    const auto pick = [&](auto& of) {
      if (!of.empty()) of = {of[b]};
    };
    pick(one.logits), pick(one.temperature), pick(one.top_p), pick(one.min_p), pick(one.top_k), pick(one.repetition);
    pick(one.presence), pick(one.frequency), pick(one.prompt), pick(one.output), pick(one.banned), pick(one.allowed);
    pick(one.bias);
    return one;
  }
};

class EditedCall {
 public:
  EditedCall(const Drafted& d, std::uint32_t flags, std::int64_t padding = 0)
      : args(sized<quern_verify_draft_args>()), drafted_(d) {
    const SampleInput& in = d.sequence;
    const auto batch = static_cast<std::int64_t>(d.batch());
    const std::int64_t rows = d.n + 1, pitch = in.vocab + padding, words = (in.vocab + 31) / 32;
    target = &make(in.element, {batch, rows, in.vocab}, {rows * pitch + padding, pitch, 1});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t t = 0; t < in.vocab; ++t)
          target->set(double{at(d.logits, r, b)[static_cast<std::size_t>(t)]}, b, r, t);
      }
    }
    draft_ids = &make({batch, d.n}, {d.n + 1, 1});
    parents = &make({batch, d.n});
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < d.n; ++i) {
        draft_ids->set_integer(d.drafts[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)], b, i);
        parents->set_integer(d.parent(i), b, i);
      }
    }
    args.target = target->tensor(), args.draft_ids = draft_ids->tensor();
    if (!d.parents.empty()) args.parents = parents->tensor();
    args.lengths = vector(d.lengths);
    accepted = &make({batch}), ids = &make({batch, d.deepest() + 1}, {d.deepest() + 4, 1});
    path = &make({batch, d.deepest()}), status = &make({batch});
    logprobs = &make(Element::f32, {batch, d.deepest() + 1}, {d.deepest() + 2, 1});
    offsets = &make(IntegerBits{64}, {batch});
    for (std::int64_t b = 0; b < batch; ++b) offsets->set_integer(b % 1000, b);
    args.accepted = accepted->tensor(), args.ids = ids->tensor(), args.path = path->tensor();
    args.status = status->tensor(), args.logprobs = logprobs->tensor(), args.offsets = offsets->tensor();
    args.flags = flags | QUERN_VERIFY_LOGITS, args.seed = 5;
    args.temperatures = vector(in.temperature), args.top_ps = vector(in.top_p), args.min_ps = vector(in.min_p);
    args.top_ks = vector(in.top_k);
    args.repetitions = vector(in.repetition), args.presences = vector(in.presence);
    args.frequencies = vector(in.frequency);
    if (!in.prompt.empty() && in.prompt_as_mask) {
      Array& mask = make({batch, words});
      each_word(mask, {batch, words}, [&](std::int64_t b, std::int64_t t) { return count(in.prompt, b, t) != 0; });
      args.prompt_mask = mask.tensor();
    } else if (!in.prompt.empty()) {
      args.prompt_tokens = list(in.prompt, 5, 1), args.prompt_lengths = lengths(in.prompt);
    }
    if (!in.output.empty() && in.output_as_counts) {
      counts = &make({batch, in.vocab});
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t t = 0; t < in.vocab; ++t) counts->set_integer(count(in.output, b, t), b, t);
      }
      args.output_counts = counts->tensor();
    } else if (!in.output.empty()) {
      args.output_tokens = list(in.output, 3, 2), args.output_lengths = lengths(in.output);
    }
    if (!in.banned.empty()) args.banned = list(in.banned, -1, 1);
    if (!in.bias.empty()) {
      std::vector<std::int32_t> begins = {0}, tokens;
      std::vector<float> values;
      for (const auto& row : in.bias) {
        for (const auto& [t, v] : row) tokens.push_back(t), values.push_back(v);
        begins.push_back(static_cast<std::int32_t>(tokens.size()));
        args.max_bias = std::max(args.max_bias, static_cast<std::int32_t>(row.size()));
      }
      if (tokens.empty()) tokens.push_back(0), values.push_back(0.0f);
      args.bias_offsets = vector(begins), args.bias_ids = vector(tokens), args.bias_values = vector(values);
    }
    if (!d.allowed.empty()) {
      allowed = &make({batch, rows, words}, {rows * words + 3, words, 1});
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t w = 0; w < words; ++w) {
            std::uint32_t bits = 0;
            for (std::int64_t t = 32 * w; t < std::min(32 * w + 32, in.vocab); ++t) {
              if (at(d.allowed, r, b)[static_cast<std::size_t>(t)] != 0) bits |= 1u << (t - 32 * w);
            }
            allowed->set_integer(static_cast<std::int32_t>(bits), b, r, w);
          }
        }
      }
      args.allowed = allowed->tensor();
    }
  }
  EditedCall(const EditedCall&) = delete;
  EditedCall& operator=(const EditedCall&) = delete;

  void run(quern_context* in) {
    for (Array& each : arrays_) each.upload();
    ASSERT_NO_FATAL_FAILURE(run_op(in, kVerifyEdits, args));
    for (Array* each : {accepted, ids, path, status, logprobs, offsets, counts}) {
      if (each != nullptr) each->download();
    }
  }

  // What is written makes sense by itself: -1 and NaN behind the last token, nodes that follow each other, raised
  // counts and offsets.
  void check() const {
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(drafted_.batch()); ++b) {
      SCOPED_TRACE("sequence " + std::to_string(b) + ", QUERN_TEST_SEED=" + std::to_string(run_seed()));
      const std::int64_t depth = drafted_.deepest(), taken = accepted->integer(b);
      const bool failed = status->integer(b) != 0;
      ASSERT_TRUE(taken >= 0 && taken <= depth && (!failed || taken == 0));
      ASSERT_EQ(offsets->integer(b), b % 1000 + 1);
      std::map<std::int64_t, std::int64_t> emitted;
      std::int64_t node = -1;
      for (std::int64_t k = 0; k <= depth; ++k) {
        const std::int64_t token = ids->integer(b, k);
        if (failed || k > taken) {
          ASSERT_EQ(token, -1);
          if (args.logprobs != nullptr) {
            ASSERT_TRUE(std::isnan(logprobs->get(b, k)));
          }
          ASSERT_TRUE(k == depth || path->integer(b, k) == -1);
          continue;
        }
        ASSERT_TRUE(token >= 0 && token < drafted_.sequence.vocab);
        ++emitted[token];
        if (k == taken) continue;
        const std::int64_t child = path->integer(b, k);
        ASSERT_TRUE(child > node && child < drafted_.length(static_cast<std::size_t>(b)));
        ASSERT_EQ(drafted_.parent(child), node);
        ASSERT_EQ(draft_ids->integer(b, child), token);
        node = child;
      }
      if (counts == nullptr) continue;
      for (std::int64_t t = 0; t < drafted_.sequence.vocab; ++t)
        ASSERT_EQ(counts->integer(b, t), count(drafted_.sequence.output, b, t) + emitted[t]) << "token " << t;
    }
  }

  Array& make(Element element, Array::Extents shape, Array::Extents strides = {}) {
    return arrays_.emplace_back(element, std::move(shape), std::move(strides));
  }
  Array& make(IntegerBits bits, Array::Extents shape) { return arrays_.emplace_back(bits, std::move(shape)); }
  Array& make(Array::Extents shape, Array::Extents strides = {}) {
    return arrays_.emplace_back(IntegerBits{32}, std::move(shape), std::move(strides));
  }

  quern_verify_draft_args args;
  Array *target, *draft_ids, *parents, *accepted, *ids, *path, *status, *logprobs, *offsets;
  Array *counts = nullptr, *allowed = nullptr, *output = nullptr;

 private:
  template <class T>
  static const T& at(const std::vector<std::vector<T>>& of, std::int64_t i, std::int64_t j) {
    return of[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
  static std::int64_t count(const std::vector<std::vector<std::int32_t>>& lists, std::int64_t b, std::int64_t t) {
    const auto& own = lists[static_cast<std::size_t>(b)];
    return std::count(own.begin(), own.end(), static_cast<std::int32_t>(t));
  }
  template <class Has>
  void each_word(Array& mask, Array::Extents extents, Has has) const {
    for (std::int64_t b = 0; b < extents[0]; ++b) {
      for (std::int64_t w = 0; w < extents[1]; ++w) {
        std::uint32_t bits = 0;
        for (std::int64_t t = 32 * w; t < std::min(32 * w + 32, drafted_.sequence.vocab); ++t)
          bits |= has(b, t) ? 1u << (t - 32 * w) : 0u;
        mask.set_integer(static_cast<std::int32_t>(bits), b, w);
      }
    }
  }
  const DLTensor* vector(const std::vector<float>& values) {
    if (values.empty()) return nullptr;
    Array& made = make(Element::f32, {static_cast<std::int64_t>(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) made.set(double{values[i]}, static_cast<std::int64_t>(i));
    return made.tensor();
  }
  const DLTensor* vector(const std::vector<std::int32_t>& values) {
    if (values.empty()) return nullptr;
    Array& made = make({static_cast<std::int64_t>(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) made.set_integer(values[i], static_cast<std::int64_t>(i));
    return made.tensor();
  }
  const DLTensor* lengths(const std::vector<std::vector<std::int32_t>>& lists) {
    std::vector<std::int32_t> all;
    for (const auto& each : lists) all.push_back(static_cast<std::int32_t>(each.size()));
    return vector(all);
  }
  // Behind what is there of a list lies a token that is not to count.
  const DLTensor* list(const std::vector<std::vector<std::int32_t>>& lists, std::int32_t behind, std::size_t more) {
    std::size_t most = more;
    for (const auto& each : lists) most = std::max(most, each.size() + more);
    Array& made = make({static_cast<std::int64_t>(lists.size()), static_cast<std::int64_t>(most)});
    for (std::size_t b = 0; b < lists.size(); ++b) {
      for (std::size_t i = 0; i < most; ++i)
        made.set_integer(i < lists[b].size() ? lists[b][i] : behind, static_cast<std::int64_t>(b),
                         static_cast<std::int64_t>(i));
    }
    return made.tensor();
  }

  const Drafted& drafted_;
  std::deque<Array> arrays_;
};

// Random logits of every shape and random edits; drafts are missing yet.
inline Drafted make_drafted(Random& random, Element element, std::int64_t vocab, std::size_t batch, std::int64_t n,
                            bool tree) {
  Drafted d;
  d.sequence = make_input(random, vocab, element, batch);
  add_edits(random, &d.sequence);
  d.n = n;
  const bool masked = !d.sequence.allowed.empty();
  for (std::int64_t r = 0; r <= n; ++r) {
    SampleInput more = make_input(random, vocab, element, batch);
    if (r == 0) more.logits = d.sequence.logits;
    for (std::size_t b = 0; b < batch; ++b) {
      // Quotients of subnormal numbers are another matter (sample's README).
      const auto is_small = [&](float x) { return x != 0 && std::fabs(x) < 1e-36f; };
      if (std::any_of(more.logits[b].begin(), more.logits[b].end(), is_small)) d.sequence.repetition[b] = 1.0f;
    }
    d.logits.push_back(more.logits);
    if (!masked) continue;
    std::vector<std::vector<std::uint8_t>>& masks = d.allowed.emplace_back();
    for (std::size_t b = 0; b < batch; ++b) {
      const std::uint64_t every = 1 + random.below(5);
      std::vector<std::uint8_t>& mask = masks.emplace_back(static_cast<std::size_t>(vocab));
      for (auto& bit : mask) bit = random.below(every) == 0;
    }
  }
  for (std::int64_t i = 0; tree && i < n; ++i)
    d.parents.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i) + 1)) - 1);
  d.drafts.assign(batch, std::vector<std::int32_t>(static_cast<std::size_t>(n)));
  return d;
}

}  // namespace quern::test
