// The sample op: a token a row, from its logits.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "sources/clusters.h"
#include "sources/common_headers.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/sample/edits.h"
#include "sources/sample/read.h"
#include "sources/together.h"
#include "sources/workspace.h"

namespace quern::ops::sample {
namespace {

constexpr auto kConstants = describe<Shape>(
    tag_sample, "sample", choice<&Shape::logits>("dtype", "LOGIT", kFloatDtypes),
    flag<&Shape::edits>("edits", "EDITS").optional(), flag<&Shape::filters>("filters", "FILTERS").optional(),
    flag<&Shape::clusters>("clusters", nullptr).optional(), flag<&Shape::streams>("streams", nullptr).optional(),
    flag<&Shape::small>("small", nullptr).optional(), flag<&Shape::largest>("largest", nullptr).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if (shape.clusters && !target.tensor_maps)
    throw Error(QUERN_INVALID, "clusters is 1, which target \"" + target.target.name() + "\" does not have");
  if (shape.streams && !(shape.clusters && shape.filters))
    throw Error(QUERN_INVALID, "streams is 1 without clusters and filters");
  if (shape.small && !(shape.clusters && shape.filters && !shape.streams))
    throw Error(QUERN_INVALID, "small is 1 without clusters and filters, or with streams");
  if (shape.largest && !shape.small) throw Error(QUERN_INVALID, "largest is 1 without small");
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  return to_unit("sample", shape, jit::Target::from_tag(spec.target));
}

// Logits come in f32 from most engines, and as the model computes them from others. Which parameters requests bring is
// not known beforehand.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.vocab_size == 0 || model.vocab_size > static_cast<std::uint32_t>(q::kMostVocab)) return;
  const auto add = [&](const Shape& shape) { specs->push_back(kConstants.to_spec(shape, target.target)); };
  if (!target.tensor_maps) {
    for (const bool edits : {false, true}) {
      for (const bool filters : {false, true}) add({Dtype::f32, edits, filters});
    }
    return;
  }
  // As choose() does.
  add({Dtype::f32, false, false, true});
  for (const bool edits : {false, true}) {
    for (const bool streams : {false, true}) add({Dtype::f32, edits, true, true, streams});
  }
  add({Dtype::f32, true, true, false});
}

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Parts {
  std::uint64_t stats, group_keys, chunk_weights;  // bytes of each
};
Parts parts_of(const Problem& problem) {
  const q::SampleParams& p = problem.params;
  const std::uint64_t chunks = static_cast<std::uint64_t>(p.count) * static_cast<std::uint64_t>(p.chunks);
  const bool groups = problem.shape.filters && problem.blocks == 0;
  return {round_up(chunks * sizeof(q::ChunkStats)), groups ? round_up(chunks * q::kGroups * 4) : 0,
          round_up(chunks * 8)};
}

// Of a block's dynamic shared memory.
std::uint32_t room_of(const Problem& problem, int blocks) {
  const q::SampleParams& p = problem.params;
  const Shape& shape = problem.shape;
  const int own = (p.chunks + blocks - 1) / blocks;
  if (shape.small) return static_cast<std::uint32_t>(q::small_room(p.chunks, own, p.slots).bytes);
  const int ahead = q::ahead_bytes(shape.edits, static_cast<int>(bytes_of(shape.logits)));
  return static_cast<std::uint32_t>(shape.streams ? q::filter_room(p.chunks, own, p.slots, ahead).bytes
                                                  : q::cluster_room(p.chunks, own, shape.edits || shape.filters,
                                                                    shape.filters, p.slots, p.bias_offsets != nullptr)
                                                        .bytes);
}
// Rows that are many take less time if several of them are at once on a multiprocessor, and so are not kept there.
// Up to so many rows are kept by their clusters; more stream by.
std::int64_t few_rows(std::int64_t sm_count) { return sm_count / 2; }

int threads_of(const Shape& shape) {
  return shape.clusters && !shape.streams && (shape.edits || shape.filters) ? kKeptThreads : kThreads;
}

// By the device's multiprocessors rather than the call's, so that max_sms does not change the kernel.
bool streams(const Problem& problem, std::int64_t sm_count) {
  return problem.shape.filters && problem.params.count > few_rows(sm_count);
}

// How many blocks share a row, if clusters can: as make for the fewest rounds of rows times the time that one takes.
int blocks_of_row(const Problem& problem, const jit::TargetInfo& limits) {
  const q::SampleParams& p = problem.params;
  if (!limits.tensor_maps || (problem.shape.small ? problem.rarer : problem.rare)) return 0;
  const bool streams = problem.shape.streams, keeps = problem.shape.edits || problem.shape.filters;
  const auto fits = [&](int blocks, std::uint32_t bytes) { return room_of(problem, blocks) + kDeskBytes <= bytes; };
  // The emulation on the host runs clusters of 64 warps.
  const bool host = limits.target.family() == jit::Family::host;
  int most = std::min<int>(q::kClusterBlocks, p.chunks);
  if (host) most = std::min(most, 64 * 32 / (streams ? kThreads : kKeptThreads));
  if (problem.bounded) most = std::min(most, problem.sms);
  // The bound of what may stay is told by a chunk of each warp.
  constexpr int kWarps = kThreads / 32;
  int best = 0;
  double least = 0;
  for (int blocks = 1; blocks <= most; ++blocks) {
    if (!fits(blocks, limits.shared_per_block)) continue;
    if (best != 0 && streams && p.chunks / blocks < kWarps) break;
    int on_each = 1;
    while (on_each < (streams ? kStreamBlocksPerSm
                      : keeps ? 1
                              : 2) &&
           fits(blocks, limits.shared_per_sm / static_cast<std::uint32_t>(on_each + 1) - 1024))
      ++on_each;
    const int own = (p.chunks + blocks - 1) / blocks;
    double cost;
    if (streams) {
      // In microseconds: what a row takes beside its chunks; a chunk at the memory's speed, shared by the blocks of a
      // multiprocessor, or at that of a block alone.
      constexpr double kFixed = 14, kShared = 0.125, kAlone = 0.21;
      const int there = std::max(problem.sms * on_each / blocks, 1);
      const double rounds = std::ceil(static_cast<double>(p.count) / there);
      const int busy = static_cast<int>(
          std::min<std::int64_t>(on_each, (std::int64_t{p.count} * blocks + problem.sms - 1) / problem.sms));
      cost = rounds * (kFixed + own * std::max(kShared * busy, kAlone));
    } else {
      constexpr double kFixed = 24;  // what a row costs beside its chunks, in the time that a block takes for one
      const std::int64_t rows = std::max<std::int64_t>(most_clusters(blocks, problem.sms) * on_each, 1);
      cost = static_cast<double>((std::int64_t{p.count} + rows - 1) / rows) * (kFixed + own);
    }
    if (best == 0 || cost < least) best = blocks, least = cost;
  }
  return best;
}

// Rows beyond the counters there are have one block each.
bool can_divide(const q::SampleParams& p) { return p.count <= kCounters; }

}  // namespace

