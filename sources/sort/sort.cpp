// The sort op: keys, and values with them, by segments.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
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
#include "sources/sort/params.cuh"
#include "sources/strided.h"
#include "sources/tensor.h"
#include "sources/together.h"
#include "sources/workspace.h"

namespace quern::ops::sort {
namespace {

constexpr std::uint32_t kFlags = QUERN_SORT_DESCENDING;

enum class Stage : std::uint8_t { row, count, scan, scatter };
enum class KeyType : std::uint8_t { f32, f16, bf16, i32, u32, i64 };

// What is one block's: at most so many keys in one launch, or a tile of longer segments.
struct Shape {
  Stage stage = Stage::row;
  KeyType key = KeyType::f32;
  int value = 0;  // bytes; 0: none
  int most = 0;   // of a row: keys
};

constexpr Names<Stage, 4> kStages = {
    {{"row", Stage::row}, {"count", Stage::count}, {"scan", Stage::scan}, {"scatter", Stage::scatter}}};
constexpr Names<KeyType, 6> kKeyTypes = {{{"f32", KeyType::f32},
                                          {"f16", KeyType::f16},
                                          {"bf16", KeyType::bf16},
                                          {"int32", KeyType::i32},
                                          {"uint32", KeyType::u32},
                                          {"int64", KeyType::i64}}};
constexpr Names<int, 5> kValueBytes = {{{"0", 0}, {"1", 1}, {"2", 2}, {"4", 4}, {"8", 8}}};
struct Row {
  int most, threads;
};
constexpr std::array<Row, 4> kRows = {{{32, 128}, {q::kFewKeys, 128}, {512, 256}, {4096, 512}}};
constexpr Names<int, 4> kMost = {{{"32", 32}, {"128", 128}, {"512", 512}, {"4096", 4096}}};

constexpr bool has_keys(const Shape& shape) { return shape.stage != Stage::scan; }
constexpr bool is_row(const Shape& shape) { return shape.stage == Stage::row; }
constexpr auto kConstants = describe<Shape>(tag_sort, "sort", choice<&Shape::stage>("stage", nullptr, kStages),
                                            choice<&Shape::key>("keys", nullptr, kKeyTypes).when(has_keys),
                                            choice<&Shape::value>("value_bytes", nullptr, kValueBytes).when(has_keys),
                                            choice<&Shape::most>("most", nullptr, kMost).when(is_row));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

int bytes_of(KeyType key) { return key == KeyType::i64 ? 8 : key == KeyType::f16 || key == KeyType::bf16 ? 2 : 4; }
// Keys of a tile that a thread has; with their values they fit into shared memory.
int items_of(const Shape& shape) { return std::max(bytes_of(shape.key), shape.value) > 4 ? 8 : 16; }
int tile_of(const Shape& shape) { return q::kSortThreads * items_of(shape); }
int row_threads(const Shape& shape) {
  return std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.most == shape.most; })->threads;
}
std::uint32_t shared_bytes(const Shape& shape) {
  const auto widest = static_cast<std::uint32_t>(std::max(bytes_of(shape.key), shape.value));
  if (shape.stage == Stage::row) return shape.most > q::kFewKeys ? static_cast<std::uint32_t>(shape.most) * widest : 0;
  return shape.stage == Stage::scatter ? static_cast<std::uint32_t>(tile_of(shape)) * widest : 0;
}

