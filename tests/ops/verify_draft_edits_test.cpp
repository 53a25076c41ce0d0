// verify_draft with penalties, biases and masks, and its log-probabilities: held against quern_sample drawing one token
// after the other. Greedy ones are the same tokens; others have the distribution that the definition of sample, in
// fp64, says of each row with its path's drafts behind the output, by chi-square.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>

#include "tests/ops/chi_square.h"
#include "tests/ops/rows.h"
#include "tests/ops/sample_inputs.h"

namespace quern::test {
namespace {

constexpr ThreeCalls<quern_verify_draft_args> kVerify{quern_verify_draft, quern_verify_draft_workspace,
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

class Call {
 public:
  Call(const Drafted& d, std::uint32_t flags, std::int64_t padding = 0)
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
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void run(quern_context* in) {
    for (Array& each : arrays_) each.upload();
    ASSERT_NO_FATAL_FAILURE(run_op(in, kVerify, args));
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
Drafted make_drafted(Random& random, Element element, std::int64_t vocab, std::size_t batch, std::int64_t n,
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

// Greedily: what a loop of quern_sample calls says, for chains and trees, with penalties that the drafts on the path
// are part of.
TEST(VerifyDraftEdits, GreedyTokensAreThoseOfOneAfterTheOther) {
  Random random("verify edits greedy");
  struct Shape {
    Element element;
    std::int64_t vocab, n;
    bool tree;
    std::int64_t padding;
  };
  const std::vector<Shape> shapes = {
      {Element::f32, 40, 4, false, 0},   {Element::f32, 40, 7, true, 1},    {Element::bf16, 1000, 3, true, 0},
      {Element::f16, 1031, 5, false, 3}, {Element::f32, 5003, 2, false, 0}, {Element::f32, 1, 2, false, 0},
      {Element::f32, 33, 0, false, 0},   {Element::bf16, 9001, 6, true, 5}, {Element::f32, 64, 12, true, 0}};
  std::int64_t taken = 0, all = 0;
  for (int round = 0; round < (on_cuda() ? 20 : 1); ++round) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE("round " + std::to_string(round) + ", vocab " + std::to_string(shape.vocab) + ", n " +
                   std::to_string(shape.n) + ", QUERN_TEST_SEED=" + std::to_string(run_seed()));
      const std::size_t batch = 5;
      Drafted d = make_drafted(random, shape.element, shape.vocab, batch, shape.n, shape.tree);
      d.sequence.temperature.assign(batch, 0.0f);
      if (shape.n > 2 && random.below(2) != 0) {
        for (std::size_t b = 0; b < batch; ++b)
          d.lengths.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(shape.n) + 1)));
      }
      if (shape.n > 2 && random.below(3) == 0) d.depth = shape.n - 1;
      // Sampled level by level: a draft is mostly what comes behind its parent.
      std::vector<SampleOutput> rows;
      for (std::int64_t r = 0; r <= shape.n; ++r) {
        rows.push_back(SampleCall(d.behind(r)).run());
        if (r == shape.n) break;
        for (std::size_t b = 0; b < batch; ++b) {
          const std::int64_t best = rows[static_cast<std::size_t>(d.parent(r) + 1)].ids[b];
          d.drafts[b][static_cast<std::size_t>(r)] =
              best >= 0 && random.below(5) != 0
                  ? static_cast<std::int32_t>(best)
                  : static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(shape.vocab)));
        }
      }
      for (const bool by_temperature : {false, true}) {
        Call call(d, by_temperature ? 0u : std::uint32_t{QUERN_VERIFY_GREEDY}, shape.padding);
        if (!by_temperature) call.args.temperatures = nullptr;
        ASSERT_NO_FATAL_FAILURE(call.run(context()));
        ASSERT_NO_FATAL_FAILURE(call.check());
        for (std::size_t b = 0; b < batch; ++b) {
          SCOPED_TRACE(b);
          const auto s = static_cast<std::int64_t>(b);
          std::vector<std::int64_t> tokens;
          std::vector<float> logprobs;
          std::int64_t node = -1;
          for (;;) {
            const SampleOutput& row = rows[static_cast<std::size_t>(node + 1)];
            tokens.push_back(row.ids[b]), logprobs.push_back(row.logprobs[b]);
            std::int64_t child = node + 1;
            while (child < d.length(b) &&
                   (d.parent(child) != node || d.drafts[b][static_cast<std::size_t>(child)] != row.ids[b]))
              ++child;
            if (row.ids[b] < 0 || child >= d.length(b) || static_cast<std::int64_t>(tokens.size()) > d.deepest()) break;
            node = child;
          }
          if (tokens.back() < 0) {
            EXPECT_EQ(call.status->integer(s), static_cast<int>(QUERN_SAMPLE_EMPTY));
            EXPECT_EQ(call.ids->integer(s, 0), -1);
            continue;
          }
          EXPECT_EQ(call.status->integer(s), 0);
          ASSERT_EQ(call.accepted->integer(s), static_cast<std::int64_t>(tokens.size()) - 1);
          all += static_cast<std::int64_t>(tokens.size()), taken += static_cast<std::int64_t>(tokens.size()) - 1;
          for (std::size_t k = 0; k < tokens.size(); ++k) {
            EXPECT_EQ(call.ids->integer(s, static_cast<std::int64_t>(k)), tokens[k]);
            const double told = call.logprobs->get(s, static_cast<std::int64_t>(k)), by_sample = double{logprobs[k]};
            EXPECT_NEAR(told, by_sample, 3e-5 + 6e-6 * std::fabs(by_sample)) << "place " << k;
          }
        }
      }
    }
  }
  EXPECT_GT(4 * taken, all) << "the drafts are not what a model would have said";
}

