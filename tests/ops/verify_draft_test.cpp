// verify_draft against its definition: frequencies of what is written by chi-square, the very walk where it is certain.
//
// The number of sequences is what a few seconds of `host` allow; on a GPU it is 10^6, and QUERN_TEST_MANY asks for as
// many anywhere. False alarms: each statistic is held against its 1 - 10^-6 quantile, with some 200 of them in a run.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <memory>

#include "tests/ops/chi_square.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

// With clusters where a target has them, without where it has none: there is one kernel a target.
const ForEveryTarget kTemplates = {"verify_draft *",
                                   "verify_draft * step=edit dtype=f16",
                                   "verify_draft * step=edit dtype=bf16",
                                   "verify_draft * step=edit dtype=f32",
                                   "verify_draft * step=report dtype=f16",
                                   "verify_draft * step=report dtype=bf16",
                                   "verify_draft * step=report dtype=f32"};
constexpr ThreeCalls<quern_verify_draft_args> kVerify{quern_verify_draft, quern_verify_draft_workspace,
                                                      quern_verify_draft_prepare};

using Distribution = std::vector<double>;  // of numbers that f32 has
Distribution draw_distribution(Random& random, std::int64_t vocab, double sharp) {
  Distribution p;
  double sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i)
    p.push_back(random.below(6) == 0 ? 0.0 : std::pow(random.uniform(), sharp)), sum += p.back();
  if (sum == 0) p[0] = sum = 1;
  for (double& v : p) v = static_cast<float>(v / sum);
  return p;
}
std::int64_t draw_of(Random& random, const Distribution& p, const std::vector<bool>& gone = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += !gone.empty() && gone[i] ? 0 : p[i];
  double at = random.uniform() * sum;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if ((!gone.empty() && gone[i]) || p[i] == 0) continue;
    last = static_cast<std::int64_t>(i);
    if ((at -= p[i]) < 0) break;
  }
  return last;
}

enum class How { independent, distinct, chosen };

// Sequences that all have the same tree and the same distributions behind each node, with drafts of their own.
struct Tree {
  std::string name;
  std::vector<std::int64_t> parents;  // empty: a chain of `chain`
  std::int64_t chain = 0, vocab = 7;
  How how = How::independent;
  std::int64_t depth = -1;  // n unless given
  bool logits = false;
  double sharp = 3;
  std::int64_t nodes() const { return parents.empty() ? chain : static_cast<std::int64_t>(parents.size()); }
  std::int64_t parent(std::int64_t i) const { return parents.empty() ? i - 1 : parents[static_cast<std::size_t>(i)]; }
};
void PrintTo(const Tree& t, std::ostream* out) { *out << t.name; }

