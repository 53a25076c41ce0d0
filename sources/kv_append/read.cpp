// Reading the arguments of kv_append.
// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/read.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/kv_append/places.h"

namespace quern::ops::kv_append {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

class Reader {
 public:
  Reader(const quern_kv_append_args& args, const Call& call, Problem& problem)
      : args_(args), call_(call), problem_(problem), shape_(problem.shape), p_(problem.params) {}

  void read_keys_and_values() {
    const Tensor k = read_new(args_.k, "k", {Dtype::f16, Dtype::bf16, Dtype::f32});
    shape_.x = k.dtype;
    problem_.tokens = tokens_ = k.shape[0];
    shape_.dim_k = read_dim(k, "k");
    const Tensor v = read_new(args_.v, "v", {k.dtype});
    expect_extent(v, "v", 0, tokens_);
    expect_extent(v, "v", 1, k.shape[1]);
    shape_.dim_v = read_dim(v, "v");
    take_source(k, p_.heads[1]);
    take_source(v, p_.heads[2]);

    const Tensor k_cache = read_cache(args_.k_cache, "k_cache", shape_.dim_k);
    const Tensor v_cache = read_cache(args_.v_cache, "v_cache", shape_.dim_v);
    shape_.cache = k_cache.dtype;
    if (v_cache.dtype != k_cache.dtype) refuse_dtype("v_cache", args_.v_cache->dtype, {k_cache.dtype});
    for (int d = 0; d < 3; ++d) expect_extent(v_cache, "v_cache", d, k_cache.shape[d]);
    expect_extent(k_cache, "k_cache", 2, k.shape[1]);
    if (k_cache.shape[1] < 1) refuse_extent("k_cache", 1, k_cache.shape[1], "a page size of at least 1");
    p_.places.page_size = divisor(static_cast<std::int32_t>(k_cache.shape[1]));
    p_.places.page_count = k_cache.shape[0];
    take_cache(k_cache, p_.heads[1]);
    take_cache(v_cache, p_.heads[2]);
    read_cache_scales(k_cache);
  }

  void read_queries() {
    if (args_.q == nullptr) {
      refuse_unless_null(args_.q_out, "q_out", "without q");
      refuse_unless_null(args_.q_scale, "q_scale", "without q");
      refuse_unless_null(args_.q_weight, "q_weight", "without q");
      return;
    }
    const Tensor q = read_new(args_.q, "q", {shape_.x});
    expect_extent(q, "q", 0, tokens_);
    expect_extent(q, "q", 2, shape_.dim_k);
    Tensor out = q;
    if (args_.q_out != nullptr) {
      out = read_codes(args_.q_out, "q_out", 3, args_.q_type, "q_type", false);
      for (int d = 0; d < 3; ++d) expect_extent(out, "q_out", d, q.shape[d]);
      expect_unit_stride(out, "q_out", 2);
      expect_aligned(out, "q_out", alignment_of(out.dtype));
      expect_apart(out, "q_out");
      if (out.data != nullptr && out.data == q.data &&
          (out.dtype != q.dtype || out.strides[0] != q.strides[0] || out.strides[1] != q.strides[1])) {
        refuse("q_out is q, but its dtype or strides are others");
      }
    }
    shape_.q_out = out.dtype;
    q::AppendHeads& heads = p_.heads[0];
    take_source(q, heads);
    heads.to = out.data;
    heads.to_token = out.strides[0], heads.to_head = out.strides[1];
    if (args_.q_scale == nullptr) return;
    if (bytes_of(out.dtype) != 1) refuse("q_scale is given; it must be NULL unless q_out has 8 bits");
    shape_.find_q_scale = args_.q_scale->ndim == 2;
    if (!shape_.find_q_scale && args_.q_scale->ndim != 1) refuse_rank("q_scale", args_.q_scale->ndim, 1, 2);
    const Tensor scale = read(args_.q_scale, "q_scale", args_.q_scale->ndim, {Dtype::f32}, call_.place);
    if (shape_.find_q_scale) {
      expect_extent(scale, "q_scale", 0, tokens_);
      expect_extent(scale, "q_scale", 1, q.shape[1]);
      expect_apart(scale, "q_scale");
      heads.scale_token = scale.strides[0], heads.scale_head = scale.strides[1];
    } else {
      take_given_scale(scale, "q_scale", q.shape[1], heads);
    }
    heads.scale = reinterpret_cast<float*>(scale.data);
  }