// Sequences that all have the same tree and the same logits and edits, with drafts of their own.
Drafted make_alike(std::size_t batch, std::vector<std::int64_t> parents, std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  constexpr std::int64_t kVocab = 6;
  Drafted d;
  d.parents = std::move(parents), d.n = n, d.depth = d.parents.empty() ? n : 2;
  d.sequence.vocab = kVocab;
  for (std::int64_t r = 0; r <= n; ++r) {
    std::vector<float> logits;
    for (std::int64_t t = 0; t < kVocab; ++t) logits.push_back(static_cast<float>(random.normal() * 1.2));
    d.logits.emplace_back(batch, logits);
  }
  d.sequence.logits = d.logits[0];
  for (std::size_t b = 0; b < batch; ++b) {
    std::vector<std::int32_t>& drafts = d.drafts.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) drafts.push_back(static_cast<std::int32_t>(random.below(kVocab)));
  }
  const auto all = [&](float v) { return std::vector<float>(batch, v); };
  d.sequence.repetition = all(1.6f), d.sequence.presence = all(0.5f), d.sequence.frequency = all(0.6f);
  d.sequence.prompt.assign(batch, {1}), d.sequence.output.assign(batch, {0, 2, 2});
  return d;
}
// Behind each path of drafts that a walk came to, tokens are distributed as sample's definition says; and a token's
// log-probability is that of the definition.
void expect_as_sampled(const Drafted& d, const Call& call, const std::string& what) {
  std::map<std::pair<std::int64_t, std::vector<std::int32_t>>, std::pair<std::size_t, std::vector<std::int64_t>>> seen;
  for (std::size_t b = 0; b < d.batch(); ++b) {
    const auto s = static_cast<std::int64_t>(b);
    for (std::int64_t k = 0, row = 0; k <= call.accepted->integer(s); ++k) {
      auto& [first, tokens] = seen[{row, d.path_to(b, row)}];
      if (tokens.empty()) first = b, tokens.resize(static_cast<std::size_t>(d.sequence.vocab));
      ++tokens[static_cast<std::size_t>(call.ids->integer(s, k))];
      if (k < call.accepted->integer(s)) row = call.path->integer(s, k) + 1;
    }
  }
  std::map<std::pair<std::int64_t, std::vector<std::int32_t>>, SampleRow> rows;
  for (const auto& [place, found] : seen) {
    const SampleRow row = rows[place] = expect_row(d.behind(place.first, found.first), 0);
    std::vector<double> p(static_cast<std::size_t>(d.sequence.vocab));
    for (std::size_t j = 0; j < row.kept.size(); ++j)
      p[static_cast<std::size_t>(row.kept[j])] = std::exp(row.logprob[j]);
    expect_distributed(p, found.second, what + " behind row " + std::to_string(place.first));
  }
  const bool filtered = (call.args.flags & QUERN_VERIFY_LOGPROBS_FILTERED) != 0;
  for (std::size_t b = 0; b < std::min<std::size_t>(d.batch(), 200); ++b) {
    const auto s = static_cast<std::int64_t>(b);
    for (std::int64_t k = 0, at = 0; k <= call.accepted->integer(s); ++k) {
      const SampleRow& row = rows[{at, d.path_to(b, at)}];
      const std::int64_t token = call.ids->integer(s, k);
      double exact = row.whole_logprob[static_cast<std::size_t>(token)];
      for (std::size_t j = 0; filtered && j < row.kept.size(); ++j) {
        if (row.kept[j] == token) exact = row.logprob[j];
      }
      ASSERT_NEAR(call.logprobs->get(s, k), exact, 2e-5) << what << ", sequence " << b << ", place " << k;
      if (k < call.accepted->integer(s)) at = call.path->integer(s, k) + 1;
    }
  }
}