class Problem {
 public:
  Problem(const Tree& tree, std::int64_t batch, std::uint64_t seed = 11)
      : args(sized<quern_verify_draft_args>()),
        target(Element::f32, {batch, tree.nodes() + 1, tree.vocab}),
        draft(Element::f32, {batch, std::max<std::int64_t>(tree.nodes(), 1), tree.vocab}),
        draft_ids(IntegerBits{32}, {batch, tree.nodes()}),
        parents(IntegerBits{32}, {batch, tree.nodes()}),
        accepted(IntegerBits{32}, {batch}),
        ids(IntegerBits{32}, {batch, depth_of(tree) + 1}, {depth_of(tree) + 3, 1}),
        path(IntegerBits{32}, {batch, depth_of(tree)}),
        status(IntegerBits{32}, {batch}),
        offsets(IntegerBits{64}, {batch}),
        tree_(tree),
        batch_(batch) {
    Random random(tree.name);
    const std::int64_t n = tree.nodes();
    for (std::int64_t j = 0; j <= n; ++j) {
      behind.push_back(draw_distribution(random, tree.vocab, tree.sharp));
      drawn_from.push_back(draw_distribution(random, tree.vocab, tree.sharp));
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t j = 0; j <= n; ++j) {
        for (std::int64_t t = 0; t < tree.vocab; ++t) {
          const double p = behind[static_cast<std::size_t>(j)][static_cast<std::size_t>(t)];
          target.set(tree.logits ? std::log(p) * 0.7 : p, b, j, t);
          if (j < n) draft.set(drawn_from[static_cast<std::size_t>(j)][static_cast<std::size_t>(t)], b, j, t);
        }
      }
      std::map<std::int64_t, std::vector<bool>> gone;  // of each node's children
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t parent = tree.parent(i);
        std::vector<bool>& of_parent = gone[parent];
        of_parent.resize(static_cast<std::size_t>(tree.vocab));
        const Distribution& q = drawn_from[static_cast<std::size_t>(parent + 1)];
        std::int64_t token = draw_of(random, q, tree.how == How::distinct ? of_parent : std::vector<bool>{});
        if (tree.how == How::chosen) token = (i * 3 + parent + 1) % tree.vocab;
        of_parent[static_cast<std::size_t>(token)] = true;
        draft_ids.set_integer(token, b, i), parents.set_integer(parent, b, i);
      }
      offsets.set_integer(b % 1000, b);
    }
    args.target = target.tensor(), args.draft = tree.how == How::chosen || n == 0 ? nullptr : draft.tensor();
    args.draft_ids = draft_ids.tensor(), args.parents = tree.parents.empty() ? nullptr : parents.tensor();
    args.accepted = accepted.tensor(), args.ids = ids.tensor(), args.path = path.tensor();
    args.status = status.tensor(), args.offsets = offsets.tensor();
    args.seed = seed;
    args.flags = (tree.how == How::distinct ? std::uint32_t{QUERN_VERIFY_WITHOUT_REPLACEMENT} : 0u) |
                 (tree.logits ? std::uint32_t{QUERN_VERIFY_LOGITS} | QUERN_VERIFY_TEMPERATURE : 0u);
    args.temperature = tree.logits ? 0.7f : 0.0f;
    upload();
  }
  void upload() {
    for (Array* each : {&target, &draft, &draft_ids, &parents, &accepted, &ids, &path, &status, &offsets})
      each->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_op(context, kVerify, args));
    for (Array* each : {&accepted, &ids, &path, &status, &offsets}) each->download();
  }

  // What is written makes sense, and behind each node that a walk came to, tokens are distributed as target says.
  void check() const {
    std::map<std::int64_t, std::vector<std::int64_t>> seen;  // behind each node
    const std::int64_t depth = depth_of(tree_);
    std::int64_t wrong = 0;
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t count = accepted.integer(b);
      wrong += count < 0 || count > depth || status.integer(b) != 0 || offsets.integer(b) != b % 1000 + 1;
      std::int64_t node = -1;
      for (std::int64_t d = 0; d <= depth; ++d) {
        const std::int64_t token = ids.integer(b, d);
        if (d > count) {
          wrong += token != -1 || (d < depth && path.integer(b, d) != -1);
          continue;
        }
        if (token < 0 || token >= tree_.vocab) {
          ++wrong;
          break;
        }
        std::vector<std::int64_t>& behind_node = seen[node];
        behind_node.resize(static_cast<std::size_t>(tree_.vocab));
        ++behind_node[static_cast<std::size_t>(token)];
        if (d == count) {
          wrong += d < depth && path.integer(b, d) != -1;
          continue;
        }
        const std::int64_t child = path.integer(b, d);
        if (child <= node || child >= tree_.nodes()) {
          ++wrong;
          break;
        }
        wrong += tree_.parent(child) != node || draft_ids.integer(b, child) != token;
        node = child;
      }
    }
    EXPECT_EQ(wrong, 0);
    for (const auto& [node, tokens] : seen)
      expect_distributed(behind[static_cast<std::size_t>(node + 1)], tokens,
                         tree_.name + " behind node " + std::to_string(node));
    EXPECT_GE(seen.size(), 1u);
  }
  static std::int64_t depth_of(const Tree& tree) { return tree.depth >= 0 ? tree.depth : tree.nodes(); }

  quern_verify_draft_args args;
  Array target, draft, draft_ids, parents, accepted, ids, path, status, offsets;
  std::vector<Distribution> behind, drawn_from;

 private:
  const Tree tree_;
  const std::int64_t batch_;
};

