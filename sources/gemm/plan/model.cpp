// The products that a transformer needs, and the kernels for them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/gemm/plan/choose.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {
namespace {

// What a kernel is for.
enum class Use : std::uint8_t {
  projection,         // into and out of attention, and out of the MLP
  up,                 // into the MLP, with a gate or an activation
  up_in_codes,        // the same of few rows, as what leaves the MLP multiplies them
  logits,             // to the vocabulary
  routing,            // to the experts
  absorbed,           // latent attention's products for each head with absorbed weights
  absorbed_as_stored  // the same with the keys' weights, which checkpoints store [heads][k][n]
};
struct Wanted {
  Shape shape;  // the variant is chosen later
  Use use;
  bool gathered;  // whether rows of a may be named by index
};

Wanted wanted(Use use, Shape shape, const std::string& formula, Dtype operands, bool gathered = false) {
  shape.epilogue = &expression::intern(formula);
  for (std::size_t i = 0; i < shape.operands.size(); ++i) {
    if (shape.epilogue->operands[i] != expression::OperandKind::unused) shape.operands[i] = operands;
  }
  return {shape, use, gathered};
}

const char* activation_of(const quern_model& model) {
  switch (model.activation) {
    case QUERN_ACTIVATION_RELU:
      return "relu";
    case QUERN_ACTIVATION_GELU:
      return "gelu";
    case QUERN_ACTIVATION_GELU_TANH:
      return "gelu_tanh";
    default:
      return "silu";
  }
}

std::vector<Wanted> all_wanted(Tag op, const quern_model& model) {
  std::vector<Wanted> all;
  const Dtype dtype = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (dtype != Dtype::f16 && dtype != Dtype::bf16) return all;
  const bool blocks = (model.flags & QUERN_MODEL_BLOCK_FP8) != 0;
  const bool fp8 = blocks || (model.flags & QUERN_MODEL_FP8) != 0, experts = model.experts != 0;
  const bool bias = (model.flags & QUERN_MODEL_BIAS) != 0, gated = (model.flags & QUERN_MODEL_GATED_MLP) != 0;
  const std::string activation = activation_of(model);
  const std::string capped = model.final_logit_cap > 0.0f ? "scalar0*tanh(acc/scalar0)" : "acc";
  const bool fp8_logits = fp8 && (model.flags & QUERN_MODEL_FP8_LOGITS) != 0;
  Shape shape;
  shape.out = dtype;
  if (op == tag_gemm) {
    shape.a = shape.b = dtype;
    Shape logits = shape;
    logits.out = Dtype::f32;
    if (!fp8_logits) all.push_back(wanted(Use::logits, logits, capped, dtype));
    if (experts) all.push_back(wanted(Use::routing, logits, "acc", dtype));
    // These weights are not stored in 8 bits.
    if (model.flags & QUERN_MODEL_MLA) {
      all.push_back(wanted(Use::absorbed, shape, "acc", dtype));
      Shape stored = shape;
      stored.transposed_b = true;
      all.push_back(wanted(Use::absorbed_as_stored, stored, "acc", dtype));
    }
    if (fp8) return all;
  } else {
    if (!fp8 || (op == tag_grouped_fp8_gemm && !experts)) return all;
    shape.a = shape.b = Dtype::e4m3;
    shape.scales = blocks ? Scales::blocks : Scales::vectors;
  }
  const bool grouped = op == tag_grouped_fp8_gemm;
  if (op == tag_fp8_gemm && fp8_logits) {
    Shape logits = shape;
    logits.out = Dtype::f32;
    all.push_back(wanted(Use::logits, logits, capped, dtype));
  }
  for (const Grouping grouping : {Grouping::contiguous, Grouping::masked}) {
    shape.grouping = grouped ? grouping : Grouping::dense;
    // Tokens are gathered into the MLP; what leaves it lies in the order of experts already.
    const bool gathered = grouped && grouping == Grouping::contiguous, has_up = gated || bias;
    shape.gate = false;
    all.push_back(wanted(Use::projection, shape, "acc", dtype, gathered && !has_up));
    // Which of them add it families differ in: Qwen-2's queries, keys and values alone do.
    if (bias && !grouped) all.push_back(wanted(Use::projection, shape, "acc+col2", dtype));
    if (gated) {
      shape.gate = true;
      all.push_back(wanted(Use::up, shape, activation + "(gate)*up", dtype, gathered));
      if (blocks && !grouped) {
        Shape codes = shape;
        codes.out = Dtype::e4m3, codes.out_scale = true;
        all.push_back(wanted(Use::up_in_codes, codes, activation + "(gate)*up", dtype));
      }
    } else if (bias) {
      all.push_back(wanted(Use::up, shape, activation + "(acc+col2)", dtype, gathered));
    }
    if (!grouped) break;
  }
  return all;
}

// Whether a call of this use can take the variant, for some number of rows.
bool may_take(const Wanted& wanted, Variant variant, const jit::TargetInfo& target, bool hopper) {
  if (!offered(wanted.shape, variant, target)) return false;
  if (wanted.use == Use::up_in_codes) {
    const bool few = offered(wanted.shape, Variant::small_m_64x64, target).has_value();
    return few ? is_a(Family::small_m, variant) : facts_of(variant).rows <= 64;
  }
  switch (facts_of(variant).family) {
    case Family::portable:
      // Gathered rows take the portable kernels.
      return variant != Variant::plain && (!hopper || wanted.gathered);
    case Family::tma_mma:
      return !hopper;
    case Family::split_k:
      // Batches of heads have tiles enough without split-K.
      return wanted.use != Use::absorbed && wanted.use != Use::absorbed_as_stored;
    default:
      return true;
  }
}

// The extents of one rank's products, where several ranks divide the model's layers.
std::vector<ProductExtents> extents_of(Use use, const quern_model& model, bool gated) {
  const std::int64_t ranks = std::max<std::uint32_t>(model.tensor_parallel, 1);
  const auto share = [&](std::int64_t whole) { return (whole + ranks - 1) / ranks; };
  const std::int64_t hidden = model.hidden_size, heads = share(model.heads), kv_heads = share(model.kv_heads);
  const std::int64_t head_dim = model.head_dim, v_head_dim = model.v_head_dim != 0 ? model.v_head_dim : model.head_dim;
  const std::int64_t rope = model.rope_head_dim, kv_rank = model.kv_lora_rank, q_rank = model.q_lora_rank;
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0;
  // Experts belong to grouped_fp8_gemm, except those that every token visits; a model that has these also has layers
  // without experts.
  std::vector<std::int64_t> widths;
  if (model.experts == 0 || model.shared_experts != 0) widths.push_back(share(model.intermediate_size));
  if (model.shared_experts != 0)
    widths.push_back(share(std::int64_t{model.shared_experts} * model.expert_intermediate_size));
  std::vector<ProductExtents> all;
  switch (use) {
    case Use::projection:
      if (latent) {
        all.push_back({kv_rank + rope, hidden});
        all.push_back({q_rank, hidden});
        all.push_back({heads * head_dim, q_rank != 0 ? q_rank : hidden});
        all.push_back({heads * (head_dim - rope + v_head_dim), kv_rank});
      } else {
        all.push_back({heads * head_dim + kv_heads * (head_dim + v_head_dim), hidden});
      }
      all.push_back({hidden, heads * v_head_dim});
      for (const std::int64_t width : widths) all.push_back({hidden, width});
      break;
    case Use::up_in_codes:  // tuned as `up` is
      break;
    case Use::up:
      for (const std::int64_t width : widths) all.push_back({gated ? 2 * width : width, hidden});
      break;
    case Use::logits:
      all.push_back({share(model.vocab_size), hidden});
      break;
    case Use::routing:
      all.push_back({model.experts, hidden});
      break;
    case Use::absorbed:
      all.push_back({kv_rank, head_dim - rope, heads});
      all.push_back({v_head_dim, kv_rank, heads});
      break;
    case Use::absorbed_as_stored:
      all.push_back({kv_rank, head_dim - rope, heads});
      break;
  }
  // Products that the model does not have.
  std::erase_if(all,
                [](const ProductExtents& extents) { return extents.n <= 0 || extents.k <= 0 || extents.batch <= 0; });
  return all;
}

}  // namespace

void list_kernels(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  for (const Wanted& each : all_wanted(op, model)) {
    const bool hopper = offered(each.shape, Variant::persistent_128x128, target).has_value();
    for (std::size_t i = 0; i < kVariants.size(); ++i) {
      Shape shape = each.shape;
      shape.variant = static_cast<Variant>(i);
      if (!may_take(each, shape.variant, target, hopper)) continue;
      const jit::Spec spec = to_spec(shape, op, target.target);
      if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
    }
  }
}

void list_products(Tag op, const quern_model& model, const jit::TargetInfo&, std::vector<Constants>* products) {
  for (const Wanted& each : all_wanted(op, model)) {
    for (const ProductExtents& extents : extents_of(each.use, model, each.shape.gate)) {
      Constants product = product_constants(each.shape, op, extents);
      if (std::find(products->begin(), products->end(), product) == products->end())
        products->push_back(std::move(product));
    }
  }
}

}  // namespace quern::ops::gemm
