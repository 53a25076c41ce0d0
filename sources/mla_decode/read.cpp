// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_decode/read.h"

#include <algorithm>
#include <cmath>

#include "jit/error.h"

namespace quern::ops::mla_decode {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
constexpr std::uint32_t kFlags = QUERN_MLA_CAUSAL | QUERN_MLA_WINDOW_LEFT | QUERN_MLA_WINDOW_RIGHT | QUERN_MLA_SLOTS;
constexpr std::int64_t kRows656 = 656, kRows656Rope = 528;

[[noreturn]] void refuse(const char* text) { throw Error(QUERN_INVALID, text); }

const std::int32_t* ints(const Tensor& t) { return reinterpret_cast<const std::int32_t*>(t.data); }
const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.data); }

// A one-dimensional array of a given or of any length.
Tensor read_array(const DLTensor* given, const char* name, Dtype dtype, std::int64_t length, const Place& place) {
  const Tensor t = read(given, name, 1, {dtype}, place);
  if (length >= 0) expect_extent(t, name, 0, length);
  expect_unit_stride(t, name, 0);
  return t;
}

int read_dim(const Tensor& t, const char* name, std::int64_t dim, int least, int most) {
  if (dim < least || dim > most || dim % 16 != 0) {
    refuse_extent(name, 2, t.shape[2],
                  least == 0 ? "d_latent + d_rope, d_rope a multiple of 16 from 0 to 128"
                             : "d_latent, a multiple of 16 from 16 to 512");
  }
  return static_cast<int>(dim);
}

// q and out, which says what d_latent is.
void read_queries(const quern_mla_decode_args& args, Problem& problem) {
  const Place& place = problem.call.place;
  q::MlaParams& p = problem.params;
  Shape& shape = problem.shape;
  const Tensor q = read(args.q, "q", 3, {Dtype::f16, Dtype::bf16}, place);
  shape.element = q.dtype;
  const Tensor out = read(args.out, "out", 3, {Dtype::f16, Dtype::bf16}, place);
  if (out.dtype != q.dtype) refuse_dtype("out", args.out->dtype, {q.dtype});
  shape.d_latent = read_dim(out, "out", out.shape[2], 16, kMaxLatent);
  expect_extent(out, "out", 0, q.shape[0]);
  expect_extent(out, "out", 1, q.shape[1]);
  for (const auto& [tensor, name] : {std::pair(&q, "q"), std::pair(&out, "out")}) {
    expect_unit_stride(*tensor, name, 2);
    expect_aligned(*tensor, name, problem.call.alignment);
  }
  if (q.shape[1] < 1) refuse_extent("q", 1, q.shape[1], "at least one head");
  p.q = q.data;
  p.q_stride_token = q.strides[0];
  p.q_stride_head = q.strides[1];
  if (args.q_rope != nullptr) {
    expect_extent(q, "q", 2, shape.d_latent);
    const Tensor rope = read(args.q_rope, "q_rope", 3, {Dtype::f16, Dtype::bf16}, place);
    if (rope.dtype != q.dtype) refuse_dtype("q_rope", args.q_rope->dtype, {q.dtype});
    expect_extent(rope, "q_rope", 0, q.shape[0]);
    expect_extent(rope, "q_rope", 1, q.shape[1]);
    expect_unit_stride(rope, "q_rope", 2);
    expect_aligned(rope, "q_rope", problem.call.alignment);
    shape.d_rope = read_dim(rope, "q_rope", rope.shape[2], 0, kMaxRope);
    p.q_rope = rope.data;
    p.q_rope_stride_token = rope.strides[0];
    p.q_rope_stride_head = rope.strides[1];
  } else {
    shape.d_rope = read_dim(q, "q", q.shape[2] - shape.d_latent, 0, kMaxRope);
    p.q_rope = q.data == nullptr ? nullptr : q.data + 2 * shape.d_latent;
    p.q_rope_stride_token = q.strides[0];
    p.q_rope_stride_head = q.strides[1];
  }
  p.total_q = static_cast<std::int32_t>(q.shape[0]);
  p.heads = static_cast<std::int32_t>(q.shape[1]);
  p.out = out.data;
  p.out_stride_token = out.strides[0];
  p.out_stride_head = out.strides[1];
  if (args.lse != nullptr) {
    const Tensor lse = read(args.lse, "lse", 2, {Dtype::f32}, place);
    expect_extent(lse, "lse", 0, q.shape[0]);
    expect_extent(lse, "lse", 1, q.shape[1]);
    p.lse = reinterpret_cast<float*>(lse.data);
    p.lse_stride_token = lse.strides[0];
    p.lse_stride_head = lse.strides[1];
  }
  if (args.sinks != nullptr) p.sinks = floats(read_array(args.sinks, "sinks", Dtype::f32, p.heads, place));
}