TEST(VerifyDraftEdits, AreDistributedAsSampledOneAfterTheOther) {
  const auto batch = static_cast<std::size_t>(on_cuda() ? many() : many() * 3 / 5);
  struct Way {
    const char* name;
    std::vector<std::int64_t> parents;
    std::int64_t n;
    std::uint32_t flags;
    bool masks, filters, drawn;
  };
  const std::vector<Way> ways = {
      {"chain with masks", {}, 2, 0, true, false, false},
      {"chain with filters", {}, 2, QUERN_VERIFY_LOGPROBS_FILTERED, true, true, false},
      {"chain of a draft model's", {}, 2, 0, true, false, true},
      {"tree with masks and filters", {-1, -1, 0, 0, 1}, 5, 0, true, true, false},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(std::string(way.name) + ", QUERN_TEST_SEED=" + std::to_string(run_seed()));
    Drafted d = make_alike(std::min<std::size_t>(batch, 1 << 18), way.parents, way.n,
                           run_seed() * 7 + static_cast<std::uint64_t>(&way - ways.data()));
    d.sequence.temperature.assign(d.batch(), 0.8f);
    if (way.masks) {
      d.sequence.banned.assign(d.batch(), {5});
      d.sequence.bias.assign(d.batch(), {{3, 0.7f}, {0, -0.4f}});
      for (std::int64_t r = 0; r <= d.n; ++r) {
        std::vector<std::uint8_t> mask(6, 1);
        mask[static_cast<std::size_t>(r % 5)] = 0;
        d.allowed.emplace_back(d.batch(), mask);
      }
    }
    if (way.filters) d.sequence.top_p.assign(d.batch(), 0.85f), d.sequence.top_k.assign(d.batch(), 4);
    Call call(d, way.flags);
    if (way.drawn) {
      // Each was drawn with the same probability.
      Array& draft = call.make(Element::f32, {static_cast<std::int64_t>(d.batch()), d.n, 6});
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(d.batch()); ++b) {
        for (std::int64_t i = 0; i < d.n; ++i) {
          for (std::int64_t t = 0; t < 6; ++t) draft.set(1.0 / 6, b, i, t);
        }
      }
      call.args.draft = draft.tensor();
    }
    ASSERT_NO_FATAL_FAILURE(call.run(context()));
    ASSERT_NO_FATAL_FAILURE(call.check());
    expect_as_sampled(d, call, way.name);
  }
}

