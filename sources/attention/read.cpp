// SPDX-License-Identifier: Apache-2.0
#include "sources/attention/read.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"

namespace quern::ops::attention {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
constexpr std::uint32_t kKnownFlags = QUERN_CALL_BATCH_INVARIANT | QUERN_CALL_PROGRAMMATIC | QUERN_CALL_CACHED_ONLY |
                                      QUERN_CALL_BACKGROUND | QUERN_ATTENTION_CAUSAL | QUERN_ATTENTION_WINDOW_LEFT |
                                      QUERN_ATTENTION_WINDOW_RIGHT | QUERN_ATTENTION_CONSTANT_PAST;

[[noreturn]] void refuse(const char* text) { throw Error(QUERN_INVALID, text); }

int read_alignment(std::int32_t alignment) {
  if (alignment == 0) return 16;
  if (alignment != 4 && alignment != 8 && alignment != 16)
    refuse_value("alignment", std::int64_t{alignment}, "0 (16), 16, 8, 4");
  return alignment;
}

int read_dim(const Tensor& t, const char* name, int dimension) {
  const std::int64_t dim = t.shape[dimension];
  if (dim < 8 || dim > kMaxDim || dim % 8 != 0) refuse_extent(name, dimension, dim, "multiples of 8 from 8 to 1024");
  return static_cast<int>(dim);
}

// A stride that the kernel multiplies in 32 bits.
std::uint32_t stride_bytes(const Tensor& t, const char* name, int dimension) {
  const std::int64_t bytes = t.shape[dimension] > 1 ? t.strides[dimension] * bytes_of(t.dtype) : 0;
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

// Rows of 8 bits may be an odd number of 8 bytes.
int alignment_of(const Tensor& t, int alignment) {
  return t.shape[t.rank - 1] * bytes_of(t.dtype) % 16 == 0 ? alignment : std::min(alignment, 8);
}

// Keys or values: of the model's element or of 8 bits, bytes taken for what kv_type says.
Tensor read_cache(const DLTensor* given, const char* name, int rank, Dtype element, std::int32_t type,
                  const Place& place) {
  const Dtype dtype = given != nullptr ? dtype_of(given->dtype) : Dtype::other;
  if (dtype == Dtype::e4m3 || dtype == Dtype::e5m2 || dtype == Dtype::u8)
    return read_fp8(given, name, rank, type, "kv_type", place);
  if (type != QUERN_FP8_AS_TENSOR)
    refuse_value("kv_type", std::int64_t{type}, "0, unless k and v are uint8, e4m3 or e5m2");
  return read(given, name, rank, {element, Dtype::i8, Dtype::e4m3, Dtype::e5m2, Dtype::u8}, place);
}

// Of keys or values, `cache`. True where every token and head has its own.
bool read_cache_scale(const DLTensor* given, const char* name, const Tensor& cache, const Place& place,
                      const float** data, std::int64_t (&strides)[3]) {
  if (given == nullptr) return false;
  if (bytes_of(cache.dtype) != 1)
    refuse((std::string(name) + " is given; it must be NULL unless k and v have 8 bits").c_str());
  const int all = cache.rank - 1;
  if (given->ndim != 1 && given->ndim != all) refuse_rank(name, given->ndim, 1, all);
  const Tensor scale = read(given, name, given->ndim, {Dtype::f32}, place);
  *data = floats(scale);
  if (given->ndim == 1) {
    const std::int64_t heads = cache.shape[cache.rank - 2];
    if (scale.shape[0] != 1 && scale.shape[0] != heads)
      refuse_extent(name, 0, scale.shape[0], "1, or as many as k has heads");
    strides[2] = scale.shape[0] == 1 ? 0 : scale.strides[0];
    return false;
  }
  for (int d = 0; d < all; ++d) expect_extent(scale, name, d, cache.shape[d]);
  if (all == 3) strides[0] = scale.strides[0];
  strides[1] = scale.strides[all - 2];
  strides[2] = scale.strides[all - 1];
  return true;
}

void read_keys_and_values(const quern_attention_args& args, const Place& place, int alignment, Problem& problem) {
  q::AttentionParams& p = problem.params;
  Shape& shape = problem.shape;
  const int rank = shape.paged ? 4 : 3, head = rank - 2, dim = rank - 1;
  const Tensor k = read_cache(args.k, "k", rank, shape.element, args.kv_type, place);
  const Tensor v = read_cache(args.v, "v", rank, shape.element, args.kv_type, place);
  if (v.dtype != k.dtype) refuse_dtype("v", args.v->dtype, {k.dtype});
  shape.cache = k.dtype;
  expect_extent(k, "k", dim, shape.dim_k);
  shape.dim_v = read_dim(v, "v", dim);
  expect_unit_stride(k, "k", dim);
  expect_unit_stride(v, "v", dim);
  expect_aligned(k, "k", alignment_of(k, alignment));
  expect_aligned(v, "v", alignment_of(v, alignment));
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
  p.k_stride_head = k.strides[head] * bytes_of(k.dtype);
  p.v_stride_head = v.strides[head] * bytes_of(v.dtype);
  p.kv_heads = static_cast<std::int32_t>(k.shape[head]);
  std::int64_t k_scale[3] = {}, v_scale[3] = {};
  if (const char* refusal = refusal_of_wide(shape)) refuse(refusal);
  shape.token_scales = read_cache_scale(args.k_scale, "k_scale", k, place, &p.k_scale, k_scale);
  if (read_cache_scale(args.v_scale, "v_scale", v, place, &p.v_scale, v_scale) != shape.token_scales) {
    refuse("k_scale and v_scale must both be a scale a token and head, or neither");
  }
  p.k_scale_stride_page = k_scale[0], p.k_scale_stride_token = k_scale[1], p.k_scale_stride_head = k_scale[2];
  p.v_scale_stride_page = v_scale[0], p.v_scale_stride_token = v_scale[1], p.v_scale_stride_head = v_scale[2];
}

// Queries of out's element, or of 8 bits with their scales.
Tensor read_queries(const quern_attention_args& args, const Place& place) {
  const Dtype dtype = args.q != nullptr ? dtype_of(args.q->dtype) : Dtype::other;
  if (dtype == Dtype::e4m3 || dtype == Dtype::e5m2 || dtype == Dtype::u8)
    return read_fp8(args.q, "q", 3, args.q_type, "q_type", place);
  if (args.q_type != QUERN_FP8_AS_TENSOR)
    refuse_value("q_type", std::int64_t{args.q_type}, "0, unless q is uint8, e4m3 or e5m2");
  return read(args.q, "q", 3, {Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::u8}, place);
}
void read_query_scale(const quern_attention_args& args, const Tensor& q, const Place& place, q::AttentionParams& p) {
  if (args.q_scale == nullptr) return;
  if (bytes_of(q.dtype) != 1) refuse("q_scale is given; it must be NULL unless q has 8 bits");
  if (args.q_scale->ndim != 1 && args.q_scale->ndim != 2) refuse_rank("q_scale", args.q_scale->ndim, 1, 2);
  const Tensor scale = read(args.q_scale, "q_scale", args.q_scale->ndim, {Dtype::f32}, place);
  p.q_scale = floats(scale);
  if (scale.rank == 2) {
    expect_extent(scale, "q_scale", 0, q.shape[0]);
    expect_extent(scale, "q_scale", 1, q.shape[1]);
    p.q_scale_stride_token = scale.strides[0], p.q_scale_stride_head = scale.strides[1];
  } else {
    if (scale.shape[0] != 1 && scale.shape[0] != q.shape[1])
      refuse_extent("q_scale", 0, scale.shape[0], "1, or as many as q has heads");
    p.q_scale_stride_head = scale.shape[0] == 1 ? 0 : scale.strides[0];
  }
}

// Results: what is multiplied is of their dtype, or where they have 8 bits of that of q, else of k.
Tensor read_results(const quern_attention_args& args, const Tensor& q, const Place& place, Shape& shape) {
  const Dtype dtype = args.out != nullptr ? dtype_of(args.out->dtype) : Dtype::other;
  if (dtype == Dtype::e4m3 || dtype == Dtype::e5m2 || dtype == Dtype::u8) {
    const Tensor out = read_fp8(args.out, "out", 3, args.out_type, "out_type", place);
    const Dtype keys = args.k != nullptr ? dtype_of(args.k->dtype) : Dtype::other;
    shape.element = bytes_of(q.dtype) != 1 ? q.dtype : keys == Dtype::f16 ? keys : Dtype::bf16;
    shape.out = out.dtype;
    return out;
  }
  if (args.out_type != QUERN_FP8_AS_TENSOR)
    refuse_value("out_type", std::int64_t{args.out_type}, "0, unless out is uint8, e4m3 or e5m2");
  const Tensor out = read(args.out, "out", 3, {Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::u8}, place);
  if (bytes_of(q.dtype) != 1 && out.dtype != q.dtype)
    refuse_dtype("out", args.out->dtype, {q.dtype, Dtype::e4m3, Dtype::e5m2, Dtype::u8});
  shape.element = shape.out = out.dtype;
  return out;
}
void read_result_scale(const quern_attention_args& args, const Tensor& out, const Place& place, const Shape& shape,
                       q::AttentionParams& p) {
  if (!shape.codes_results()) {
    if (args.out_scale != nullptr) refuse("out_scale is given; it must be NULL unless out has 8 bits");
    return;
  }
  if (const char* refusal = refusal_of_coded_results(shape)) refuse(refusal);
  const Tensor scale = read(args.out_scale, "out_scale", 2, {Dtype::f32}, place);
  expect_extent(scale, "out_scale", 0, out.shape[0]);
  expect_extent(scale, "out_scale", 1, out.shape[1] * (shape.dim_v / q::kScaleGroup));
  expect_apart(scale, "out_scale");
  p.out_scale = reinterpret_cast<float*>(scale.data);
  p.out_scale_stride_token = scale.strides[0], p.out_scale_stride_group = scale.strides[1];
}

void read_custom_mask(const quern_attention_args& args, const Place& place, std::int64_t batch, Problem& problem) {
  if (args.mask == nullptr) {
    if (args.mask_indptr != nullptr) refuse("mask_indptr is given; it must be NULL without mask");
    if (args.mask_keys != nullptr) refuse("mask_keys is given; it must be NULL without mask");
    return;
  }
  problem.shape.mask = true;
  problem.params.mask = read_array(args.mask, "mask", Dtype::u8, -1, place).data;
  problem.params.mask_indptr = ints(read_array(args.mask_indptr, "mask_indptr", Dtype::i32, batch + 1, place));
  problem.params.mask_keys = ints(read_array(args.mask_keys, "mask_keys", Dtype::i32, batch, place));
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

Problem read_problem(const quern_attention_args& args, const jit::DeviceInfo& device, bool may_lack_data,
                     LateTensors* late) {
  Problem problem{};
  Shape& shape = problem.shape;
  q::AttentionParams& p = problem.params;
  if (args.flags & ~kKnownFlags)
    refuse_value("flags", std::int64_t{args.flags}, "enum quern_call_flags and quern_attention_flags");
  const Place place{device.device_type, device.device_id, may_lack_data, late};
  const int alignment = read_alignment(args.alignment);
  shape.copy_bytes = alignment == 16 ? 16 : 4;

  const Tensor q = read_queries(args, place);
  const Tensor out = read_results(args, q, place, shape);
  shape.q = q.dtype;
  shape.dim_k = read_dim(q, "q", 2);
  expect_unit_stride(q, "q", 2);
  expect_aligned(q, "q", alignment_of(q, alignment));
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

  expect_extent(out, "out", 0, problem.total_q);
  expect_extent(out, "out", 1, heads);
  expect_extent(out, "out", 2, shape.dim_v);
  expect_unit_stride(out, "out", 2);
  expect_aligned(out, "out", alignment);
  read_result_scale(args, out, place, shape, p);
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
  read_query_scale(args, q, place, p);
  read_custom_mask(args, place, batch, problem);

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
  p.constant_past = (args.flags & QUERN_ATTENTION_CONSTANT_PAST) != 0;
  return problem;
}

}  // namespace quern::ops::attention
