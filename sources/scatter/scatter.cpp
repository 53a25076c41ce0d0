// The scatter op: rows to the places of a table that their ids name.
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
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/row_alignment.h"
#include "sources/scatter/params.cuh"
#include "sources/strided.h"
#include "sources/tensor.h"
#include "sources/workspace.h"

namespace quern::ops::scatter {
namespace {

constexpr int kBlocksPerSm = 6;
constexpr std::uint32_t kFlags =
    QUERN_SCATTER_ADD | QUERN_SCATTER_HAS_PADDING | QUERN_SCATTER_SHARD | QUERN_SCATTER_UNIQUE;

// What is copied as it is are bytes, whatever their dtype.
enum class Stage : std::uint8_t { rows, move, finish };
struct Shape {
  Stage stage = Stage::move;
  Dtype from = Dtype::u8;
  Dtype to = Dtype::u8;
  int width = 16;  // elements of an access
  bool add = false;
  bool sorted = true;
};

constexpr Names<Stage, 3> kStages = {{{"rows", Stage::rows}, {"move", Stage::move}, {"finish", Stage::finish}}};
constexpr Names<Dtype, 4> kElements = {
    {{"bytes", Dtype::u8}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<int, 5> kWidths = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}, {"1", 1}}};
constexpr bool moves(const Shape& shape) { return shape.stage == Stage::move; }
constexpr bool writes(const Shape& shape) { return shape.stage != Stage::rows; }
constexpr auto kConstants =
    describe<Shape>(tag_scatter, "scatter", choice<&Shape::stage>("stage", nullptr, kStages),
                    choice<&Shape::from>("x", nullptr, kElements).when(moves),
                    choice<&Shape::to>("out", nullptr, kElements).when(writes),
                    choice<&Shape::width>("width", "WIDTH", kWidths).when(writes),
                    flag<&Shape::add>("add", "ADDS").when(moves), flag<&Shape::sorted>("sorted", "SORTED").when(moves));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

int widest(const Shape& shape) { return 16 / static_cast<int>(std::max(bytes_of(shape.from), bytes_of(shape.to))); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if (!writes(shape)) return kConstants.to_spec(shape, target.target);
  if (!moves(shape) && shape.to == Dtype::u8)
    throw Error(QUERN_INVALID, "scatter: out is bytes; allowed: f16, bf16 and f32, where sums are finished");
  if (moves(shape) && (shape.from == Dtype::u8) != (shape.to == Dtype::u8))
    throw Error(QUERN_INVALID, "scatter: bytes are copied to bytes; allowed: both x and out bytes, or neither");
  if (shape.from == Dtype::u8 && shape.add)
    throw Error(QUERN_INVALID, "scatter: add is 1; allowed: 0, where bytes are copied");
  if (shape.width > widest(shape)) {
    throw Error(QUERN_INVALID, "scatter: width is " + std::to_string(shape.width) + "; allowed: powers of two up to " +
                                   std::to_string(widest(shape)));
  }
  return kConstants.to_spec(shape, target.target);
}

const char* element_of(Dtype dtype) { return dtype == Dtype::u8 ? "u8" : name_of(dtype); }

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "scatter";
  unit.target = jit::Target::from_tag(spec.target);
  static constexpr const char* kEntries[] = {"quern_scatter_rows", "quern_scatter", "quern_scatter_finish"};
  static constexpr const char* kSources[] = {"scatter/rows.cuh", "scatter/scatter.cuh", "scatter/finish.cuh"};
  unit.entry = kEntries[static_cast<int>(shape.stage)];
  kConstants.define(shape, &unit);
  if (writes(shape)) unit.constants.push_back({"TO", element_of(shape.to)});
  if (moves(shape)) {
    unit.constants.push_back({"FROM", element_of(shape.from)});
    unit.constants.push_back({"COPIES", shape.from == Dtype::u8 ? "1" : "0"});
  }
  unit.source = embedded(kSources[static_cast<int>(shape.stage)]);
  unit.headers = device_headers(unit.target);
  return unit;
}

// No layer of a model that is served scatters rows.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  Shape shape;
  q::ScatterParams params;
  bool shard, unique;
  std::int64_t pieces;  // whose sums there is to be room for: where a place may have more than one
  int most_blocks;
};

constexpr bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }

