// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/checked_cases.h"

#include <stdexcept>

namespace quern::test {
namespace {

Built gather() {
  auto t = std::make_unique<Trial>("gather");
  auto args = sized<quern_gather_args>();
  Array& ids = t->integers({3}, {4, 0, 2});
  args.table = t->numbers(Element::f16, {5, 16}).tensor(), args.ids = ids.tensor();
  args.out = t->written(Element::f16, {3, 16}).tensor();
  t->calls(QUERN_CALLS(gather), args);
  return {std::move(t),
          {{&ids, 1, kNone, 5, "ids", 1, -1, "ids[1] is 5; allowed: 0 to 4, table's rows"},
           {&ids, 2, kNone, -1, "ids", 2, -1, "ids[2] is -1; allowed: 0 to 4"}}};
}

Built moe_combine() {
  auto t = std::make_unique<Trial>("moe_combine");
  auto args = sized<quern_moe_combine_args>();
  Array& positions = t->integers({2, 2}, {0, 3, -1, 2});
  args.x = t->numbers(Element::f32, {4, 8}).tensor(), args.positions = positions.tensor();
  args.out = t->written(Element::f32, {2, 8}).tensor();
  t->calls(QUERN_CALLS(moe_combine), args);
  return {std::move(t), {{&positions, 1, 1, 4, "positions", 1, 1, "positions[1][1] (token 1) is 4; allowed: -1 to 3"}}};
}

Built attention(bool indptr) {
  auto t = std::make_unique<Trial>("attention");
  auto args = sized<quern_attention_args>();
  constexpr std::int64_t kHeads = 2, kDim = 64, kPage = 4;
  Array& lengths = t->integers({3}, {9, 1, 6});
  Array& cu_q = t->integers({4}, {0, 2, 3, 4});
  Array& pages = indptr ? t->integers({6}, {3, 1, 4, 0, 5, 2}) : t->integers({3, 3}, {3, 1, 4, 0, 7, 7, 5, 2, 7});
  args.q = t->numbers(Element::f16, {4, kHeads, kDim}).tensor();
  args.k = t->numbers(Element::f16, {6, kPage, kHeads, kDim}).tensor();
  args.v = t->numbers(Element::f16, {6, kPage, kHeads, kDim}).tensor();
  args.out = t->written(Element::f16, {4, kHeads, kDim}).tensor();
  args.lse = t->written(Element::f32, {4, kHeads}).tensor();
  args.lengths = lengths.tensor(), args.cu_q = cu_q.tensor();
  args.max_kv_len = 12, args.max_q_len = 2, args.flags = QUERN_ATTENTION_CAUSAL;
  std::vector<Spoiled> mistakes = {
      {&lengths, 2, kNone, 13, "lengths", 2, -1, "lengths[2] (sequence 2) is 13; allowed: 0 to 12, max_kv_len"},
      {&lengths, 0, kNone, -4, "lengths", 0, -1, "lengths[0] (sequence 0) is -4"},
      {&cu_q, 1, kNone, 9, "cu_q", 1, -1, "cu_q[1] (the end of sequence 0) is 9; allowed: 0 to 4"},
      {&cu_q, 2, kNone, 0, "cu_q", 2, -1, "cu_q[2] (the end of sequence 1) is 0; allowed: 2 to 4"},
      {&cu_q, 1, kNone, 0, "cu_q", 1, -1, "cu_q (the queries of sequence 1) is 3; allowed: 0 to 2, max_q_len"}};
  if (indptr) {
    Array& offsets = t->integers({4}, {0, 3, 4, 6});
    args.page_indptr = offsets.tensor(), args.page_indices = pages.tensor();
    mistakes.push_back({&offsets, 3, kNone, 7, "page_indptr", 3, -1, "page_indptr[3] (the end of sequence 2) is 7"});
    mistakes.push_back({&offsets, 1, kNone, 1, "lengths", 0, -1, "lengths[0] (sequence 0) is 9; allowed: 0 to 4"});
    mistakes.push_back({&pages, 5, kNone, 6, "page_indices", 5, -1,
                        "page_indices[5] (sequence 2, keys 4 to 5) is 6; allowed: 0 to 5, the pages of k and v"});
  } else {
    args.page_table = pages.tensor();
    mistakes.push_back({&pages, 0, 2, 1000000, "page_table", 0, 2,
                        "page_table[0][2] (sequence 0, keys 8 to 8) is 1000000; allowed: 0 to 5"});
    mistakes.push_back({&pages, 2, 1, -1, "page_table", 2, 1, "page_table[2][1] (sequence 2, keys 4 to 5) is -1"});
  }
  t->calls(QUERN_CALLS(attention), args);
  return {std::move(t), std::move(mistakes)};
}
Built paged_attention() { return attention(false); }
Built indexed_attention() { return attention(true); }

// Rows of bits for the last keys of each sequence; the second sequence has none.
Built masked_attention() {
  auto t = std::make_unique<Trial>("attention");
  auto args = sized<quern_attention_args>();
  constexpr std::int64_t kHeads = 2, kDim = 64;
  Array& begin = t->integers({4}, {0, 4, 4, 5});
  Array& keys = t->integers({3}, {9, 0, 6});
  Array& mask = t->add(Array::bytes(5));
  for (std::int64_t i = 0; i < 5; ++i) mask.set_integer(0xff, i);
  args.q = t->numbers(Element::f16, {4, kHeads, kDim}).tensor();
  args.k = t->numbers(Element::f16, {16, kHeads, kDim}).tensor();
  args.v = t->numbers(Element::f16, {16, kHeads, kDim}).tensor();
  args.out = t->written(Element::f16, {4, kHeads, kDim}).tensor();
  args.lengths = t->integers({3}, {9, 1, 6}).tensor(), args.cu_q = t->integers({4}, {0, 2, 3, 4}).tensor();
  args.cu_kv = t->integers({4}, {0, 9, 10, 16}).tensor();
  args.mask = mask.tensor(), args.mask_indptr = begin.tensor(), args.mask_keys = keys.tensor();
  args.max_kv_len = 12, args.max_q_len = 2, args.flags = QUERN_ATTENTION_CAUSAL;
  t->calls(QUERN_CALLS(attention), args);
  return {std::move(t),
          {{&begin, 0, kNone, 2, "mask_indptr", 0, -1, "mask_indptr[0] (sequence 0) is 2; allowed: 0 to 1"},
           {&begin, 2, kNone, 1000000, "mask_indptr", 2, -1, "mask_indptr[2] (sequence 2) is 1000000; allowed: 0 to 4"},
           {&keys, 1, kNone, -7, "mask_keys", 1, -1, "mask_keys[1] (sequence 1) is -7; allowed: 0 to 12, max_kv_len"},
           {&keys, 2, kNone, 12, "mask_indptr", 2, -1, "mask_indptr[2] (sequence 2) is 4; allowed: 0 to 3"}}};
}

Built sample() {
  auto t = std::make_unique<Trial>("sample");
  auto args = sized<quern_sample_args>();
  Array& rows = t->integers({2}, {3, 0});
  Array& offsets = t->integers({3}, {0, 1, 3});
  Array& ids = t->integers({3}, {5, 0, 39});
  args.logits = t->numbers(Element::f32, {4, 40}).tensor(), args.rows = rows.tensor();
  args.bias_offsets = offsets.tensor(), args.bias_ids = ids.tensor();
  args.bias_values = t->numbers(Element::f32, {3}).tensor(), args.max_bias = 2;
  args.ids = t->written(IntegerBits{32}, {2}).tensor();
  t->calls(QUERN_CALLS(sample), args);
  return {std::move(t),
          {{&rows, 0, kNone, 4, "rows", 0, -1, "rows[0] is 4; allowed: 0 to 3, the rows of logits"},
           {&offsets, 2, kNone, 9, "bias_offsets", 2, -1, "bias_offsets[2] (the end of row 1) is 9"},
           {&offsets, 1, kNone, 0, "bias_offsets", 1, -1, "bias_offsets (the biases of row 1) is 3; allowed: 0 to 2"},
           {&ids, 2, kNone, 40, "bias_ids", 2, -1, "bias_ids[2] is 40; allowed: 0 to 39"}}};
}

Built append(bool by_positions) {
  auto t = std::make_unique<Trial>("kv_append");
  auto args = sized<quern_kv_append_args>();
  constexpr std::int64_t kDim = 8, kPage = 4;
  Array& cu_q = t->integers({3}, {0, 2, 3});
  Array& table = t->integers({2, 2}, {3, 1, 0, 2});
  args.k = t->numbers(Element::f32, {3, 1, kDim}).tensor(), args.v = t->numbers(Element::f32, {3, 1, kDim}).tensor();
  args.k_cache = t->written(Element::f32, {4, kPage, 1, kDim}).tensor();
  args.v_cache = t->written(Element::f32, {4, kPage, 1, kDim}).tensor();
  args.cu_q = cu_q.tensor(), args.page_table = table.tensor();
  std::vector<Spoiled> mistakes = {
      {&table, 1, 1, 4, "page_table", 1, 1, "page_table[1][1] (sequence 1) is 4; allowed: 0 to 3, k_cache's pages"},
      {&cu_q, 2, kNone, 4, "cu_q", 2, -1, "cu_q[2] (the end of sequence 1) is 4"}};
  if (by_positions) {
    Array& positions = t->integers({3}, {6, -1, 5});
    args.positions = positions.tensor();
    mistakes.push_back({&positions, 0, kNone, 8, "positions", 0, -1,
                        "positions[0] (token 0), of sequence 0, is 8; allowed: 0 to 7, the places of the"});
  } else {
    Array& lengths = t->integers({2}, {5, 6});
    args.lengths = lengths.tensor();
    mistakes.push_back({&lengths, 0, kNone, 1, "lengths", 0, -1, "lengths[0] (sequence 0) is 1; allowed: 2 to 8"});
    mistakes.push_back({&lengths, 1, kNone, 9, "lengths", 1, -1, "lengths[1] (sequence 1) is 9; allowed: 1 to 8"});
  }
  t->calls(QUERN_CALLS(kv_append), args);
  return {std::move(t), std::move(mistakes)};
}
Built append_by_lengths() { return append(false); }
Built append_by_positions() { return append(true); }

Built conv1d() {
  auto t = std::make_unique<Trial>("conv1d");
  auto args = sized<quern_conv1d_args>();
  Array& offsets = t->integers({4}, {0, 2, 2, 5});
  Array& ids = t->integers({3}, {4, -1, 1});
  args.x = t->numbers(Element::f32, {5, 8}).tensor(), args.weight = t->numbers(Element::f32, {8, 4}).tensor();
  args.state = t->numbers(Element::f32, {5, 3, 8}).tensor(), args.state_ids = ids.tensor();
  args.offsets = offsets.tensor(), args.out = t->written(Element::f32, {5, 8}).tensor();
  t->calls(QUERN_CALLS(conv1d), args);
  return {std::move(t),
          {{&ids, 2, kNone, 4, "state_ids", 2, -1, "state_ids[2] is 4, as is state_ids[0]; no slot may come twice"},
           {&ids, 1, kNone, 5, "state_ids", 1, -1, "state_ids[1] (sequence 1) is 5; allowed: -1 to 4"},
           {&offsets, 0, kNone, -1, "offsets", 0, -1, "offsets[0] (sequence 0) is -1; allowed: 0 to 5"}}};
}

Built verify_draft() {
  auto t = std::make_unique<Trial>("verify_draft");
  auto args = sized<quern_verify_draft_args>();
  Array& drafts = t->integers({2, 3}, {1, 4, 2, 0, 3, 99});
  Array& parents = t->integers({2, 3}, {-1, -1, 1, -1, 0, 99});
  Array& lengths = t->integers({2}, {3, 2});
  args.target = t->numbers(Element::f32, {2, 4, 5}).tensor(), args.flags = QUERN_VERIFY_GREEDY;
  args.draft_ids = drafts.tensor(), args.parents = parents.tensor(), args.lengths = lengths.tensor();
  args.accepted = t->written(IntegerBits{32}, {2}).tensor(), args.ids = t->written(IntegerBits{32}, {2, 4}).tensor();
  t->calls(QUERN_CALLS(verify_draft), args);
  return {std::move(t),
          {{&drafts, 1, 1, 5, "draft_ids", 1, 1, "draft_ids[1][1] is 5; allowed: 0 to 4"},
           {&parents, 0, 2, 2, "parents", 0, 2, "parents[0][2] is 2; allowed: -1 to 1, a node before this one"},
           {&lengths, 1, kNone, 4, "lengths", 1, -1, "lengths[1] (sequence 1) is 4; allowed: 0 to 3"}}};
}

Built mla_decode(bool slots) {
  auto t = std::make_unique<Trial>("mla_decode");
  auto args = sized<quern_mla_decode_args>();
  Array& lengths = t->integers({2}, {9, 3});
  Array& table = t->integers({2, 2}, {2, 0, 1, 7});
  Array& indices = slots ? t->integers({2, 3}, {5, -1, 23, 0, 1, 2}) : t->integers({2, 3}, {8, -1, 0, 0, 1, 2});
  args.q = t->numbers(Element::bf16, {2, 16, 80}).tensor();
  args.cache = t->numbers(Element::bf16, {3, 8, 80}).tensor();
  args.out = t->written(Element::bf16, {2, 16, 64}).tensor(), args.indices = indices.tensor(), args.scale = 0.1f;
  std::vector<Spoiled> mistakes;
  if (slots) {
    args.flags = QUERN_MLA_SLOTS;
    mistakes = {{&indices, 1, 2, 24, "indices", 1, 2, "indices[1][2] is 24; allowed: -1 to 23, the pool's places"}};
  } else {
    args.lengths = lengths.tensor(), args.page_table = table.tensor(), args.max_kv_len = 16;
    mistakes = {{&indices, 0, 0, 9, "indices", 0, 0, "indices[0][0] is 9; allowed: -1 to 8, the sequence's length"},
                {&table, 0, 1, 3, "page_table", 0, 1, "page_table[0][1] (sequence 0) is 3; allowed: 0 to 2"},
                {&lengths, 1, kNone, 17, "lengths", 1, -1, "lengths[1] (sequence 1) is 17; allowed: 0 to 16"}};
  }
  t->calls(QUERN_CALLS(mla_decode), args);
  return {std::move(t), std::move(mistakes)};
}
Built mla_by_table() { return mla_decode(false); }
Built mla_by_slots() { return mla_decode(true); }

Built mla_append() {
  auto t = std::make_unique<Trial>("mla_append");
  auto args = sized<quern_mla_append_args>();
  Array& slots = t->integers({2}, {7, -1});
  args.kv = t->numbers(Element::bf16, {2, 80}).tensor(), args.cache = t->written(Element::bf16, {2, 4, 80}).tensor();
  args.slots = slots.tensor(), args.d_rope = 16;
  t->calls(QUERN_CALLS(mla_append), args);
  return {std::move(t), {{&slots, 1, kNone, 8, "slots", 1, -1, "slots[1] (token 1) is 8; allowed: 0 to 7, cache's"}}};
}

Built index_scores() {
  auto t = std::make_unique<Trial>("index_scores");
  auto args = sized<quern_index_scores_args>();
  Array& lengths = t->integers({2}, {9, 3});
  Array& table = t->integers({2, 2}, {2, 0, 1, 7});
  args.q = t->numbers(Element::e4m3, {2, 4, 64}).tensor(), args.weights = t->numbers(Element::f32, {2, 4}).tensor();
  args.k = t->numbers(Element::e4m3, {3, 8, 64}).tensor(), args.out = t->written(Element::f32, {2, 16}).tensor();
  args.lengths = lengths.tensor(), args.page_table = table.tensor();
  t->calls(QUERN_CALLS(index_scores), args);
  return {std::move(t),
          {{&table, 1, 0, -2, "page_table", 1, 0, "page_table[1][0] (sequence 1) is -2; allowed: 0 to 2, k's pages"},
           {&lengths, 0, kNone, 17, "lengths", 0, -1, "lengths[0] (sequence 0) is 17; allowed: 0 to 16"}}};
}

Built kv_copy_pages() {
  auto t = std::make_unique<Trial>("kv_copy_pages");
  auto args = sized<quern_kv_copy_pages_args>();
  Array& from = t->integers({3}, {1, 9, 2});
  Array& to = t->integers({3}, {0, -1, 3});
  args.k = t->numbers(Element::f16, {3, 4, 1, 8}).tensor(), args.v = t->numbers(Element::f16, {3, 4, 1, 8}).tensor();
  args.k_to = t->written(Element::f16, {4, 4, 1, 8}).tensor(),
  args.v_to = t->written(Element::f16, {4, 4, 1, 8}).tensor();
  args.sources = from.tensor(), args.destinations = to.tensor();
  t->calls(QUERN_CALLS(kv_copy_pages), args);
  return {std::move(t),
          {{&to, 1, kNone, 1, "sources", 1, -1, "sources[1] is 9; allowed: 0 to 2, k's and v's pages"},
           {&to, 2, kNone, 4, "destinations", 2, -1, "destinations[2] is 4; allowed: 0 to 3, k_to's and v_to's"}}};
}

Built rope() {
  auto t = std::make_unique<Trial>("rope");
  auto args = sized<quern_rope_args>();
  static quern_rope_options options;
  options = sized<quern_rope_options>();
  Array& positions = t->integers({2}, {4, -1});
  args.q = t->numbers(Element::f32, {2, 1, 16}).tensor(), args.q_out = t->written(Element::f32, {2, 1, 16}).tensor();
  options.table = t->numbers(Element::f32, {5, 16}).tensor();
  args.positions = positions.tensor(), args.rope = &options;
  t->calls(QUERN_CALLS(rope), args);
  return {std::move(t),
          {{&positions, 0, kNone, 5, "positions", 0, -1, "positions[0] (token 0) is 5; allowed: 0 to 4"}}};
}

Built scatter() {
  auto t = std::make_unique<Trial>("scatter");
  auto args = sized<quern_scatter_args>();
  Array& ids = t->integers({3}, {4, 0, 2});
  args.x = t->numbers(Element::f16, {3, 16}).tensor(), args.ids = ids.tensor();
  args.out = t->written(Element::f16, {5, 16}).tensor(), args.flags = QUERN_SCATTER_UNIQUE;
  t->calls(QUERN_CALLS(scatter), args);
  return {std::move(t),
          {{&ids, 1, kNone, 5, "ids", 1, -1, "ids[1] is 5; allowed: 0 to 4, out's rows"},
           {&ids, 2, kNone, 4, "ids", 2, -1, "ids[2] is 4, as is ids[0]; QUERN_SCATTER_UNIQUE says"}}};
}

Built sort() {
  auto t = std::make_unique<Trial>("sort");
  auto args = sized<quern_sort_args>();
  Array& offsets = t->integers({4}, {0, 3, 3, 8});
  args.keys = t->numbers(Element::f32, {1, 8}).tensor(), args.keys_out = t->written(Element::f32, {1, 8}).tensor();
  args.offsets = offsets.tensor(), args.max_segment = 5;
  t->calls(QUERN_CALLS(sort), args);
  return {std::move(t),
          {{&offsets, 3, kNone, 9, "offsets", 3, -1, "offsets[3] (the end of segment 2) is 9"},
           {&offsets, 2, kNone, 2, "offsets", 2, -1, "offsets[2] (the end of segment 1) is 2"},
           {&offsets, 2, kNone, 0, "offsets", 2, -1, "offsets[2]"}}};
}

Built top_k() {
  auto t = std::make_unique<Trial>("top_k");
  auto args = sized<quern_top_k_args>();
  Array& lengths = t->integers({2}, {8, 5});
  args.x = t->numbers(Element::f32, {2, 8}).tensor(), args.lengths = lengths.tensor();
  args.ids = t->written(IntegerBits{32}, {2, 3}).tensor();
  t->calls(QUERN_CALLS(top_k), args);
  return {std::move(t), {{&lengths, 1, kNone, 9, "lengths", 1, -1, "lengths[1] (row 1) is 9; allowed: 0 to 8"}}};
}

Built nms() {
  auto t = std::make_unique<Trial>("nms");
  auto args = sized<quern_nms_args>();
  Array& lengths = t->integers({1}, {4});
  args.boxes = t->numbers(Element::f32, {1, 4, 4}).tensor(), args.scores = t->numbers(Element::f32, {1, 4}).tensor();
  args.lengths = lengths.tensor(), args.ids = t->written(IntegerBits{32}, {1, 4}).tensor(), args.iou_threshold = 0.5f;
  t->calls(QUERN_CALLS(nms), args);
  return {std::move(t), {{&lengths, 0, kNone, 5, "lengths", 0, -1, "lengths[0] (image 0) is 5; allowed: 0 to 4"}}};
}

Built grouped_fp8_gemm() {
  auto t = std::make_unique<Trial>("grouped_fp8_gemm");
  auto args = sized<quern_grouped_fp8_gemm_args>();
  Array& offsets = t->integers({3}, {0, 2, 3});
  Array& indices = t->integers({4}, {3, 0, 1, 99});
  args.a = t->numbers(Element::e4m3, {4, 128}).tensor(), args.b = t->numbers(Element::e4m3, {2, 128, 128}).tensor();
  args.scale_a = t->numbers(Element::f32, {4, 1}).tensor(), args.scale_b = t->numbers(Element::f32, {2, 1, 1}).tensor();
  args.offsets = offsets.tensor(), args.indices = indices.tensor();
  args.out = t->written(Element::bf16, {4, 128}).tensor();
  t->calls(QUERN_CALLS(grouped_fp8_gemm), args);
  return {std::move(t),
          {{&indices, 2, kNone, 4, "indices", 2, -1, "indices[2] (row 2 of out) is 4; allowed: 0 to 3"},
           {&offsets, 2, kNone, 5, "offsets", 2, -1, "offsets[2] (the end of expert 1) is 5"}}};
}

constexpr Maker kMakers[] = {{"gather", gather},
                             {"moe_combine", moe_combine},
                             {"paged_attention", paged_attention},
                             {"indexed_attention", indexed_attention},
                             {"masked_attention", masked_attention},
                             {"sample", sample},
                             {"append_by_lengths", append_by_lengths},
                             {"append_by_positions", append_by_positions},
                             {"conv1d", conv1d},
                             {"verify_draft", verify_draft},
                             {"mla_by_table", mla_by_table},
                             {"mla_by_slots", mla_by_slots},
                             {"mla_append", mla_append},
                             {"index_scores", index_scores},
                             {"kv_copy_pages", kv_copy_pages},
                             {"rope", rope},
                             {"scatter", scatter},
                             {"sort", sort},
                             {"top_k", top_k},
                             {"nms", nms},
                             {"grouped_fp8_gemm", grouped_fp8_gemm}};

}  // namespace

std::span<const Maker> checked_makers() { return kMakers; }

const Maker& checked_maker(const std::string& name) {
  for (const Maker& maker : kMakers)
    if (name == maker.name) return maker;
  throw std::runtime_error("no such case: " + name);
}

}  // namespace quern::test