std::vector<Tree> trees() {
  std::vector<Tree> all;
  const auto add = [&](const std::string& name) -> Tree& {
    all.emplace_back().name = name;
    return all.back();
  };
  for (std::int64_t n = 0; n <= 8; ++n) {
    Tree& t = add("chain" + std::to_string(n));
    t.chain = n, t.sharp = n % 2 == 0 ? 1 : 3;
  }
  Tree& chosen = add("chain_chosen");
  chosen.chain = 3, chosen.how = How::chosen;
  Tree& logits = add("chain_logits");
  logits.chain = 2, logits.logits = true, logits.sharp = 1;
  Tree& early = add("chain_ended_early");
  early.chain = 5, early.depth = 2, early.sharp = 1;
  Tree& one = add("one_token");
  one.chain = 2, one.vocab = 1;
  Tree& wide = add("vocab111");
  wide.chain = 2, wide.vocab = 111, wide.sharp = 1;
  for (const How how : {How::independent, How::distinct, How::chosen}) {
    const std::string suffix = how == How::independent ? "" : how == How::distinct ? "_distinct" : "_chosen";
    Tree& siblings = add("siblings" + suffix);
    siblings.parents = {-1, -1, -1, -1}, siblings.how = how, siblings.depth = 1, siblings.vocab = 9;
    Tree& tree = add("tree" + suffix);
    tree.parents = {-1, -1, 0, 0, 1, 0, 4}, tree.how = how, tree.depth = 3, tree.sharp = 1;
  }
  Tree& tree_logits = add("tree_logits");
  tree_logits.parents = {-1, -1, 0, 0}, tree_logits.logits = true, tree_logits.sharp = 1;
  return all;
}
class VerifyDraft : public testing::TestWithParam<Tree> {};
INSTANTIATE_TEST_SUITE_P(Trees, VerifyDraft, testing::ValuesIn(trees()),
                         [](const testing::TestParamInfo<Tree>& of) { return of.param.name; });

TEST_P(VerifyDraft, IsDistributedAsTargetSays) {
  // What a wrong rest of the draft's distribution changes is little: these take more to be seen.
  const bool subtle = GetParam().how == How::distinct && GetParam().depth == 1;
  Problem problem(GetParam(), std::min<std::int64_t>(many() * (subtle ? 8 : 1), 1 << 20));  // as many as a call takes
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// Large vocabularies: a draft with a probability of 1 is accepted, one without none is not, and then what is drawn is
// of what only target has.
TEST(VerifyDraftCertain, WhereAllIsDecided) {
  for (const std::int64_t vocab : {111, 32000, 128256, 151936, 262144}) {
    if (!on_cuda() && vocab > 130000 && vocab != 262144) continue;
    SCOPED_TRACE(vocab);
    Tree tree;
    tree.name = "certain" + std::to_string(vocab), tree.vocab = vocab, tree.chain = 3;
    Problem problem(tree, 3);
    Random random("certain");
    std::vector<std::int64_t> last;
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t stop = b;  // how many are accepted
      for (std::int64_t j = 0; j <= 3; ++j) {
        const auto drafted = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocab) - 1));
        for (std::int64_t t = 0; t < vocab; ++t) {
          if (j < 3) problem.draft.set(t == drafted ? 1.0 : 0.0, b, j, t);
          // Behind the last accepted one target has nothing of the draft's token, and all else on two others.
          problem.target.set(j < stop                      ? t == drafted
                             : t == vocab - 1              ? 0.75
                             : t == (drafted == 0 ? 1 : 0) ? 0.25
                                                           : 0.0,
                             b, j, t);
        }
        if (j < 3) problem.draft_ids.set_integer(drafted, b, j);
        if (j == stop) last.push_back(drafted == 0 ? 1 : 0);
      }
    }
    problem.upload();
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    for (std::int64_t b = 0; b < 3; ++b) {
      EXPECT_EQ(problem.accepted.integer(b), b);
      EXPECT_EQ(problem.status.integer(b), 0);
      const std::int64_t token = problem.ids.integer(b, b);
      EXPECT_TRUE(token == vocab - 1 || token == last[static_cast<std::size_t>(b)]) << token;
      for (std::int64_t d = 0; d < b; ++d) {
        EXPECT_EQ(problem.ids.integer(b, d), problem.draft_ids.integer(b, d));
        EXPECT_EQ(problem.path.integer(b, d), d);
      }
    }
  }
}

