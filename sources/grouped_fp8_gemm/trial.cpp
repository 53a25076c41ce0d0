// Random calls of grouped_fp8_gemm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>

#include "sources/ops.h"
#include "sources/verify/product.h"

namespace quern::ops::grouped_fp8_gemm {
namespace {

using namespace verify;

// Tensor cores add products of 8 bits with some 14 bits of the largest: on an H200
// some of a million were up to 1.7 times as far off as 2^-10 allows.
constexpr double kSlack = 0x1p-8;

constexpr struct {
  std::int64_t most, n, k;  // rows an expert, at most
} kCalls[] = {{2, 512, 512},   {8, 512, 512},   {16, 512, 512}, {40, 512, 512},
              {100, 512, 256}, {300, 512, 256}, {2, 2048, 256}, {40, 2048, 256}};
constexpr std::int64_t kExperts = 5;

void make(const Given& given, int which, Trial& trial) {
  // Not by a structured binding, whose names clang before 16 refuses in a lambda.
  const std::int64_t most = kCalls[which].most, n = kCalls[which].n, k = kCalls[which].k;
  const bool masked = given.text("rows") == "masked", blocks = given.text("scales") == "blocks";
  std::vector<std::int64_t> offsets = {0}, counts, expert_of;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    counts.push_back(e == 2 ? 0 : e == 3 ? most : trial.below(most + 1));
    const std::int64_t room = masked ? most : counts.back();
    for (std::int64_t r = 0; r < room; ++r) expert_of.push_back(r < counts.back() ? e : -1);
    offsets.push_back(offsets.back() + counts.back());
  }
  const auto rows = static_cast<std::int64_t>(expert_of.size());
  // Where there are tensor maps the portable kernels are for rows by index alone.
  const std::optional<gemm::Variant> variant = gemm::variant_named(given.text("variant"));
  const bool gathers = !masked && which % 2 == 1 && variant && gemm::is_a(gemm::Family::portable, *variant);
  const std::int64_t tokens = gathers ? rows / 2 + 1 : rows;
  std::vector<std::int64_t> indices;
  for (std::int64_t row = 0; row < rows; ++row) indices.push_back(gathers ? trial.below(tokens) : row);
  const std::int64_t across = (k + 127) / 128, down = (n + 127) / 128;
  quern_grouped_fp8_gemm_args args{};
  using Shape = std::vector<std::int64_t>;
  // The shape of what has so much for each of some rows.
  const auto of_rows = [&](std::int64_t number, const Shape& rest) {
    Shape shape = masked ? Shape{kExperts, most} : Shape{number};
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  };
  const Field &a = trial.given(given.dtype("a", Dtype::e4m3), of_rows(tokens, {k})),
              &b = trial.given(given.dtype("b", Dtype::e4m3), {kExperts, n, k});
  const Field &scale_a = trial.uniform(Dtype::f32, of_rows(tokens, blocks ? Shape{across} : Shape{}), 0.5, 1.5),
              &scale_b =
                  trial.uniform(Dtype::f32, blocks ? Shape{kExperts, down, across} : Shape{kExperts, n}, 0.5, 1.5);
  const Epilogue epilogue(given, trial, rows, n);
  Field& out =
      trial.result(given.dtype("out", Dtype::bf16), of_rows(rows, {epilogue.columns()}), epilogue.slack(kSlack));
  trial.later([=, &a, &b, &scale_a, &scale_b, &out, &trial] {
    const auto sum = [&](std::int64_t row, std::int64_t column) {
      const std::int64_t expert = expert_of[static_cast<std::size_t>(row)];
      if (expert < 0) return kUnknown;
      const std::int64_t from = indices[static_cast<std::size_t>(row)];
      double of = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double by = blocks ? scale_a.get(from * across + i / 128) *
                                       scale_b.get((expert * down + column / 128) * across + i / 128)
                                 : scale_a.get(from) * scale_b.get(expert * n + column);
        of += by * a.get(from * k + i) * b.get((expert * n + column) * k + i);
      }
      return of;
    };
    epilogue.fill(out, sum, trial.random());
  });
  args.a = a.tensor(), args.b = b.tensor(), args.scale_a = scale_a.tensor(), args.scale_b = scale_b.tensor();
  args.out = out.tensor(), args.epilogue = epilogue.asked();
  if (masked)
    args.counts = trial.integers({kExperts}, counts).tensor();
  else
    args.offsets = trial.integers({kExperts + 1}, offsets).tensor();
  if (gathers) args.indices = trial.integers({rows}, indices).tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial.what = "5 experts, up to " + std::to_string(most) + " rows each" + (gathers ? " by index" : "") + ", n " +
               std::to_string(n) + ", k " + std::to_string(k);
  call_as(
      given, trial,
      [](const auto& its, const Runtime& runtime, bool may_lack_data) {
        return gemm::read_problem(its, runtime, may_lack_data);
      },
      args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls))};

}  // namespace quern::ops::grouped_fp8_gemm
