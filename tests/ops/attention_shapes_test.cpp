// Attention over head dims, query heads a KV head, page sizes and the ways that tensors may lie in memory.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"

namespace quern::test {
namespace {

// Each of the three kernels gets its turn: up to 16 rows a KV head, up to 64, and more.
const std::vector<Lengths> kDecode = decode_of({75, 1, 0, 130, 16});
const std::vector<Lengths> kSpeculative = {{5, 75}, {1, 17}, {0, 4}, {8, 8}, {3, 140}};
const std::vector<Lengths> kPrefill = {{70, 70}, {33, 97}, {1, 50}, {0, 0}, {17, 16}};

AttentionCase causal_of(Format format, int dim_k, int dim_v) {
  AttentionCase c;
  c.format = format;
  c.dim_k = dim_k;
  c.dim_v = dim_v;
  c.causal = true;
  return c;
}

void add_forms(CaseList& list, const std::string& name, const std::function<void(AttentionCase&)>& change = {}) {
  list.add(name + "_decode", kDecode, [&](AttentionCase& c) {
    c.one_query = true;
    if (change) change(c);
  });
  const auto bounded = [&](AttentionCase& c) {
    c.max_q_len = 8;
    if (change) change(c);
  };
  list.add(name + "_speculative", kSpeculative, bounded);
  list.add(name + "_prefill", kPrefill, change);
}

void append(std::vector<AttentionCase>& all, const CaseList& list) {
  all.insert(all.end(), list.cases().begin(), list.cases().end());
}

// group 4 and up to 8 queries make 32 rows: the middle kernel.
std::vector<AttentionCase> dims() {
  struct Dims {
    Format format;
    int k, v;
  };
  constexpr Format f16 = Format::f16, bf16 = Format::bf16;
  std::vector<AttentionCase> all;
  for (const Dims& d : std::initializer_list<Dims>{{bf16, 8, 8},
                                                   {f16, 24, 24},
                                                   {bf16, 40, 40},
                                                   {f16, 64, 64},
                                                   {bf16, 64, 64},
                                                   {bf16, 80, 80},
                                                   {bf16, 96, 96},
                                                   {f16, 112, 112},
                                                   {f16, 128, 128},
                                                   {bf16, 128, 128},
                                                   {f16, 192, 192},
                                                   {bf16, 256, 256},
                                                   {bf16, 192, 128},
                                                   {f16, 128, 64},
                                                   {bf16, 64, 128},
                                                   {bf16, 24, 40},
                                                   {f16, 256, 8}}) {
    AttentionCase c = causal_of(d.format, d.k, d.v);
    c.group = 4;
    CaseList list(c);
    add_forms(list, std::string(name_of(d.format)) + "_" + std::to_string(d.k) + "x" + std::to_string(d.v));
    append(all, list);
  }
  return all;
}
QUERN_ATTENTION_CASES(Dims, dims());

std::vector<AttentionCase> groups() {
  std::vector<AttentionCase> all;
  for (const int group : {1, 2, 3, 4, 7, 8, 16, 64, 128}) {
    AttentionCase c = causal_of(group % 2 ? Format::f16 : Format::bf16, 64, 64);
    c.group = group;
    c.kv_heads = group >= 16 ? 1 : 3;  // one KV head: multi-query attention
    CaseList list(c);
    const std::string name = "group" + std::to_string(group);
    list.add(name + "_decode", kDecode, [](AttentionCase& one) { one.one_query = true; });
    list.add(name + "_speculative", {{4, 75}, {2, 17}, {1, 1}, {0, 9}, {3, 33}},
             [](AttentionCase& one) { one.max_q_len = 4; });
    append(all, list);
  }
  return all;
}
QUERN_ATTENTION_CASES(Groups, groups());

std::vector<AttentionCase> pages() {
  std::vector<AttentionCase> all;
  for (const int page_size : {1, 2, 3, 8, 16, 32, 64, 100, 128, 256}) {
    AttentionCase c = causal_of(Format::bf16, 64, 64);
    c.page_size = page_size;
    c.indptr = page_size == 3 || page_size == 32 || page_size == 128;
    CaseList list(c);
    add_forms(list, "page" + std::to_string(page_size));
    append(all, list);
  }
  AttentionCase c = causal_of(Format::bf16, 64, 64);
  c.layout = Layout::ragged;
  CaseList list(c);
  add_forms(list, "ragged");
  list.add("ragged_hnd_not_causal", kPrefill, [](AttentionCase& one) { one.causal = false; });
  append(all, list);
  return all;
}
QUERN_ATTENTION_CASES(Pages, pages());

std::vector<AttentionCase> layouts() {
  CaseList list(causal_of(Format::bf16, 64, 64));
  add_forms(list, "hnd", [](AttentionCase& c) { c.layout = Layout::hnd; });
  add_forms(list, "interleaved", [](AttentionCase& c) { c.layout = Layout::interleaved; });
  add_forms(list, "padded", [](AttentionCase& c) { c.padding = 8; });
  add_forms(list, "sliced", [](AttentionCase& c) { c.sliced = true; });
  add_forms(list, "byte_offset", [](AttentionCase& c) { c.offset = 16; });
  add_forms(list, "indptr", [](AttentionCase& c) { c.indptr = true; });
  add_forms(list, "all_at_once", [](AttentionCase& c) {
    c.layout = Layout::hnd;
    c.padding = 24;
    c.sliced = true;
    c.offset = 48;
    c.indptr = true;
  });
  add_forms(list, "hnd_interleaved_pool_uneven", [](AttentionCase& c) {
    c.layout = Layout::interleaved;
    c.dim_v = 32;
    c.padding = 8;
  });
  add_forms(list, "aligned_to_4", [](AttentionCase& c) {
    c.alignment = 4;
    c.offset = 4;
    c.padding = 2;
  });
  add_forms(list, "aligned_to_8", [](AttentionCase& c) {
    c.alignment = 8;
    c.offset = 8;
    c.padding = 4;
  });
  add_forms(list, "aligned_to_4_page3", [](AttentionCase& c) {
    c.alignment = 4;
    c.offset = 12;
    c.padding = 2;
    c.page_size = 3;
    c.dim_k = 40;
    c.dim_v = 24;
  });
  add_forms(list, "aligned_to_4_ragged", [](AttentionCase& c) {
    c.alignment = 4;
    c.offset = 4;
    c.padding = 6;
    c.layout = Layout::ragged;
  });
  return list.cases();
}
QUERN_ATTENTION_CASES(Layouts, layouts());

}  // namespace
}  // namespace quern::test
