// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/model_steps.h"

#include <algorithm>
#include <sstream>

#include "bindings/cli/model_config.h"

namespace quern::cli {
namespace {

class Steps {
 public:
  Steps(const quern_model& model, const StepShape& shape, std::vector<std::string>& left_out)
      : model_(model),
        shape_(shape),
        left_out_(left_out),
        ranks_(std::max(1U, model.tensor_parallel)),
        tokens_(shape.batch * shape.queries),
        heads_(model.heads / ranks_),
        kv_heads_(std::max(1U, model.kv_heads / ranks_)),
        page_size_(model.page_size != 0 ? model.page_size : 64),
        dtype_(dtype_name(model.dtype)) {}

  std::vector<ModelStep> take() {
    const std::uint32_t layers = model_.layers;
    step("embedding", 1, "gather", "vocab", model_.vocab_size, "count", tokens_, "n", model_.hidden_size);
    norm("norm before attention", layers);
    if (has(QUERN_MODEL_MLA)) {
      latent(layers);
    } else {
      heads(layers);
    }
    norm("norm before the MLP", layers);
    if (model_.experts != 0) {
      experts(layers);
    } else {
      product("gate and up projection", layers, gated_columns(model_.intermediate_size), model_.hidden_size, gated());
      product("down projection", layers, model_.hidden_size, model_.intermediate_size / ranks_);
    }
    norm("last norm", 1);
    // Of each sequence the last token alone is asked what comes next; the head is not quantised.
    step("head", 1, "gemm", "dtype", dtype_, "m", shape_.batch, "n", model_.vocab_size / ranks_, "k",
         model_.hidden_size);
    step("sampling", 1, "sample", "dtype", dtype_, "batch", shape_.batch, "vocab", model_.vocab_size);
    return std::move(steps_);
  }

 private:
  bool has(std::uint32_t flag) const { return (model_.flags & flag) != 0; }
  bool gated() const { return has(QUERN_MODEL_GATED_MLP); }
  std::int64_t gated_columns(std::int64_t width) const { return (gated() ? 2 : 1) * width / ranks_; }

  template <class... Words>
  void step(const char* what, std::uint32_t count, const char* op, const Words&... words) {
    std::ostringstream line;
    line << op;
    std::size_t place = 0;
    ((line << (place++ % 2 == 0 ? " " : "=") << words), ...);
    steps_.push_back({what, line.str(), count});
  }

  void norm(const char* what, std::uint32_t count) {
    const char* op = has(QUERN_MODEL_LAYER_NORM) ? "norm" : "rmsnorm";
    step(what, count, op, "dtype", dtype_, "rows", tokens_, "n", model_.hidden_size, "residual", 1, "residual_out", 1);
  }

  // A projection of every token, by the model's kind of weights; in front of 8-bit ones the activations are quantised.
  void product(const char* what, std::uint32_t count, std::int64_t n, std::int64_t k, bool gate = false) {
    const char* bias = has(QUERN_MODEL_BIAS) && !gate ? dtype_.c_str() : "none";
    if (!has(QUERN_MODEL_FP8) && !has(QUERN_MODEL_BLOCK_FP8)) {
      step(what, count, "gemm", "dtype", dtype_, "m", tokens_, "n", n, "k", k, "gate", gate ? 1 : 0, "bias", bias);
      return;
    }
    const bool blocks = has(QUERN_MODEL_BLOCK_FP8);
    step("quantising for the next", count, "quantize", "rows", tokens_, "n", k, "scale", blocks ? "group" : "token",
         "x", dtype_);
    step(what, count, "fp8_gemm", "scales", blocks ? "blocks" : "vectors", "m", tokens_, "n", n, "k", k, "gate",
         gate ? 1 : 0, "out", dtype_, "bias", bias);
  }

  void heads(std::uint32_t layers) {
    const std::uint32_t dim = model_.head_dim, dim_v = model_.v_head_dim != 0 ? model_.v_head_dim : dim;
    const std::string kv = dtype_name(model_.kv_dtype);
    product("query, key and value projection", layers,
            std::int64_t{heads_} * dim + std::int64_t{kv_heads_} * (dim + dim_v), model_.hidden_size);
    if (dim == dim_v) {
      step("keys and values to the cache", layers, "kv_append", "dtype", dtype_, "cache", kv, "tokens", tokens_,
           "heads", heads_, "kv_heads", kv_heads_, "dim", dim, "page_size", page_size_);
    } else {
      left_out_.push_back("keys and values of different widths to the cache");
    }
    std::int64_t kv_length = shape_.context;
    const char* window = "";
    if (model_.sliding_window != 0 && model_.sliding_window < kv_length) {
      window = " (counted as if all layers saw everything)";
      left_out_.push_back("the sliding window of " + std::to_string(model_.sliding_window) + " keys" + window);
    }
    step("attention", layers, "attention", "dtype", dtype_, "kv_dtype", kv, "batch", shape_.batch, "queries",
         shape_.queries, "kv", kv_length, "heads", heads_, "group", heads_ / kv_heads_, "dim_k", dim, "dim_v", dim_v,
         "page_size", page_size_, "logit_cap", model_.logit_cap, "sinks", has(QUERN_MODEL_SINKS) ? 1 : 0);
    product("output projection", layers, model_.hidden_size, std::int64_t{heads_} * dim_v);
  }

