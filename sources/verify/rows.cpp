// Trials of ops on rows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "sources/ops.h"
#include "sources/verify/trial.h"

namespace quern::ops::verify {
namespace {

// What sums in f32 and the device's own exponentials may cost.
constexpr double kF32Slack = 0x1p-17;

std::string none(const Given&) { return ""; }
int one(const Given&) { return 1; }

std::unique_ptr<Trial> merge_state(const Given& given, int, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  constexpr std::int64_t kRows = 37, kHeads = 3, kDim = 72;
  const Dtype dtype = given.dtype("dtype");
  quern_merge_state_args args{};
  const Field &a = trial->given(dtype, {kRows, kHeads, kDim}), &b = trial->given(dtype, {kRows, kHeads, kDim});
  const Field &lse_a = trial->given(Dtype::f32, {kRows, kHeads}), &lse_b = trial->given(Dtype::f32, {kRows, kHeads});
  Field &out = trial->result(dtype, {kRows, kHeads, kDim}, kF32Slack),
        &lse = trial->result(Dtype::f32, {kRows, kHeads}, kF32Slack);
  for (std::int64_t i = 0; i < kRows * kHeads; ++i) {
    const double wa = std::exp(lse_a.get(i)), wb = std::exp(lse_b.get(i));
    lse.truth.push_back(std::log(wa + wb));
    for (std::int64_t d = 0; d < kDim; ++d)
      out.truth.push_back((wa * a.get(i * kDim + d) + wb * b.get(i * kDim + d)) / (wa + wb));
  }
  args.out_a = a.tensor(), args.out_b = b.tensor(), args.lse_a = lse_a.tensor(), args.lse_b = lse_b.tensor();
  args.out = out.tensor(), args.lse = lse.tensor();
  trial->what = "37 rows of 3 heads of 72";
  trial->call(ops::merge_state::workspace, ops::merge_state::run, args);
  return trial;
}

// Lengths on both sides of every change of how rows are shared out.
constexpr std::int64_t kLengths[] = {64,   96,   128,  200,  256,  384,   512,   768,   1024,  1536, 2048,
                                     2560, 3072, 4096, 5120, 7168, 8192,  12288, 16384, 32768, 65536};
constexpr int kLengthCount = static_cast<int>(std::size(kLengths));

// Each length, and one that no vector divides.
std::int64_t length_of(const Given& given, int which) {
  const std::int64_t n = kLengths[which % kLengthCount];
  return given.flag("tail") ? n - 3 : n;
}

std::unique_ptr<Trial> rmsnorm(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  const std::int64_t rows = 5, n = length_of(given, which);
  const Dtype dtype = given.dtype("dtype"), weight = given.dtype("weight");
  quern_rmsnorm_args args{};
  const Field& x = trial->given(dtype, {rows, n});
  const Field* const residual = given.flag("residual") ? &trial->given(dtype, {rows, n}) : nullptr;
  const Field* const weights = weight != Dtype::other ? &trial->given(weight, {n}) : nullptr;
  Field& out = trial->result(dtype, {rows, n}, kF32Slack + (residual != nullptr ? 0x1p-8 : 0));
  constexpr float kEps = 1e-5f;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = [&](std::int64_t i) {
      return x.get(r * n + i) + (residual != nullptr ? residual->get(r * n + i) : 0);
    };
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += at(i) * at(i);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + kEps);
    for (std::int64_t i = 0; i < n; ++i)
      out.truth.push_back(at(i) * scale * (weights != nullptr ? weights->get(i) : 1));
  }
  args.x = x.tensor(), args.out = out.tensor(), args.eps = kEps;
  if (residual != nullptr) {
    args.residual = residual->tensor();
    args.residual_out = trial->result(dtype, {rows, n}, 0).tensor();
  }
  if (weights != nullptr) args.weight = weights->tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("access", 16));
  trial->what = "5 rows of " + std::to_string(n);
  trial->call(ops::rmsnorm::workspace, ops::rmsnorm::run, args);
  return trial;
}

constexpr std::int64_t kVocabularies[] = {100, 1000, 4000, 8192, 16000, 32000, 64000, 128256, 201088, 262144, 600000};

std::unique_ptr<Trial> softmax(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  const std::int64_t rows = 3, n = kVocabularies[which];
  const Dtype dtype = given.dtype("dtype"), to = given.dtype("out", dtype);
  const bool log = given.flag("log");
  quern_softmax_args args{};
  const Field& x = trial->given(dtype, {rows, n});
  Field& out = trial->result(to, {rows, n}, kF32Slack);
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x.get(r * n + i));
    for (std::int64_t i = 0; i < n; ++i)
      out.truth.push_back(log ? x.get(r * n + i) - std::log(sum) : std::exp(x.get(r * n + i)) / sum);
  }
  args.logits = x.tensor(), args.out = out.tensor(), args.temperature = 1.0f;
  if (log) args.flags |= QUERN_SOFTMAX_LOG;
  trial->what = "3 rows of " + std::to_string(n);
  trial->call(ops::softmax::workspace, ops::softmax::run, args);
  return trial;
}

std::unique_ptr<Trial> argmax(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  const std::int64_t rows = 3, n = kVocabularies[which];
  quern_argmax_args args{};
  const Field& x = trial->given(given.dtype("dtype"), {rows, n});
  Field &ids = trial->result(Dtype::i32, {rows}, 0), &values = trial->result(Dtype::f32, {rows}, 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) best = x.get(r * n + i) > x.get(r * n + best) ? i : best;
    ids.truth.push_back(static_cast<double>(best)), values.truth.push_back(x.get(r * n + best));
  }
  args.logits = x.tensor(), args.ids = ids.tensor(), args.values = values.tensor();
  trial->what = "3 rows of " + std::to_string(n);
  trial->call(ops::argmax::workspace, ops::argmax::run, args);
  return trial;
}

