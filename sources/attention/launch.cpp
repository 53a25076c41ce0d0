// The attention op: choosing a variant, the workspace, the launch, and what a model needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "jit/error.h"
#include "sources/attention/maps.h"
#include "sources/attention/plan.h"
#include "sources/attention/read.h"
#include "sources/clusters.h"
#include "sources/index_data.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::attention {
namespace {

constexpr std::int64_t kMediumRows = 64;

// The variant for many rows, and for whatever comes where results must not depend on the batch.
Variant variant_of_many_rows(const Problem& problem, const jit::TargetInfo& target) {
  if (problem.shape.is_wide()) return medium_variant(problem.shape, target);
  if (takes_warpgroups(problem.shape, target)) return Variant::warpgroups;
  return problem.invariant ? Variant::medium : Variant::large;
}

Variant variant_of(const Problem& problem, const jit::TargetInfo& target) {
  if (problem.invariant) return variant_of_many_rows(problem, target);
  return problem.max_rows <= 16            ? decode_variant(problem.shape, target)
         : problem.max_rows <= kMediumRows ? medium_variant(problem.shape, target)
                                           : variant_of_many_rows(problem, target);
}

// Blocks of threads, or clusters of them, that are resident at once, and that the work is split over. A cluster is the
// least there can be, also where the caller gives it fewer multiprocessors.
std::int64_t parts_of(const Tiling& t, const jit::DeviceInfo& device, std::int32_t max_sms) {
  const auto all = static_cast<std::int64_t>(device.sm_count);
  const std::int64_t sms = max_sms > 0 ? std::min<std::int64_t>(max_sms, all) : all;
  if (t.cluster > 1) return std::max<std::int64_t>(most_clusters(t.cluster, static_cast<int>(sms)), 1);
  return std::max<std::int64_t>(sms, 1) * t.blocks_per_sm;
}

// How a variant of a problem is launched on a device.
struct Plan {
  Tiling tiling;
  std::int64_t parts;
  std::int64_t grid;
  std::int64_t slot_rows;
  std::int64_t slot_floats;
  std::uint64_t workspace;  // bytes
};

Plan plan(const Problem& problem, Variant variant, const jit::DeviceInfo& device, std::int32_t max_sms) {
  Shape shape = problem.shape;
  shape.variant = variant;
  Plan plan;
  plan.tiling = tile(shape, device.limits);
  const Tiling& t = plan.tiling;
  plan.parts = parts_of(t, device, max_sms);
  plan.slot_rows = std::min<std::int64_t>(t.rows, problem.max_rows);
  plan.slot_floats = q::slot_size(static_cast<std::int32_t>(plan.slot_rows), shape.dim_v);
  std::int64_t slots = 2 * plan.parts;
  plan.grid = plan.parts * t.cluster;
  const std::int64_t heads = static_cast<std::int64_t>(problem.params.batch) * problem.params.kv_heads;
  // The device counts an item's blocks of keys, and a few for its price, in 32 bits.
  const std::int64_t tiles = problem.total_q * shape.group / t.rows + problem.params.batch;
  const double units =
      static_cast<double>(tiles * problem.params.kv_heads) * static_cast<double>(problem.max_keys / t.block + 8);
  if (units > INT32_MAX) {
    refuse_value("the blocks of keys over all tiles of queries and KV heads", units, "less than 2^31: split the call");
  }
  if (problem.invariant) {
    slots = heads * q::kInvariantPieces;
    if (slots > kCounters) {
      refuse_value("batch times k's heads", heads, "at most 4096 with QUERN_CALL_BATCH_INVARIANT");
    }
  } else if ((variant == Variant::medium || variant == Variant::large || variant == Variant::wide) && max_sms == 0) {
    // One tile a block of threads, where the device finds the tiles even enough; those without a tile leave at once.
    plan.grid = std::clamp<std::int64_t>(tiles * problem.params.kv_heads, plan.parts, INT32_MAX);
  }
  plan.workspace = kCounterBytes + static_cast<std::uint64_t>(slots * plan.slot_floats) * sizeof(float);
  return plan;
}

// The variants that a call with these maxima or smaller ones can take.
template <class F>
void for_each_reachable(const Problem& problem, const jit::TargetInfo& target, const F& visit) {
  const Variant last = variant_of(problem, target);
  if (problem.invariant) return visit(last);
  // No sequence has fewer rows than one query's.
  Problem least = problem;
  least.max_rows = problem.shape.group;
  const Variant first = variant_of(least, target);
  bool reached = false;
  for (const Variant variant : {decode_variant(problem.shape, target), medium_variant(problem.shape, target),
                                variant_of_many_rows(problem, target)}) {  // by the rows they take
    reached = reached || variant == first;
    if (reached) visit(variant);
    if (variant == last) return;
  }
}

const jit::DeviceInfo& device_of(const Runtime& runtime) {
  if (runtime.driver == nullptr) throw Error(QUERN_INVALID, "the context has no device");
  return runtime.driver->device();
}

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }

jit::Spec parse(const Constants& constants, const jit::TargetInfo& target) {
  const Shape shape = from_constants(constants);
  tile(shape, target);
  return to_spec(shape, target.target);
}

Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

// The dtype of a model's activations as the kernels take it; other where there is no kernel for it.
Dtype activations(const quern_model& model) { return model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype); }

bool has_dim(std::uint32_t dim) { return dim >= 8 && dim % 8 == 0 && dim <= std::uint32_t{kMaxDim}; }

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  // Before anything is planned for them.
  if (!has_dim(model.head_dim) || (model.v_head_dim != 0 && !has_dim(model.v_head_dim))) return;
  Shape shape;
  shape.element = activations(model);
  shape.q = shape.out = shape.element;
  shape.cache = model.kv_dtype.bits == 0 ? shape.element : dtype_of(model.kv_dtype);
  const bool codes = shape.cache == Dtype::e4m3 || shape.cache == Dtype::e5m2 || shape.cache == Dtype::i8;
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0;
  if (shape.element != Dtype::f16 && shape.element != Dtype::bf16) return;
  // Latent attention's prefill takes keys and values that were just made, not those of its cache.
  if (latent) shape.cache = shape.element;
  if (!codes && shape.cache != shape.element) return;
  shape.token_scales = codes && !latent && (model.flags & QUERN_MODEL_KV_TOKEN_SCALES) != 0;
  const std::uint32_t ranks = std::max(model.tensor_parallel, 1u);
  shape.cap = model.logit_cap > 0.0f;
  shape.sinks = (model.flags & QUERN_MODEL_SINKS) != 0;
  shape.dim_k = static_cast<int>(model.head_dim);
  shape.dim_v = static_cast<int>(model.v_head_dim != 0 ? model.v_head_dim : model.head_dim);
  if (refusal_of_wide(shape) != nullptr) return;
  const auto add = [&](Variant variant) {
    shape.variant = variant;
    specs->push_back(to_spec(shape, target.target));
  };
  const auto add_all = [&] {
    for (const Variant variant : {decode_variant(shape, target), medium_variant(shape, target)}) add(variant);
    if (!shape.is_wide()) add(takes_warpgroups(shape, target) ? Variant::warpgroups : Variant::large);
  };
  if (latent) {
    // Latent attention decodes from its latent cache; its prefill is plain attention over ragged keys and values.
    shape.dim_k = static_cast<int>(model.head_dim);
    shape.group = 1;
    shape.paged = false;
    add_all();
    return;
  }
  if (model.heads == 0 || model.kv_heads == 0) return;
  const std::uint32_t heads = std::max(model.heads / ranks, 1u), kv_heads = std::max(model.kv_heads / ranks, 1u);
  shape.group = static_cast<int>(std::max(heads / kv_heads, 1u));
  std::vector<std::uint32_t> page_sizes = {16, 64};
  if (model.page_size != 0) page_sizes = {model.page_size};
  // With weights of 8 bits by blocks the output projection multiplies codes, as few rows' results can be written.
  const bool codes_results = (model.flags & QUERN_MODEL_BLOCK_FP8) != 0 && (shape.dim_v == 128 || shape.dim_v == 256);
  std::vector<Dtype> queries = {shape.element};
  if ((model.flags & QUERN_MODEL_FP8_QUERIES) != 0 && shape.cache == Dtype::e4m3) queries.push_back(Dtype::e4m3);
  for (const std::uint32_t page_size : page_sizes) {
    shape.page_size = constant_page_size(page_size);
    for (const Dtype q : queries) {
      shape.q = q;
      add_all();
    }
    if (!codes_results) continue;
    shape.q = shape.element, shape.out = Dtype::e4m3;
    add(shape.group <= 16            ? decode_variant(shape, target)
        : shape.group <= kMediumRows ? medium_variant(shape, target)
                                     : Variant::large);
    shape.out = shape.element;
  }
}

