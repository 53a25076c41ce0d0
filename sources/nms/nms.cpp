// The nms op: non-maximum suppression of boxes, an image at a time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/nms/params.cuh"
#include "sources/ops.h"
#include "sources/tensor.h"
#include "sources/together.h"
#include "sources/workspace.h"

namespace quern::ops::nms {
namespace {

constexpr std::uint32_t kFlags = QUERN_NMS_SCORE_THRESHOLD;

enum class Stage : std::uint8_t { order, overlaps, keep };
struct Shape {
  Stage stage = Stage::order;
};
constexpr Names<Stage, 3> kStages = {{{"order", Stage::order}, {"overlaps", Stage::overlaps}, {"keep", Stage::keep}}};
constexpr auto kConstants = describe<Shape>(tag_nms, "nms", choice<&Shape::stage>("stage", nullptr, kStages));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  static constexpr const char* kEntries[] = {"quern_nms_order", "quern_nms_overlaps", "quern_nms_keep"};
  static constexpr const char* kSources[] = {"nms/order.cuh", "nms/overlaps.cuh", "nms/keep.cuh"};
  const auto stage = static_cast<int>(kConstants.to_shape(spec).stage);
  jit::Unit unit;
  unit.op = "nms";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = kEntries[stage];
  unit.source = embedded(kSources[stage]);
  unit.headers = device_headers(unit.target);
  return unit;
}

// Language models have no boxes.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  q::NmsParams params;
  int sms;
  bool bounded;
};

Tensor read_rows(const DLTensor* given, const char* name, Dtype dtype, std::int64_t images, std::int64_t n,
                 const Place& place) {
  const Tensor t = read(given, name, 2, {dtype}, place);
  expect_extent(t, name, 0, images);
  if (n >= 0) expect_extent(t, name, 1, n);
  expect_unit_stride(t, name, 1);
  return t;
}

const q::i32* read_images(const DLTensor* given, const char* name, std::int64_t images, const Place& place) {
  if (given == nullptr) return nullptr;
  const Tensor t = read(given, name, 1, {Dtype::i32}, place);
  expect_extent(t, name, 0, images);
  expect_unit_stride(t, name, 0);
  return reinterpret_cast<const q::i32*>(t.data);
}

Problem read_problem(const quern_nms_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_nms_flags", 4, may_lack_data);
  const Tensor boxes = read(args.boxes, "boxes", 3, {Dtype::f32}, call.place);
  const std::int64_t images = boxes.shape[0], n = boxes.shape[1];
  if (n > q::kMostBoxes) refuse_extent("boxes", 1, n, "0 to 32768");
  expect_extent(boxes, "boxes", 2, 4);
  if (n > 0) expect_unit_stride(boxes, "boxes", 2);  // of no elements a framework may give any
  const Tensor scores = read_rows(args.scores, "scores", Dtype::f32, images, n, call.place);
  const Tensor ids = read_rows(args.ids, "ids", Dtype::i32, images, -1, call.place);
  expect_apart(ids, "ids");
  Problem problem{};
  q::NmsParams& p = problem.params;
  p.boxes = reinterpret_cast<const q::f32*>(boxes.data);
  p.image_stride = boxes.strides[0], p.box_stride = boxes.strides[1];
  p.scores = reinterpret_cast<const q::f32*>(scores.data), p.scores_stride = scores.strides[0];
  p.ids = reinterpret_cast<q::i32*>(ids.data), p.ids_stride = ids.strides[0];
  p.most = static_cast<q::i32>(ids.shape[1]);
  if (args.classes != nullptr) {
    const Tensor classes = read_rows(args.classes, "classes", Dtype::i32, images, n, call.place);
    p.classes = reinterpret_cast<const q::i32*>(classes.data), p.classes_stride = classes.strides[0];
  }
  p.lengths = read_images(args.lengths, "lengths", images, call.place);
  p.counts = const_cast<q::i32*>(read_images(args.counts, "counts", images, call.place));
  if (!(args.iou_threshold >= 0.0f && args.iou_threshold <= 1.0f))
    refuse_value("iou_threshold", double{args.iou_threshold}, "0 to 1");
  p.has_threshold = (args.flags & QUERN_NMS_SCORE_THRESHOLD) != 0;
  if (args.score_threshold != args.score_threshold || (p.has_threshold == 0 && args.score_threshold != 0.0f)) {
    refuse_value("score_threshold", double{args.score_threshold},
                 p.has_threshold != 0 ? "numbers" : "0, without QUERN_NMS_SCORE_THRESHOLD");
  }
  p.iou_threshold = args.iou_threshold, p.score_threshold = args.score_threshold;
  p.images = static_cast<q::i32>(images), p.n = static_cast<q::i32>(n);
  p.words = static_cast<q::i32>((n + q::kBoxesAtOnce - 1) / q::kBoxesAtOnce);
  problem.sms = call.sms, problem.bounded = args.max_sms > 0;
  if (!may_lack_data && p.lengths != nullptr) {
    check_indices(runtime, args, [&](IndexList& list) {
      list.in_range("lengths", p.lengths, images, 0, n, "image", "boxes.shape[1]");
    });
  }
  return problem;
}