  void latent(std::uint32_t layers) {
    const std::int64_t latent = model_.kv_lora_rank, rope = model_.rope_head_dim, nope = model_.head_dim - rope;
    if (model_.q_lora_rank != 0) {
      product("query and latent projection", layers, model_.q_lora_rank + latent + rope, model_.hidden_size);
      product("queries from their latent", layers, std::int64_t{heads_} * model_.head_dim, model_.q_lora_rank);
    } else {
      product("query and latent projection", layers, std::int64_t{heads_} * model_.head_dim + latent + rope,
              model_.hidden_size);
    }
    step("queries into the latent", layers, "gemm", "dtype", dtype_, "batch", heads_, "m", tokens_, "n", latent, "k",
         nope);
    const bool eight = model_.kv_dtype.bits == 8;
    const std::string cache = dtype_name(model_.kv_dtype);
    step("latent to the cache", layers, "mla_append", "dtype", dtype_, "cache", eight ? cache : dtype_, "cache_scale",
         eight ? 1 : 0, "tokens", tokens_, "heads", heads_, "d_latent", latent, "d_rope", rope, "page_size",
         page_size_);
    if (model_.index_heads != 0) {
      step("scores of the indexer", layers, "index_scores", "batch", shape_.batch, "queries", shape_.queries, "kv",
           shape_.context, "heads", model_.index_heads, "dim", model_.index_head_dim, "page_size", page_size_);
      step("the indexer's choice", layers, "top_k", "rows", tokens_, "n", shape_.context, "k",
           std::min<std::int64_t>(model_.index_top_k, shape_.context), "flags", 0);
    }
    const std::int64_t keys =
        model_.index_heads != 0 ? std::min<std::int64_t>(model_.index_top_k, shape_.context) : shape_.context;
    step("attention", layers, "mla_decode", "dtype", dtype_, "cache", eight ? cache : dtype_, "cache_scale",
         eight ? 1 : 0, "batch", shape_.batch, "queries", shape_.queries, "kv", keys, "heads", heads_, "d_latent",
         latent, "d_rope", rope, "page_size", page_size_);
    const std::int64_t value = model_.v_head_dim != 0 ? model_.v_head_dim : nope;
    step("values from the latent", layers, "gemm", "dtype", dtype_, "batch", heads_, "m", tokens_, "n", value, "k",
         latent);
    product("output projection", layers, model_.hidden_size, heads_ * value);
  }

  void experts(std::uint32_t layers) {
    const std::int64_t rows = tokens_ * model_.experts_per_token, width = model_.expert_intermediate_size / ranks_;
    const std::int64_t chosen = model_.experts_per_token;
    step("router", layers, "gemm", "dtype", dtype_, "m", tokens_, "n", model_.experts, "k", model_.hidden_size, "out",
         "f32");
    step("choice of experts", layers, "moe_route", "tokens", tokens_, "experts", model_.experts, "top_k", chosen,
         "groups", 0, "top_groups", 0);
    if (has(QUERN_MODEL_FP8) || has(QUERN_MODEL_BLOCK_FP8)) {
      const char* scales = has(QUERN_MODEL_BLOCK_FP8) ? "blocks" : "vectors";
      step("quantising for the next", layers, "quantize", "rows", tokens_, "n", model_.hidden_size, "scale",
           has(QUERN_MODEL_BLOCK_FP8) ? "group" : "token", "x", dtype_);
      step("experts' gate and up", layers, "grouped_fp8_gemm", "scales", scales, "experts", model_.experts, "m", rows,
           "n", (gated() ? 2 : 1) * width, "k", model_.hidden_size, "gate", gated() ? 1 : 0, "out", dtype_);
      step("quantising for the next", layers, "quantize", "rows", rows, "n", width, "scale",
           has(QUERN_MODEL_BLOCK_FP8) ? "group" : "token", "x", dtype_);
      step("experts' down", layers, "grouped_fp8_gemm", "scales", scales, "experts", model_.experts, "m", rows, "n",
           model_.hidden_size, "k", width, "out", dtype_);
    } else {
      left_out_.push_back("the experts' products: grouped products here have 8-bit weights (--weights fp8-block)");
    }
    step("sum of the experts", layers, "moe_combine", "dtype", dtype_, "tokens", tokens_, "top_k", chosen, "n",
         model_.hidden_size);
    if (model_.shared_experts != 0) {
      const std::int64_t shared = std::int64_t{model_.shared_experts} * width;
      product("shared experts' gate and up", layers, (gated() ? 2 : 1) * shared, model_.hidden_size, gated());
      product("shared experts' down", layers, model_.hidden_size, shared);
    }
  }

  const quern_model& model_;
  const StepShape& shape_;
  std::vector<std::string>& left_out_;
  const std::uint32_t ranks_;
  const std::int64_t tokens_;
  const std::uint32_t heads_, kv_heads_, page_size_;
  const std::string dtype_;
  std::vector<ModelStep> steps_;
};

}  // namespace

std::vector<ModelStep> model_steps(const quern_model& model, const StepShape& shape,
                                   std::vector<std::string>& left_out) {
  std::vector<ModelStep> steps = Steps(model, shape, left_out).take();
  if (model.tensor_parallel > 1) left_out.emplace_back("what the ranks send each other");
  if (model.experts != 0)
    left_out.emplace_back("layers without experts, where there are some: all are counted with them");
  if ((model.flags & QUERN_MODEL_QK_NORM) != 0) left_out.emplace_back("the norms of queries and keys");
  if ((model.flags & QUERN_MODEL_KV_TOKEN_SCALES) != 0) {
    left_out.emplace_back("scales of the cache by token: one a tensor is read");
  }
  if ((model.flags & QUERN_MODEL_FP8_QUERIES) != 0)
    left_out.emplace_back("queries of 8 bits: they are counted in the type of activations");
  if ((model.flags & QUERN_MODEL_FP8_LOGITS) != 0)
    left_out.emplace_back("weights of 8 bits for the logits: they are counted in the type of activations");
  if (model.final_logit_cap > 0.0f) left_out.emplace_back("the cap on the logits");
  return steps;
}

}  // namespace quern::cli