// Greedy: the walk that argmax takes, of probabilities and of logits; temperature 0 and top-k 1 take the same.
TEST(VerifyDraftGreedy, GoesWhereTargetIsLargest) {
  Tree tree;
  tree.name = "greedy", tree.parents = {-1, -1, 1, 1, 3}, tree.vocab = 300, tree.depth = 3, tree.how = How::chosen;
  for (const int way : {0, 1, 2, 3}) {  // probabilities, logits, temperature 0, top-k 1
    SCOPED_TRACE(way);
    tree.logits = way != 0;
    Problem problem(tree, 4);
    std::vector<std::int64_t> best;
    for (const Distribution& p : problem.behind) best.push_back(ranked(p)[0]);
    // b sequences go b steps along 1, 3, 4.
    const std::int64_t along[] = {1, 3, 4};
    for (std::int64_t b = 0; b < 4; ++b) {
      for (std::int64_t i = 0; i < 5; ++i)
        problem.draft_ids.set_integer((best[static_cast<std::size_t>(tree.parent(i)) + 1] + 7) % 300, b, i);
      for (std::int64_t d = 0; d < b; ++d)
        problem.draft_ids.set_integer(best[static_cast<std::size_t>(tree.parent(along[d])) + 1], b, along[d]);
    }
    problem.upload();
    problem.args.temperature = 0.0f;
    problem.args.flags = way == 0   ? std::uint32_t{QUERN_VERIFY_GREEDY}
                         : way == 1 ? std::uint32_t{QUERN_VERIFY_GREEDY} | QUERN_VERIFY_LOGITS
                         : way == 2 ? std::uint32_t{QUERN_VERIFY_LOGITS} | QUERN_VERIFY_TEMPERATURE
                                    : std::uint32_t{QUERN_VERIFY_LOGITS};
    problem.args.top_k = way == 3 ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    for (std::int64_t b = 0; b < 4; ++b) {
      EXPECT_EQ(problem.accepted.integer(b), b);
      std::int64_t node = -1;
      for (std::int64_t d = 0; d < b; ++d) EXPECT_EQ(problem.path.integer(b, d), node = along[d]);
      EXPECT_EQ(problem.ids.integer(b, b), best[static_cast<std::size_t>(node) + 1]);
    }
  }
}

// The same result alone, in any order, with few multiprocessors; and lengths that leave some drafts out.
TEST(VerifyDraftSequences, AreTheirOwn) {
  Tree tree;
  tree.name = "own", tree.chain = 4, tree.vocab = 9001, tree.sharp = 1;
  Problem together(tree, 6);
  Array seeds(IntegerBits{64}, {6});
  for (std::int64_t b = 0; b < 6; ++b) seeds.set_integer(100 + b, b);
  seeds.upload();
  together.args.seeds = seeds.tensor();
  ASSERT_NO_FATAL_FAILURE(together.run(context()));
  const auto same = [&](const Problem& other) {
    for (std::int64_t b = 0; b < 6; ++b) {
      for (std::int64_t d = 0; d <= 4; ++d) EXPECT_EQ(other.ids.integer(b, d), together.ids.integer(b, d));
    }
  };
  Problem few(tree, 6);
  few.args.seeds = seeds.tensor(), few.args.max_sms = 1;
  ASSERT_NO_FATAL_FAILURE(few.run(context()));
  same(few);
  if (!on_cuda()) {
    const Context unfair = unfair_context(0);
    Problem again(tree, 6);
    again.args.seeds = seeds.tensor();
    ASSERT_NO_FATAL_FAILURE(again.run(unfair.get()));
    same(again);
  }
  Problem shorter(tree, 6);
  Array lengths(IntegerBits{32}, {6});
  for (std::int64_t b = 0; b < 6; ++b) lengths.set_integer(b % 3, b);
  lengths.upload();
  shorter.args.seeds = seeds.tensor(), shorter.args.lengths = lengths.tensor();
  ASSERT_NO_FATAL_FAILURE(shorter.run(context()));
  for (std::int64_t b = 0; b < 6; ++b)
    EXPECT_EQ(shorter.accepted.integer(b), std::min<std::int64_t>(together.accepted.integer(b), b % 3));
}