// Chunks of a row, and what is copied or added.
std::int64_t choose_shape(const Tensor& x, const Tensor& out, float scale, bool add, int alignment, Shape* shape) {
  const int x_aligned = row_alignment(x, "x", alignment), out_aligned = row_alignment(out, "out", alignment);
  std::int64_t elements = x.shape[1];
  if (x.dtype == out.dtype && scale == 1.0f && !add) {
    elements *= bytes_of(x.dtype);
    shape->width = std::min(x_aligned, out_aligned);
  } else {
    shape->from = x.dtype, shape->to = out.dtype, shape->add = add;
    shape->width = std::min({x_aligned / static_cast<int>(bytes_of(x.dtype)),
                             out_aligned / static_cast<int>(bytes_of(out.dtype)), widest(*shape)});
  }
  while (elements % shape->width != 0) shape->width /= 2;
  return elements / shape->width;
}

Problem read_problem(const quern_scatter_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_scatter_flags", 4, may_lack_data);
  const bool add = (args.flags & QUERN_SCATTER_ADD) != 0;
  const Tensor x = add ? read(args.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place)
                       : read(args.x, "x", 2,
                              {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8,
                               Dtype::i32, Dtype::i64},
                              call.place);
  const Tensor ids = read_indices(args.ids, "ids", call.place);
  const bool floats = is_float(x.dtype);
  const Tensor out = floats ? read(args.out, "out", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place)
                            : read(args.out, "out", 2, {x.dtype}, call.place);
  if (x.shape[1] < 1) refuse_extent("x", 1, x.shape[1], "1 and more");
  expect_extent(ids, "ids", 0, x.shape[0]);
  expect_extent(out, "out", 1, x.shape[1]);
  expect_apart(out, "out");
  expect_beside(out, "out", x, "x");
  expect_beside(out, "out", ids, "ids");
  if (!(args.scale >= 0.0f) || std::isinf(args.scale)) refuse_value("scale", double{args.scale}, "0 (1) and more");
  const float scale = args.scale == 0.0f ? 1.0f : args.scale;
  if (scale != 1.0f && !floats) refuse_value("scale", double{args.scale}, "0 and 1, unless x is f16, bf16 or f32");
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");

  Problem problem{};
  // One row comes once.
  problem.unique = (args.flags & QUERN_SCATTER_UNIQUE) != 0 || ids.shape[0] <= 1;
  problem.shape.sorted = !problem.unique;
  const std::int64_t chunks = choose_shape(x, out, scale, add, call.alignment, &problem.shape), count = ids.shape[0];
  if (chunks * count > INT32_MAX) refuse_extent("ids", 0, count, "fewer ids at once: split the call");
  q::ScatterParams& p = problem.params;
  p.x = x.data, p.out = out.data;
  p.x_stride = x.strides[0] * bytes_of(x.dtype), p.out_stride = out.strides[0] * bytes_of(out.dtype);
  p.ids = {ids.data, ids.strides[0], ids.dtype == Dtype::i64};
  p.first = args.first, p.rows = out.shape[0];
  p.padding = args.padding, p.pads = (args.flags & QUERN_SCATTER_HAS_PADDING) != 0;
  p.count = static_cast<q::i32>(count);
  p.chunks_all = static_cast<q::i32>(chunks * count), p.chunks = divisor(static_cast<q::i32>(chunks));
  p.scale = scale;
  problem.pieces = problem.shape.add && !problem.unique && count > q::kScatterPiece
                       ? 2 * ((count + q::kScatterPiece - 1) / q::kScatterPiece)
                       : 0;
  problem.shard = (args.flags & QUERN_SCATTER_SHARD) != 0;
  problem.most_blocks = args.max_sms > 0 ? call.sms * kBlocksPerSm : INT32_MAX;
  return problem;
}

void list_ids(const Problem& problem, IndexList* list) {
  const q::ScatterParams& p = problem.params;
  const std::int64_t most = p.first + p.rows - 1;
  if (!problem.shard) {
    q::IndexCheck& rows =
        list->in_range("ids", p.ids, p.count, p.first, most, nullptr, "out's rows; others with QUERN_SCATTER_SHARD");
    if (p.pads != 0) rows.flags |= q::kOneValueMore, rows.size = p.padding;
  }
  if (!problem.unique) return;
  q::IndexCheck& distinct = list->add(q::CheckKind::distinct, "ids", p.ids, p.count, nullptr,
                                      "QUERN_SCATTER_UNIQUE says that no id comes twice");
  distinct.least = p.first, distinct.most = most;
  if (p.pads != 0) distinct.flags |= q::kOneValueMore, distinct.size = p.padding;
}

