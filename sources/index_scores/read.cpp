// Reading the arguments of index_scores.
// SPDX-License-Identifier: Apache-2.0
#include "sources/index_scores/read.h"

#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/divisor.h"
#include "sources/index_data.h"

namespace quern::ops::index_scores {
namespace {

constexpr std::uint32_t kFlags = QUERN_INDEX_SCORES_CAUSAL | QUERN_INDEX_SCORES_LEAVE_MASKED;

[[noreturn]] void refuse(const char* text) { throw Error(QUERN_INVALID, text); }

class Reader {
 public:
  Reader(const quern_index_scores_args& args, Problem& problem)
      : args_(args), place_(problem.call.place), shape_(problem.shape), p_(problem.params), call_(problem.call) {}

  void read_queries() {
    const Tensor q = read_codes(args_.q, "q", 3);
    shape_.code = q.dtype;
    if (q.shape[1] < 1 || q.shape[1] > kMostHeads) refuse_extent("q", 1, q.shape[1], "1 to 128 heads");
    if (q.shape[2] < 16 || q.shape[2] > kMostDim || q.shape[2] % 16 != 0)
      refuse_extent("q", 2, q.shape[2], "multiples of 16 from 16 to 256");
    if ((q.shape[1] + 15) / 16 * 16 * q.shape[2] > kMostNumbers)
      refuse_extent("q", 2, q.shape[2], "so many that heads, rounded up to 16, times d are at most 16384");
    shape_.dim = static_cast<int>(q.shape[2]);
    p_.total_q = static_cast<std::int32_t>(q.shape[0]), p_.heads = static_cast<std::int32_t>(q.shape[1]);
    p_.q = q.data, p_.q_token = q.strides[0], p_.q_head = q.strides[1];
    if (args_.q_scale != nullptr) {
      const Tensor scale = read_scale(args_.q_scale, "q_scale", 2, q.shape);
      p_.q_scale = floats(scale), p_.q_scale_token = scale.strides[0], p_.q_scale_head = scale.strides[1];
    }
    const Tensor weights = read(args_.weights, "weights", 2, {Dtype::f32}, place_);
    for (int d = 0; d < 2; ++d) expect_extent(weights, "weights", d, q.shape[d]);
    p_.weights = floats(weights), p_.weights_token = weights.strides[0], p_.weights_head = weights.strides[1];
    const Tensor out = read(args_.out, "out", 2, {Dtype::f32}, place_);
    expect_extent(out, "out", 0, q.shape[0]);
    if (out.shape[1] >= 1 << 30) refuse_extent("out", 1, out.shape[1], "less than 2^30 columns");
    expect_unit_stride(out, "out", 1);
    expect_apart(out, "out");
    p_.out = reinterpret_cast<float*>(out.data), p_.out_token = out.strides[0];
    p_.columns = static_cast<std::int32_t>(out.shape[1]);
  }

  void read_keys() {
    shape_.ragged = args_.cu_kv != nullptr;
    const int rank = shape_.ragged ? 2 : 3;
    const Tensor k = read_codes(args_.k, "k", rank);
    if (k.dtype != shape_.code) refuse_dtype("k", args_.k->dtype, {shape_.code});
    expect_extent(k, "k", rank - 1, shape_.dim);
    if (!shape_.ragged && k.shape[1] < 1) refuse_extent("k", 1, k.shape[1], "a page size of at least 1");
    p_.k = k.data;
    p_.k_page = shape_.ragged ? 0 : k.strides[0], p_.k_place = k.strides[rank - 2];
    p_.page_size = divisor(shape_.ragged ? 1 : static_cast<std::int32_t>(k.shape[1]));
    p_.pool_pages = static_cast<std::int32_t>(k.shape[0]);
    if (args_.k_scale == nullptr) return;
    const Tensor scale = read_scale(args_.k_scale, "k_scale", rank - 1, k.shape);
    p_.k_scale = floats(scale);
    p_.k_scale_page = shape_.ragged ? 0 : scale.strides[0];
    p_.k_scale_place = scale.strides[rank - 2];
  }

