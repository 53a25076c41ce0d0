// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_tensors.h"

#include "tests/ops/device.h"

namespace quern::test {

std::int64_t pages_of(const AttentionCase& c) {
  std::int64_t pages = 0;
  for (const Lengths& s : c.sequences) pages += (s.kv + c.page_size - 1) / c.page_size;
  return pages;
}

AttentionTensors::AttentionTensors(const AttentionCase& c, std::int64_t pages) {
  const DLDataType element = dtype_of(c.format);
  const std::int64_t heads = c.heads(), total = c.total_q(), batch = c.batch();
  const std::int64_t shift = c.offset / 2;
  const auto rows_of = [&](int dim) {
    RowLayout r;
    r.begin = shift;
    r.head = dim + c.padding;
    r.token = (c.sliced ? heads + 3 : heads) * r.head;
    if (c.sliced) r.begin += r.head;  // the first head is a neighbour's
    return r;
  };
  q_rows = rows_of(c.dim_k);
  out_rows = rows_of(c.v());
  q_elements = q_rows.begin + total * q_rows.token;
  out_elements = out_rows.begin + total * out_rows.token;
  lse_rows.head = 1;
  lse_rows.token = c.sliced ? heads + 3 : heads;
  lse_elements = total * lse_rows.token;

  const auto cache_of = [&](int dim) {
    const std::int64_t pitch = dim + c.padding, tokens = c.layout == Layout::ragged ? pages : c.page_size;
    CacheLayout l;
    l.begin = shift;
    l.page = tokens * c.kv_heads * pitch;
    l.token = c.layout == Layout::hnd ? pitch : c.kv_heads * pitch;
    l.head = c.layout == Layout::hnd ? tokens * pitch : pitch;
    return l;
  };
  k_cache = cache_of(c.dim_k);
  v_cache = cache_of(c.v());
  const std::int64_t count = c.layout == Layout::ragged ? 1 : pages;
  if (c.layout == Layout::interleaved) {
    v_cache.begin += k_cache.page;
    k_cache.page = v_cache.page = k_cache.page + v_cache.page;
    k_elements = shift + count * k_cache.page;
  } else {
    k_elements = shift + count * k_cache.page;
    v_elements = shift + count * v_cache.page;
  }

  const auto set_rows = [&](TensorBox& box, const RowLayout& l, int dim) {
    if (c.padding == 0 && !c.sliced) return box.set(element, {total, heads, dim});
    box.set(element, {total, heads, dim}, {l.token, l.head, 1});
  };
  set_rows(q, q_rows, c.dim_k);
  set_rows(out, out_rows, c.v());
  const auto set_cache = [&](TensorBox& box, const CacheLayout& l, int dim) {
    if (c.layout == Layout::ragged) return box.set(element, {pages, c.kv_heads, dim}, {l.token, l.head, 1});
    if (c.layout == Layout::nhd && c.padding == 0) return box.set(element, {pages, c.page_size, c.kv_heads, dim});
    box.set(element, {pages, c.page_size, c.kv_heads, dim}, {l.page, l.token, l.head, 1});
  };
  set_cache(k, k_cache, c.dim_k);
  set_cache(v, v_cache, c.v());
  lse.set(kFloat32, {total, heads}, {lse_rows.token, lse_rows.head});
  lengths.set(kInt32, {batch});
  cu_q.set(kInt32, {batch + 1});
  max_pages = (c.longest() + c.page_size - 1) / c.page_size + 1;
  page_table.set(kInt32, {batch, max_pages});
  page_indptr.set(kInt32, {batch + 1});
  page_indices.set(kInt32, {pages_of(c) + 2});
  cu_kv.set(kInt32, {batch + 1});
  alibi_slopes.set(kFloat32, {heads});
  sinks.set(kFloat32, {heads});

  args = sized<quern_attention_args>();
  args.flags = c.flags;
  if (c.causal) args.flags |= QUERN_ATTENTION_CAUSAL;
  if (c.left) args.flags |= QUERN_ATTENTION_WINDOW_LEFT, args.window_left = *c.left;
  if (c.right) args.flags |= QUERN_ATTENTION_WINDOW_RIGHT, args.window_right = *c.right;
  args.alignment = c.alignment;
  args.max_sms = c.max_sms;
  args.q = q.get();
  args.k = k.get();
  args.v = v.get();
  args.out = out.get();
  args.lse = c.lse ? lse.get() : nullptr;
  args.lengths = lengths.get();
  args.cu_q = c.one_query ? nullptr : cu_q.get();
  if (c.layout == Layout::ragged) {
    args.cu_kv = cu_kv.get();
  } else if (c.indptr) {
    args.page_indptr = page_indptr.get();
    args.page_indices = page_indices.get();
  } else {
    args.page_table = page_table.get();
  }
  args.alibi_slopes = c.alibi ? alibi_slopes.get() : nullptr;
  args.sinks = c.sinks ? sinks.get() : nullptr;
  args.max_q_len = c.max_q_len;
  args.max_kv_len = c.max_kv_len != 0 ? c.max_kv_len : c.longest();
  args.scale = c.scale;
  args.logit_cap = c.cap;
}

}  // namespace quern::test