std::string refusal(const quern_model& model, const jit::TargetInfo&) {
  const Dtype element = activations(model);
  if (element != Dtype::f16 && element != Dtype::bf16) {
    return "activations are " + std::string(name_of(element)) + "; allowed: f16, bf16";
  }
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0;  // whose cache is another op's
  const Dtype cache = model.kv_dtype.bits == 0 || latent ? element : dtype_of(model.kv_dtype);
  if (cache != element && cache != Dtype::e4m3 && cache != Dtype::e5m2 && cache != Dtype::i8) {
    return "the KV cache is " + type_text(model.kv_dtype) + "; allowed: " + name_of(element) +
           ", as the activations, e4m3, e5m2, int8";
  }
  if ((model.flags & QUERN_MODEL_FP8_QUERIES) != 0 && (latent || cache != Dtype::e4m3)) {
    return std::string("queries are to be e4m3, and the KV cache is ") + (latent ? "latent" : name_of(cache)) +
           "; allowed: with a cache of keys and values in e4m3";
  }
  for (const std::uint32_t dim : {model.head_dim, model.v_head_dim != 0 ? model.v_head_dim : model.head_dim}) {
    if (!has_dim(dim)) return "a head dim is " + std::to_string(dim) + "; allowed: multiples of 8 from 8 to 1024";
    if (dim > std::uint32_t{kMaxNarrowDim} && cache != element) {
      return "a head dim is " + std::to_string(dim) + " and the KV cache " + name_of(cache) +
             "; allowed with head dims " + "larger than 256: " + name_of(element) + ", as the activations";
    }
  }
  return {};
}

}  // namespace

const Op op{"attention", unit, parse, list, constants, nullptr, nullptr, refusal};

std::uint64_t workspace(const Runtime& runtime, const quern_attention_args& args) {
  const jit::DeviceInfo& device = device_of(runtime);
  const Problem problem = read_problem(args, device, true);
  std::uint64_t bytes = 0;
  for_each_reachable(problem, device.limits,
                     [&](Variant variant) { bytes = std::max(bytes, plan(problem, variant, device, 0).workspace); });
  return bytes;
}

void prepare(const Runtime& runtime, const quern_attention_args& args) {
  const jit::DeviceInfo& device = device_of(runtime);
  Problem problem = read_problem(args, device, true);
  for_each_reachable(problem, device.limits, [&](Variant variant) {
    problem.shape.variant = variant;
    kernel_for(runtime, to_spec(problem.shape, device.limits.target), args.flags, args.stream);
  });
}

void run(const Runtime& runtime, const quern_attention_args& args) {
  const jit::DeviceInfo& device = device_of(runtime);
  Problem problem = read_problem(args, device, false, runtime.late);
  check_indices(runtime, args, [&](IndexList& list) { list_index_data(args, problem, &list); });
  if (runtime.late != nullptr && problem.params.constant_past != 0) note_present(problem, runtime.late);
  const Variant variant = variant_of(problem, device.limits);
  const Plan how = plan(problem, variant, device, args.max_sms);
  const Workspace space = read_workspace(args.workspace, args.workspace_size, how.workspace);
  problem.shape.variant = variant;
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem.shape, device.limits.target), args.flags, args.stream);
  if (problem.total_q == 0 || problem.params.batch == 0) return;

  q::AttentionParams& p = problem.params;
  p.counters = space.counters;
  p.partials = static_cast<float*>(space.scratch);
  p.parts = static_cast<std::int32_t>(how.parts);
  p.side_by_side = p.parts < p.kv_heads ? p.parts : p.parts / p.kv_heads * p.kv_heads;
  p.slot_rows = static_cast<std::int32_t>(how.slot_rows);
  p.slot_floats = static_cast<std::int32_t>(how.slot_floats);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(how.grid);
  launch.block[0] = static_cast<std::uint32_t>(how.tiling.threads);
  launch.shared_bytes = how.tiling.shared_bytes;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  constexpr const char* kWhat = "launching attention";
  launch.cluster[0] = static_cast<std::uint32_t>(how.tiling.cluster);
  if (variant != Variant::warpgroups && variant != Variant::wide_pairs)
    return ops::launch(runtime, *kernel, launch, kWhat, p);
  jit::TensorMap keys = map_of_keys(runtime, problem, how.tiling), values = map_of_values(runtime, problem, how.tiling);
  ops::launch(runtime, *kernel, launch, kWhat, p, keys, values);
}

}  // namespace quern::ops::attention