  void read_sequences() {
    const Tensor lengths = read_array(args_.lengths, "lengths", -1);
    const std::int64_t batch = lengths.shape[0];
    p_.lengths = ints(lengths), p_.batch = static_cast<std::int32_t>(batch);
    if (args_.max_q_len < 0) refuse_value("max_q_len", std::int64_t{args_.max_q_len}, "0 and more");
    p_.max_q_len = 1;
    if (args_.cu_q != nullptr) {
      p_.cu_q = ints(read_array(args_.cu_q, "cu_q", batch + 1));
      p_.max_q_len = args_.max_q_len > 0 ? args_.max_q_len : p_.total_q;
    } else {
      if (args_.max_q_len > 1) refuse_value("max_q_len", std::int64_t{args_.max_q_len}, "0 or 1, where cu_q is NULL");
      if (p_.total_q < batch) refuse_extent("q", 0, p_.total_q, "at least the batch, where cu_q is NULL");
    }
    const bool table = args_.page_table != nullptr,
               listed = args_.page_indptr != nullptr || args_.page_indices != nullptr;
    if (table + listed + shape_.ragged != 1)
      refuse("exactly one of page_table, page_indptr with page_indices, and cu_kv must be given");
    if (shape_.ragged) {
      p_.cu_kv = ints(read_array(args_.cu_kv, "cu_kv", batch + 1));
    } else if (table) {
      const Tensor t = read(args_.page_table, "page_table", 2, {Dtype::i32}, place_);
      expect_extent(t, "page_table", 0, batch);
      expect_unit_stride(t, "page_table", 1);
      p_.pages = ints(t), p_.pages_stride = t.strides[0], p_.listed_pages = static_cast<std::int32_t>(t.shape[1]);
    } else {
      p_.page_indptr = ints(read_array(args_.page_indptr, "page_indptr", batch + 1));
      const Tensor t = read_array(args_.page_indices, "page_indices", -1);
      p_.pages = ints(t), p_.listed_pages = static_cast<std::int32_t>(t.shape[0]);
    }
    if (args_.status != nullptr)
      p_.status = reinterpret_cast<std::uint32_t*>(read_array(args_.status, "status", 1).data);
    p_.causal = (args_.flags & QUERN_INDEX_SCORES_CAUSAL) != 0;
    p_.leave_masked = (args_.flags & QUERN_INDEX_SCORES_LEAVE_MASKED) != 0;
  }

 private:
  static const std::int32_t* ints(const Tensor& t) { return reinterpret_cast<const std::int32_t*>(t.data); }
  static const float* floats(const Tensor& t) { return reinterpret_cast<const float*>(t.data); }

  Tensor read_codes(const DLTensor* given, const char* name, int rank) {
    const Tensor t = read_fp8(given, name, rank, args_.q_type, "q_type", place_);
    expect_unit_stride(t, name, rank - 1);
    expect_aligned(t, name, call_.alignment == 16 ? 16 : 4);
    return t;
  }
  // [1], or of the extents `like`.
  Tensor read_scale(const DLTensor* given, const char* name, int rank, const std::int64_t* like) {
    const bool one = given->ndim == 1 && (rank != 1 || (given->shape != nullptr && given->shape[0] == 1));
    Tensor t = read(given, name, one ? 1 : rank, {Dtype::f32}, place_);
    if (one) {
      expect_extent(t, name, 0, 1);
      for (std::int64_t& stride : t.strides) stride = 0;
      return t;
    }
    for (int d = 0; d < rank; ++d) expect_extent(t, name, d, like[d]);
    return t;
  }
  Tensor read_array(const DLTensor* given, const char* name, std::int64_t length) {
    const Tensor t = read(given, name, 1, {Dtype::i32}, place_);
    if (length >= 0) expect_extent(t, name, 0, length);
    expect_unit_stride(t, name, 0);
    return t;
  }

  const quern_index_scores_args& args_;
  const Place& place_;
  Shape& shape_;
  q::IndexParams& p_;
  const Call& call_;
};

}  // namespace

Problem read_problem(const Runtime& runtime, const quern_index_scores_args& args, bool may_lack_data) {
  Problem problem{
      {}, {}, read_call(runtime, args, kFlags, "enum quern_call_flags and quern_index_scores_flags", 4, may_lack_data)};
  problem.shape.alignment = problem.call.alignment == 16 ? 16 : 4;
  Reader reader(args, problem);
  reader.read_queries();
  reader.read_keys();
  reader.read_sequences();
  q::IndexParams& p = problem.params;
  p.max_q_len = std::min(p.max_q_len, p.total_q);
  choose(problem.shape, p.heads, p.max_q_len, p.page_size.value, problem.call.device->limits);
  return problem;
}

void list_index_data(const Problem& problem, IndexList* list) {
  const q::IndexParams& p = problem.params;
  if (p.cu_q != nullptr) {
    list->offsets("cu_q", p.cu_q, p.batch, p.total_q, "sequence", "q's rows");
    list->extents("the queries of sequence #, by cu_q,", "cu_q", p.cu_q, p.batch, p.max_q_len, "max_q_len");
  }
  if (p.page_indptr != nullptr)
    list->offsets("page_indptr", p.page_indptr, p.batch, p.listed_pages, "sequence", "page_indices' entries");
  if (p.cu_kv != nullptr) list->offsets("cu_kv", p.cu_kv, p.batch, p.pool_pages, "sequence", "k's rows");
  list->in_range("lengths", p.lengths, p.batch, 0, p.columns, "sequence", "out's columns");
  constexpr const char* kRoom = "the keys that the sequence has room for";
  const std::int64_t size = p.page_size.value;
  if (p.cu_kv != nullptr) {
    list->rooms("lengths", p.lengths, p.cu_kv, p.batch, 1, "sequence", kRoom);
  } else if (p.page_indptr != nullptr) {
    list->rooms("lengths", p.lengths, p.page_indptr, p.batch, size, "sequence", kRoom);
  } else {
    list->in_range("lengths", p.lengths, p.batch, 0, std::int64_t{p.listed_pages} * size, "sequence", kRoom);
  }
  if (p.cu_kv == nullptr)
    list->pages(p.pages, p.page_indptr, p.pages_stride, p.lengths, p.batch, size, p.pool_pages, "k's pages");
}

}  // namespace quern::ops::index_scores