// The largest vocabularies, in rows that begin within a vector, by one block a row: each token can be written.
TEST(VerifyDraftSequences, WriteAnyTokenOfTheLargestVocabulary) {
  constexpr std::int64_t kVocab = std::int64_t{1} << 20;
  for (const std::int64_t shift : {0, 1, 3}) {
    for (const std::int64_t token : {std::int64_t{0}, std::int64_t{65539}, kVocab / 2 + 1, kVocab - 1}) {
      SCOPED_TRACE(std::to_string(shift) + ", token " + std::to_string(token));
      Array target(Element::f32, {1, 1, kVocab + 4}), draft_ids(IntegerBits{32}, {1, 0}),
          accepted(IntegerBits{32}, {1}), ids(IntegerBits{32}, {1, 1}), status(IntegerBits{32}, {1});
      for (std::int64_t t = 0; t < kVocab + 4; ++t) target.set(0, 0, 0, t);
      target.set(1, 0, 0, shift + token);
      for (Array* each : {&target, &draft_ids, &accepted, &ids, &status}) each->upload();
      target.box().shape[2] = kVocab, target.box().tensor.byte_offset = static_cast<std::uint64_t>(4 * shift);
      auto args = sized<quern_verify_draft_args>();
      args.target = target.tensor(), args.draft_ids = draft_ids.tensor(), args.accepted = accepted.tensor();
      args.ids = ids.tensor(), args.status = status.tensor();
      args.alignment = 4, args.max_sms = 1, args.seed = 5;
      ASSERT_NO_FATAL_FAILURE(run_op(context(), kVerify, args));
      ids.download(), status.download();
      EXPECT_EQ(ids.integer(0, 0), token);
      EXPECT_EQ(status.integer(0), 0);
    }
  }
}

// Drafts that are all taken, as draft and target say the same: what lies behind a length is not.
TEST(VerifyDraftSequences, EndWhereTheirDraftsEnd) {
  Tree tree;
  tree.name = "ends", tree.chain = 4, tree.vocab = 11, tree.sharp = 1;
  Problem whole(tree, 6), shorter(tree, 6);
  Array lengths(IntegerBits{32}, {6});
  for (Problem* each : {&whole, &shorter}) {
    for (std::int64_t b = 0; b < 6; ++b) {
      for (std::int64_t j = 0; j < 4; ++j) {
        for (std::int64_t t = 0; t < 11; ++t) {
          each->target.set(1.0 / 11, b, j, t);
          each->draft.set(1.0 / 11, b, j, t);
        }
      }
      lengths.set_integer(b % 5, b);
    }
    each->upload();
  }
  lengths.upload();
  shorter.args.lengths = lengths.tensor();
  ASSERT_NO_FATAL_FAILURE(whole.run(context()));
  ASSERT_NO_FATAL_FAILURE(shorter.run(context()));
  for (std::int64_t b = 0; b < 6; ++b) {
    EXPECT_EQ(whole.accepted.integer(b), 4);
    EXPECT_EQ(shorter.accepted.integer(b), b % 5);
  }
}

// A row with nothing to draw says so, and no other.
TEST(VerifyDraftSequences, TellWhatIsWrong) {
  Tree tree;
  tree.name = "wrong", tree.chain = 2, tree.vocab = 50;
  Problem problem(tree, 4);
  for (std::int64_t t = 0; t < 50; ++t) problem.target.set(t % 2 == 0 ? -1.0 : std::nan(""), 1, 0, t);
  if (on_cuda()) problem.draft_ids.set_integer(50, 2, 1);
  problem.upload();
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  for (std::int64_t b = 0; b < 4; ++b) {
    const int wrong = b == 1 ? QUERN_SAMPLE_EMPTY : b == 2 && on_cuda() ? QUERN_SAMPLE_INDEX : 0;
    EXPECT_EQ(problem.status.integer(b), wrong);
    EXPECT_EQ(problem.ids.integer(b, 0) == -1, wrong != 0);
    EXPECT_TRUE(wrong == 0 || problem.accepted.integer(b) == 0);
  }
  tree.logits = true, tree.how = How::chosen;
  Problem logits(tree, 2);
  Array temperatures(Element::f32, {2});
  temperatures.set(-1.0, 0), temperatures.set(1.0, 1), temperatures.upload();
  logits.args.temperatures = temperatures.tensor();
  ASSERT_NO_FATAL_FAILURE(logits.run(context()));
  EXPECT_EQ(logits.status.integer(0), static_cast<int>(QUERN_SAMPLE_PARAMETER));
  EXPECT_EQ(logits.status.integer(1), 0);
}