  void read_norms() {
    if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) refuse_value("eps", double{args_.eps}, "0 and more");
    p_.eps = args_.eps;
    read_weight(args_.q_weight, "q_weight", p_.heads[0]);
    read_weight(args_.k_weight, "k_weight", p_.heads[1]);
    if (args_.flags & QUERN_KV_APPEND_WEIGHT_PLUS_ONE) {
      if (shape_.weight == Dtype::other)
        refuse("flags has QUERN_KV_APPEND_WEIGHT_PLUS_ONE; that needs q_weight or k_weight");
      p_.weight_offset = 1.0f;
    }
  }

  void read_places() { ops::kv_append::read_places(args_, tokens_, args_.rope != nullptr, call_.place, &p_.places); }

  void finish() {
    if (args_.rope != nullptr) {
      static_cast<rope::RopeShape&>(shape_) = rope::read_options(args_.rope, shape_.dim_k, call_.place, &p_.rope);
    }
    shape_.width = rope::vector_width(shape_, shape_.dim_k, shape_.dim_v, shape_.x, call_.alignment);
    const std::int64_t all = std::int64_t{p_.heads[0].heads} + p_.heads[1].heads + p_.heads[2].heads;
    if (tokens_ * all > INT32_MAX)
      refuse_extent("k", 0, tokens_, "less than 2^31 heads of tokens in all: split the call");
    const std::int64_t teams = std::int64_t{call_.sms} * kBlocksPerSm * kThreads / shape_.lanes();
    int strips = 0;
    for (q::AppendHeads& heads : p_.heads) {
      heads.strips = rope::strips_of(heads.heads, all, tokens_, teams);
      heads.rounds = heads.strips > 0 ? (heads.heads + heads.strips - 1) / heads.strips : 0;
      strips += heads.strips;
    }
    p_.strips = divisor(std::max(strips, 1));
    p_.tokens = strips == 0 ? 0 : static_cast<std::int32_t>(tokens_);
  }

 private:
  // Rows of 8 bits are half as long.
  int alignment_of(Dtype dtype) const { return bytes_of(dtype) == 1 ? std::min(call_.alignment, 8) : call_.alignment; }

  Tensor read_new(const DLTensor* given, const char* name, std::initializer_list<Dtype> dtypes) {
    const Tensor t = read(given, name, 3, dtypes, call_.place);
    expect_unit_stride(t, name, 2);
    expect_aligned(t, name, call_.alignment);
    return t;
  }
  int read_dim(const Tensor& t, const char* name) {
    if (t.shape[2] < 8 || t.shape[2] > kMostDim || t.shape[2] % 8 != 0)
      refuse_extent(name, 2, t.shape[2], "multiples of 8 from 8 to 1024");
    return static_cast<int>(t.shape[2]);
  }
  void take_source(const Tensor& t, q::AppendHeads& heads) {
    heads.from = t.data;
    heads.from_token = t.strides[0], heads.from_head = t.strides[1];
    heads.heads = static_cast<std::int32_t>(t.shape[1]);
  }

