// Reading the arguments of mla_append.
// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_append/read.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/kv_append/places.h"
#include "sources/rope/heads.h"

namespace quern::ops::mla_append {
namespace {

using kv_append::refuse_unless_null;

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

class Reader {
 public:
  Reader(const quern_mla_append_args& args, const Call& call, Problem& problem)
      : args_(args), call_(call), shape_(problem.shape), p_(problem.params) {}

  void read_new_tokens() {
    const Tensor kv = read_rows(args_.kv, "kv", {Dtype::f16, Dtype::bf16});
    shape_.element = kv.dtype;
    shape_.alignment = call_.alignment;
    tokens_ = kv.shape[0];
    shape_.d_rope = read_d_rope();
    const std::int64_t latent = kv.shape[1] - (args_.k_rope == nullptr ? shape_.d_rope : 0);
    if (latent < 16 || latent > kMostLatent || latent % 16 != 0) {
      refuse_extent("kv", 1, kv.shape[1],
                    args_.k_rope == nullptr ? "d_rope more than d_latent, a multiple of 16 from 16 to 512"
                                            : "d_latent, a multiple of 16 from 16 to 512");
    }
    shape_.d_latent = static_cast<int>(latent);
    p_.latent = kv.data, p_.latent_token = kv.strides[0];
    p_.k_rope = kv.data == nullptr ? nullptr : kv.data + 2 * latent, p_.k_rope_token = kv.strides[0];
    if (args_.k_rope == nullptr) return;
    const Tensor rope = read_rows(args_.k_rope, "k_rope", {kv.dtype});
    expect_extent(rope, "k_rope", 0, tokens_);
    p_.k_rope = rope.data, p_.k_rope_token = rope.strides[0];
  }

  void read_results() {
    if (args_.k_rope_out != nullptr && (args_.kv_out == nullptr || args_.k_rope == nullptr))
      refuse("k_rope_out is given; it must be NULL without kv_out and k_rope");
    if (args_.kv_out == nullptr) return;
    if (args_.k_rope != nullptr && args_.k_rope_out == nullptr)
      refuse("k_rope_out is NULL; it must be given with kv_out and k_rope");
    const Tensor kv = read_result(args_.kv_out, "kv_out", *args_.kv, p_.latent, p_.latent_token);
    p_.latent_out = kv.data, p_.latent_out_token = kv.strides[0];
    p_.k_rope_out = kv.data == nullptr ? nullptr : kv.data + 2 * shape_.d_latent, p_.k_rope_out_token = kv.strides[0];
    if (args_.k_rope_out == nullptr) return;
    const Tensor rope = read_result(args_.k_rope_out, "k_rope_out", *args_.k_rope, p_.k_rope, p_.k_rope_token);
    p_.k_rope_out = rope.data, p_.k_rope_out_token = rope.strides[0];
  }

  void read_norm() {
    if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) refuse_value("eps", double{args_.eps}, "0 and more");
    p_.eps = args_.eps;
    if (args_.weight == nullptr) return;
    const Tensor t = read(args_.weight, "weight", 1, {shape_.element, Dtype::f32}, call_.place);
    expect_extent(t, "weight", 0, shape_.d_latent);
    expect_unit_stride(t, "weight", 0);
    expect_aligned(t, "weight", call_.alignment);
    shape_.weight = t.dtype;
    p_.weight = t.data;
  }