// Log-probabilities of logits that nothing edits, in every dtype; rows that begin anywhere; and without a path to
// write.
TEST(VerifyDraftEdits, LogProbabilitiesAloneAreTold) {
  Random random("verify logprobs");
  for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
    for (const std::uint32_t filtered : {0u, std::uint32_t{QUERN_VERIFY_LOGPROBS_FILTERED}}) {
      for (const bool with_path : {true, false}) {
        SCOPED_TRACE(std::string(element.name()) + ", filtered " + std::to_string(filtered) +
                     ", QUERN_TEST_SEED=" + std::to_string(run_seed()));
        Drafted d;
        d.sequence.element = element, d.sequence.vocab = 2500, d.n = 3;
        for (std::int64_t r = 0; r <= d.n; ++r) {
          for (int b = 0; b < 4; ++b) {
            if (b == 0) d.logits.emplace_back();
            d.logits.back().push_back(make_logits(random, LogitShape::peaked, 2500, element));
          }
        }
        d.sequence.logits = d.logits[0];
        d.sequence.temperature = {0.7f, 0.0f, 1.0f, 2.0f}, d.sequence.top_k = {20, 5, 0, 300};
        for (std::size_t b = 0; b < 4; ++b) {
          d.drafts.emplace_back();
          for (std::int64_t i = 0; i < d.n; ++i) d.drafts[b].push_back(expect_row(d.behind(i), b).largest);
        }
        Call call(d, filtered, 1);
        if (!with_path) call.args.path = nullptr;
        ASSERT_NO_FATAL_FAILURE(call.run(context()));
        for (std::size_t b = 0; b < 4; ++b) {
          const auto s = static_cast<std::int64_t>(b);
          EXPECT_EQ(call.status->integer(s), 0);
          for (std::int64_t k = 0; k <= call.accepted->integer(s); ++k) {
            const SampleRow row = expect_row(d.behind(k), b);
            const std::int64_t token = call.ids->integer(s, k);
            double exact = row.whole_logprob[static_cast<std::size_t>(token)];
            for (std::size_t j = 0; filtered != 0 && !row.greedy && j < row.kept.size(); ++j) {
              if (row.kept[j] == token) exact = row.logprob[j];
            }
            EXPECT_NEAR(call.logprobs->get(s, k), exact, 2e-5 + 4e-6 * std::fabs(exact)) << b << ", place " << k;
          }
        }
      }
    }
  }
}

// A sequence has the same results alone, with one multiprocessor, and by an unfair schedule.
TEST(VerifyDraftEdits, AreTheSequencesOwn) {
  Random random("verify edits own");
  Drafted d = make_drafted(random, Element::f32, 4099, 4, 3, false);
  d.sequence.temperature.assign(4, 0.9f);
  for (auto& drafts : d.drafts) {
    for (auto& token : drafts) token = static_cast<std::int32_t>(random.below(4099));
  }
  const std::vector<std::int32_t> seeds = {3, 5, 8, 13};
  const auto run = [&](quern_context* in, int sms) {
    auto call = std::make_unique<Call>(d, 0u);
    Array& own = call->make(IntegerBits{64}, {4});
    for (std::int64_t b = 0; b < 4; ++b) own.set_integer(seeds[static_cast<std::size_t>(b)], b);
    call->args.seeds = own.tensor(), call->args.max_sms = sms;
    call->run(in);
    return call;
  };
  const auto together = run(context(), 0), few = run(context(), 1);
  std::unique_ptr<Call> again;
  const Context unfair = on_cuda() ? Context{} : unfair_context(1);
  if (!on_cuda()) again = run(unfair.get(), 0);
  for (const Call* other : {few.get(), again.get()}) {
    if (other == nullptr) continue;
    EXPECT_EQ(other->ids->memory(), together->ids->memory());
    EXPECT_EQ(other->accepted->memory(), together->accepted->memory());
    EXPECT_EQ(other->logprobs->memory(), together->logprobs->memory());
  }
}