jit::Unit to_unit(const char* name, const Shape& shape, jit::Target target) {
  jit::Unit unit;
  unit.op = name;
  unit.target = target;
  unit.entry = "quern_sample";
  unit.constants = {{"LOGIT", name_of(shape.logits)},
                    {"EDITS", shape.edits ? "1" : "0"},
                    {"FILTERS", shape.filters ? "1" : "0"},
                    {"THREADS", std::to_string(threads_of(shape))}};
  unit.source = embedded(!shape.clusters ? "sample/kernels/sample.cuh"
                         : shape.streams ? "sample/kernels/sm90/filtered.cuh"
                         : shape.small   ? "sample/kernels/sm90/small.cuh"
                                         : "sample/kernels/sm90/clustered.cuh");
  if (shape.streams) unit.constants.push_back({"BLOCKS", std::to_string(kStreamBlocksPerSm)});
  if (shape.small) unit.constants.push_back({"LARGEST", shape.largest ? "1" : "0"});
  unit.headers = device_headers(unit.target);
  const jit::TargetInfo limits = jit::limits_of(target);
  unit.max_shared_bytes = shape.clusters ? limits.shared_per_block - kDeskBytes
                          : shape.edits  ? most_edit_bytes(limits)
                                         : 0;
  return unit;
}

