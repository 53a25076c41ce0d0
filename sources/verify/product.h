// What the trials of matrix products share: extents that between them take every kernel, epilogues with random
// operands, and elements of the result in double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sources/gemm/problem.h"
#include "sources/verify/formula.h"
#include "sources/verify/trial.h"

namespace quern::ops::verify {

struct ProductExtents {
  std::int64_t m, n, k;
  bool invariant;
};
inline constexpr ProductExtents kProducts[] = {
    {1, 512, 512, false},     {8, 512, 512, false},   {16, 1024, 512, false},  {33, 512, 512, false},
    {64, 1024, 1024, false},  {128, 512, 512, false}, {200, 1024, 256, false}, {300, 2048, 256, false},
    {16, 4096, 1024, false},  {64, 512, 4096, false}, {4, 256, 2048, true},    {130, 512, 512, true},
    {1000, 2048, 128, false}, {8, 512, 1024, true}};
inline constexpr int kProductCount = static_cast<int>(sizeof(kProducts) / sizeof(kProducts[0]));

// The trial's call, computed as the kernel's own variant does it wherever the product can take that: `problem` is what
// the op reads the args to be.
template <class Args, class Read>
void call_as(const Given& given, Trial& trial, Read problem, const Args& args) {
  const std::optional<gemm::Variant> variant = gemm::variant_named(given.text("variant"));
  trial.call_by(
      [=](const Runtime& runtime, const Args& its) {
        const gemm::Problem read = problem(its, runtime, true);
        return variant ? gemm::workspace_bytes_as(runtime, read, *variant) : gemm::workspace_bytes(runtime, read);
      },
      [=](const Runtime& runtime, const Args& its) {
        gemm::Problem read = problem(its, runtime, false);
        if (!variant) return gemm::launch_product(runtime, read, its.workspace, its.workspace_size);
        gemm::launch_product_as(runtime, read, *variant, its.workspace, its.workspace_size);
      },
      args);
}

// What becomes of a product of m rows and n columns that has these constants.
class Epilogue {
 public:
  // `results` is what the call writes: m rows of n columns, gated half as many.
  Epilogue(const Given& given, Trial& trial, std::int64_t m, std::int64_t n);

  // Null where results are stored as they are.
  const quern_epilogue* asked() const { return asked_; }
  std::int64_t columns() const { return gate_ ? n_ / 2 : n_; }
  // The result in a row and column; acc(column of the product) is its sum.
  double at(std::int64_t row, std::int64_t column, const std::function<double(std::int64_t)>& acc) const;
  // Fills in some of out's truths, and those of its scales where it has some.
  void fill(Field& out, const std::function<double(std::int64_t row, std::int64_t column)>& acc, Random& random) const;
  // What results may err by beside rounding, of their mean square, where sums may err by so much of theirs. A gate
  // times a sum errs by the gate's size, too, which among some 10^5 results comes to four times its mean.
  double slack(double of_sums) const { return std::max(gate_ ? 4 * of_sums : of_sums, formula_->slack()); }

 private:
  std::int64_t m_, n_;
  bool gate_;
  std::shared_ptr<Formula> formula_;
  std::vector<const Field*> operands_;
  std::vector<expression::OperandKind> kinds_;
  Field* scale_ = nullptr;  // of results of 8 bits
  const quern_epilogue* asked_ = nullptr;
};

}  // namespace quern::ops::verify
