// Random calls of fp8_gemm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/ops.h"
#include "sources/verify/product.h"

namespace quern::ops::fp8_gemm {
namespace {

using namespace verify;

// Tensor cores add products of 8 bits with some 14 bits of the largest: on an H200
// some of a million were up to 1.7 times as far off as 2^-10 allows.
constexpr double kSlack = 0x1p-8;

void make(const Given& given, int which, Trial& trial) {
  const ProductExtents p = kProducts[which];
  const bool blocks = given.text("scales") == "blocks", tensor = !blocks && which % 2 != 0;
  const std::int64_t across = (p.k + 127) / 128, down = (p.n + 127) / 128;
  quern_fp8_gemm_args args{};
  const Field &a = trial.given(given.dtype("a", Dtype::e4m3), {p.m, p.k}),
              &b = trial.given(given.dtype("b", Dtype::e4m3), {p.n, p.k});
  const auto scales = [&](std::vector<std::int64_t> shape) -> const Field& {
    return trial.uniform(Dtype::f32, std::move(shape), 0.5, 1.5);
  };
  using Shape = std::vector<std::int64_t>;
  const Field &scale_a = scales(blocks ? Shape{p.m, across} : Shape{tensor ? 1 : p.m}),
              &scale_b = scales(blocks ? Shape{down, across} : Shape{tensor ? 1 : p.n});
  const Epilogue epilogue(given, trial, p.m, p.n);
  Field& out = trial.result(given.dtype("out", Dtype::bf16), {p.m, epilogue.columns()}, epilogue.slack(kSlack));
  trial.later([=, &a, &b, &scale_a, &scale_b, &out, &trial] {
    const auto sum = [&](std::int64_t row, std::int64_t column) {
      double of = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        const double by = blocks ? scale_a.get(row * across + i / 128) * scale_b.get(column / 128 * across + i / 128)
                                 : scale_a.get(tensor ? 0 : row) * scale_b.get(tensor ? 0 : column);
        of += by * a.get(row * p.k + i) * b.get(column * p.k + i);
      }
      return of;
    };
    epilogue.fill(out, sum, trial.random());
  });
  args.a = a.tensor(), args.b = b.tensor(), args.scale_a = scale_a.tensor(), args.scale_b = scale_b.tensor();
  args.out = out.tensor(), args.epilogue = epilogue.asked();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  if (p.invariant) args.flags |= QUERN_CALL_BATCH_INVARIANT;
  trial.what = "m " + std::to_string(p.m) + ", n " + std::to_string(p.n) + ", k " + std::to_string(p.k);
  call_as(
      given, trial,
      [](const auto& its, const Runtime& runtime, bool may_lack_data) {
        return gemm::read_problem(its, runtime, may_lack_data);
      },
      args);
}

}  // namespace

const OpTrials trials{make, kProductCount};

}  // namespace quern::ops::fp8_gemm
