// The mla_decode op: the plan of a call, its workspace, its launches, and what a model needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"

#include <algorithm>

#include "jit/error.h"
#include "sources/common/sm90/layout.cuh"
#include "sources/divisor.h"
#include "sources/index_data.h"
#include "sources/mla_decode/index_check.h"
#include "sources/mla_decode/plan.h"
#include "sources/mla_decode/read.h"
#include "sources/ops.h"
#include "sources/together.h"
#include "sources/workspace.h"

namespace quern::ops::mla_decode {
namespace {

// How a problem is launched on its device.
struct Plan {
  Tiling tiling;
  std::int64_t side_by_side;
  std::int64_t parts;
  std::int64_t most_groups, most_pieces;
  std::int64_t cuts;
  std::uint64_t cut_bytes;
  std::uint64_t workspace;  // bytes
};

Plan plan(const Problem& problem, std::int64_t sms) {
  const q::MlaParams& p = problem.params;
  const bool listed = problem.shape.indexed != Indexed::no;
  Plan plan;
  plan.tiling = tile(problem.shape, problem.call.device->limits);
  const Tiling& t = plan.tiling;
  const std::int64_t blocks = std::max<std::int64_t>(sms, 1) * t.blocks_per_sm;
  const std::int64_t sequences = listed ? p.total_q : p.batch, queries = listed ? 1 : p.max_q_len;
  const std::int64_t keys = listed ? p.top_k : p.max_keys;
  const std::int64_t tiles = std::max<std::int64_t>((queries * p.heads + t.rows - 1) / t.rows, 1);
  plan.side_by_side = std::min({tiles, blocks, static_cast<std::int64_t>(t.side_by_side)});
  plan.parts = blocks / plan.side_by_side;
  plan.most_groups = (tiles + plan.side_by_side - 1) / plan.side_by_side;
  plan.most_pieces = p.invariant ? q::invariant_pieces(static_cast<std::int32_t>(keys)) : 1;
  // The device counts blocks of keys, and a few for an item's price, in 32 bits.
  const double units = static_cast<double>(sequences) * static_cast<double>(plan.most_groups) *
                       static_cast<double>(keys / t.block + 1 + t.price);
  if (units > INT32_MAX - static_cast<double>(blocks)) {
    refuse_value("the blocks of keys over all sequences and tiles of queries", units, "less than 2^31: split the call");
  }
  std::int64_t slots = 2 * blocks;
  plan.cuts = plan.parts;
  if (p.invariant) {
    plan.cuts = plan.most_pieces > 1 ? sequences * plan.most_groups : 0;
    // However few SMs a call may use: that changes how many tiles lie side by side.
    slots = plan.most_pieces > 1 ? sequences * (tiles + t.side_by_side - 1) * plan.most_pieces : 0;
  }
  plan.cut_bytes = p.invariant ? 0 : (static_cast<std::uint64_t>(blocks) * sizeof(q::MlaCut) + 255) / 256 * 256;
  plan.workspace = kCounterBytes + plan.cut_bytes +
                   static_cast<std::uint64_t>(slots) *
                       static_cast<std::uint64_t>(q::partial_floats(t.rows, problem.shape.d_latent)) * sizeof(float);
  return plan;
}

// A pool of [pages][page_size][columns] as [pages][tiles of 64 columns][page_size][64]: a copy takes so many tokens of
// a page, and `tiles` tiles, which then lie one behind the other.
jit::TensorMap map_of(const Runtime& runtime, const Problem& problem, const std::uint8_t* pool, int columns, int tiles,
                      std::int64_t page_bytes, std::int64_t token_bytes) {
  constexpr int kColumns = 64;
  const q::MlaParams& p = problem.params;
  jit::TensorMapDesc desc;
  desc.data_type = problem.shape.element == Dtype::f16 ? jit::kTensorF16 : jit::kTensorBF16;
  desc.rank = 4;
  desc.address = const_cast<std::uint8_t*>(pool);  // it is only read
  desc.extent[0] = kColumns;
  desc.extent[1] = static_cast<std::uint64_t>(p.page_size);
  desc.extent[2] = static_cast<std::uint64_t>(columns / kColumns);
  desc.extent[3] = static_cast<std::uint64_t>(p.pool_pages);
  // Where there is one token or page only its stride says nothing, but must be one.
  const std::int64_t token = token_bytes > 0 ? token_bytes : columns * 2;
  desc.stride[0] = static_cast<std::uint64_t>(token);
  desc.stride[1] = kColumns * 2;
  desc.stride[2] = static_cast<std::uint64_t>(page_bytes > 0 ? page_bytes : token * p.page_size);
  desc.box[0] = kColumns;
  desc.box[1] = static_cast<std::uint32_t>(problem.shape.page_rows);
  desc.box[2] = static_cast<std::uint32_t>(tiles);
  desc.box[3] = 1;
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

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if ((model.flags & QUERN_MODEL_MLA) == 0 || model.heads == 0) return;
  Shape shape;
  shape.element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (shape.element != Dtype::f16 && shape.element != Dtype::bf16) return;
  shape.d_latent = static_cast<int>(model.kv_lora_rank);
  shape.d_rope = static_cast<int>(model.rope_head_dim);
  if (shape.d_latent < 16 || shape.d_latent > kMaxLatent || shape.d_latent % 16 != 0 || shape.d_rope > kMaxRope ||
      shape.d_rope % 16 != 0) {
    return;
  }
  shape.cap = model.logit_cap > 0.0f;
  const Dtype cache = model.kv_dtype.bits == 0 ? shape.element : dtype_of(model.kv_dtype);
  std::vector<q::CacheKind> kinds = {q::CacheKind::plain};
  std::vector<Indexed> indexed = {Indexed::no};
  // By lists of keys where an indexer chooses them (DeepSeek-V3.2), whose 8-bit rows may be of 656 bytes.
  const bool chosen = model.index_top_k != 0, of_656 = shape.d_latent == 512 && shape.d_rope == 64;
  if (chosen) indexed = {Indexed::no, Indexed::positions, Indexed::slots};
  if (cache == Dtype::e4m3) {
    kinds = {q::CacheKind::e4m3_tensor, q::CacheKind::e4m3_token};
    if (chosen && of_656) kinds.push_back(q::CacheKind::rows656);
  } else if (cache == Dtype::u8) {
    if (!of_656) return;
    kinds = {q::CacheKind::rows656};
  } else if (cache != shape.element) {
    return;
  }
  const std::uint32_t heads = std::max(model.heads / std::max(model.tensor_parallel, 1u), 1u);
  std::vector<std::uint32_t> page_sizes = {16, 64};
  if (model.page_size != 0) page_sizes = {model.page_size};
  const auto add = [&](const Shape& one) {
    const jit::Spec spec = to_spec(one, target.target);
    if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
  };
  for (const q::CacheKind kind : kinds) {
    for (const Indexed lists : indexed) {
      for (const std::uint32_t page_size : page_sizes) {
        Shape one = shape;
        one.kind = kind;
        one.indexed = lists;
        // Of one query token a sequence, and of more.
        for (const std::int64_t rows : {static_cast<std::int64_t>(heads), std::int64_t{q::kUnbounded}}) {
          one.variant = variant_of(one, heads, rows, page_size, target);
          one.paired = is_paired(one, heads);
          one.page_rows = one.variant == Variant::rows64 ? page_rows_of(page_size) : Shape().page_rows;
          add(one);
          add(combine_of(one, tile(one, target)));
        }
      }
    }
  }
}

std::string refusal(const quern_model& model, const jit::TargetInfo&) {
  const auto dim = [](std::uint32_t given, int least, int most) {
    return given % 16 == 0 && given >= static_cast<std::uint32_t>(least) && given <= static_cast<std::uint32_t>(most);
  };
  if (!dim(model.kv_lora_rank, 16, kMaxLatent)) {
    return "kv_lora_rank is " + std::to_string(model.kv_lora_rank) + "; allowed: multiples of 16 from 16 to 512";
  }
  if (!dim(model.rope_head_dim, 0, kMaxRope)) {
    return "rope_head_dim is " + std::to_string(model.rope_head_dim) + "; allowed: multiples of 16 from 0 to 128";
  }
  const Dtype element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (element != Dtype::f16 && element != Dtype::bf16) {
    return "activations are " + std::string(name_of(element)) + "; allowed: f16, bf16";
  }
  const Dtype cache = model.kv_dtype.bits == 0 ? element : dtype_of(model.kv_dtype);
  if (cache != element && cache != Dtype::e4m3 && cache != Dtype::u8) {
    return "the KV cache is " + std::string(name_of(cache)) + "; allowed: " + name_of(element) +
           ", as the activations, e4m3, uint8 (rows of 656 bytes)";
  }
  if (cache == Dtype::u8 && (model.kv_lora_rank != 512 || model.rope_head_dim != 64)) {
    return "rows of 656 bytes hold kv_lora_rank 512 and rope_head_dim 64; given: " +
           std::to_string(model.kv_lora_rank) + " and " + std::to_string(model.rope_head_dim);
  }
  return {};
}

}  // namespace

const Op op{"mla_decode", unit, parse, list, constants, nullptr, nullptr, refusal};

std::uint64_t workspace(const Runtime& runtime, const quern_mla_decode_args& args) {
  const Problem problem = read_problem(runtime, args, true);
  return plan(problem, problem.call.device->sm_count).workspace;
}

void prepare(const Runtime& runtime, const quern_mla_decode_args& args) {
  Problem problem = read_problem(runtime, args, true);
  const jit::TargetInfo& target = problem.call.device->limits;
  std::vector<jit::Spec> specs;
  const auto add = [&] {
    specs.push_back(to_spec(problem.shape, target.target));
    specs.push_back(to_spec(combine_of(problem.shape, tile(problem.shape, target)), target.target));
  };
  add();
  if (!problem.params.invariant) {
    // A smaller call may have one query token a sequence.
    const Variant variant = problem.shape.variant;
    choose_variant(problem, problem.params.heads);
    if (problem.shape.variant != variant) add();
  }
  begin_kernels(runtime, specs, args.flags, args.stream);
  for (const jit::Spec& spec : specs) kernel_for(runtime, spec, args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_mla_decode_args& args) {
  Problem problem = read_problem(runtime, args, false);
  const jit::DeviceInfo& device = *problem.call.device;
  const Plan how = plan(problem, problem.call.sms);
  const Tiling& t = how.tiling;
  const Workspace space = read_workspace(args.workspace, args.workspace_size, how.workspace);
  const Shape combine = combine_of(problem.shape, t);
  const jit::Spec specs[] = {to_spec(problem.shape, device.limits.target), to_spec(combine, device.limits.target)};
  if (how.cuts > 0) begin_kernels(runtime, specs, args.flags, args.stream);
  const jit::Kernel* main = kernel_for(runtime, specs[0], args.flags, args.stream);
  const jit::Kernel* join = nullptr;
  if (how.cuts > 0) join = kernel_for(runtime, specs[1], args.flags, args.stream);
  q::MlaParams& p = problem.params;
  if (p.total_q == 0 || p.batch == 0) return;
  check_indices(runtime, args, [&](IndexList& list) { list_index_data(problem, &list); });

  p.cuts = static_cast<q::MlaCut*>(space.scratch);
  p.partials = reinterpret_cast<float*>(static_cast<char*>(space.scratch) + how.cut_bytes);
  p.counters = space.counters;
  // A batch-invariant call may have more items than there are counters.
  p.joined = joins_pairs(problem.shape) && !p.invariant ? 2 : 1;
  p.parts = static_cast<std::int32_t>(how.parts);
  p.side_by_side = static_cast<std::int32_t>(how.side_by_side);
  p.by_heads = divisor(std::max(p.heads, 1));
  p.by_page_size = divisor(std::max(p.page_size, 1));
  p.by_parts = divisor(p.parts);
  p.by_side = divisor(p.side_by_side);
  p.most_groups = static_cast<std::int32_t>(how.most_groups);
  p.most_pieces = static_cast<std::int32_t>(how.most_pieces);
  p.cut_count = static_cast<std::int32_t>(how.cuts);
  p.slot_floats = q::partial_floats(t.rows, problem.shape.d_latent);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(how.parts * how.side_by_side);
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  if (problem.shape.paired) launch.cluster[0] = static_cast<std::uint32_t>(how.side_by_side);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  if (problem.shape.variant == Variant::rows64) {
    // A pool without pages has no address either, and nothing is copied from it.
    const bool empty = p.latent == nullptr || p.rope == nullptr;
    if (empty) p.pool_pages = 0;
    jit::TensorMap latent = {}, rope = {};
    if (!empty) {
      latent = map_of(runtime, problem, p.latent, problem.shape.d_latent, problem.shape.page_rows == 64 ? 2 : 1,
                      p.latent_page_bytes, p.latent_token_bytes);
      rope = map_of(runtime, problem, p.rope, problem.shape.d_rope, 1, p.rope_page_bytes, p.rope_token_bytes);
    }
    ops::launch(runtime, *main, launch, "launching mla_decode", p, latent, rope);
  } else {
    ops::launch(runtime, *main, launch, "launching mla_decode", p);
  }
  if (join == nullptr) return;
  const Tiling tiling = tile(combine, device.limits);
  launch.grid[0] = static_cast<std::uint32_t>(std::max(problem.call.sms, 1) * tiling.blocks_per_sm);
  launch.cluster[0] = 1;
  launch.block[0] = static_cast<std::uint32_t>(tiling.threads);
  launch.shared_bytes = 0;
  // It waits for the pieces on the device: its launch overlaps with their computation.
  launch.programmatic = true;
  ops::launch(runtime, *join, launch, "launching mla_decode's combination", p);
}

}  // namespace quern::ops::mla_decode
