// verify_draft with penalties, biases and masks, and its log-probabilities: held against quern_sample drawing one token
// after the other. Greedy ones are the same tokens; others have the distribution that the definition of sample, in
// fp64, says of each row with its path's drafts behind the output, by chi-square.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/verify_draft_edits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "tests/ops/chi_square.h"

namespace quern::test {
namespace {

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
        EditedCall call(d, by_temperature ? 0u : std::uint32_t{QUERN_VERIFY_GREEDY}, shape.padding);
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
void expect_as_sampled(const Drafted& d, const EditedCall& call, const std::string& what) {
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
    EditedCall call(d, way.flags);
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
        EditedCall call(d, filtered, 1);
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
    auto call = std::make_unique<EditedCall>(d, 0u);
    Array& own = call->make(IntegerBits{64}, {4});
    for (std::int64_t b = 0; b < 4; ++b) own.set_integer(seeds[static_cast<std::size_t>(b)], b);
    call->args.seeds = own.tensor(), call->args.max_sms = sms;
    call->run(in);
    return call;
  };
  const auto together = run(context(), 0), few = run(context(), 1);
  std::unique_ptr<EditedCall> again;
  const Context unfair = on_cuda() ? Context{} : unfair_context(1);
  if (!on_cuda()) again = run(unfair.get(), 0);
  for (const EditedCall* other : {few.get(), again.get()}) {
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
    EditedCall call(d, flags);
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
    std::unique_ptr<EditedCall> call;
    quern_verify_draft_args& args;
    TensorBox spare;
    Bad() : call(prepare()), args(call->args) {
      for (Array* each : {call->target, call->draft_ids, call->ids, call->accepted, call->logprobs}) each->upload();
    }
    std::unique_ptr<EditedCall> prepare() {
      drafted.sequence.bias.assign(2, {{1, 0.5f}});
      drafted.allowed.assign(3, std::vector<std::vector<std::uint8_t>>(2, std::vector<std::uint8_t>(6, 1)));
      return std::make_unique<EditedCall>(drafted, 0u);
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
  expect_all_refused(mistakes, kVerifyEdits, [] { return std::make_unique<Bad>(); }, watch);
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
  expect_all_refused(by_value, kVerifyEdits, [] { return std::make_unique<Bad>(); }, watch);
}

}  // namespace
}  // namespace quern::test