  void read_cache() {
    if (args_.cache == nullptr) refuse_missing("cache");
    if (args_.cache_type < QUERN_MLA_CACHE_AS_TENSOR || args_.cache_type > QUERN_MLA_CACHE_ROWS_656)
      refuse_value("cache_type", std::int64_t{args_.cache_type}, "enum quern_mla_cache");
    const Dtype given = dtype_of(args_.cache->dtype);
    const bool rows656 = args_.cache_type == QUERN_MLA_CACHE_ROWS_656;
    if (rows656 && (shape_.d_latent != 512 || shape_.d_rope != 64))
      refuse("cache_type QUERN_MLA_CACHE_ROWS_656 holds d_latent 512 and d_rope 64; kv says otherwise");
    if (rows656) refuse_unless_null(args_.cache_rope, "cache_rope", "with QUERN_MLA_CACHE_ROWS_656");
    if (rows656 ? given != Dtype::u8 : args_.cache_type != 0 && given != Dtype::u8 && given != Dtype::e4m3)
      refuse_dtype("cache", args_.cache->dtype, {Dtype::u8});
    const bool codes = args_.cache_type != QUERN_MLA_CACHE_AS_TENSOR || given == Dtype::e4m3;
    if (!codes && given != shape_.element) refuse_dtype("cache", args_.cache->dtype, {shape_.element, Dtype::e4m3});
    const std::int64_t size = codes ? 1 : 2;
    const std::int64_t rope_part = args_.cache_rope == nullptr ? shape_.d_rope : 0;
    const Tensor cache = read_pool(args_.cache, "cache", given, rows656 ? 656 : shape_.d_latent + rope_part);
    if (cache.shape[1] < 1) refuse_extent("cache", 1, cache.shape[1], "a page size of at least 1");
    p_.cache = cache.data;
    p_.page_bytes = p_.rope_page_bytes = cache.strides[0] * size;
    p_.place_bytes = p_.rope_place_bytes = cache.strides[1] * size;
    p_.cache_rope = cache.data + (rows656 ? std::int64_t{q::kRopeAt} : shape_.d_latent * size);
    p_.places.page_size = divisor(static_cast<std::int32_t>(cache.shape[1]));
    p_.places.page_count = cache.shape[0];
    if (args_.cache_rope != nullptr) {
      if (shape_.d_rope == 0) refuse("cache_rope is given; it must be NULL where there is no rope part");
      const Tensor rope = read_pool(args_.cache_rope, "cache_rope", given, shape_.d_rope);
      for (int d = 0; d < 2; ++d) expect_extent(rope, "cache_rope", d, cache.shape[d]);
      p_.cache_rope = rope.data;
      p_.rope_page_bytes = rope.strides[0] * size, p_.rope_place_bytes = rope.strides[1] * size;
    }
    shape_.kind = rows656 ? q::CacheKind::rows656 : q::CacheKind::plain;
    read_scale(cache, codes && !rows656);
  }

  void read_queries() {
    if (args_.q_rope == nullptr) {
      refuse_unless_null(args_.q_rope_out, "q_rope_out", "without q_rope");
      return;
    }
    if (args_.rope == nullptr) refuse("rope is NULL; it must be given with q_rope");
    p_.queries = rope::read_heads(args_.q_rope, "q_rope", args_.q_rope_out, "q_rope_out", shape_.element, call_,
                                  tokens_, shape_.d_rope);
    shape_.queries = true;
  }

  void read_rest() {
    kv_append::read_places(args_, tokens_, args_.rope != nullptr, call_.place, &p_.places);
    if (args_.rope != nullptr) {
      if (shape_.d_rope == 0) refuse("rope is given; it must be NULL where there is no rope part");
      static_cast<rope::RopeShape&>(shape_) = rope::read_options(args_.rope, shape_.d_rope, call_.place, &p_.rope);
    }
    if (args_.status != nullptr) {
      const Tensor t = read(args_.status, "status", 1, {Dtype::i32}, call_.place);
      expect_extent(t, "status", 0, 1);
      p_.status = reinterpret_cast<std::uint32_t*>(t.data);
    }
    if (args_.reserved != 0) refuse_value("reserved", std::int64_t{args_.reserved}, "0");
    p_.power_of_two = (args_.flags & QUERN_MLA_APPEND_POWER_OF_TWO) != 0;
    p_.tokens = static_cast<std::int32_t>(tokens_);
    q::RopeHeads& heads = p_.queries;
    if (tokens_ * heads.heads > INT32_MAX)
      refuse_extent("q_rope", 0, tokens_, "less than 2^31 heads of tokens in all: split the call");
    const std::int64_t teams = std::int64_t{call_.sms} * shape_.blocks_per_sm() * kThreads / shape_.rope_lanes();
    heads.strips = rope::strips_of(heads.heads, heads.heads, tokens_, teams);
    p_.strips = divisor(std::max(heads.strips, 1));
  }