// The sort of the scores, as the sort op's arguments say it, and where in the workspace everything lies.
class Sorting {
 public:
  Sorting(const Problem& problem, const Runtime& runtime, const quern_nms_args& args) {
    const jit::DeviceInfo& device = runtime.driver->device();
    const q::NmsParams& p = problem.params;
    shape_[0] = p.images, shape_[1] = p.n;
    for (DLTensor* t : {&keys_, &positions_}) {
      t->device = {device.device_type, device.device_id};
      t->ndim = 2, t->shape = shape_;
    }
    keys_.dtype = {kDLUInt, 32, 1}, positions_.dtype = {kDLInt, 32, 1};
    args_.size = sizeof args_;
    args_.flags = (args.flags & kCallFlags) | QUERN_SORT_DESCENDING;
    args_.stream = args.stream, args_.max_sms = args.max_sms;
    args_.keys = args_.keys_out = &keys_, args_.values_out = &positions_;
    own_ = std::max(sort::workspace(runtime, args_), kCounterBytes);
    const std::int64_t boxes = std::int64_t{p.images} * p.n;
    each_ = (static_cast<std::uint64_t>(boxes) * 4 + 255) / 256 * 256;
    overlaps_ = static_cast<std::uint64_t>(boxes * p.words) * 8;
  }
  std::uint64_t bytes() const { return own_ + 2 * each_ + overlaps_; }
  void place(const quern_nms_args& args, q::NmsParams* p) {
    read_workspace(args.workspace, args.workspace_size, bytes());
    auto* const base = static_cast<std::uint8_t*>(args.workspace);
    keys_.data = base + own_, positions_.data = base + own_ + each_;
    args_.workspace = args.workspace, args_.workspace_size = own_;
    p->order = static_cast<q::u32*>(keys_.data), p->positions = static_cast<q::i32*>(positions_.data);
    p->overlaps = reinterpret_cast<q::u64*>(base + own_ + 2 * each_);
  }
  const quern_sort_args& args() const { return args_; }

 private:
  std::int64_t shape_[2] = {};
  DLTensor keys_{}, positions_{};
  quern_sort_args args_{};
  std::uint64_t own_ = 0, each_ = 0, overlaps_ = 0;  // bytes: of the sort, of keys or positions, of the bits
};

const jit::Kernel* kernel_of(Stage stage, const Runtime& runtime, const quern_nms_args& args) {
  return kernel_for(runtime, kConstants.to_spec({stage}, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

// Its own, while the sort's is compiled.
void begin_stages(const Runtime& runtime, const quern_nms_args& args) {
  const jit::Target target = runtime.driver->device().limits.target;
  const std::array specs = {kConstants.to_spec({Stage::order}, target), kConstants.to_spec({Stage::overlaps}, target),
                            kConstants.to_spec({Stage::keep}, target)};
  begin_kernels(runtime, specs, args.flags, args.stream);
}

}  // namespace

const Op op{"nms", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_nms_args& args) {
  return Sorting(read_problem(args, runtime, true), runtime, args).bytes();
}

void prepare(const Runtime& runtime, const quern_nms_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  begin_stages(runtime, args);
  sort::prepare(runtime, Sorting(problem, runtime, args).args());
  for (const Stage stage : {Stage::order, Stage::overlaps, Stage::keep}) kernel_of(stage, runtime, args);
}

void run(const Runtime& runtime, const quern_nms_args& args) {
  Problem problem = read_problem(args, runtime, false);
  q::NmsParams& p = problem.params;
  begin_stages(runtime, args);
  const jit::Kernel* order = kernel_of(Stage::order, runtime, args);
  const jit::Kernel* overlaps = kernel_of(Stage::overlaps, runtime, args);
  const jit::Kernel* keep = kernel_of(Stage::keep, runtime, args);
  Sorting sorting(problem, runtime, args);
  sorting.place(args, &p);
  if (p.images == 0) return;
  jit::Launch launch;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  const auto grid = [&](std::int64_t blocks, std::int64_t threads, int per_sm) {
    if (problem.bounded) blocks = std::min<std::int64_t>(blocks, std::int64_t{problem.sms} * per_sm);
    launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, INT32_MAX));
    launch.block[0] = static_cast<std::uint32_t>(threads);
  };
  if (p.n > 0) {
    grid((std::int64_t{p.images} * p.n + q::kNmsThreads - 1) / q::kNmsThreads, q::kNmsThreads, 2);
    ops::launch(runtime, *order, launch, "launching nms's order", p);
    sort::run(runtime, sorting.args());
    grid(std::int64_t{p.images} * p.words * p.words, q::kBoxesAtOnce, 16);
    ops::launch(runtime, *overlaps, launch, "launching nms's overlaps", p);
  }
  grid(p.images, q::kNmsThreads, 1);
  ops::launch(runtime, *keep, launch, "launching nms", p);
}

}  // namespace quern::ops::nms
