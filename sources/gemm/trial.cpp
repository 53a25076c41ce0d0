// Random calls of gemm for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/ops.h"
#include "sources/verify/product.h"

namespace quern::ops::gemm {
namespace {

using namespace verify;

// A matrix of so many rows and columns, with its last stride 1 or the one before it.
Field& matrix(Trial& trial, Dtype dtype, std::int64_t rows, std::int64_t columns, bool transposed) {
  return trial.given(dtype, {rows * columns})
      .view({rows, columns}, transposed ? std::vector<std::int64_t>{1, rows} : std::vector<std::int64_t>{columns, 1});
}

void make(const Given& given, int which, Trial& trial) {
  const verify::ProductExtents p = kProducts[which];
  const Dtype dtype = given.dtype("dtype"), to = given.dtype("out", dtype);
  quern_gemm_args args{};
  const Field &a = matrix(trial, dtype, p.m, p.k, given.text("order_a", "mk") == "km"),
              &b = matrix(trial, dtype, p.n, p.k, given.text("order_b", "nk") == "kn");
  const Epilogue epilogue(given, trial, p.m, p.n);
  // f32 operands are multiplied as TF32 where the device has nothing else.
  const double slack = dtype == Dtype::f32 ? 0x1p-9 : 0x1p-14;
  Field& out = trial.result(to, {p.m, epilogue.columns()}, epilogue.slack(slack));
  trial.later([=, &a, &b, &out, &trial] {
    const auto sum = [&](std::int64_t row, std::int64_t column) {
      double of = 0;
      for (std::int64_t i = 0; i < p.k; ++i)
        of += a.get(row * a.strides[0] + i * a.strides[1]) * b.get(column * b.strides[0] + i * b.strides[1]);
      return of;
    };
    epilogue.fill(out, sum, trial.random());
  });
  args.a = a.tensor(), args.b = b.tensor(), args.out = out.tensor(), args.epilogue = epilogue.asked();
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

}  // namespace quern::ops::gemm