constexpr int kAlignments[] = {16, 8, 4, 2, 1};

std::string gather_refusal(const Given& given) {
  const Dtype from = given.dtype("table");
  const bool numbers = from == Dtype::f16 || from == Dtype::bf16 || from == Dtype::f32;
  return numbers ? "" : "no trial is made of tables of " + given.text("table");
}
std::unique_ptr<Trial> gather(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  constexpr std::int64_t kRows = 50, kCount = 33, kN = 264;
  quern_gather_args args{};
  const Field& table = trial->given(given.dtype("table"), {kRows, kN});
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kCount; ++i) ids.push_back(static_cast<std::int64_t>(random() % kRows));
  Field& out = trial->result(given.dtype("out"), {kCount, kN}, 0);
  for (const std::int64_t id : ids)
    for (std::int64_t i = 0; i < kN; ++i) out.truth.push_back(table.get(id * kN + i));
  args.table = table.tensor(), args.ids = trial->integers({kCount}, ids).tensor(), args.out = out.tensor();
  args.alignment = kAlignments[which];
  trial->what = "33 of 50 rows of 264";
  trial->call(ops::gather::workspace, ops::gather::run, args);
  return trial;
}

std::unique_ptr<Trial> moe_combine(const Given& given, int, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  constexpr std::int64_t kRows = 40, kTokens = 17, kChoices = 3, kN = 200;
  const Dtype dtype = given.dtype("dtype");
  quern_moe_combine_args args{};
  const Field &x = trial->given(dtype, {kRows, kN}), &weights = trial->given(Dtype::f32, {kTokens, kChoices});
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < kTokens * kChoices; ++i)
    positions.push_back(static_cast<std::int64_t>(random() % (kRows + 1)) - 1);
  Field& out = trial->result(given.dtype("out", dtype), {kTokens, kN}, kF32Slack);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t i = 0; i < kN; ++i) {
      double sum = 0;
      for (std::int64_t c = 0; c < kChoices; ++c) {
        const std::int64_t row = positions[static_cast<std::size_t>(t * kChoices + c)];
        if (row >= 0) sum += weights.get(t * kChoices + c) * x.get(row * kN + i);
      }
      out.truth.push_back(sum);
    }
  }
  args.x = x.tensor(), args.weights = weights.tensor(), args.out = out.tensor();
  args.positions = trial->integers({kTokens, kChoices}, positions).tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial->what = "17 tokens, 3 of 40 rows of 200 each";
  trial->call(ops::moe_combine::workspace, ops::moe_combine::run, args);
  return trial;
}

std::string rope_refusal(const Given& given) {
  return given.text("table", "none") == "none" ? "" : "no trial is made with rope.table";
}
std::unique_ptr<Trial> rope(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  constexpr std::int64_t kTokens = 13, kHeads = 3;
  const std::int64_t dim = given.integer("dim"), rotary = given.integer("rotary_dim", dim);
  const bool interleaved = given.flag("interleaved");
  const Dtype dtype = given.dtype("dtype");
  auto& options = trial->keep(quern_rope_options{});
  options.size = sizeof(options), options.rotary_dim = static_cast<std::int32_t>(rotary);
  if (interleaved) options.flags |= QUERN_ROPE_INTERLEAVED;
  const Field& q = trial->given(dtype, {kTokens, kHeads, dim});
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < kTokens; ++t) positions.push_back(static_cast<std::int64_t>(random() % 100'000));
  Field& out = trial->result(dtype, {kTokens, kHeads, dim}, 0x1p-15);
  out.truth.resize(static_cast<std::size_t>(out.count()));
  for (std::int64_t row = 0; row < kTokens * kHeads; ++row) {
    for (std::int64_t d = 0; d < dim; ++d) out.truth[static_cast<std::size_t>(row * dim + d)] = q.get(row * dim + d);
    for (std::int64_t pair = 0; pair < rotary / 2; ++pair) {
      const std::int64_t first = row * dim + (interleaved ? 2 * pair : pair);
      const std::int64_t second = interleaved ? first + 1 : first + rotary / 2;
      const double angle = static_cast<double>(positions[static_cast<std::size_t>(row / kHeads)]) *
                           std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(rotary));
      const double a = q.get(first), b = q.get(second);
      out.truth[static_cast<std::size_t>(first)] = a * std::cos(angle) - b * std::sin(angle);
      out.truth[static_cast<std::size_t>(second)] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  quern_rope_args args{};
  args.q = q.tensor(), args.q_out = out.tensor(), args.rope = &options;
  args.positions = trial->integers({kTokens}, positions).tensor(), args.alignment = kAlignments[which];
  trial->what = "13 tokens of 3 heads";
  trial->call(ops::rope::workspace, ops::rope::run, args);
  return trial;
}

}  // namespace

const OpTrials kMergeState{"merge_state", none, one, merge_state};
const OpTrials kRmsnorm{"rmsnorm", none, [](const Given&) { return kLengthCount; }, rmsnorm};
const OpTrials kSoftmax{"softmax", none, [](const Given&) { return static_cast<int>(std::size(kVocabularies)); },
                        softmax};
const OpTrials kArgmax{"argmax", none, [](const Given&) { return static_cast<int>(std::size(kVocabularies)); }, argmax};
const OpTrials kGather{"gather", gather_refusal, [](const Given&) { return 5; }, gather};
const OpTrials kMoeCombine{"moe_combine", none, one, moe_combine};
const OpTrials kRope{"rope", rope_refusal, [](const Given&) { return 3; }, rope};

}  // namespace quern::ops::verify