 private:
  Tensor read_rows(const DLTensor* given, const char* name, std::initializer_list<Dtype> dtypes) {
    const Tensor t = read(given, name, 2, dtypes, call_.place);
    expect_unit_stride(t, name, 1);
    expect_aligned(t, name, call_.alignment);
    return t;
  }
  int read_d_rope() {
    std::int64_t d = args_.d_rope;
    if (args_.k_rope != nullptr) {
      const Tensor rope = read_rows(args_.k_rope, "k_rope", {shape_.element});
      d = rope.shape[1];
      if (args_.d_rope != 0 && args_.d_rope != d)
        refuse_value("d_rope", std::int64_t{args_.d_rope}, "0, or k_rope's last extent");
      if (d < 16 || d > kMostRope || d % 16 != 0) refuse_extent("k_rope", 1, d, "a multiple of 16 from 16 to 128");
    } else if (d < 0 || d > kMostRope || d % 16 != 0) {
      refuse_value("d_rope", d, "a multiple of 16 from 0 to 128");
    }
    return static_cast<int>(d);
  }
  // As `like`, which it may be, row for row.
  Tensor read_result(const DLTensor* given, const char* name, const DLTensor& like, const void* data,
                     std::int64_t stride) {
    const Tensor t = read_rows(given, name, {shape_.element});
    for (int d = 0; d < 2; ++d) expect_extent(t, name, d, like.shape[d]);
    expect_apart(t, name);
    if (t.data != nullptr && t.data == data && t.strides[0] != stride && t.shape[0] > 1)
      refuse_stride(name, 0, t.strides[0], "that of the tensor which it is");
    return t;
  }
  Tensor read_pool(const DLTensor* given, const char* name, Dtype dtype, std::int64_t columns) {
    const Tensor t = read(given, name, 3, {dtype}, call_.place);
    expect_extent(t, name, 2, columns);
    expect_unit_stride(t, name, 2);
    expect_aligned(t, name, call_.alignment);
    expect_apart(t, name);
    return t;
  }
  void read_scale(const Tensor& cache, bool needed) {
    if (!needed) {
      refuse_unless_null(args_.cache_scale, "cache_scale", "unless the cache is e4m3 with scales beside it");
      return;
    }
    if (args_.cache_scale == nullptr) refuse_missing("cache_scale");
    const bool per_tensor = args_.cache_scale->ndim == 1;
    const Tensor scale = read(args_.cache_scale, "cache_scale", per_tensor ? 1 : 2, {Dtype::f32}, call_.place);
    shape_.kind = per_tensor ? q::CacheKind::e4m3_tensor : q::CacheKind::e4m3_token;
    p_.cache_scale = reinterpret_cast<float*>(scale.data);
    if (per_tensor) {
      expect_extent(scale, "cache_scale", 0, 1);
      return;
    }
    for (int d = 0; d < 2; ++d) expect_extent(scale, "cache_scale", d, cache.shape[d]);
    expect_apart(scale, "cache_scale");
    p_.scale_page = scale.strides[0], p_.scale_place = scale.strides[1];
  }

  const quern_mla_append_args& args_;
  const Call& call_;
  Shape& shape_;
  q::MlaAppendParams& p_;
  std::int64_t tokens_ = 0;
};

}  // namespace

Problem read_problem(const quern_mla_append_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, QUERN_MLA_APPEND_POWER_OF_TWO,
                              "enum quern_call_flags and quern_mla_append_flags", 4, may_lack_data);
  Problem problem{};
  Reader reader(args, call, problem);
  reader.read_new_tokens();
  reader.read_results();
  reader.read_norm();
  reader.read_cache();
  reader.read_queries();
  reader.read_rest();
  problem.most_blocks = std::int64_t{call.sms} * problem.shape.blocks_per_sm();
  return problem;
}

}  // namespace quern::ops::mla_append
