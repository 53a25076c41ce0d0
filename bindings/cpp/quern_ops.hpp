// Each op's arguments, as quern.h documents them in quern_OP_args, and its calls. Made of quern.h by
// ./dev generate; included by quern.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <cstdint>

namespace quern {

// What Context::run and its like need of an op.
#define QUERN_CALLS(op)                              \
  using Args = quern_##op##_args;                    \
  static constexpr auto* kRun = quern_##op;            \
  static constexpr auto* kPrepare = quern_##op##_prepare; \
  static constexpr auto* kWorkspace = quern_##op##_workspace

struct Attention {
  std::uint32_t size = sizeof(quern_attention_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* q = nullptr;
  const DLTensor* k = nullptr;
  const DLTensor* v = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* cu_q = nullptr;
  const DLTensor* page_table = nullptr;
  const DLTensor* page_indptr = nullptr;
  const DLTensor* page_indices = nullptr;
  const DLTensor* cu_kv = nullptr;
  const DLTensor* alibi_slopes = nullptr;
  const DLTensor* sinks = nullptr;
  std::int32_t max_q_len = 0;
  std::int32_t max_kv_len = 0;
  std::int32_t window_left = 0;
  std::int32_t window_right = 0;
  float scale = 0;
  float logit_cap = 0;
  const DLTensor* q_scale = nullptr;
  const DLTensor* k_scale = nullptr;
  const DLTensor* v_scale = nullptr;
  const DLTensor* mask = nullptr;
  const DLTensor* mask_indptr = nullptr;
  const DLTensor* mask_keys = nullptr;
  std::int32_t q_type = 0;
  std::int32_t kv_type = 0;
  const DLTensor* out_scale = nullptr;
  std::int32_t out_type = 0;
  std::uint32_t reserved = 0;
  QUERN_CALLS(attention);
};

struct MergeState {
  std::uint32_t size = sizeof(quern_merge_state_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* out_a = nullptr;
  const DLTensor* lse_a = nullptr;
  const DLTensor* out_b = nullptr;
  const DLTensor* lse_b = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  QUERN_CALLS(merge_state);
};

struct Fp8Gemm {
  std::uint32_t size = sizeof(quern_fp8_gemm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* a = nullptr;
  const DLTensor* b = nullptr;
  const DLTensor* scale_a = nullptr;
  const DLTensor* scale_b = nullptr;
  const DLTensor* out = nullptr;
  const quern_epilogue* epilogue = nullptr;
  std::int32_t a_type = 0;
  std::int32_t b_type = 0;
  QUERN_CALLS(fp8_gemm);
};

struct GroupedFp8Gemm {
  std::uint32_t size = sizeof(quern_grouped_fp8_gemm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* a = nullptr;
  const DLTensor* b = nullptr;
  const DLTensor* scale_a = nullptr;
  const DLTensor* scale_b = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* counts = nullptr;
  const DLTensor* indices = nullptr;
  const DLTensor* status = nullptr;
  const quern_epilogue* epilogue = nullptr;
  std::int32_t a_type = 0;
  std::int32_t b_type = 0;
  std::int32_t expected_rows = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(grouped_fp8_gemm);
};

struct Gemm {
  std::uint32_t size = sizeof(quern_gemm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* a = nullptr;
  const DLTensor* b = nullptr;
  const DLTensor* out = nullptr;
  const quern_epilogue* epilogue = nullptr;
  QUERN_CALLS(gemm);
};

struct Quantize {
  std::uint32_t size = sizeof(quern_quantize_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* scale = nullptr;
  const DLTensor* residual = nullptr;
  const DLTensor* residual_out = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* dense = nullptr;
  std::int32_t front = 0;
  std::int32_t scale_kind = 0;
  std::int32_t type = 0;
  float eps = 0;
  QUERN_CALLS(quantize);
};

struct Dequantize {
  std::uint32_t size = sizeof(quern_dequantize_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* scale = nullptr;
  const DLTensor* out = nullptr;
  std::int32_t scale_kind = 0;
  std::int32_t type = 0;
  QUERN_CALLS(dequantize);
};

struct MoeRoute {
  std::uint32_t size = sizeof(quern_moe_route_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* logits = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* weights = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* indices = nullptr;
  const DLTensor* positions = nullptr;
  const DLTensor* counts = nullptr;
  std::int32_t top_k = 0;
  std::int32_t groups = 0;
  std::int32_t top_groups = 0;
  std::int32_t first_expert = 0;
  std::int32_t local_experts = 0;
  float scale = 0;
  QUERN_CALLS(moe_route);
};

struct MoeCombine {
  std::uint32_t size = sizeof(quern_moe_combine_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* positions = nullptr;
  const DLTensor* weights = nullptr;
  const DLTensor* add = nullptr;
  const DLTensor* out = nullptr;
  QUERN_CALLS(moe_combine);
};

struct MergeStates {
  std::uint32_t size = sizeof(quern_merge_states_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* parts = nullptr;
  const DLTensor* part_lses = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  QUERN_CALLS(merge_states);
};

struct Rope {
  std::uint32_t size = sizeof(quern_rope_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* q = nullptr;
  const DLTensor* k = nullptr;
  const DLTensor* q_out = nullptr;
  const DLTensor* k_out = nullptr;
  const DLTensor* positions = nullptr;
  const quern_rope_options* rope = nullptr;
  QUERN_CALLS(rope);
};

struct KvAppend {
  std::uint32_t size = sizeof(quern_kv_append_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* k = nullptr;
  const DLTensor* v = nullptr;
  const DLTensor* k_cache = nullptr;
  const DLTensor* v_cache = nullptr;
  const DLTensor* k_scale = nullptr;
  const DLTensor* v_scale = nullptr;
  const DLTensor* slots = nullptr;
  const DLTensor* page_table = nullptr;
  const DLTensor* page_indptr = nullptr;
  const DLTensor* page_indices = nullptr;
  const DLTensor* cu_q = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* positions = nullptr;
  const DLTensor* q = nullptr;
  const DLTensor* q_out = nullptr;
  const DLTensor* q_scale = nullptr;
  const DLTensor* q_weight = nullptr;
  const DLTensor* k_weight = nullptr;
  const quern_rope_options* rope = nullptr;
  float eps = 0;
  std::int32_t q_type = 0;
  std::int32_t kv_type = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(kv_append);
};

struct KvCopyPages {
  std::uint32_t size = sizeof(quern_kv_copy_pages_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* k = nullptr;
  const DLTensor* v = nullptr;
  const DLTensor* k_to = nullptr;
  const DLTensor* v_to = nullptr;
  const DLTensor* k_scale = nullptr;
  const DLTensor* v_scale = nullptr;
  const DLTensor* k_scale_to = nullptr;
  const DLTensor* v_scale_to = nullptr;
  const DLTensor* sources = nullptr;
  const DLTensor* destinations = nullptr;
  QUERN_CALLS(kv_copy_pages);
};

struct MlaDecode {
  std::uint32_t size = sizeof(quern_mla_decode_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* q = nullptr;
  const DLTensor* q_rope = nullptr;
  const DLTensor* cache = nullptr;
  const DLTensor* cache_rope = nullptr;
  const DLTensor* cache_scale = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lse = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* cu_q = nullptr;
  const DLTensor* page_table = nullptr;
  const DLTensor* page_indptr = nullptr;
  const DLTensor* page_indices = nullptr;
  const DLTensor* indices = nullptr;
  const DLTensor* sinks = nullptr;
  const DLTensor* status = nullptr;
  std::int32_t max_q_len = 0;
  std::int32_t max_kv_len = 0;
  std::int32_t window_left = 0;
  std::int32_t window_right = 0;
  std::int32_t cache_type = 0;
  float scale = 0;
  float logit_cap = 0;
  QUERN_CALLS(mla_decode);
};

struct Rmsnorm {
  std::uint32_t size = sizeof(quern_rmsnorm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* residual = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* residual_out = nullptr;
  float eps = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(rmsnorm);
};

struct Sample {
  std::uint32_t size = sizeof(quern_sample_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* logits = nullptr;
  const DLTensor* rows = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* logprobs = nullptr;
  const DLTensor* top_ids = nullptr;
  const DLTensor* top_logprobs = nullptr;
  const DLTensor* status = nullptr;
  const DLTensor* seeds = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* temperatures = nullptr;
  const DLTensor* top_ks = nullptr;
  const DLTensor* top_ps = nullptr;
  const DLTensor* min_ps = nullptr;
  const DLTensor* typical_ps = nullptr;
  const DLTensor* n_sigmas = nullptr;
  const DLTensor* xtc_probabilities = nullptr;
  const DLTensor* xtc_thresholds = nullptr;
  const DLTensor* dynamic_ranges = nullptr;
  const DLTensor* dynamic_exponents = nullptr;
  const DLTensor* repetitions = nullptr;
  const DLTensor* presences = nullptr;
  const DLTensor* frequencies = nullptr;
  const DLTensor* prompt_mask = nullptr;
  const DLTensor* prompt_tokens = nullptr;
  const DLTensor* prompt_lengths = nullptr;
  const DLTensor* output_counts = nullptr;
  const DLTensor* output_tokens = nullptr;
  const DLTensor* output_lengths = nullptr;
  const DLTensor* bias_offsets = nullptr;
  const DLTensor* bias_ids = nullptr;
  const DLTensor* bias_values = nullptr;
  const DLTensor* allowed = nullptr;
  const DLTensor* banned = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  float temperature = 0;
  std::int32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  float typical_p = 0;
  float n_sigma = 0;
  float xtc_probability = 0;
  float xtc_threshold = 0;
  float dynamic_range = 0;
  float dynamic_exponent = 0;
  float repetition = 0;
  float presence = 0;
  float frequency = 0;
  std::int32_t max_bias = 0;
  QUERN_CALLS(sample);
};

struct Gather {
  std::uint32_t size = sizeof(quern_gather_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* table = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* out = nullptr;
  std::int64_t first = 0;
  std::int64_t padding = 0;
  float scale = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(gather);
};

struct MlaAppend {
  std::uint32_t size = sizeof(quern_mla_append_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* kv = nullptr;
  const DLTensor* k_rope = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* cache = nullptr;
  const DLTensor* cache_rope = nullptr;
  const DLTensor* cache_scale = nullptr;
  const DLTensor* slots = nullptr;
  const DLTensor* page_table = nullptr;
  const DLTensor* page_indptr = nullptr;
  const DLTensor* page_indices = nullptr;
  const DLTensor* cu_q = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* positions = nullptr;
  const DLTensor* q_rope = nullptr;
  const DLTensor* q_rope_out = nullptr;
  const DLTensor* kv_out = nullptr;
  const DLTensor* k_rope_out = nullptr;
  const DLTensor* status = nullptr;
  const quern_rope_options* rope = nullptr;
  float eps = 0;
  std::int32_t d_rope = 0;
  std::int32_t cache_type = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(mla_append);
};

struct IndexScores {
  std::uint32_t size = sizeof(quern_index_scores_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* q = nullptr;
  const DLTensor* q_scale = nullptr;
  const DLTensor* weights = nullptr;
  const DLTensor* k = nullptr;
  const DLTensor* k_scale = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* cu_q = nullptr;
  const DLTensor* page_table = nullptr;
  const DLTensor* page_indptr = nullptr;
  const DLTensor* page_indices = nullptr;
  const DLTensor* cu_kv = nullptr;
  const DLTensor* status = nullptr;
  std::int32_t max_q_len = 0;
  std::int32_t q_type = 0;
  QUERN_CALLS(index_scores);
};

struct Softmax {
  std::uint32_t size = sizeof(quern_softmax_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* logits = nullptr;
  const DLTensor* temperatures = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* status = nullptr;
  float temperature = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(softmax);
};

struct Argmax {
  std::uint32_t size = sizeof(quern_argmax_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* logits = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* values = nullptr;
  QUERN_CALLS(argmax);
};

struct TopK {
  std::uint32_t size = sizeof(quern_top_k_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* values = nullptr;
  QUERN_CALLS(top_k);
};

struct Renormalise {
  std::uint32_t size = sizeof(quern_renormalise_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* probs = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* status = nullptr;
  const DLTensor* top_ks = nullptr;
  const DLTensor* top_ps = nullptr;
  const DLTensor* min_ps = nullptr;
  std::int32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(renormalise);
};

struct VerifyDraft {
  std::uint32_t size = sizeof(quern_verify_draft_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* target = nullptr;
  const DLTensor* draft = nullptr;
  const DLTensor* draft_ids = nullptr;
  const DLTensor* parents = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* accepted = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* path = nullptr;
  const DLTensor* status = nullptr;
  const DLTensor* seeds = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* temperatures = nullptr;
  const DLTensor* top_ks = nullptr;
  const DLTensor* top_ps = nullptr;
  const DLTensor* min_ps = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  float temperature = 0;
  std::int32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  const DLTensor* logprobs = nullptr;
  const DLTensor* repetitions = nullptr;
  const DLTensor* presences = nullptr;
  const DLTensor* frequencies = nullptr;
  const DLTensor* prompt_mask = nullptr;
  const DLTensor* prompt_tokens = nullptr;
  const DLTensor* prompt_lengths = nullptr;
  const DLTensor* output_counts = nullptr;
  const DLTensor* output_tokens = nullptr;
  const DLTensor* output_lengths = nullptr;
  const DLTensor* bias_offsets = nullptr;
  const DLTensor* bias_ids = nullptr;
  const DLTensor* bias_values = nullptr;
  const DLTensor* allowed = nullptr;
  const DLTensor* banned = nullptr;
  float repetition = 0;
  float presence = 0;
  float frequency = 0;
  std::int32_t max_bias = 0;
  QUERN_CALLS(verify_draft);
};

struct Pointwise {
  std::uint32_t size = sizeof(quern_pointwise_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* const* operands = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* out1 = nullptr;
  const DLTensor* out2 = nullptr;
  const DLTensor* out3 = nullptr;
  const quern_expression* expression = nullptr;
  const quern_expression* expression1 = nullptr;
  const quern_expression* expression2 = nullptr;
  const quern_expression* expression3 = nullptr;
  const float* scalars = nullptr;
  std::uint32_t operand_count = 0;
  std::uint32_t scalar_count = 0;
  QUERN_CALLS(pointwise);
};

struct Copy {
  std::uint32_t size = sizeof(quern_copy_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* const* inputs = nullptr;
  const DLTensor* const* outputs = nullptr;
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 0;
  double fill = 0;
  QUERN_CALLS(copy);
};

struct Norm {
  std::uint32_t size = sizeof(quern_norm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* residual = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* scale = nullptr;
  const DLTensor* shift = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* residual_out = nullptr;
  const DLTensor* out_scale = nullptr;
  const DLTensor* dense = nullptr;
  std::int32_t kind = 0;
  std::int32_t groups = 0;
  std::int32_t scale_kind = 0;
  std::int32_t type = 0;
  float eps = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(norm);
};

struct NormBackward {
  std::uint32_t size = sizeof(quern_norm_backward_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* dout = nullptr;
  const DLTensor* x = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* add = nullptr;
  const DLTensor* dx = nullptr;
  const DLTensor* dweight = nullptr;
  const DLTensor* dbias = nullptr;
  std::int32_t kind = 0;
  float eps = 0;
  QUERN_CALLS(norm_backward);
};

struct Reduce {
  std::uint32_t size = sizeof(quern_reduce_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* y = nullptr;
  const quern_expression* before = nullptr;
  const DLTensor* out = nullptr;
  const DLTensor* out1 = nullptr;
  const DLTensor* out2 = nullptr;
  const DLTensor* out3 = nullptr;
  const quern_expression* after = nullptr;
  const quern_expression* after1 = nullptr;
  const quern_expression* after2 = nullptr;
  const quern_expression* after3 = nullptr;
  const float* scalars = nullptr;
  std::uint32_t scalar_count = 0;
  std::uint32_t axes = 0;
  std::int32_t reduction = 0;
  std::int32_t reduction1 = 0;
  std::int32_t reduction2 = 0;
  std::int32_t reduction3 = 0;
  std::int32_t type = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(reduce);
};

struct Scatter {
  std::uint32_t size = sizeof(quern_scatter_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* out = nullptr;
  std::int64_t first = 0;
  std::int64_t padding = 0;
  float scale = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(scatter);
};

struct Histogram {
  std::uint32_t size = sizeof(quern_histogram_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* counts = nullptr;
  std::int64_t first = 0;
  float low = 0;
  float high = 0;
  QUERN_CALLS(histogram);
};

struct Sort {
  std::uint32_t size = sizeof(quern_sort_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* keys = nullptr;
  const DLTensor* values = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* keys_out = nullptr;
  const DLTensor* values_out = nullptr;
  std::int64_t max_segment = 0;
  QUERN_CALLS(sort);
};

struct Conv1d {
  std::uint32_t size = sizeof(quern_conv1d_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* offsets = nullptr;
  const DLTensor* state = nullptr;
  const DLTensor* state_ids = nullptr;
  const DLTensor* has_state = nullptr;
  const DLTensor* out = nullptr;
  std::int32_t stride = 0;
  std::int32_t dilation = 0;
  std::int32_t groups = 0;
  std::int32_t pad_begin = 0;
  std::int32_t pad_end = 0;
  std::int32_t reserved = 0;
  QUERN_CALLS(conv1d);
};

struct Nms {
  std::uint32_t size = sizeof(quern_nms_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* boxes = nullptr;
  const DLTensor* scores = nullptr;
  const DLTensor* classes = nullptr;
  const DLTensor* lengths = nullptr;
  const DLTensor* ids = nullptr;
  const DLTensor* counts = nullptr;
  float iou_threshold = 0;
  float score_threshold = 0;
  QUERN_CALLS(nms);
};

struct Conv2d {
  std::uint32_t size = sizeof(quern_conv2d_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* weight = nullptr;
  const DLTensor* bias = nullptr;
  const DLTensor* out = nullptr;
  std::int32_t stride_h = 0;
  std::int32_t stride_w = 0;
  std::int32_t dilation_h = 0;
  std::int32_t dilation_w = 0;
  std::int32_t groups = 0;
  std::int32_t pad_top = 0;
  std::int32_t pad_bottom = 0;
  std::int32_t pad_left = 0;
  std::int32_t pad_right = 0;
  std::int32_t activation = 0;
  QUERN_CALLS(conv2d);
};

struct QuantizedGemm {
  std::uint32_t size = sizeof(quern_quantized_gemm_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* a = nullptr;
  const DLTensor* b = nullptr;
  const DLTensor* scale_a = nullptr;
  const DLTensor* scale_b = nullptr;
  const DLTensor* zero_b = nullptr;
  const DLTensor* tensor_scale_a = nullptr;
  const DLTensor* tensor_scale_b = nullptr;
  const DLTensor* out = nullptr;
  const quern_epilogue* epilogue = nullptr;
  std::int32_t a_format = 0;
  std::int32_t b_format = 0;
  std::int32_t scale_a_type = 0;
  std::int32_t scale_b_type = 0;
  QUERN_CALLS(quantized_gemm);
};

struct Fft {
  std::uint32_t size = sizeof(quern_fft_args);
  std::uint32_t flags = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_size = 0;
  std::int32_t alignment = 0;
  std::int32_t max_sms = 0;
  const DLTensor* x = nullptr;
  const DLTensor* window = nullptr;
  const DLTensor* out = nullptr;
  std::int32_t n = 0;
  std::int32_t kind = 0;
  std::int32_t result = 0;
  std::int32_t scaling = 0;
  std::int32_t hop = 0;
  std::int32_t pad_begin = 0;
  std::int32_t pad_end = 0;
  std::int32_t padding = 0;
  QUERN_CALLS(fft);
};

#undef QUERN_CALLS

}  // namespace quern