// One of the two pools, or that of both parts.
Tensor read_pool(const DLTensor* given, const char* name, const Problem& problem, Dtype dtype, std::int64_t columns) {
  const Tensor t = read(given, name, 3, {Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::u8}, problem.call.place);
  if (t.dtype != dtype) refuse_dtype(name, given->dtype, {dtype});
  expect_extent(t, name, 2, columns);
  if (t.shape[1] < 1) refuse_extent(name, 1, t.shape[1], "a page size of at least 1");
  expect_unit_stride(t, name, 2);
  expect_aligned(t, name, problem.call.alignment);
  return t;
}

void read_cache(const quern_mla_decode_args& args, Problem& problem) {
  q::MlaParams& p = problem.params;
  Shape& shape = problem.shape;
  if (args.cache == nullptr) refuse_missing("cache");
  const Dtype given = dtype_of(args.cache->dtype);
  if (args.cache_type < QUERN_MLA_CACHE_AS_TENSOR || args.cache_type > QUERN_MLA_CACHE_ROWS_656) {
    refuse_value("cache_type", std::int64_t{args.cache_type}, "enum quern_mla_cache");
  }
  const bool rows656 = args.cache_type == QUERN_MLA_CACHE_ROWS_656;
  const bool bytes = args.cache_type != QUERN_MLA_CACHE_AS_TENSOR;
  if (bytes && given != Dtype::u8 && (rows656 || given != Dtype::e4m3))
    refuse_dtype("cache", args.cache->dtype, {Dtype::u8});
  const bool quantised = bytes || given == Dtype::e4m3;
  if (!quantised && given != shape.element) refuse_dtype("cache", args.cache->dtype, {shape.element, Dtype::e4m3});
  const std::int64_t size = quantised ? 1 : 2;
  const std::int64_t columns = shape.d_latent + (args.cache_rope == nullptr ? shape.d_rope : 0);
  if (rows656) {
    if (shape.d_latent != 512 || shape.d_rope != 64) {
      refuse("cache_type QUERN_MLA_CACHE_ROWS_656 holds d_latent 512 and d_rope 64; out and q say otherwise");
    }
    if (args.cache_rope != nullptr)
      refuse("cache_rope must be NULL with QUERN_MLA_CACHE_ROWS_656, whose rows hold both parts");
  }
  const Tensor cache = read_pool(args.cache, "cache", problem, given, rows656 ? kRows656 : columns);
  p.latent = cache.data;
  p.latent_page_bytes = cache.strides[0] * size;
  p.latent_token_bytes = cache.strides[1] * size;
  p.page_size = static_cast<std::int32_t>(cache.shape[1]);
  p.pool_pages = static_cast<std::int32_t>(cache.shape[0]);
  p.rope = cache.data == nullptr ? nullptr : cache.data + (rows656 ? kRows656Rope : shape.d_latent * size);
  p.rope_page_bytes = p.latent_page_bytes;
  p.rope_token_bytes = p.latent_token_bytes;
  if (args.cache_rope != nullptr) {
    const Tensor rope = read_pool(args.cache_rope, "cache_rope", problem, given, shape.d_rope);
    expect_extent(rope, "cache_rope", 0, cache.shape[0]);
    expect_extent(rope, "cache_rope", 1, cache.shape[1]);
    p.rope = rope.data;
    p.rope_page_bytes = rope.strides[0] * size;
    p.rope_token_bytes = rope.strides[1] * size;
  }
  shape.kind = rows656 ? q::CacheKind::rows656 : q::CacheKind::plain;
  if (!quantised || rows656) {
    if (args.cache_scale != nullptr) refuse("cache_scale must be NULL: only an e4m3 cache has scales beside it");
    return;
  }
  if (args.cache_scale == nullptr) refuse_missing("cache_scale");
  const bool per_tensor = args.cache_scale->ndim == 1;
  shape.kind = per_tensor ? q::CacheKind::e4m3_tensor : q::CacheKind::e4m3_token;
  const Tensor scale = read(args.cache_scale, "cache_scale", per_tensor ? 1 : 2, {Dtype::f32}, problem.call.place);
  expect_extent(scale, "cache_scale", 0, per_tensor ? 1 : cache.shape[0]);
  if (!per_tensor) expect_extent(scale, "cache_scale", 1, cache.shape[1]);
  p.cache_scale = floats(scale);
  p.scale_stride_page = scale.strides[0];
  p.scale_stride_token = per_tensor ? 0 : scale.strides[1];
}

