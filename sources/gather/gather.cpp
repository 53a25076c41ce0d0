// The gather op: rows of a table by their ids.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/gather/params.cuh"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/row_alignment.h"
#include "sources/strided.h"
#include "sources/tensor.h"

namespace quern::ops::gather {
namespace {

constexpr int kThreads = 256, kFewThreads = 128;  // of a block, and where there are few chunks
constexpr int kBlocksPerSm = 8;
constexpr std::uint32_t kFlags = QUERN_GATHER_HAS_PADDING | QUERN_GATHER_SHARD;

// What is copied as it is are bytes, whatever their dtype.
struct Shape {
  Dtype from = Dtype::u8;
  Dtype to = Dtype::u8;
  int width = 16;  // elements of an access
};

constexpr Names<Dtype, 4> kElements = {
    {{"bytes", Dtype::u8}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<int, 5> kWidths = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}, {"1", 1}}};
constexpr auto kConstants =
    describe<Shape>(tag_gather, "gather", choice<&Shape::from>("table", nullptr, kElements),
                    choice<&Shape::to>("out", nullptr, kElements), choice<&Shape::width>("width", "WIDTH", kWidths));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

constexpr bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }
int widest(const Shape& shape) { return 16 / static_cast<int>(std::max(bytes_of(shape.from), bytes_of(shape.to))); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if ((shape.from == Dtype::u8) != (shape.to == Dtype::u8))
    throw Error(QUERN_INVALID, "gather: bytes are copied to bytes; allowed: both table and out bytes, or neither");
  if (shape.width > widest(shape)) {
    throw Error(QUERN_INVALID, "gather: width is " + std::to_string(shape.width) + "; allowed: powers of two up to " +
                                   std::to_string(widest(shape)));
  }
  return kConstants.to_spec(shape, target.target);
}

const char* element_of(Dtype dtype) { return dtype == Dtype::u8 ? "u8" : name_of(dtype); }

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "gather";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_gather";
  kConstants.define(shape, &unit);
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"FROM", element_of(shape.from)},
                                    {"TO", element_of(shape.to)},
                                    {"COPIES", shape.from == Dtype::u8 ? "1" : "0"},
                                    {"THREADS", std::to_string(kThreads)},
                                    {"BLOCKS_PER_SM", std::to_string(kBlocksPerSm)}}) {
    unit.constants.push_back({name, value});
  }
  unit.source = embedded("gather/gather.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// Rows as they are stored, token embeddings among them, and embeddings that are multiplied.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype dtype = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  const auto add = [&](Shape shape, std::int64_t elements) {
    shape.width = widest(shape);
    while (elements % shape.width != 0) shape.width /= 2;
    specs->push_back(kConstants.to_spec(shape, target.target));
  };
  if (model.hidden_size == 0 || !is_float(dtype)) return;
  add({}, model.hidden_size * bytes_of(dtype));
  if (model.flags & QUERN_MODEL_EMBEDDING_SCALE) add({dtype, dtype}, model.hidden_size);
}

struct Problem {
  Shape shape;
  q::GatherParams params;
  std::int64_t count;
  bool shard;
  int sms, most_blocks;
};

Tensor read_table(const DLTensor* given, const Place& place) {
  return read(
      given, "table", 2,
      {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8, Dtype::i32, Dtype::i64},
      place);
}