// What only the device sees is told by status: of penalties and biases that make no sense, and where nothing may be
// chosen. The other sequences go on.
TEST(VerifyDraftEdits, TellWhatIsWrong) {
  for (const std::uint32_t flags : {0u, std::uint32_t{QUERN_VERIFY_GREEDY}}) {
    SCOPED_TRACE(flags);
    Drafted d = make_alike(7, {}, 2, 99);
    d.sequence.repetition[0] = 0.0f, d.sequence.presence[1] = std::nanf("");
    d.sequence.bias.assign(7, {{1, 0.5f}});
    d.sequence.bias[2] = {{6, 0.5f}};             // outside the vocabulary
    d.sequence.bias[3] = {{1, 0.5f}, {2, 0.5f}};  // more than max_bias
    d.sequence.banned.assign(7, {-1});
    d.sequence.banned[4] = {0, 1, 2, 3, 4, 5};
    d.allowed.assign(3, std::vector<std::vector<std::uint8_t>>(7, std::vector<std::uint8_t>(6, 1)));
    d.allowed[0][5].assign(6, 0);
    Call call(d, flags);
    call.args.max_bias = 1;
    ASSERT_NO_FATAL_FAILURE(call.run(context()));
    ASSERT_NO_FATAL_FAILURE(call.check());
    const int expected[] = {QUERN_SAMPLE_PARAMETER,
                            QUERN_SAMPLE_PARAMETER,
                            QUERN_SAMPLE_INDEX,
                            QUERN_SAMPLE_CAPACITY,
                            QUERN_SAMPLE_EMPTY,
                            QUERN_SAMPLE_EMPTY,
                            0};
    for (std::int64_t b = 0; b < 7; ++b) EXPECT_EQ(call.status->integer(b), expected[b]) << b;
  }
}

