// What the layers of a model quantise.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sources/quantize/shape.h"

namespace quern::ops::quantize {
namespace {

q::Front product_of(std::int32_t activation) {
  switch (activation) {
    case QUERN_ACTIVATION_DEFAULT:
    case QUERN_ACTIVATION_SILU:
      return q::Front::silu_mul;
    case QUERN_ACTIVATION_GELU:
      return q::Front::gelu_mul;
    case QUERN_ACTIVATION_GELU_TANH:
      return q::Front::gelu_tanh_mul;
    default:
      return q::Front::none;
  }
}

class Needs {
 public:
  Needs(const jit::TargetInfo& target, std::vector<jit::Spec>* specs) : target_(target), specs_(specs) {}

  void add(Shape shape, std::uint32_t n) {
    if (n == 0) return;
    for (const bool few : {false, true}) {
      fit(shape, n, 16, few && !shape.product());
      const jit::Spec spec = to_spec(shape, target_.target);
      if (std::find(specs_->begin(), specs_->end(), spec) == specs_->end()) specs_->push_back(spec);
    }
  }

 private:
  const jit::TargetInfo& target_;
  std::vector<jit::Spec>* specs_;
};

}  // namespace

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  Shape shape;
  shape.x = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (shape.x != Dtype::f16 && shape.x != Dtype::bf16 && shape.x != Dtype::f32) return;
  Needs needs(target, specs);
  if (model.flags & QUERN_MODEL_BLOCK_FP8) {  // the weights themselves, where a checkpoint has them in 16 bits
    Shape weights = shape;
    weights.scale = q::Scale::block;
    needs.add(weights, model.hidden_size);
  }
  const std::uint32_t ranks = std::max(model.tensor_parallel, 1u);
  const std::uint32_t v_dim = model.v_head_dim != 0 ? model.v_head_dim : model.head_dim;
  for (const auto& [flag, scale] :
       {std::pair{QUERN_MODEL_BLOCK_FP8, q::Scale::group}, {QUERN_MODEL_FP8, q::Scale::token}}) {
    if ((model.flags & flag) == 0) continue;
    shape.scale = scale;
    needs.add(shape, std::max(model.heads / ranks, 1u) * v_dim);  // what attention gives
    // A gated product that its own product's epilogue has made, and the last norm where its rows are chosen behind it.
    needs.add(shape, model.intermediate_size / ranks);
    if (model.flags & QUERN_MODEL_FP8_LOGITS) needs.add(shape, model.hidden_size);
    Shape norm = shape;
    norm.front = q::Front::rmsnorm;
    norm.weight = shape.x;
    if (model.flags & QUERN_MODEL_MLA) needs.add(norm, model.q_lora_rank);
    needs.add(norm, model.hidden_size);  // the first layer's has nothing to add
    norm.residual = true;
    needs.add(norm, model.hidden_size);
    Shape product = shape;
    if (model.flags & QUERN_MODEL_GATED_MLP) product.front = product_of(model.activation);
    needs.add(product, model.intermediate_size / ranks);
    if (model.experts == 0) continue;
    needs.add(product, model.expert_intermediate_size / ranks);
    needs.add(product, model.shared_experts * model.expert_intermediate_size / ranks);
  }
}

}  // namespace quern::ops::quantize
