// Which kernels for matrix products a transformer needs.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/problem.h"
#include "sources/gemm/tiling.h"

namespace quern::ops::gemm {
namespace {

class Lister {
 public:
  Lister(Tag op, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) : op_(op), target_(target), specs_(specs) {}

  // The forms for every number of rows.
  void add(Shape shape, const std::string& formula, Dtype operands = Dtype::bf16) {
    shape.epilogue = &expression::intern(formula);
    for (std::size_t i = 0; i < shape.operands.size(); ++i) {
      if (shape.epilogue->operands[i] != expression::OperandKind::unused) shape.operands[i] = operands;
    }
    const bool swapped = add_all(shape, kSwapped);
    add_all(shape, kWarpgroups);
    // Rows that are gathered go another way.
    if (!swapped || shape.grouping == Grouping::contiguous) add_all(shape, {Form::tiny, Form::small, Form::medium, Form::large});
  }

 private:
  template <class Forms>
  bool add_all(Shape shape, const Forms& forms) {
    bool any = false;
    for (const Form form : forms) {
      shape.form = form;
      if (!tile(shape, target_)) continue;
      specs_->push_back(to_spec(shape, op_, target_.target));
      any = true;
    }
    return any;
  }
  bool add_all(const Shape& shape, std::initializer_list<Form> forms) { return add_all<std::initializer_list<Form>>(shape, forms); }

  Tag op_;
  const jit::TargetInfo& target_;
  std::vector<jit::Spec>* specs_;
};

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

}  // namespace

void list_kernels(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const Dtype dtype = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (dtype != Dtype::f16 && dtype != Dtype::bf16) return;
  const bool blocks = (model.flags & QUERN_MODEL_BLOCK_FP8) != 0;
  const bool fp8 = blocks || (model.flags & QUERN_MODEL_FP8) != 0, experts = model.experts != 0;
  const bool bias = (model.flags & QUERN_MODEL_BIAS) != 0, gated = (model.flags & QUERN_MODEL_GATED_MLP) != 0;
  const std::string activation = activation_of(model);
  Lister lister(op, target, specs);
  Shape shape;
  shape.out = dtype;
  if (op == tag_gemm) {
    shape.a = shape.b = dtype;
    // Logits of the vocabulary and of the experts.
    Shape logits = shape;
    logits.out = Dtype::f32;
    lister.add(logits, "acc");
    if (fp8) {
      // What latent attention has absorbed into its heads is not stored in 8 bits.
      if (model.flags & QUERN_MODEL_MLA) lister.add(shape, "acc");
      return;
    }
  } else {
    if (!fp8 || (op == tag_grouped_fp8_gemm && !experts)) return;
    shape.a = shape.b = Dtype::e4m3;
    shape.scales = blocks ? Scales::blocks : Scales::vectors;
  }
  const bool grouped = op == tag_grouped_fp8_gemm;
  for (const Grouping grouping : {Grouping::contiguous, Grouping::masked}) {
    shape.grouping = grouped ? grouping : Grouping::dense;
    shape.gate = false;
    lister.add(shape, bias && !grouped ? "acc+col2" : "acc", dtype);
    if (gated) {
      shape.gate = true;
      lister.add(shape, activation + "(gate)*up");
    } else if (bias) {
      lister.add(shape, activation + "(acc+col2)", dtype);
    }
    if (!grouped) break;
  }
}

}  // namespace quern::ops::gemm