// Rows of out and positions in x, sorted by the former: as the sort op's arguments say it. Behind them pieces' sums.
class Sorting {
 public:
  Sorting(const Problem& problem, const Runtime& runtime, const quern_scatter_args& args) {
    const jit::DeviceInfo& device = runtime.driver->device();
    for (DLTensor* t : {&keys_, &positions_}) {
      t->device = {device.device_type, device.device_id};
      t->ndim = 2, t->shape = shape_;
    }
    shape_[1] = problem.params.count;
    keys_.dtype = {kDLUInt, 32, 1}, positions_.dtype = {kDLInt, 32, 1};
    args_.size = sizeof args_;
    args_.flags = args.flags & kCallFlags;
    args_.stream = args.stream, args_.max_sms = args.max_sms;
    args_.keys = args_.keys_out = &keys_, args_.values_out = &positions_;
    own_ = sort::workspace(runtime, args_);
    if (own_ < kCounterBytes) own_ = kCounterBytes;
    each_ = (static_cast<std::uint64_t>(problem.params.count) * 4 + 255) / 256 * 256;
    const std::int64_t n = std::int64_t{problem.params.chunks.value} * problem.shape.width;
    sums_ = static_cast<std::uint64_t>(problem.pieces * n) * 4;
  }
  std::uint64_t bytes() const { return own_ + 2 * each_ + sums_; }
  void place(const quern_scatter_args& args) {
    read_workspace(args.workspace, args.workspace_size, bytes());
    auto* const base = static_cast<std::uint8_t*>(args.workspace);
    keys_.data = base + own_, positions_.data = base + own_ + each_;
    args_.workspace = args.workspace, args_.workspace_size = own_;
  }
  q::u32* keys() const { return static_cast<q::u32*>(keys_.data); }
  q::i32* positions() const { return static_cast<q::i32*>(positions_.data); }
  q::f32* sums() const { return reinterpret_cast<q::f32*>(static_cast<std::uint8_t*>(positions_.data) + each_); }
  const quern_sort_args& args() const { return args_; }

 private:
  std::int64_t shape_[2] = {1, 0};
  DLTensor keys_{}, positions_{};
  quern_sort_args args_{};
  std::uint64_t own_ = 0, each_ = 0, sums_ = 0;  // bytes: of the sort, of keys or positions, of pieces' sums
};

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_scatter_args& args) {
  return kernel_for(runtime, kConstants.to_spec(shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}
Shape finish_of(const Shape& shape) { return {Stage::finish, Dtype::u8, shape.to, shape.width}; }

}  // namespace

const Op op{"scatter", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_scatter_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  return problem.unique ? 0 : Sorting(problem, runtime, args).bytes();
}

void prepare(const Runtime& runtime, const quern_scatter_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_of(problem.shape, runtime, args);
  if (problem.unique) return;
  Shape of_one = problem.shape;
  of_one.sorted = false;
  kernel_of(of_one, runtime, args);
  kernel_of({Stage::rows}, runtime, args);
  if (problem.pieces > 0) kernel_of(finish_of(problem.shape), runtime, args);
  sort::prepare(runtime, Sorting(problem, runtime, args).args());
}

void run(const Runtime& runtime, const quern_scatter_args& args) {
  Problem problem = read_problem(args, runtime, false);
  q::ScatterParams& p = problem.params;
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  const jit::Kernel* rows = problem.unique ? nullptr : kernel_of({Stage::rows}, runtime, args);
  const jit::Kernel* finish = problem.pieces == 0 ? nullptr : kernel_of(finish_of(problem.shape), runtime, args);
  if (p.chunks_all != 0) check_indices(runtime, args, [&](IndexList& list) { list_ids(problem, &list); });
  jit::Launch launch;
  launch.block[0] = q::kScatterThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  const auto blocks = [&](std::int64_t items, std::int64_t each) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>((items + each - 1) / each, problem.most_blocks));
  };
  if (!problem.unique) {
    Sorting sorting(problem, runtime, args);
    sorting.place(args);
    if (p.chunks_all == 0) return;
    p.sorted = sorting.keys(), p.positions = sorting.positions(), p.sums = sorting.sums();
    launch.grid[0] = blocks(p.count, q::kScatterThreads);
    ops::launch(runtime, *rows, launch, "launching scatter's rows", p);
    sort::run(runtime, sorting.args());
  }
  if (p.chunks_all == 0) return;
  launch.grid[0] = blocks(p.chunks_all, std::int64_t{q::kScatterThreads} * (problem.shape.add ? 1 : q::kScatterAtOnce));
  ops::launch(runtime, *kernel, launch, "launching scatter", p);
  if (finish == nullptr) return;
  launch.grid[0] = blocks(problem.pieces / 2 * p.chunks.value, q::kScatterThreads);
  ops::launch(runtime, *finish, launch, "launching scatter's last sums", p);
}

}  // namespace quern::ops::scatter