void divide_rows(Problem* problem) {
  q::SampleParams& p = problem->params;
  if (problem->blocks != 0) {
    p.blocks = problem->blocks, p.chunks_per_block = (p.chunks + p.blocks - 1) / p.blocks;
    return;
  }
  constexpr std::int64_t kWarps = kThreads / 32;  // chunks that a block takes at once
  // With many blocks it matters little which SM is done last; but each reads its row's lists.
  const std::int64_t kWaves = p.slots != 0 ? 1 : 4;
  const std::int64_t wanted = std::max<std::int64_t>(kWaves * problem->sms * kBlocksPerSm / std::max(p.count, 1), 1);
  const std::int64_t rounds = std::clamp<std::int64_t>(p.chunks / (wanted * kWarps), 1, q::kBlockChunks / kWarps);
  p.chunks_per_block = static_cast<std::int32_t>(can_divide(p) ? rounds * kWarps : p.chunks);
  if (!can_divide(p) && p.slots != 0 && p.chunks > q::kBlockChunks)
    throw Error(QUERN_UNSUPPORTED,
                "lists of tokens with more than 65536 rows of more than 262144 logits; call in parts");
  p.blocks = (p.chunks + p.chunks_per_block - 1) / p.chunks_per_block;
  p.units = p.count * p.blocks;
}

std::uint64_t workspace_of(const Problem& problem) {
  const Parts parts = parts_of(problem);
  return kCounterBytes + parts.stats + parts.group_keys + parts.chunk_weights;
}

