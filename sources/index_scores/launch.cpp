// The index_scores op: how keys are shared out among blocks of threads, its launch, and what a model needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "jit/error.h"
#include "sources/common/sm90/layout.cuh"
#include "sources/divisor.h"
#include "sources/index_data.h"
#include "sources/index_scores/read.h"
#include "sources/ops.h"

namespace quern::ops::index_scores {
namespace {

// Items of so many keys that the busiest block of threads is done soonest; what beginning an item costs is counted in
// keys.
void share_out(Problem& problem, const Tiling& t, std::int64_t blocks) {
  constexpr std::int64_t kMostChunk = 8192, kPrice = 256;
  q::IndexParams& p = problem.params;
  const std::int64_t batch = p.batch, tokens = problem.shape.tokens;
  const std::int64_t slots = p.max_q_len > tokens ? (p.total_q + batch * (tokens - 1)) / tokens : batch;
  std::int64_t least = INT64_MAX;
  for (std::int64_t chunk = t.keys; chunk <= kMostChunk; chunk *= 2) {
    const std::int64_t chunks = (p.columns + chunk - 1) / chunk;
    const std::int64_t cost = (slots * chunks + blocks - 1) / blocks * (chunk + kPrice);
    if (cost > least) continue;
    least = cost, p.chunk = static_cast<std::int32_t>(chunk), p.chunks = static_cast<std::int32_t>(chunks);
  }
  if (slots * p.chunks > INT32_MAX)
    refuse_extent("out", 0, p.total_q, "so many that tiles of queries times chunks of keys are less than 2^31");
  p.slots = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(slots, 1)));
}

// Rows of 128 bytes, `rows` of them in a page or of a query's heads, as copies of [depth][height][128] take them.
jit::TensorMap map_of(const Runtime& runtime, const std::uint8_t* data, std::int64_t rows, std::int64_t pages,
                      std::int64_t row_bytes, std::int64_t page_bytes, std::uint32_t height, std::uint32_t depth) {
  jit::TensorMapDesc desc;
  desc.data_type = jit::kTensorU8;
  desc.rank = 3;
  desc.address = const_cast<std::uint8_t*>(data);  // it is only read
  desc.extent[0] = 128;
  desc.extent[1] = static_cast<std::uint64_t>(rows);
  desc.extent[2] = static_cast<std::uint64_t>(pages);
  // Where there is one row or page only its stride says nothing, but must be one.
  const std::int64_t row = rows > 1 && row_bytes > 0 ? row_bytes : 128;
  desc.stride[0] = static_cast<std::uint64_t>(row);
  desc.stride[1] = static_cast<std::uint64_t>(pages > 1 && page_bytes > 0 ? page_bytes : row * rows);
  desc.box[0] = 128;
  desc.box[1] = height;
  desc.box[2] = depth;
  desc.swizzle = static_cast<int>(q::Swizzle::bytes128);
  desc.l2_promotion = jit::kPromote256;
  jit::TensorMap map;
  runtime.tensor_maps->get(desc, map);
  return map;
}

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }
jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  const Shape shape = from_constants(constants);
  tile(shape, target);
  return to_spec(shape, target.target);
}
Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

// Decode with one query a sequence and with several, from pages; prefill from rows side by side.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const std::uint32_t heads = model.index_heads, dim = model.index_head_dim;
  if (heads == 0 || heads > kMostHeads || dim < 16 || dim > kMostDim || dim % 16 != 0 ||
      (heads + 15) / 16 * 16 * dim > kMostNumbers) {
    return;
  }
  const auto add = [&](bool ragged, std::int64_t queries, std::int64_t page_size) {
    Shape shape;
    shape.dim = static_cast<int>(dim);
    shape.ragged = ragged;
    choose(shape, heads, queries, page_size, target);
    const jit::Spec spec = to_spec(shape, target.target);
    if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
  };
  for (const std::int64_t page_size :
       model.page_size != 0 ? std::vector<std::int64_t>{model.page_size} : std::vector<std::int64_t>{16, 64}) {
    for (const std::int64_t queries : {1, 2, 4, 4096}) add(false, queries, page_size);
  }
  add(true, 4096, 1);
}

}  // namespace

const Op op{"index_scores", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_index_scores_args& args) {
  read_problem(runtime, args, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_index_scores_args& args) {
  const Problem problem = read_problem(runtime, args, true);
  // A call of fewer queries a sequence may take smaller tiles of them.
  const q::IndexParams& p = problem.params;
  for (const std::int64_t queries : {1, 2, 4, 8}) {
    Shape shape = problem.shape;
    choose(shape, p.heads, std::min<std::int64_t>(queries, p.max_q_len), p.page_size.value,
           problem.call.device->limits);
    kernel_for(runtime, to_spec(shape, problem.call.device->limits.target), args.flags, args.stream);
  }
}

void run(const Runtime& runtime, const quern_index_scores_args& args) {
  Problem problem = read_problem(runtime, args, false);
  q::IndexParams& p = problem.params;
  const jit::DeviceInfo& device = *problem.call.device;
  const Tiling t = tile(problem.shape, device.limits);
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, device.limits.target), args.flags, args.stream);
  if (p.total_q == 0 || p.batch == 0 || p.columns == 0) return;
  check_indices(runtime, args, [&](IndexList& list) { list_index_data(problem, &list); });
  const std::int64_t blocks = std::int64_t{problem.call.sms} * t.blocks_per_sm;
  share_out(problem, t, blocks);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min(blocks, std::int64_t{p.slots.value} * p.chunks));
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  if (problem.shape.variant == Variant::portable) {
    ops::launch(runtime, *kernel, launch, "launching index_scores", p);
    return;
  }
  // A pool without keys has no address either, and nothing is copied from it.
  jit::TensorMap queries = {}, keys = {};
  if (p.k == nullptr || p.pool_pages == 0) {
    p.pool_pages = p.listed_pages = 0;
  } else {
    const int tokens = std::min(problem.shape.tokens, 4), rows = problem.shape.page_rows;
    const bool ragged = problem.shape.ragged;
    queries = map_of(runtime, p.q, p.heads, p.total_q, p.q_head, p.q_token, 64, static_cast<std::uint32_t>(tokens));
    keys = map_of(runtime, p.k, ragged ? p.pool_pages : p.page_size.value, ragged ? 1 : p.pool_pages, p.k_place,
                  p.k_page, static_cast<std::uint32_t>(rows), 1);
  }
  ops::launch(runtime, *kernel, launch, "launching index_scores", p, queries, keys);
}

}  // namespace quern::ops::index_scores