TEST(VerifyDraftEdits, RefuseEveryWrongArgument) {
  struct Bad {
    Drafted drafted = make_alike(2, {}, 2, 1);
    std::unique_ptr<Call> call;
    quern_verify_draft_args& args;
    TensorBox spare;
    Bad() : call(prepare()), args(call->args) {
      for (Array* each : {call->target, call->draft_ids, call->ids, call->accepted, call->logprobs}) each->upload();
    }
    std::unique_ptr<Call> prepare() {
      drafted.sequence.bias.assign(2, {{1, 0.5f}});
      drafted.allowed.assign(3, std::vector<std::vector<std::uint8_t>>(2, std::vector<std::uint8_t>(6, 1)));
      return std::make_unique<Call>(drafted, 0u);
    }
  };
  using B = Bad&;
  const auto probabilities = [](B d) {
    d.args.flags = 0, d.args.logprobs = nullptr, d.args.repetitions = d.args.presences = d.args.frequencies = nullptr;
    d.args.prompt_tokens = d.args.prompt_lengths = d.args.output_tokens = d.args.output_lengths = nullptr;
    d.args.bias_offsets = d.args.bias_ids = d.args.bias_values = d.args.allowed = nullptr, d.args.max_bias = 0;
  };
  const std::vector<Mistake<Bad>> mistakes = {
      {"log-probabilities of probabilities", {"logprobs", "QUERN_VERIFY_LOGITS"}, [](B d) { d.args.flags = 0; }},
      {"penalties of probabilities",
       {"repetition", "QUERN_VERIFY_LOGITS"},
       [=](B d) { probabilities(d), d.args.repetition = 1.5f; }},
      {"masks when greedy, of probabilities",
       {"allowed", "QUERN_VERIFY_LOGITS"},
       [=](B d) {
         const DLTensor* const allowed = d.args.allowed;
         probabilities(d), d.args.flags = QUERN_VERIFY_GREEDY, d.args.allowed = allowed;
       }},
      {"filtered log-probabilities of probabilities",
       {"QUERN_VERIFY_LOGPROBS_FILTERED", "QUERN_VERIFY_LOGITS"},
       [=](B d) { probabilities(d), d.args.flags = QUERN_VERIFY_LOGPROBS_FILTERED; }},
      {"logprobs' columns", {"logprobs.shape[1]", "3"}, [](B d) { d.call->logprobs->box().shape[1] = 2; }},
      {"logprobs' dtype", {"logprobs", "int32"}, [](B d) { d.call->logprobs->box().tensor.dtype = kInt32; }},
      {"allowed's rows", {"allowed.shape[1]", "3"}, [](B d) { d.call->allowed->box().shape[1] = 2; }},
      {"allowed's words", {"allowed.shape[2]", "1"}, [](B d) { d.call->allowed->box().shape[2] = 2; }},
      {"allowed's rank", {"allowed", "dimensions"}, [](B d) { d.call->allowed->box().tensor.ndim = 2; }},
      {"repetition below 0",
       {"repetition", "-1"},
       [](B d) { d.args.repetitions = nullptr, d.args.repetition = -1.0f; }},
      {"presence NaN",
       {"presence", "a number"},
       [](B d) { d.args.presences = nullptr, d.args.presence = std::nanf(""); }},
      {"presence of nothing",
       {"presence", "output_counts"},
       [](B d) { d.args.output_tokens = d.args.output_lengths = nullptr; }},
      {"lengths of nothing",
       {"output_lengths", "output_tokens"},
       [](B d) { d.args.output_tokens = nullptr, d.args.presences = d.args.frequencies = nullptr; }},
      {"biases without values", {"bias_values"}, [](B d) { d.args.bias_values = nullptr; }},
      {"biases without offsets", {"bias_offsets"}, [](B d) { d.args.bias_offsets = nullptr; }},
      {"max_bias", {"max_bias", "-1"}, [](B d) { d.args.max_bias = -1; }},
      {"more tokens than lists may have",
       {"draft_ids", "8193", "8192"},
       [](B d) {
         d.args.output_tokens = nullptr, d.args.output_lengths = nullptr;
         d.args.prompt_tokens = d.args.prompt_lengths = nullptr, d.args.bias_offsets = nullptr;
         d.args.bias_ids = d.args.bias_values = nullptr, d.args.max_bias = 0;
         d.spare.set(kInt32, {2, 8191});
         d.spare.place(d.call->target->tensor()->data);
         d.args.output_tokens = d.spare.get();
       }},
  };
  const auto watch = [](B d) {
    return [&d] {
      d.call->ids->download(), d.call->accepted->download(), d.call->logprobs->download();
      return d.call->ids->is_untouched(0, 0) && d.call->accepted->is_untouched(1) &&
             d.call->logprobs->is_untouched(1, 0);
    };
  };
  expect_all_refused(mistakes, kVerify, [] { return std::make_unique<Bad>(); }, watch);
  if (on_cuda()) return;
  // Without a status to tell of them, the host's walk does.
  const std::vector<Mistake<Bad>> by_value = {
      {"a bias outside the vocabulary",
       {"bias_ids", "6"},
       [](B d) {
         Array& tokens = d.call->make({2});
         tokens.set_integer(6, 0), tokens.set_integer(1, 1), tokens.upload();
         Array& offsets = d.call->make({3});
         for (std::int64_t i = 0; i < 3; ++i) offsets.set_integer(i, i);
         offsets.upload();
         Array& lengths = d.call->make({2});
         lengths.set_integer(1, 0), lengths.set_integer(1, 1), lengths.upload();
         d.args.bias_ids = tokens.tensor(), d.args.bias_offsets = offsets.tensor();
         d.args.prompt_lengths = d.args.output_lengths = lengths.tensor();
         d.args.status = nullptr;
       },
       true},
  };
  expect_all_refused(by_value, kVerify, [] { return std::make_unique<Bad>(); }, watch);
}

}  // namespace
}  // namespace quern::test
