// SPDX-License-Identifier: Apache-2.0
#include "sources/needs.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace quern::ops {
namespace {

struct Need {
  const char* name;
  bool there;                                 // the model has it
  std::initializer_list<const char*> served;  // by one of these ops, where it is here and lists kernels
  const char* what;                           // for people, where no op says more
};

constexpr std::uint32_t kFp8 = QUERN_MODEL_FP8 | QUERN_MODEL_BLOCK_FP8;

const char* stored_as(const quern_model& model) {
  if (model.flags & QUERN_MODEL_BLOCK_FP8) return "e4m3 with 128x128 scales";
  return model.flags & QUERN_MODEL_FP8 ? "e4m3 with a scale per tensor or channel" : "16 bits";
}

const std::string* value_of(const Constants& constants, std::string_view name) {
  const auto found = std::find_if(constants.begin(), constants.end(), [&](const auto& c) { return c.name == name; });
  return found == constants.end() ? nullptr : &found->value;
}

// Kernels are listed for rows aligned to 16 bytes; a product whose K does not keep them so takes others.
void add_unaligned(const Op& op, const quern_model& model, const jit::TargetInfo& target, std::vector<Unserved>* all) {
  if (op.products == nullptr) return;
  std::vector<Constants> products;
  op.products(model, target, &products);
  for (const Constants& product : products) {
    const std::string* k = value_of(product, "k");
    const std::string* a = value_of(product, "a");
    if (k == nullptr) continue;
    std::int64_t number = 0;
    std::from_chars(k->data(), k->data() + k->size(), number);
    const bool bytes = a == nullptr || *a == "e4m3" || *a == "e5m2";
    if (number * (bytes ? 1 : 2) % 16 == 0) continue;
    all->push_back({op.name, "a product with K = " + *k +
                                 ": its rows are not aligned to 16 bytes, and kernels are listed " +
                                 "for those that are; allowed: multiples of " + (bytes ? "16" : "8")});
  }
}

}  // namespace

std::vector<Unserved> unserved(const quern_model& model, const jit::TargetInfo& target,
                               const std::vector<bool>& listed) {
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0, experts = model.experts != 0;
  const bool fp8 = (model.flags & kFp8) != 0;
  const std::string products = "products with weights of " + std::string(stored_as(model));
  const std::string expert_products =
      "products of " + std::to_string(model.experts) + " experts with weights of " + stored_as(model);
  const std::string heads = (latent ? "prefill of latent attention, with heads of " : "attention with heads of ") +
                            std::to_string(model.head_dim) +
                            (model.v_head_dim != 0 ? " and " + std::to_string(model.v_head_dim) : "");
  const std::string latent_text = "latent attention (MLA) from a cache of " + std::to_string(model.kv_lora_rank) +
                                  " + " + std::to_string(model.rope_head_dim);
  const std::string routing = "routing to " + std::to_string(model.experts) + " experts";
  const Need needs[] = {
      {"attention", true, {"attention"}, heads.c_str()},
      {"mla_decode", latent, {"mla_decode"}, latent_text.c_str()},
      {"mla_append", latent, {"mla_append"}, "new tokens into that cache"},
      {"index_scores", model.index_heads != 0, {"index_scores"}, "the scores of keys that an indexer chooses from"},
      {"gemm", !fp8, {"gemm"}, products.c_str()},
      {"fp8_gemm", fp8, {"fp8_gemm"}, products.c_str()},
      {"quantize", fp8, {"quantize"}, "quantising activations"},
      {"expert products", experts && !fp8, {"grouped_gemm"}, expert_products.c_str()},
      {"grouped_fp8_gemm", experts && fp8, {"grouped_fp8_gemm"}, expert_products.c_str()},
      {"moe_route", experts, {"moe_route"}, routing.c_str()},
      {"moe_combine", experts, {"moe_combine"}, "the sum over experts"},
  };
  std::vector<Unserved> all;
  for (const Need& need : needs) {
    if (!need.there) continue;
    bool is_served = false, is_here = false;
    std::string why;
    for (const char* name : need.served) {
      const Op* op = find(name);
      if (op == nullptr) continue;
      is_here = true;
      if (op->refusal != nullptr) why = op->refusal(model, target);
      is_served = is_served || (listed[static_cast<std::size_t>(op - ops::all().data())] && why.empty());
    }
    if (is_served) continue;
    std::string text = need.what;
    text += !why.empty() ? ": " + why : is_here ? ": no kernel for it here" : ": no op here does it yet";
    all.push_back({need.name, text});
  }
  if ((model.flags & QUERN_MODEL_FP8_LOGITS) != 0 && !fp8) {
    all.push_back({"fp8_gemm", "logits by a product of 8 bits, with weights of " + std::string(stored_as(model)) +
                                   "; allowed: with weights of e4m3"});
  }
  for (const Op& op : ops::all()) {
    if (listed[static_cast<std::size_t>(&op - ops::all().data())]) add_unaligned(op, model, target, &all);
  }
  return all;
}

}  // namespace quern::ops
