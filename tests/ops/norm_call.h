// The tensors that calls of rmsnorm and norm have alike, and the three calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/ops/quantize_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {

template <class Args>
class NormCall {
 public:
  explicit NormCall(const ThreeCalls<Args>& op) : args(sized<Args>()), op_(op) {}
  NormCall(const NormCall&) = delete;
  NormCall& operator=(const NormCall&) = delete;

  void put() {
    for (Matrix* input : inputs_) {
      if (input->given()) input->upload();
    }
    out.poison();
    if (sum.given()) sum.poison();
  }
  void get() {
    for (Matrix* each : results()) {
      if (each->given()) each->download();
    }
  }
  // The call alone, of what put() has put there.
  void call(quern_context* context) {
    auto error = sized<quern_error>();
    put();
    ASSERT_EQ(op_.run(context, &args, &error), QUERN_OK) << error.text;
    synchronize();
    get();
  }
  void run(quern_context* context) {
    auto error = sized<quern_error>();
    workspace_bytes = 1;
    ASSERT_EQ(op_.workspace(context, &args, &workspace_bytes, &error), QUERN_OK) << error.text;
    workspace_ = Buffer(workspace_bytes, 0);
    args.workspace = workspace_.data(), args.workspace_size = workspace_bytes;
    ASSERT_EQ(op_.prepare(context, &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    call(context);
  }

  // Where results lie.
  const Matrix& result(Where where, const Matrix& own) const {
    return where == Where::x ? x : where == Where::residual ? residual : own;
  }

  Args args;
  Matrix x, residual, weight, out, sum;
  std::uint64_t workspace_bytes = 1;

 protected:
  // x, residual, out and sum are [rows, n], their rows `padding` elements apart; what is not asked for is not there.
  void set_rows(Element of_x, Element of_out, std::int64_t rows, std::int64_t n, std::int64_t padding,
                bool has_residual, Where to) {
    const std::int64_t pitch = n + padding;
    x.set(of_x, rows, n, pitch), out.set(of_out, rows, n, pitch);
    if (has_residual) residual.set(of_x, rows, n, pitch);
    if (to != Where::nowhere) sum.set(of_x, rows, n, pitch);
  }
  static const DLTensor* given(const Matrix& m) { return m.given() ? m.box.get() : nullptr; }
  const DLTensor* place(Where where, Matrix& own) {
    return where == Where::nowhere ? nullptr : result(where, own).box.get();
  }
  // [n], of random numbers.
  static void set_vector(Matrix& to, Element element, std::int64_t n, Random& random) {
    to.set(element, 1, n, n);
    to.box.tensor.ndim = 1;
    to.box.shape[0] = n, to.box.strides[0] = 1;
    for (std::int64_t k = 0; k < n; ++k) to.put(0, k, random.normal());
  }
  Element element_of(Parameter p, Element of_x) const { return p == Parameter::f32 ? Element(Element::f32) : of_x; }
  void add_inputs(std::initializer_list<Matrix*> more) { inputs_.insert(inputs_.end(), more); }
  std::vector<Matrix*> results() { return {&x, &residual, &out, &sum}; }
  void expect_unspoilt() const {
    for (const Matrix* each : {&x, &residual, &out, &sum}) EXPECT_EQ(each->given() ? each->spoilt() : 0, 0);
  }

 private:
  const ThreeCalls<Args>& op_;
  std::vector<Matrix*> inputs_ = {&x, &residual, &weight};
  Buffer workspace_;
};

// What either refuses in the same words, of calls with a residual and both results, 5 rows of 320 bf16.
template <class Norm>
std::vector<Mistake<Norm>> mistakes_of_norms() {
  return {
      {"x NULL", {"x", "NULL"}, [](Norm& d) { d.args.x = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](Norm& d) { d.args.out = nullptr; }},
      {"a sum without residual", {"residual_out", "residual"}, [](Norm& d) { d.args.residual = nullptr; }},
      {"both results in one place", {"residual_out is out"}, [](Norm& d) { d.args.residual_out = d.args.out; }, true},
      {"x's dtype", {"x", "int32", "f16, bf16, f32"}, [](Norm& d) { d.x.box.tensor.dtype = kInt32; }},
      {"residual's dtype", {"residual", "f32", "bf16"}, [](Norm& d) { d.residual.box.tensor.dtype = kFloat32; }},
      {"weight's length", {"weight.shape[0]", "320"}, [](Norm& d) { d.weight.box.shape[0] = 319; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](Norm& d) { d.x.box.strides[1] = 2; }},
      {"out's rows over each other", {"out.strides[0]"}, [](Norm& d) { d.out.box.strides[0] = 16; }},
      {"out's alignment", {"out", "data"}, [](Norm& d) { d.out.box.tensor.byte_offset = 8; }, true},
      {"x without data", {"x", "NULL"}, [](Norm& d) { d.x.box.tensor.data = nullptr; }, true},
      {"eps below 0", {"eps", "0 and more"}, [](Norm& d) { d.args.eps = -1e-6f; }},
  };
}

}  // namespace quern::test
