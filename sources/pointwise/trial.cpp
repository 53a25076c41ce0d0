// Random calls of pointwise for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/formula.h"
#include "sources/verify/spaced.h"

namespace quern::ops::pointwise {
namespace {

using namespace verify;

constexpr std::int64_t kInner[] = {4096, 64, 40, 1024, 8, 100, 5000, 31, 520};

std::string refusal(const Given& given) {
  return given.flag("wide") ? "no trial is made of tensors of more than 2^31 elements" : "";
}

std::string numbered(const char* name, std::size_t i, const char* rest = "") {
  return name + (i == 0 ? "" : std::to_string(i)) + rest;
}

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rank = given.integer("rank", 1), inner = kInner[which] - (given.flag("tail") ? 3 : 0);
  const std::vector<std::int64_t> extents = extents_of(rank, inner);
  quern_pointwise_args args{};
  std::vector<const Field*> fields(expression::kOperands, nullptr);
  std::vector<const DLTensor*> operands(expression::kOperands, nullptr);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Dtype dtype = given.dtype(("operand" + std::to_string(i)).c_str());
    if (dtype == Dtype::other) continue;
    const std::vector<std::int64_t> steps = spaced(extents, given.text(("along" + std::to_string(i)).c_str(), "each"));
    fields[i] = &trial.given(dtype, {span(extents, steps)}).view(extents, steps);
    operands[i] = fields[i]->tensor();
    args.operand_count = static_cast<std::uint32_t>(i + 1);
  }
  const std::vector<float> scalars = {1.25f, -0.75f, 0.5f, 2.0f, 1.5f, -1.25f, 0.25f, 3.0f};
  const auto results = static_cast<std::size_t>(given.integer("results", 1));
  std::vector<Formula> formulas;
  std::vector<Field*> outs;
  const quern_expression** const asked[] = {&args.expression, &args.expression1, &args.expression2, &args.expression3};
  const DLTensor** const written[] = {&args.out, &args.out1, &args.out2, &args.out3};
  for (std::size_t i = 0; i < results; ++i) {
    const std::string text = given.text(numbered("expression", i).c_str());
    const quern_expression& interned = expression::intern(text);
    formulas.emplace_back(text);
    const std::vector<std::int64_t> steps = spaced(extents, given.text(numbered("out", i, "_along").c_str(), "each"));
    const Dtype dtype = given.dtype(numbered("out", i).c_str());
    Field& out = trial.result(dtype, {span(extents, steps)}, formulas.back().slack()).view(extents, steps);
    outs.push_back(&out);
    *asked[i] = &interned, *written[i] = out.tensor();
    if (interned.scalars != 0) args.scalar_count = expression::kScalars;
  }
  trial.later([=] {
    for (std::size_t i = 0; i < results; ++i) {
      Field& out = *outs[i];
      out.unknown();
      Places places(extents);
      Leaves leaves;
      for (std::size_t s = 0; s < scalars.size(); ++s) leaves.scalars[s] = static_cast<double>(scalars[s]);
      leaves.operand = [&](int operand) {
        const Field& field = *fields[static_cast<std::size_t>(operand)];
        return field.get(places.offset(field.strides));
      };
      for (std::int64_t place = 0; place < places.count; ++place, places.next()) {
        for (std::size_t d = 0; d < places.at.size(); ++d) leaves.indices[d] = places.at[d];
        leaves.indices.back() = place;
        out.truth[static_cast<std::size_t>(places.offset(out.strides))] = as_stored(formulas[i].at(leaves), out.dtype);
      }
    }
  });
  args.operands = trial.keep(operands).data(), args.scalars = trial.keep(scalars).data();
  trial.what = "innermost extent " + std::to_string(inner);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kInner)), refusal};

}  // namespace quern::ops::pointwise