void read_sequences(const quern_mla_decode_args& args, Problem& problem) {
  const Place& place = problem.call.place;
  q::MlaParams& p = problem.params;
  if (problem.shape.indexed == Indexed::slots) {
    if (args.lengths != nullptr || args.cu_q != nullptr || args.page_table != nullptr || args.page_indptr != nullptr ||
        args.page_indices != nullptr) {
      refuse("lengths, cu_q, page_table, page_indptr and page_indices must be NULL with QUERN_MLA_SLOTS");
    }
    p.batch = p.total_q;
    p.max_q_len = 1;
    p.max_keys = p.top_k;
    return;
  }
  const Tensor lengths = read_array(args.lengths, "lengths", Dtype::i32, -1, place);
  const std::int64_t batch = lengths.shape[0];
  p.lengths = ints(lengths);
  p.batch = static_cast<std::int32_t>(batch);
  if (args.max_q_len < 0) refuse_value("max_q_len", std::int64_t{args.max_q_len}, "0 and more");
  p.max_q_len = 1;
  if (args.cu_q != nullptr) {
    p.cu_q = ints(read_array(args.cu_q, "cu_q", Dtype::i32, batch + 1, place));
    p.max_q_len = args.max_q_len > 0 ? args.max_q_len : p.total_q;
  } else {
    if (args.max_q_len > 1) refuse_value("max_q_len", std::int64_t{args.max_q_len}, "0 or 1, where cu_q is NULL");
    if (p.total_q < batch) refuse_extent("q", 0, p.total_q, "at least the batch, where cu_q is NULL");
  }
  if (args.max_kv_len < 1 || args.max_kv_len >= q::kUnbounded) {
    refuse_value("max_kv_len", std::int64_t{args.max_kv_len}, "the longest sequence's keys, 1 to 2^30 - 2");
  }
  const bool table = args.page_table != nullptr, listed = args.page_indices != nullptr || args.page_indptr != nullptr;
  if (table == listed) refuse("exactly one of page_table, and page_indptr with page_indices, must be given");
  if (table) {
    const Tensor t = read(args.page_table, "page_table", 2, {Dtype::i32}, place);
    expect_extent(t, "page_table", 0, batch);
    expect_unit_stride(t, "page_table", 1);
    p.pages = ints(t);
    p.pages_stride = t.strides[0];
    p.listed_pages = static_cast<std::int32_t>(t.shape[1]);
  } else {
    p.page_indptr = ints(read_array(args.page_indptr, "page_indptr", Dtype::i32, batch + 1, place));
    const Tensor t = read_array(args.page_indices, "page_indices", Dtype::i32, -1, place);
    p.pages = ints(t);
    p.listed_pages = static_cast<std::int32_t>(t.shape[0]);
  }
  const std::int64_t room = static_cast<std::int64_t>(p.listed_pages) * p.page_size;
  p.max_keys = static_cast<std::int32_t>(std::min<std::int64_t>(room, args.max_kv_len));
}