void define_keys(const Shape& shape, jit::Unit* unit) {
  static constexpr struct {
    const char *bits, *is_signed, *infinity;
  } kOf[] = {{"u32", "1", "0x7f800000"}, {"u16", "1", "0x7c00"}, {"u16", "1", "0x7f80"},
             {"u32", "1", "0"},          {"u32", "0", "0"},      {"u64", "1", "0"}};
  const auto& of = kOf[static_cast<int>(shape.key)];
  const bool row = shape.stage == Stage::row;
  const int items = row ? std::max(shape.most / row_threads(shape), 1) : items_of(shape);
  unit->constants = {
      {"KEY", of.bits}, {"SIGNED", of.is_signed}, {"INFINITY_BITS", of.infinity}, {"ITEMS", std::to_string(items)}};
  if (shape.stage == Stage::count) return;
  unit->constants.push_back({"VALUE", "u" + std::to_string(shape.value == 0 ? 8 : 8 * shape.value)});
  unit->constants.push_back({"HAS_VALUES", shape.value != 0 ? "1" : "0"});
  if (!row) return;
  unit->constants.push_back({"MOST", std::to_string(shape.most)});
  unit->constants.push_back({"THREADS", std::to_string(row_threads(shape))});
  unit->constants.push_back({"BLOCKS_PER_SM", std::to_string(1024 / row_threads(shape))});
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  static constexpr const char* kEntries[] = {"quern_sort_row", "quern_sort_count", "quern_sort_scan",
                                             "quern_sort_scatter"};
  static constexpr const char* kSources[] = {"sort/row.cuh", "sort/count.cuh", "sort/scan.cuh", "sort/scatter.cuh"};
  jit::Unit unit;
  unit.op = "sort";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = kEntries[static_cast<int>(shape.stage)];
  if (has_keys(shape)) define_keys(shape, &unit);
  unit.source = embedded(kSources[static_cast<int>(shape.stage)]);
  unit.headers = device_headers(unit.target);
  unit.max_shared_bytes = shared_bytes(shape);
  return unit;
}

// No layer of a model sorts by itself.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

// With the dtype of an integer of the same width, which is how its bits are read.
Tensor read_bits(const DLTensor& given, const char* name, int bits, const Place& place) {
  DLTensor as = given;
  as.dtype = {kDLInt, static_cast<std::uint8_t>(bits), 1};
  if (bits == 16) as.dtype.code = kDLFloat;
  const Tensor t = read(&as, name, 2, {Dtype::i8, Dtype::f16, Dtype::i32, Dtype::i64}, place);
  expect_unit_stride(t, name, 1);
  return t;
}

KeyType key_type_of(const DLTensor* keys) {
  if (keys == nullptr) refuse_missing("keys");
  if (keys->dtype.lanes == 1 && keys->dtype.code == kDLUInt && keys->dtype.bits == 32) return KeyType::u32;
  switch (dtype_of(keys->dtype)) {
    case Dtype::f32:
      return KeyType::f32;
    case Dtype::f16:
      return KeyType::f16;
    case Dtype::bf16:
      return KeyType::bf16;
    case Dtype::i32:
      return KeyType::i32;
    case Dtype::i64:
      return KeyType::i64;
    default:
      throw Error(QUERN_INVALID,
                  "keys is " + type_text(keys->dtype) + "; allowed: f16, bf16, f32, int32, uint32, int64");
  }
}

struct Problem {
  q::SortParams params;
  Shape shape;           // of the scatter; of the row where `rows` has them
  std::int64_t longest;  // segment
  std::int64_t elements;
  int sms;
  bool bounded;
};

void expect_same_dtype(const DLTensor& given, const char* name, const DLTensor& as, const char* as_name) {
  if (given.dtype.code == as.dtype.code && given.dtype.bits == as.dtype.bits && given.dtype.lanes == as.dtype.lanes)
    return;
  throw Error(QUERN_INVALID, std::string(name) + " is " + type_text(given.dtype) + "; it must be " +
                                 type_text(as.dtype) + ", as " + as_name);
}