Problem read_problem(const quern_gather_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_gather_flags", 4, may_lack_data);
  const Tensor table = read_table(args.table, call.place);
  const Tensor ids = read_indices(args.ids, "ids", call.place);
  const bool floats = is_float(table.dtype);
  const Tensor out = floats ? read(args.out, "out", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place)
                            : read(args.out, "out", 2, {table.dtype}, call.place);
  if (table.shape[1] < 1) refuse_extent("table", 1, table.shape[1], "1 and more");
  expect_extent(out, "out", 0, ids.shape[0]);
  expect_extent(out, "out", 1, table.shape[1]);
  expect_apart(out, "out");
  expect_beside(out, "out", table, "table");
  expect_beside(out, "out", ids, "ids");
  if (!(args.scale >= 0.0f) || std::isinf(args.scale)) refuse_value("scale", double{args.scale}, "0 (1) and more");
  const float scale = args.scale == 0.0f ? 1.0f : args.scale;
  if (scale != 1.0f && !floats) {
    refuse_value("scale", double{args.scale}, "0 and 1, unless table is f16, bf16 or f32");
  }
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");

  Problem problem{};
  Shape& shape = problem.shape;
  std::int64_t elements = table.shape[1];
  const int table_aligned = row_alignment(table, "table", call.alignment),
            out_aligned = row_alignment(out, "out", call.alignment);
  if (table.dtype == out.dtype && scale == 1.0f) {
    elements *= bytes_of(table.dtype);
    shape.width = std::min(table_aligned, out_aligned);
  } else {
    shape.from = table.dtype, shape.to = out.dtype;
    shape.width = std::min({table_aligned / static_cast<int>(bytes_of(table.dtype)),
                            out_aligned / static_cast<int>(bytes_of(out.dtype)), widest(shape)});
  }
  while (elements % shape.width != 0) shape.width /= 2;
  const std::int64_t chunks = elements / shape.width, count = ids.shape[0];
  if (chunks * count > INT32_MAX) refuse_extent("ids", 0, count, "fewer ids at once: split the call");
  problem.params = {table.data,
                    out.data,
                    table.strides[0] * bytes_of(table.dtype),
                    out.strides[0] * bytes_of(out.dtype),
                    {ids.data, ids.strides[0], ids.dtype == Dtype::i64},
                    args.first,
                    table.shape[0],
                    args.padding,
                    (args.flags & QUERN_GATHER_HAS_PADDING) != 0,
                    static_cast<std::int32_t>(chunks * count),
                    kThreads,
                    0,
                    divisor(static_cast<std::int32_t>(chunks)),
                    scale};
  problem.count = count;
  problem.shard = (args.flags & QUERN_GATHER_SHARD) != 0;
  problem.sms = call.sms;
  problem.most_blocks = args.max_sms > 0 ? call.sms * kBlocksPerSm : INT32_MAX;
  return problem;
}

void list_ids(const Problem& problem, IndexList* list) {
  const q::GatherParams& p = problem.params;
  q::IndexCheck& check = list->in_range("ids", p.ids, problem.count, p.first, p.first + p.rows - 1, nullptr,
                                        "table's rows; others with QUERN_GATHER_SHARD");
  if (p.pads != 0) check.flags |= q::kOneValueMore, check.size = p.padding;
}

const jit::Kernel* kernel_of(const Problem& problem, const Runtime& runtime, const quern_gather_args& args) {
  return kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

}  // namespace

const Op op{"gather", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_gather_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_gather_args& args) {
  kernel_of(read_problem(args, runtime, true), runtime, args);
}

void run(const Runtime& runtime, const quern_gather_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_of(problem, runtime, args);
  if (problem.params.chunks_all == 0) return;
  if (!problem.shard) check_indices(runtime, args, [&](IndexList& list) { list_ids(problem, &list); });
  // Few chunks are spread over all multiprocessors, by blocks that start sooner; of many a thread takes several, as
  // blocks do not start that fast.
  const std::int64_t at_once = std::int64_t{problem.sms} * kBlocksPerSm * kThreads;
  problem.params.tile *= problem.params.chunks_all > 4 * at_once ? q::kGatherAtOnce : 1;
  const bool cuda = runtime.driver->device().limits.target.family() == jit::Family::cuda;
  if (cuda && args.max_sms == 0 && problem.params.chunks_all <= at_once / 2) problem.params.tile = kFewThreads;
  const std::int64_t tiles = (std::int64_t{problem.params.chunks_all} + problem.params.tile - 1) / problem.params.tile;
  problem.params.single = problem.params.tile <= kThreads && tiles <= problem.most_blocks ? 1 : 0;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(tiles, problem.most_blocks));
  launch.block[0] = static_cast<std::uint32_t>(problem.params.single != 0 ? problem.params.tile : kThreads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching gather", problem.params);
}

}  // namespace quern::ops::gather