void launch_problem(const Runtime& runtime, Problem* problem, const jit::Kernel& kernel, void* workspace,
                    std::uint64_t workspace_size, std::uint32_t flags, void* stream, const char* what) {
  q::SampleParams& p = problem->params;
  if (p.count == 0) return;
  const Workspace space = read_workspace(workspace, workspace_size, workspace_of(*problem));
  const Parts parts = parts_of(*problem);
  auto* const scratch = static_cast<char*>(space.scratch);
  p.counters = space.counters;
  p.stats = reinterpret_cast<q::ChunkStats*>(scratch);
  p.group_keys = reinterpret_cast<std::uint32_t*>(scratch + parts.stats);
  p.chunk_weights = reinterpret_cast<unsigned long long*>(scratch + parts.stats + parts.group_keys);
  jit::Launch launch;
  launch.grid[0] =
      static_cast<std::uint32_t>(problem->bounded ? std::min(p.units, problem->sms * kBlocksPerSm) : p.units);
  launch.block[0] = static_cast<std::uint32_t>(threads_of(problem->shape));
  if (problem->blocks != 0) {
    const int most = std::max(problem->sms *
                                  (problem->shape.streams                   ? kStreamBlocksPerSm
                                   : threads_of(problem->shape) == kThreads ? 2
                                                                            : 1) /
                                  p.blocks,
                              1),
              clusters = problem->bounded ? std::min(p.count, most) : p.count;
    p.units = clusters;
    launch.grid[0] = static_cast<std::uint32_t>(clusters * p.blocks);
    launch.cluster[0] = static_cast<std::uint32_t>(p.blocks);
    launch.shared_bytes = room_of(*problem, p.blocks);
  } else if (p.slots != 0)
    launch.shared_bytes = static_cast<std::uint32_t>(std::max(p.chunks_per_block * q::kGroups * 4, p.slots * 12));
  launch.programmatic = (flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = stream;
  ops::launch(runtime, kernel, launch, what, p);
}

const Op op{"sample", unit, parse, list, constants};

namespace {

// Which kernel is for a call. So that a model needs few, some serve more than they were made for: where there
// are clusters, edits alone take the kernel that filters too, and what few requests ask for takes the portable one that
// edits.
void choose(Problem& problem, const jit::DeviceInfo& device) {
  const jit::TargetInfo& limits = device.limits;
  if (!limits.tensor_maps) return;
  const Shape asked = problem.shape;
  problem.shape.filters = asked.filters || asked.edits;
  problem.shape.streams = streams(problem, device.sm_count);
  problem.blocks = blocks_of_row(problem, limits);
  problem.shape.clusters = problem.blocks != 0;
  if (problem.blocks == 0) problem.shape = asked, problem.shape.edits = asked.edits || asked.filters;
}

// Kernels that filter take a second or more to compile, those for many rows and the portable one several. Where the one
// that is wanted is not there yet, another whose tokens are the same does the call: for many rows that for few, which
// is there earlier, and until then one that is compiled in a fraction of the time.
const jit::Kernel* kernel_of(Problem& problem, const Runtime& runtime, const quern_sample_args& args) {
  const jit::TargetInfo& limits = runtime.driver->device().limits;
  const auto spec_of = [&](const Problem& of) { return kConstants.to_spec(of.shape, limits.target); };
  if (const jit::Kernel* kernel = runtime.engine->find(spec_of(problem))) return kernel;
  std::vector<Problem> problems = {problem};
  Problem other = problem;
  const auto add_if_fits = [&] {
    other.blocks = blocks_of_row(other, limits);
    if (other.blocks != 0) problems.push_back(other);
  };
  other.shape.streams = false;
  if (problem.shape.streams) add_if_fits();
  other.shape.clusters = other.shape.small = true, other.shape.largest = problem.rare;
  if (problem.shape.filters) add_if_fits();
  std::vector<jit::Spec> specs;
  for (const Problem& each : problems) specs.push_back(spec_of(each));
  problem = problems[first_that_is_there(runtime, specs, args.flags, args.stream)];
  return kernel_for(runtime, spec_of(problem), args.flags, args.stream);
}

void list_index_data(const q::SampleParams& p, IndexList* list) {
  if (p.count == 0) return;
  if (p.rows != nullptr) {
    list->in_range("rows", p.rows, p.count, 0, std::int64_t{p.logit_rows} - 1, nullptr, "the rows of logits");
  }
  list_edits(p, list);
}

}  // namespace

std::uint64_t workspace(const Runtime& runtime, const quern_sample_args& args) {
  return workspace_of(read_problem(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_sample_args& args) {
  const jit::DeviceInfo& device = runtime.driver->device();
  const Problem read = read_problem(args, runtime, true);
  // Calls of fewer rows may have another kernel.
  std::array<jit::Spec, 2> specs;
  std::size_t count = 0;
  for (const std::int64_t rows : {std::int64_t{read.params.count}, few_rows(device.sm_count)}) {
    if (rows > read.params.count) continue;
    Problem problem = read;
    problem.params.count = static_cast<std::int32_t>(rows);
    choose(problem, device);
    specs[count++] = kConstants.to_spec(problem.shape, device.limits.target);
  }
  const std::span<const jit::Spec> wanted(specs.data(), count);
  begin_kernels(runtime, wanted, args.flags, args.stream);
  for (const jit::Spec& spec : wanted) kernel_for(runtime, spec, args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_sample_args& args) {
  const jit::DeviceInfo& device = runtime.driver->device();
  Problem problem = read_problem(args, runtime, false);
  // Rows and biases that are out of range are told in the caller's status, on `host` too; without one they are checked
  // here.
  if (args.status == nullptr)
    check_indices(runtime, args, [&](IndexList& list) { list_index_data(problem.params, &list); });
  choose(problem, device);
  const jit::Kernel* const kernel = kernel_of(problem, runtime, args);
  divide_rows(&problem);
  launch_problem(runtime, &problem, *kernel, args.workspace, args.workspace_size, args.flags, args.stream,
                 "launching sample");
}

}  // namespace quern::ops::sample