// keys_out without data: there is none.
void read_values(const quern_sort_args& args, const Tensor& keys, const Tensor& keys_out, const Place& place,
                 Problem* problem) {
  if (args.values_out == nullptr) {
    if (args.values != nullptr) refuse_missing("values_out");
    return;
  }
  q::SortParams& p = problem->params;
  const DLDataType type = args.values_out->dtype;
  Tensor values;
  if (args.values == nullptr) {
    const Dtype dtype = dtype_of(type);
    if (dtype != Dtype::i32 && dtype != Dtype::i64) refuse_dtype("values_out", type, {Dtype::i32, Dtype::i64});
  } else {
    const std::uint8_t bits = args.values->dtype.bits;
    if (args.values->dtype.lanes != 1 || (bits != 8 && bits != 16 && bits != 32 && bits != 64)) {
      throw Error(QUERN_INVALID,
                  "values is " + type_text(args.values->dtype) + "; allowed: dtypes of 8, 16, 32 and 64 bits");
    }
    expect_same_dtype(*args.values_out, "values_out", *args.values, "values");
    values = read_bits(*args.values, "values", bits, place);
    for (int d = 0; d < 2; ++d) expect_extent(values, "values", d, keys.shape[d]);
    expect_beside(keys_out, "keys_out", values, "values");
    p.values = values.data, p.values_stride = values.strides[0];
  }
  const Tensor out = read_bits(*args.values_out, "values_out", type.bits, place);
  for (int d = 0; d < 2; ++d) expect_extent(out, "values_out", d, keys.shape[d]);
  expect_apart(out, "values_out");
  expect_beside(out, "values_out", values, "values", true);
  expect_beside(out, "values_out", keys, "keys");
  expect_beside(out, "values_out", keys_out, "keys_out");
  p.values_out = out.data, p.values_out_stride = out.strides[0];
  problem->shape.value = type.bits / 8;
}

void read_offsets(const quern_sort_args& args, const Tensor& keys, const Runtime& runtime, const Call& call,
                  bool may_lack_data, Problem* problem) {
  const Tensor offsets = read(args.offsets, "offsets", 1, {Dtype::i32}, call.place);
  expect_unit_stride(offsets, "offsets", 0);
  if (offsets.shape[0] < 1) refuse_extent("offsets", 0, offsets.shape[0], "1 and more");
  if (keys.shape[0] != 1) refuse_extent("keys", 0, keys.shape[0], "1, with offsets");
  q::SortParams& p = problem->params;
  p.offsets = reinterpret_cast<const q::i32*>(offsets.data);
  p.segments = static_cast<q::i32>(offsets.shape[0] - 1);
  if (args.max_segment > 0) problem->longest = std::min(args.max_segment, problem->longest);
  if (may_lack_data) return;
  check_indices(runtime, args, [&](IndexList& list) {
    list.offsets("offsets", p.offsets, p.segments, p.n, "segment", "keys.shape[1]");
    list.extents("the length of segment #", "offsets", p.offsets, p.segments, problem->longest, "max_segment");
  });
}

Problem read_problem(const quern_sort_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_sort_flags", 4, may_lack_data);
  Problem problem{};
  q::SortParams& p = problem.params;
  problem.shape.key = key_type_of(args.keys);
  const Tensor keys = read_bits(*args.keys, "keys", args.keys->dtype.bits, call.place);
  p.keys = keys.data, p.keys_stride = keys.strides[0];
  p.segments = static_cast<q::i32>(keys.shape[0]), p.n = static_cast<q::i32>(keys.shape[1]);
  problem.longest = p.n, problem.elements = keys.shape[0] * keys.shape[1];
  if (args.keys_out == nullptr && args.values_out == nullptr) refuse_missing("keys_out");
  Tensor out;
  if (args.keys_out != nullptr) {
    expect_same_dtype(*args.keys_out, "keys_out", *args.keys, "keys");
    out = read_bits(*args.keys_out, "keys_out", args.keys->dtype.bits, call.place);
    for (int d = 0; d < 2; ++d) expect_extent(out, "keys_out", d, keys.shape[d]);
    expect_apart(out, "keys_out");
    expect_beside(out, "keys_out", keys, "keys", true);
    p.keys_out = out.data, p.keys_out_stride = out.strides[0];
  }
  read_values(args, keys, out, call.place, &problem);
  if (args.max_segment < 0) refuse_value("max_segment", args.max_segment, "0 (all) and more");
  if (args.offsets != nullptr) {
    read_offsets(args, keys, runtime, call, may_lack_data, &problem);
  } else if (args.max_segment != 0) {
    refuse_value("max_segment", args.max_segment, "0, without offsets");
  }
  p.descending = (args.flags & QUERN_SORT_DESCENDING) != 0;
  problem.sms = call.sms, problem.bounded = args.max_sms > 0;

  if (problem.longest <= kRows.back().most) {
    problem.shape.most =
        std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.most >= problem.longest; })->most;
    return problem;
  }
  p.tile = tile_of(problem.shape);
  const std::int64_t each = (std::int64_t{p.n} + p.tile - 1) / p.tile;
  const std::int64_t tiles = args.offsets != nullptr ? p.n / p.tile + std::int64_t{p.segments} : each * p.segments;
  if (tiles > INT32_MAX / q::kDigits) refuse_extent("keys", 0, keys.shape[0], "fewer keys at once: split the call");
  p.tiles = static_cast<q::i32>(tiles);
  p.row_tiles = divisor(static_cast<q::i32>(each));
  return problem;
}