void read_mask(const quern_mla_decode_args& args, q::MlaParams& p) {
  p.window_left = p.window_right = q::kUnbounded;
  if (args.flags & QUERN_MLA_WINDOW_LEFT) {
    if (args.window_left < 0) refuse_value("window_left", std::int64_t{args.window_left}, "0 and more");
    p.window_left = std::min(args.window_left, q::kUnbounded);
  }
  if (args.flags & QUERN_MLA_WINDOW_RIGHT) {
    if (args.window_right < 0) refuse_value("window_right", std::int64_t{args.window_right}, "0 and more");
    p.window_right = std::min(args.window_right, q::kUnbounded);
  }
  if (args.flags & QUERN_MLA_CAUSAL) p.window_right = 0;
}

void read_indices(const quern_mla_decode_args& args, Problem& problem) {
  q::MlaParams& p = problem.params;
  constexpr std::uint32_t kMasks = QUERN_MLA_CAUSAL | QUERN_MLA_WINDOW_LEFT | QUERN_MLA_WINDOW_RIGHT;
  const bool slots = (args.flags & QUERN_MLA_SLOTS) != 0;
  problem.shape.indexed = args.indices == nullptr ? Indexed::no : slots ? Indexed::slots : Indexed::positions;
  if (args.indices == nullptr) {
    if (slots) refuse("indices is NULL; QUERN_MLA_SLOTS says that it holds places in the pool");
    return;
  }
  if (slots && (args.flags & kMasks))
    refuse("flags: QUERN_MLA_SLOTS has no positions that a causal mask or window could go by");
  const Tensor t = read(args.indices, "indices", 2, {Dtype::i32}, problem.call.place);
  expect_extent(t, "indices", 0, p.total_q);
  expect_unit_stride(t, "indices", 1);
  if (t.shape[1] < 1 || t.shape[1] >= q::kUnbounded) refuse_extent("indices", 1, t.shape[1], "1 to 2^30 - 2 keys");
  p.indices = ints(t);
  p.indices_stride = t.strides[0];
  p.top_k = static_cast<std::int32_t>(t.shape[1]);
}

}  // namespace

Problem read_problem(const Runtime& runtime, const quern_mla_decode_args& args, bool may_lack_data) {
  Problem problem{
      {}, {}, read_call(runtime, args, kFlags, "enum quern_call_flags and quern_mla_flags", 4, may_lack_data)};
  Shape& shape = problem.shape;
  q::MlaParams& p = problem.params;
  shape.copy_bytes = problem.call.alignment == 16 ? 16 : 4;
  read_queries(args, problem);
  read_cache(args, problem);
  read_indices(args, problem);
  read_sequences(args, problem);
  read_mask(args, p);
  if (args.status != nullptr) {
    p.status =
        reinterpret_cast<std::uint32_t*>(read_array(args.status, "status", Dtype::i32, 1, problem.call.place).data);
  }
  if (!(args.scale > 0.0f) || std::isinf(args.scale)) {
    refuse_value("scale", double{args.scale}, "a positive number: 1/sqrt of the head dim before absorption");
  }
  if (!(args.logit_cap >= 0.0f) || std::isinf(args.logit_cap)) {
    refuse_value("logit_cap", double{args.logit_cap}, "0 (none) or a positive number");
  }
  shape.cap = args.logit_cap > 0.0f;
  p.scale = shape.cap ? args.scale : args.scale * kLog2E;
  p.cap = args.logit_cap;
  p.max_q_len = std::min(p.max_q_len, p.total_q);
  if (static_cast<std::int64_t>(p.total_q) * p.heads >= q::kUnbounded) {
    refuse("the query tokens times the heads must be less than 2^30");
  }
  p.invariant = (args.flags & QUERN_CALL_BATCH_INVARIANT) != 0;
  const std::int64_t queries = shape.indexed == Indexed::no ? p.max_q_len : 1;
  choose_variant(problem, p.invariant ? q::kUnbounded : queries * p.heads);
  return problem;
}

void choose_variant(Problem& problem, std::int64_t most_rows) {
  Shape& shape = problem.shape;
  const q::MlaParams& p = problem.params;
  shape.variant = variant_of(shape, p.heads, most_rows, p.page_size, problem.call.device->limits);
  shape.paired = is_paired(shape, p.heads);
  shape.page_rows = shape.variant == Variant::rows64 ? page_rows_of(p.page_size) : Shape().page_rows;
}

}  // namespace quern::ops::mla_decode
