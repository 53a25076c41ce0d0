// SPDX-License-Identifier: Apache-2.0
#include "sources/attention/read.h"

#include <algorithm>
#include <cmath>

#include "jit/error.h"

namespace quern::ops::attention {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
constexpr std::uint32_t kKnownFlags = QUERN_CALL_BATCH_INVARIANT | QUERN_CALL_PROGRAMMATIC | QUERN_CALL_CACHED_ONLY |
                                      QUERN_CALL_BACKGROUND | QUERN_ATTENTION_CAUSAL | QUERN_ATTENTION_WINDOW_LEFT |
                                      QUERN_ATTENTION_WINDOW_RIGHT;

[[noreturn]] void refuse(const char* text) { throw Error(QUERN_INVALID, text); }

int read_alignment(std::int32_t alignment) {
  if (alignment == 0) return 16;
  if (alignment != 4 && alignment != 8 && alignment != 16)
    refuse_value("alignment", std::int64_t{alignment}, "0 (16), 16, 8, 4");
  return alignment;
}

int read_dim(const Tensor& t, const char* name, int dimension) {
  const std::int64_t dim = t.shape[dimension];
  if (dim < 8 || dim > kMaxDim || dim % 8 != 0) refuse_extent(name, dimension, dim, "multiples of 8 from 8 to 256");
  return static_cast<int>(dim);
}

// A stride that the kernel multiplies in 32 bits.
std::uint32_t stride_bytes(const Tensor& t, const char* name, int dimension) {
  const std::int64_t bytes = t.shape[dimension] > 1 ? t.strides[dimension] * 2 : 0;
  if (bytes > std::int64_t{UINT32_MAX}) refuse_stride(name, dimension, t.strides[dimension], "less than 4 GiB");
  return static_cast<std::uint32_t>(bytes);
}

const std::int32_t* ints(const Tensor& t) { return reinterpret_cast<const std::int32_t*>(t.data); }
const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.data); }

// A one-dimensional array of a given or of any length.
Tensor read_array(const DLTensor* given, const char* name, Dtype dtype, std::int64_t length, const Place& place) {
  const Tensor t = read(given, name, 1, {dtype}, place);
  if (length >= 0) expect_extent(t, name, 0, length);
  expect_unit_stride(t, name, 0);
  return t;
}

void read_pages(const quern_attention_args& args, const Place& place, std::int64_t batch, Problem& problem) {
  q::AttentionParams& p = problem.params;
  const bool table = args.page_table != nullptr, indices = args.page_indices != nullptr || args.page_indptr != nullptr;
  if (table + indices + (args.cu_kv != nullptr) != 1) {
    refuse("exactly one of page_table, page_indptr with page_indices, and cu_kv must be given");
  }
  problem.shape.paged = args.cu_kv == nullptr;
  if (table) {
    const Tensor t = read(args.page_table, "page_table", 2, {Dtype::i32}, place);
    expect_extent(t, "page_table", 0, batch);
    expect_unit_stride(t, "page_table", 1);
    p.pages = ints(t);
    p.pages_stride = t.strides[0];
    problem.max_keys = t.shape[1];
  } else if (indices) {
    p.page_indptr = ints(read_array(args.page_indptr, "page_indptr", Dtype::i32, batch + 1, place));
    const Tensor pages = read_array(args.page_indices, "page_indices", Dtype::i32, -1, place);
    p.pages = ints(pages);
    problem.max_keys = pages.shape[0];
  } else {
    p.cu_kv = ints(read_array(args.cu_kv, "cu_kv", Dtype::i32, batch + 1, place));
  }
}

