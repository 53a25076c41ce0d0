// verify_draft's filters of logits against a stable sort in fp64: what stays can be drawn, with the probability that
// its log-probability tells, and the first token that does not stay is never accepted.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/staying.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {"verify_draft * logits=1 dtype=f16", "verify_draft * logits=1 dtype=bf16",
                                   "verify_draft * logits=1 dtype=f32"};
constexpr ThreeCalls<quern_verify_draft_args> kVerify{quern_verify_draft, quern_verify_draft_workspace,
                                                      quern_verify_draft_prepare};

struct Case {
  std::string name;
  Element element = Element::f32;
  std::int64_t vocab = 111, offset = 0;
  bool joint = false;
  std::int32_t max_sms = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name) -> Case& {
    all.emplace_back().name = name;
    return all.back();
  };
  for (const std::int64_t vocab : {1, 2, 111, 4099, 32000, 128256, 262144}) {
    if (!on_cuda() && vocab > 130000) continue;
    add("vocab" + std::to_string(vocab)).vocab = vocab;
  }
  add("joint").vocab = 32000;
  all.back().joint = true;
  add("bf16").vocab = 50001;
  all.back().element = Element::bf16;
  add("f16_joint").vocab = 20001;
  all.back().element = Element::f16, all.back().joint = true;
  add("few_blocks").vocab = 50001;
  all.back().offset = 3, all.back().max_sms = 1;
  return all;
}

class VerifyDraftFilters : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, VerifyDraftFilters, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

TEST_P(VerifyDraftFilters, LeaveThoseOfAStableSort) {
  const Case& c = GetParam();
  constexpr std::int64_t kNodes = 2, kKinds = static_cast<std::int64_t>(std::size(kAllNumbers)), kBatch = 3 * kKinds;
  Random random(c.name);
  const auto one_of = [&](auto... of) {
    const double all[] = {static_cast<double>(of)...};
    return all[random.below(sizeof...(of))];
  };
  Rows target(c.element, kBatch * kNodes, c.vocab, {c.offset, c.offset});
  Array temperatures(Element::f32, {kBatch}), top_ks(IntegerBits{32}, {kBatch}), top_ps(Element::f32, {kBatch}),
      min_ps(Element::f32, {kBatch}), draft_ids(IntegerBits{32}, {kBatch, 1}), accepted(IntegerBits{32}, {kBatch}),
      ids(IntegerBits{32}, {kBatch, kNodes}), logprobs(Element::f32, {kBatch, kNodes}),
      status(IntegerBits{32}, {kBatch});
  struct Truth {
    std::vector<std::int64_t> order;
    std::vector<double> weights;
    Staying staying;
  };
  std::vector<Truth> truths;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    temperatures.set(one_of(1.0, 0.75, 2.0), b);
    top_ks.set_integer(static_cast<std::int64_t>(one_of(0, -1, 1, 2, 50, 50, 300, 1 << 22)), b);
    top_ps.set(one_of(1.0, 0.9, 0.9, 0.5, 0.0, 0.999), b), min_ps.set(one_of(0.0, 0.0, 0.0, 0.05, 0.3), b);
    const Numbers kind = kAllNumbers[b % kKinds];
    Truth truth;
    double max = -std::numeric_limits<double>::infinity();
    std::vector<double> x;
    for (std::int64_t row = b * kNodes; row < (b + 1) * kNodes; ++row) {
      for (std::int64_t i = 0; i < c.vocab; ++i) {
        target.set(draw(row % kNodes == 0 ? kind : Numbers::normal, random, i, c.vocab), row, i);
        if (row % kNodes == 0) x.push_back(target.get(row, i));
      }
    }
    for (double& v : x) {
      v = std::isnan(v) ? -std::numeric_limits<double>::infinity() : v;
      max = std::max(max, v);
    }
    truth.order = ranked(x);
    double sum = 0;
    for (const double v : x) {
      const double z = v == max ? 0.0 : (max - v) / temperatures.get(b);
      // Beyond so much nothing is left of what others weigh, but for being a token.
      truth.weights.push_back(v > -std::numeric_limits<double>::infinity() ? std::exp(-std::min(z, 128.0)) : 0.0);
      sum += truth.weights.back();
    }
    truth.staying =
        staying_of(truth.weights, truth.order, {top_ks.integer(b), top_ps.get(b), min_ps.get(b), c.joint}, sum * 1e-6);
    const std::size_t outside = std::min(truth.staying.most, truth.order.size() - 1);
    draft_ids.set_integer(truth.order[outside], b, 0);
    truths.push_back(std::move(truth));
  }
  for (Array* each :
       {&target.array(), &temperatures, &top_ks, &top_ps, &min_ps, &draft_ids, &accepted, &ids, &logprobs, &status})
    each->upload();
  auto args = sized<quern_verify_draft_args>();
  // The rows of a sequence lie behind each other.
  DLTensor rows = *target.tensor();
  std::int64_t shape[] = {kBatch, kNodes, c.vocab}, strides[] = {kNodes * (c.vocab + c.offset), c.vocab + c.offset, 1};
  rows.ndim = 3, rows.shape = shape, rows.strides = strides;
  args.target = &rows, args.draft_ids = draft_ids.tensor(), args.accepted = accepted.tensor();
  args.ids = ids.tensor(), args.logprobs = logprobs.tensor(), args.status = status.tensor();
  args.temperatures = temperatures.tensor(), args.top_ks = top_ks.tensor(), args.top_ps = top_ps.tensor();
  args.min_ps = min_ps.tensor(), args.seed = 5, args.max_sms = c.max_sms, args.alignment = 4;
  args.flags = std::uint32_t{QUERN_VERIFY_LOGITS} | QUERN_VERIFY_LOGPROBS_FILTERED |
               (c.joint ? std::uint32_t{QUERN_VERIFY_JOINT} : 0u);
  ASSERT_NO_FATAL_FAILURE(run_op(context(), kVerify, args));
  for (Array* each : {&accepted, &ids, &logprobs, &status}) each->download();
  std::int64_t close = 0;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    SCOPED_TRACE("sequence " + std::to_string(b) + ", " + name_of(kAllNumbers[b % kKinds]));
    const Truth& truth = truths[static_cast<std::size_t>(b)];
    const bool empty = truth.staying.most == 0;
    EXPECT_EQ(status.integer(b), empty ? QUERN_SAMPLE_EMPTY : 0);
    if (empty) continue;
    const bool all = truth.staying.most == truth.order.size();
    EXPECT_TRUE(all || accepted.integer(b) == 0);
    // A draft that was accepted is the last of all.
    const std::int64_t id = ids.integer(b, 0);
    const auto place =
        static_cast<std::size_t>(std::find(truth.order.begin(), truth.order.end(), id) - truth.order.begin());
    EXPECT_LT(place, truth.staying.most);
    close += truth.staying.least != truth.staying.most;
    if (place >= truth.staying.most || truth.staying.least != truth.staying.most) continue;
    double sum = 0;
    for (std::size_t i = 0; i < truth.staying.most; ++i) sum += truth.weights[static_cast<std::size_t>(truth.order[i])];
    const double exact = std::log(truth.weights[static_cast<std::size_t>(id)] / sum);
    EXPECT_NEAR(logprobs.get(b, 0), exact, 1e-5 + std::fabs(exact) * 1e-6);
  }
  EXPECT_LE(close, kBatch / 3) << "sequences whose cut is too close to call";
}

}  // namespace
}  // namespace quern::test