TEST(VerifyDraftRefuses, EveryWrongArgument) {
  using P = Problem&;
  const std::vector<Mistake<Problem>> mistakes = {
      {"target NULL", {"target", "NULL"}, [](P d) { d.args.target = nullptr; }},
      {"draft_ids NULL", {"draft_ids", "NULL"}, [](P d) { d.args.draft_ids = nullptr; }},
      {"accepted NULL", {"accepted", "NULL"}, [](P d) { d.args.accepted = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](P d) { d.args.ids = nullptr; }},
      {"target's dtype", {"target", "bf16", "f32"}, [](P d) { d.target.box().tensor.dtype = dtype_of(Format::bf16); }},
      {"target's rank", {"target", "dimensions"}, [](P d) { d.target.box().tensor.ndim = 2; }},
      {"target's rows", {"target.shape[1]", "4"}, [](P d) { d.target.box().shape[1] = 3; }},
      {"draft's rows", {"draft.shape[1]", "3"}, [](P d) { d.draft.box().shape[1] = 2; }},
      {"draft's vocabulary", {"draft.shape[2]", "7"}, [](P d) { d.draft.box().shape[2] = 6; }},
      {"ids' columns", {"ids.shape[1]", "1 to"}, [](P d) { d.ids.box().shape[1] = 5; }},
      {"path's columns", {"path.shape[1]", "3"}, [](P d) { d.path.box().shape[1] = 2; }},
      {"status' dtype", {"status", "f32"}, [](P d) { d.status.box().tensor.dtype = kFloat32; }},
      {"offsets' dtype", {"offsets", "int32"}, [](P d) { d.offsets.box().tensor.dtype = kInt32; }},
      {"draft when greedy", {"draft", "QUERN_VERIFY_GREEDY"}, [](P d) { d.args.flags = QUERN_VERIFY_GREEDY; }},
      {"replacement without draft",
       {"QUERN_VERIFY_WITHOUT_REPLACEMENT", "draft"},
       [](P d) { d.args.draft = nullptr, d.args.flags = QUERN_VERIFY_WITHOUT_REPLACEMENT; }},
      {"temperature of probabilities",
       {"temperature", "QUERN_VERIFY_LOGITS"},
       [](P d) { d.args.flags = QUERN_VERIFY_TEMPERATURE; }},
      {"top_k of probabilities", {"top_k", "QUERN_VERIFY_LOGITS"}, [](P d) { d.args.top_k = 5; }},
      {"top_p",
       {"top_p", "0 to 1"},
       [](P d) { d.args.top_p = 2.0f, d.args.flags = std::uint32_t{QUERN_VERIFY_LOGITS} | QUERN_VERIFY_TOP_P; }},
      {"temperature",
       {"temperature", "finite"},
       [](P d) {
         d.args.temperature = -1.0f, d.args.flags = std::uint32_t{QUERN_VERIFY_LOGITS} | QUERN_VERIFY_TEMPERATURE;
       }},
      {"no workspace", {"workspace"}, [](P d) { d.args.flags = QUERN_VERIFY_LOGITS; }, true},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 23; }},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  Tree tree;
  tree.name = "refused", tree.chain = 3;
  const auto watch = [](P d) {
    return [&d] {
      d.ids.download(), d.accepted.download();
      return d.ids.is_untouched(0, 0) && d.accepted.is_untouched(1);
    };
  };
  expect_all_refused(mistakes, kVerify, [&] { return std::make_unique<Problem>(tree, 2); }, watch);
  if (on_cuda()) return;
  const std::vector<Mistake<Problem>> by_value = {
      {"a token too large",
       {"draft_ids[1][2]", "7", "0 to 6"},
       [](P d) { d.draft_ids.set_integer(7, 1, 2), d.draft_ids.upload(); },
       true},
      {"a parent behind its node",
       {"parents[0][1]", "-1 to 0"},
       [](P d) { d.parents.set_integer(1, 0, 1), d.parents.upload(), d.args.parents = d.parents.tensor(); },
       true},
  };
  expect_all_refused(by_value, kVerify, [&] { return std::make_unique<Problem>(tree, 2); }, watch);
}

}  // namespace
}  // namespace quern::test