void read_keys_and_values(const quern_attention_args& args, const Place& place, int alignment, Problem& problem) {
  q::AttentionParams& p = problem.params;
  Shape& shape = problem.shape;
  const int rank = shape.paged ? 4 : 3, head = rank - 2, dim = rank - 1;
  const Tensor k = read(args.k, "k", rank, {Dtype::f16, Dtype::bf16}, place);
  const Tensor v = read(args.v, "v", rank, {Dtype::f16, Dtype::bf16}, place);
  if (k.dtype != shape.element) refuse_dtype("k", args.k->dtype, {shape.element});
  if (v.dtype != shape.element) refuse_dtype("v", args.v->dtype, {shape.element});
  expect_extent(k, "k", dim, shape.dim_k);
  shape.dim_v = read_dim(v, "v", dim);
  expect_unit_stride(k, "k", dim);
  expect_unit_stride(v, "v", dim);
  expect_aligned(k, "k", alignment);
  expect_aligned(v, "v", alignment);
  for (int d = 0; d < head + 1; ++d) {
    // K and V may be pools of different sizes; pages and heads within are the same.
    if (d > 0 || !shape.paged) expect_extent(v, "v", d, k.shape[d]);
  }
  if (shape.paged) {
    if (k.shape[1] < 1) refuse_extent("k", 1, k.shape[1], "a page size of at least 1");
    p.page_size = static_cast<std::int32_t>(k.shape[1]);
    problem.max_keys *= k.shape[1];
    shape.page_size = constant_page_size(k.shape[1]);
    p.k_page_bytes = stride_bytes(k, "k", 0);
    p.v_page_bytes = stride_bytes(v, "v", 0);
  }
  if (!shape.paged) problem.max_keys = k.shape[0];
  problem.pages = shape.paged ? k.shape[0] : 1;
  problem.value_pages = shape.paged ? v.shape[0] : 1;
  problem.page_tokens = k.shape[head - 1];
  p.keys = k.data;
  p.values = v.data;
  p.k_token_bytes = stride_bytes(k, "k", head - 1);
  p.v_token_bytes = stride_bytes(v, "v", head - 1);
  p.k_stride_head = k.strides[head];
  p.v_stride_head = v.strides[head];
  p.kv_heads = static_cast<std::int32_t>(k.shape[head]);
}

void read_mask(const quern_attention_args& args, q::AttentionParams& p) {
  p.window_left = p.window_right = q::kUnbounded;
  if (args.flags & QUERN_ATTENTION_WINDOW_LEFT) {
    if (args.window_left < 0) refuse_value("window_left", std::int64_t{args.window_left}, "0 and more");
    if (args.window_left < q::kUnbounded) p.window_left = args.window_left;
  }
  if (args.flags & QUERN_ATTENTION_WINDOW_RIGHT) {
    if (args.window_right < 0) refuse_value("window_right", std::int64_t{args.window_right}, "0 and more");
    if (args.window_right < q::kUnbounded) p.window_right = args.window_right;
  }
  if (args.flags & QUERN_ATTENTION_CAUSAL) p.window_right = 0;
}

}  // namespace

