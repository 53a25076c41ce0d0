// The top_k op: the largest of each row, and where they are.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/description.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/softmax/params.cuh"
#include "sources/softmax/rows.h"
#include "sources/top_k/params.cuh"

namespace quern::ops::top_k {
namespace {

constexpr std::int64_t kMostColumns = 1 << 24;
constexpr std::uint32_t kFlags = QUERN_TOP_K_SORTED;

struct Shape {
  Dtype x = Dtype::f32;
  bool held = true, cluster = true;

  RowShape row() const { return {held, cluster}; }
};
constexpr auto kConstants = describe<Shape>(tag_top_k, "top_k", choice<&Shape::x>("dtype", nullptr, kFloatDtypes),
                                            flag<&Shape::held>("held", nullptr).optional(),
                                            flag<&Shape::cluster>("cluster", nullptr).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given, {Dtype::f32, true, target.tensor_maps});
  expect_clusters("top_k", shape.row(), target);
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "top_k";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_top_k";
  define_rows(shape.row(), Held::shared_memory, shape.x, "top_k", 0, &unit);
  unit.max_shared_bytes = most_kept_bytes(shape.row(), jit::limits_of(unit.target));
  return unit;
}

// Of logits in f32.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  // Of the vocabulary, and of as many keys as an indexer chooses from.
  for (const std::uint32_t columns : {model.vocab_size, model.index_top_k != 0 ? model.max_positions : 0}) {
    if (columns == 0 || columns > kMostColumns) continue;
    const RowShape row = share_row(columns, Dtype::f32, Held::shared_memory, q::kMostRowBlocks, target).shape;
    const jit::Spec spec = kConstants.to_spec({Dtype::f32, row.held, row.cluster}, target.target);
    if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
  }
}

struct Problem {
  Shape shape;
  q::TopKParams params;
  RowShare share;
  int sms;
};

Problem read_problem(const quern_top_k_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags | enum quern_top_k_flags", 4, may_lack_data);
  Problem problem{{}, {}, {}, call.sms};
  q::TopKParams& p = problem.params;
  const Tensor x = read_rows(args.x, "x", {Dtype::f32, Dtype::f16, Dtype::bf16}, kMostColumns, call.place);
  const std::int64_t rows = x.shape[0], n = x.shape[1];
  p.x = x.data, p.x_stride = x.strides[0];
  p.rows = static_cast<q::i32>(rows), p.n = static_cast<q::i32>(n);
  const Tensor ids = read_rows(args.ids, "ids", {Dtype::i32}, q::kMostTopK, call.place);
  expect_extent(ids, "ids", 0, rows);
  expect_apart(ids, "ids");
  p.ids = reinterpret_cast<q::i32*>(ids.data), p.ids_stride = ids.strides[0];
  p.k = static_cast<q::i32>(ids.shape[1]);
  if (args.values != nullptr) {
    const Tensor values = read_rows(args.values, "values", {Dtype::f32, x.dtype}, q::kMostTopK, call.place);
    for (int d = 0; d < 2; ++d) expect_extent(values, "values", d, ids.shape[d]);
    expect_apart(values, "values");
    p.values = values.data, p.values_stride = values.strides[0];
    p.narrow_values = values.dtype != Dtype::f32;
  }
  p.lengths = read_row_numbers<q::i32>(args.lengths, "lengths", Dtype::i32, rows, call.place);
  if (!may_lack_data && p.lengths != nullptr) {
    check_indices(runtime, args,
                  [&](IndexList& list) { list.in_range("lengths", p.lengths, rows, 0, n, "row", "x.shape[1]"); });
  }
  p.sorted = (args.flags & QUERN_TOP_K_SORTED) != 0;
  problem.share = share_row(n, x.dtype, Held::shared_memory, call.sms, call.device->limits);
  problem.shape = {x.dtype, problem.share.shape.held, problem.share.shape.cluster};
  return problem;
}

const jit::Kernel* kernel_of(const Problem& problem, const Runtime& runtime, const quern_top_k_args& args) {
  return kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

}  // namespace

const Op op{"top_k", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_top_k_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_top_k_args& args) {
  kernel_of(read_problem(args, runtime, true), runtime, args);
}

void run(const Runtime& runtime, const quern_top_k_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_of(problem, runtime, args);
  if (problem.params.rows == 0) return;
  jit::Launch launch;
  set_row_grid(problem.params.rows, problem.share, problem.sms, args.max_sms > 0, &launch);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching top_k", problem.params);
}

}  // namespace quern::ops::top_k