bool is_short(const Problem& problem) { return problem.shape.most != 0; }

// Where a call of several launches keeps what is between them.
struct Between {
  std::uint64_t counts, totals, keys, more_keys, values, bytes;
};
Between between(const Problem& problem) {
  Between at{};
  if (is_short(problem)) return at;
  const auto take = [&](std::int64_t bytes) {
    const std::uint64_t begin = at.bytes;
    at.bytes += (static_cast<std::uint64_t>(bytes) + 255) / 256 * 256;
    return begin;
  };
  const q::SortParams& p = problem.params;
  const std::int64_t key_bytes = problem.elements * bytes_of(problem.shape.key);
  at.counts = take(std::int64_t{p.tiles} * q::kDigits * 4);
  at.totals = take(std::int64_t{p.segments} * q::kDigits * 4);
  at.keys = take(key_bytes);
  at.more_keys = p.keys_out == nullptr ? take(key_bytes) : 0;
  at.values = take(problem.elements * problem.shape.value);
  return at;
}
std::uint64_t needed(const Problem& problem) { return is_short(problem) ? 0 : kCounterBytes + between(problem).bytes; }

jit::Spec spec_of(Shape shape, Stage stage, const Runtime& runtime) {
  shape.stage = stage;
  return kConstants.to_spec(shape, runtime.driver->device().limits.target);
}
const jit::Kernel* kernel_of(const Shape& shape, Stage stage, const Runtime& runtime, const quern_sort_args& args) {
  return kernel_for(runtime, spec_of(shape, stage, runtime), args.flags, args.stream);
}

// Of many passes, in the order of their launches.
std::array<jit::Spec, 3> specs_of_tiles(const Shape& of, const Runtime& runtime) {
  const Shape shape{Stage::scatter, of.key, of.value, 0};
  return {spec_of(shape, Stage::count, runtime), spec_of({}, Stage::scan, runtime),
          spec_of(shape, Stage::scatter, runtime)};
}

jit::Launch launch_of(const Problem& problem, std::int64_t blocks, int threads, int per_sm, std::uint32_t shared,
                      const quern_sort_args& args) {
  if (problem.bounded) blocks = std::min<std::int64_t>(blocks, std::int64_t{problem.sms} * per_sm);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.shared_bytes = shared;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  return launch;
}

void run_rows(const Runtime& runtime, const quern_sort_args& args, Problem& problem) {
  const jit::Kernel* kernel = kernel_of(problem.shape, Stage::row, runtime, args);
  if (problem.params.segments == 0 || problem.params.n == 0) return;
  const int threads = row_threads(problem.shape);
  // A block a segment, or a warp.
  const auto warps = static_cast<std::int64_t>(threads) / runtime.driver->device().limits.warp_size;
  const std::int64_t each = problem.shape.most > q::kFewKeys ? 1 : warps;
  const jit::Launch launch = launch_of(problem, (problem.params.segments + each - 1) / each, threads, 1024 / threads,
                                       shared_bytes(problem.shape), args);
  ops::launch(runtime, *kernel, launch, "launching sort", problem.params);
}