Problem read_problem(const quern_attention_args& args, const jit::DeviceInfo& device, bool may_lack_data) {
  Problem problem{};
  Shape& shape = problem.shape;
  q::AttentionParams& p = problem.params;
  if (args.flags & ~kKnownFlags)
    refuse_value("flags", std::int64_t{args.flags}, "enum quern_call_flags and quern_attention_flags");
  const Place place{device.device_type, device.device_id, may_lack_data};
  const int alignment = read_alignment(args.alignment);
  shape.copy_bytes = alignment == 16 ? 16 : 4;

  const Tensor q = read(args.q, "q", 3, {Dtype::f16, Dtype::bf16}, place);
  shape.element = q.dtype;
  shape.dim_k = read_dim(q, "q", 2);
  expect_unit_stride(q, "q", 2);
  expect_aligned(q, "q", alignment);
  problem.total_q = q.shape[0];
  const std::int64_t heads = q.shape[1];

  const Tensor lengths = read_array(args.lengths, "lengths", Dtype::i32, -1, place);
  const std::int64_t batch = lengths.shape[0];
  if (args.cu_q != nullptr) {
    p.cu_q = ints(read_array(args.cu_q, "cu_q", Dtype::i32, batch + 1, place));
  } else if (problem.total_q < batch) {
    refuse_extent("q", 0, problem.total_q, "at least the batch, where cu_q is NULL");
  }
  read_pages(args, place, batch, problem);
  read_keys_and_values(args, place, alignment, problem);
  if (heads < 1 || p.kv_heads < 1 || heads % p.kv_heads != 0 || heads / p.kv_heads > 65535) {
    refuse_extent("q", 1, heads, "a positive multiple of k's heads, of at most 65535 a KV head");
  }
  shape.group = static_cast<int>(heads / p.kv_heads);

  const Tensor out = read(args.out, "out", 3, {Dtype::f16, Dtype::bf16}, place);
  if (out.dtype != shape.element) refuse_dtype("out", args.out->dtype, {shape.element});
  expect_extent(out, "out", 0, problem.total_q);
  expect_extent(out, "out", 1, heads);
  expect_extent(out, "out", 2, shape.dim_v);
  expect_unit_stride(out, "out", 2);
  expect_aligned(out, "out", alignment);
  if (args.lse != nullptr) {
    const Tensor lse = read(args.lse, "lse", 2, {Dtype::f32}, place);
    expect_extent(lse, "lse", 0, problem.total_q);
    expect_extent(lse, "lse", 1, heads);
    p.lse = reinterpret_cast<float*>(lse.data);
    p.lse_stride_token = lse.strides[0];
    p.lse_stride_head = lse.strides[1];
  }
  if (args.alibi_slopes != nullptr) {
    p.alibi_slopes = floats(read_array(args.alibi_slopes, "alibi_slopes", Dtype::f32, heads, place));
    shape.alibi = true;
  }
  if (args.sinks != nullptr) {
    p.sinks = floats(read_array(args.sinks, "sinks", Dtype::f32, heads, place));
    shape.sinks = true;
  }
  read_mask(args, p);

  if (!(args.scale >= 0.0f) || std::isinf(args.scale))
    refuse_value("scale", double{args.scale}, "0 (1/sqrt(d_k)) or a positive number");
  if (!(args.logit_cap >= 0.0f) || std::isinf(args.logit_cap))
    refuse_value("logit_cap", double{args.logit_cap}, "0 (none) or a positive number");
  shape.cap = args.logit_cap > 0.0f;
  const float scale = args.scale > 0.0f ? args.scale : 1.0f / std::sqrt(static_cast<float>(shape.dim_k));
  p.scale = shape.cap ? scale : scale * kLog2E;
  p.cap = args.logit_cap;

  if (args.max_kv_len < 1 || args.max_kv_len >= q::kUnbounded) {
    refuse_value("max_kv_len", std::int64_t{args.max_kv_len}, "the longest sequence's keys, 1 to 2^30 - 2");
  }
  problem.max_keys = std::min<std::int64_t>(problem.max_keys, args.max_kv_len);
  if (args.max_q_len < 0) refuse_value("max_q_len", std::int64_t{args.max_q_len}, "0 and more");
  if (args.max_sms < 0) refuse_value("max_sms", std::int64_t{args.max_sms}, "0 (all) and more");
  if (args.cu_q == nullptr && args.max_q_len > 1)
    refuse_value("max_q_len", std::int64_t{args.max_q_len}, "0 or 1, where cu_q is NULL");
  const std::int64_t queries = args.cu_q == nullptr ? 1 : args.max_q_len > 0 ? args.max_q_len : problem.total_q;
  problem.max_rows = queries * shape.group;
  if (problem.max_rows >= q::kUnbounded || problem.total_q * shape.group >= q::kUnbounded) {
    refuse("max_q_len times the query heads of a KV head must be less than 2^30");
  }

  problem.invariant = (args.flags & QUERN_CALL_BATCH_INVARIANT) != 0;
  p.queries = q.data;
  p.out = out.data;
  p.lengths = ints(lengths);
  p.q_stride_token = q.strides[0];
  p.q_stride_head = q.strides[1];
  p.out_stride_token = out.strides[0];
  p.out_stride_head = out.strides[1];
  p.batch = static_cast<std::int32_t>(batch);
  p.invariant = problem.invariant;
  return problem;
}

}  // namespace quern::ops::attention