  // x's dtype, or 8 bits, bytes taken for what `type` says.
  Tensor read_codes(const DLTensor* given, const char* name, int rank, std::int32_t type, const char* type_name,
                    bool integers) {
    const Dtype dtype = given != nullptr ? dtype_of(given->dtype) : Dtype::other;
    if (dtype == Dtype::e4m3 || dtype == Dtype::e5m2 || dtype == Dtype::u8)
      return read_fp8(given, name, rank, type, type_name, call_.place);
    if (type != QUERN_FP8_AS_TENSOR)
      refuse_value(type_name, std::int64_t{type}, "0, unless the tensor is uint8, e4m3 or e5m2");
    if (integers)
      return read(given, name, rank, {shape_.x, Dtype::i8, Dtype::e4m3, Dtype::e5m2, Dtype::u8}, call_.place);
    return read(given, name, rank, {shape_.x, Dtype::e4m3, Dtype::e5m2, Dtype::u8}, call_.place);
  }
  Tensor read_cache(const DLTensor* given, const char* name, int dim) {
    const Tensor t = read_codes(given, name, 4, args_.kv_type, "kv_type", true);
    expect_extent(t, name, 3, dim);
    expect_unit_stride(t, name, 3);
    expect_aligned(t, name, alignment_of(t.dtype));
    expect_apart(t, name);
    return t;
  }
  void take_cache(const Tensor& t, q::AppendHeads& heads) {
    heads.to = t.data;
    heads.to_page = t.strides[0], heads.to_token = t.strides[1], heads.to_head = t.strides[2];
  }

  void take_given_scale(const Tensor& scale, const char* name, std::int64_t count, q::AppendHeads& heads) {
    if (scale.shape[0] != 1 && scale.shape[0] != count)
      refuse_extent(name, 0, scale.shape[0], "1, or as many as there are heads");
    heads.scale_head = scale.shape[0] == 1 ? 0 : scale.strides[0];
  }
  void read_cache_scales(const Tensor& cache) {
    if (args_.k_scale == nullptr && args_.v_scale == nullptr) return;
    if (bytes_of(cache.dtype) != 1) {
      refuse(std::string(args_.k_scale != nullptr ? "k_scale" : "v_scale") +
             " is given; it must be NULL unless the cache has 8 bits");
    }
    const auto read_one = [&](const DLTensor* given, const char* name, q::AppendHeads& heads) {
      if (given == nullptr) return false;
      if (given->ndim != 1 && given->ndim != 3) refuse_rank(name, given->ndim, 1, 3);
      const Tensor scale = read(given, name, given->ndim, {Dtype::f32}, call_.place);
      heads.scale = reinterpret_cast<float*>(scale.data);
      if (given->ndim == 1) {
        take_given_scale(scale, name, cache.shape[2], heads);
        return false;
      }
      for (int d = 0; d < 3; ++d) expect_extent(scale, name, d, cache.shape[d]);
      expect_apart(scale, name);
      heads.scale_page = scale.strides[0], heads.scale_token = scale.strides[1], heads.scale_head = scale.strides[2];
      return true;
    };
    const bool k = read_one(args_.k_scale, "k_scale", p_.heads[1]), v = read_one(args_.v_scale, "v_scale", p_.heads[2]);
    if (k != v) refuse("k_scale and v_scale must both be a scale a token and head, or neither");
    shape_.find_cache_scale = k;
  }

  void read_weight(const DLTensor* given, const char* name, q::AppendHeads& heads) {
    if (given == nullptr) return;
    const Tensor t = read(given, name, 1, {shape_.x, Dtype::f32}, call_.place);
    expect_extent(t, name, 0, shape_.dim_k);
    expect_unit_stride(t, name, 0);
    if (shape_.weight != Dtype::other && shape_.weight != t.dtype) refuse_dtype(name, given->dtype, {shape_.weight});
    shape_.weight = t.dtype;
    heads.weight = t.data;
  }

  const quern_kv_append_args& args_;
  const Call& call_;
  Problem& problem_;
  Shape& shape_;
  q::KvAppendParams& p_;
  std::int64_t tokens_ = 0;
};

}  // namespace

Problem read_problem(const quern_kv_append_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, QUERN_KV_APPEND_WEIGHT_PLUS_ONE,
                              "enum quern_call_flags and quern_kv_append_flags", 4, may_lack_data);
  Problem problem{};
  Reader reader(args, call, problem);
  reader.read_keys_and_values();
  reader.read_queries();
  reader.read_norms();
  reader.read_places();
  reader.finish();
  problem.most_blocks = args.max_sms > 0 ? std::int64_t{call.sms} * kBlocksPerSm : INT32_MAX;
  return problem;
}

}  // namespace quern::ops::kv_append