// Digit by digit: from the caller's keys to the workspace and from there to the results, by turns. There is an even
// number of digits, so that the last leaves them where they belong, and results may lie over what is sorted.
void run_tiles(const Runtime& runtime, const quern_sort_args& args, const Problem& problem) {
  const Shape shape{Stage::scatter, problem.shape.key, problem.shape.value, 0};
  const std::array<jit::Spec, 3> specs = specs_of_tiles(shape, runtime);
  begin_kernels(runtime, specs, args.flags, args.stream);
  const auto kernel = [&](std::size_t i) { return kernel_for(runtime, specs[i], args.flags, args.stream); };
  const jit::Kernel *count = kernel(0), *scan = kernel(1), *scatter = kernel(2);
  const Between at = between(problem);
  const Workspace space = read_workspace(args.workspace, args.workspace_size, kCounterBytes + at.bytes);
  if (problem.params.segments == 0) return;
  auto* const base = static_cast<std::uint8_t*>(space.scratch);
  q::SortParams p = problem.params;
  p.counts = reinterpret_cast<q::u32*>(base + at.counts), p.totals = reinterpret_cast<q::u32*>(base + at.totals);
  p.group = p.tiles >= 16 * problem.sms ? q::kMostSortGroup : 1;
  jit::Launch counting = launch_of(problem, (p.tiles + p.group - 1) / p.group, q::kSortThreads, 2, 0, args);
  const std::int64_t warps = 128 / runtime.driver->device().limits.warp_size;
  jit::Launch scanning =
      launch_of(problem, (std::int64_t{p.segments} * q::kDigits + warps - 1) / warps, 128, 8, 0, args);
  jit::Launch scattering = launch_of(problem, p.tiles, q::kSortThreads, 2, shared_bytes(shape), args);
  scanning.programmatic = scattering.programmatic = true;
  const int passes = bytes_of(shape.key);
  for (int pass = 0; pass < passes; ++pass) {
    p.shift = 8 * pass;
    const bool last = pass == passes - 1;
    if (pass % 2 == 0) {
      p.keys_out = base + at.keys, p.keys_out_stride = p.n;
      p.values_out = base + at.values, p.values_out_stride = p.n;
    } else {
      const bool kept = problem.params.keys_out != nullptr;
      p.keys_out = kept ? problem.params.keys_out : last ? nullptr : base + at.more_keys;
      p.keys_out_stride = kept ? problem.params.keys_out_stride : p.n;
      p.values_out = problem.params.values_out, p.values_out_stride = problem.params.values_out_stride;
    }
    ops::launch(runtime, *count, counting, "launching sort's counts", p);
    // All that follows waits for the launch before by itself.
    counting.programmatic = true;
    ops::launch(runtime, *scan, scanning, "launching sort's sums", p);
    ops::launch(runtime, *scatter, scattering, "launching sort's moves", p);
    p.keys = p.keys_out, p.keys_stride = p.keys_out_stride;
    if (shape.value != 0) p.values = p.values_out, p.values_stride = p.values_out_stride;
  }
}

}  // namespace

const Op op{"sort", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_sort_args& args) {
  return needed(read_problem(args, runtime, true));
}

// Segments that are shorter than these may take fewer threads.
void prepare(const Runtime& runtime, const quern_sort_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  for (const Row& row : kRows) {
    Shape shape = problem.shape;
    shape.most = row.most;
    kernel_of(shape, Stage::row, runtime, args);
    if (row.most >= problem.longest) return;
  }
  const std::array<jit::Spec, 3> specs = specs_of_tiles(problem.shape, runtime);
  begin_kernels(runtime, specs, args.flags, args.stream);
  for (const jit::Spec& spec : specs) kernel_for(runtime, spec, args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_sort_args& args) {
  Problem problem = read_problem(args, runtime, false);
  if (is_short(problem)) return run_rows(runtime, args, problem);
  run_tiles(runtime, args, problem);
}

}  // namespace quern::ops::sort
