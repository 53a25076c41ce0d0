// Random calls of reduce for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/formula.h"

namespace quern::ops::reduce {
namespace {

using namespace verify;

// Rows and their elements, on both sides of what decides how they are shared out; the last are cut into pieces.
constexpr struct {
  std::int64_t rows, n;
} kCalls[] = {{40, 8},   {40, 30},   {40, 64},   {40, 128},   {40, 500},    {20, 1024},  {20, 2048}, {9, 4096},
              {9, 8192}, {9, 10000}, {3, 65536}, {2, 300000}, {2, 1000000}, {300, 1000}, {3000, 64}, {40, 2500}};

constexpr const char* kKinds[] = {"sum", "mean", "max",       "min", "argmax", "argmin",
                                  "l2",  "dot",  "logsumexp", "any", "all"};

// Over the numbers of a row, in the order of quern_reduction.
double reduced(int kind, const std::vector<double>& v, const std::vector<double>& y) {
  double sum = 0;
  const auto n = static_cast<double>(v.size());
  switch (kind) {
    case QUERN_REDUCE_MAX:
      return *std::max_element(v.begin(), v.end());
    case QUERN_REDUCE_MIN:
      return *std::min_element(v.begin(), v.end());
    case QUERN_REDUCE_ARGMAX:
      return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
    case QUERN_REDUCE_ARGMIN:
      return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
    case QUERN_REDUCE_ANY:
      return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; });
    case QUERN_REDUCE_ALL:
      return std::all_of(v.begin(), v.end(), [](double x) { return x != 0; });
    case QUERN_REDUCE_L2:
      for (const double x : v) sum += x * x;
      return std::sqrt(sum);
    case QUERN_REDUCE_DOT:
      for (std::size_t i = 0; i < v.size(); ++i) sum += v[i] * y[i];
      return sum;
    case QUERN_REDUCE_LOGSUMEXP: {
      const double most = *std::max_element(v.begin(), v.end());
      for (const double x : v) sum += std::exp(x - most);
      return most + std::log(sum);
    }
    default:
      for (const double x : v) sum += x;
      return kind == QUERN_REDUCE_MEAN ? sum / n : sum;
  }
}

std::string numbered(const char* name, std::size_t i) { return name + (i == 0 ? "" : std::to_string(i)); }

void make(const Given& given, int which, Trial& trial) {
  // Columns of few elements: few of them, and more than are few on any device.
  const bool few = given.text("way") == "few";
  const std::int64_t rows = !few ? kCalls[which].rows : which == 1 ? 1'000'000 : 48, n = few ? 3 : kCalls[which].n;
  // Rows whose elements do not lie beside each other lie as columns do, of which there are few.
  const bool columns = few || given.text("way") == "columns" || (given.text("way") == "rows" && !given.flag("vectors"));
  const bool segments = given.flag("segments"), halves = given.flag("halves");
  const Dtype dtype = given.dtype("dtype");
  quern_reduce_args args{};
  // By segments the elements of a row are in two places, between which other rows' lie.
  const std::int64_t inner = segments ? n / 2 : n;
  const std::vector<std::int64_t> extents = segments  ? std::vector<std::int64_t>{2, rows, inner}
                                            : columns ? std::vector<std::int64_t>{n, rows}
                                                      : std::vector<std::int64_t>{rows, n};
  const std::int64_t count = segments ? 2 * inner : n;
  const Field& x = trial.given(dtype, extents);
  const Field* const y = given.flag("y") ? &trial.given(dtype, extents) : nullptr;
  const std::string before = given.text("before", "acc");
  const auto scalars = std::vector<float>{1.25f, -0.75f, 0.5f, 2.0f, 1.5f, -1.25f, 0.25f, 3.0f};
  bool reads_scalars = false;
  const auto asked = [&](const std::string& text) -> const quern_expression* {
    if (text == "acc") return nullptr;
    const quern_expression& interned = expression::intern(text);
    reads_scalars |= interned.scalars != 0;
    return &interned;
  };
  args.before = asked(before);
  const quern_expression** const afters[] = {&args.after, &args.after1, &args.after2, &args.after3};
  const DLTensor** const written[] = {&args.out, &args.out1, &args.out2, &args.out3};
  std::int32_t* const kinds[] = {&args.reduction, &args.reduction1, &args.reduction2, &args.reduction3};
  std::vector<Field*> outs;
  std::vector<std::string> after;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* const kind =
        std::find(std::begin(kKinds), std::end(kKinds), given.text(numbered("kind", i).c_str(), "none"));
    if (kind == std::end(kKinds)) break;
    *kinds[i] = static_cast<std::int32_t>(kind - std::begin(kKinds));
    after.push_back(given.text(numbered("after", i).c_str(), "acc")), *afters[i] = asked(after.back());
    // Sums rounded to f16 after every addition are held against the host's alone.
    outs.push_back(
        &trial.result(given.dtype(numbered("out", i).c_str(), Dtype::f32), {rows}, halves ? 0x1p-6 : 0x1p-14));
    *written[i] = outs.back()->tensor();
  }
  const std::vector<std::int32_t> chosen = {args.reduction, args.reduction1, args.reduction2, args.reduction3};
  trial.later([=, &x] {
    if (halves) return;
    const Formula first(before);
    Leaves leaves;
    for (std::size_t s = 0; s < scalars.size(); ++s) leaves.scalars[s] = static_cast<double>(scalars[s]);
    std::int64_t at = 0;
    leaves.operand = [&](int) { return y->get(at); };
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<double> v, others;
      for (std::int64_t i = 0; i < count; ++i) {
        at = segments ? (i / inner * rows + r) * inner + i % inner : columns ? i * rows + r : r * n + i;
        leaves.acc = x.get(at);
        v.push_back(first.at(leaves));
        if (y != nullptr) others.push_back(y->get(at));
      }
      for (std::size_t i = 0; i < outs.size(); ++i) {
        leaves.acc = reduced(chosen[i], v, others);
        outs[i]->truth.push_back(Formula(after[i]).at(leaves));
      }
    }
  });
  args.x = x.tensor(), args.axes = segments ? 5 : columns ? 1 : 2;
  if (y != nullptr) args.y = y->tensor();
  if (halves) args.flags |= QUERN_REDUCE_F16_SUMS;
  if (reads_scalars) args.scalars = trial.keep(scalars).data(), args.scalar_count = expression::kScalars;
  trial.what = std::to_string(rows) + " rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls))};

}  // namespace quern::ops::reduce
