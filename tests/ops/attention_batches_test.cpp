// Attention over batches of all kinds: empty ones, large ones, mixed ones, long sequences cut into many parts, tensors
// with more room than is used, few SMs.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"
#include "tests/ops/device.h"
#include "tests/ops/random.h"

namespace quern::test {
namespace {

AttentionCase base() {
  AttentionCase c;
  c.causal = true;
  return c;
}

// Lengths of all sorts, zeros among them.
std::vector<Lengths> random_lengths(const std::string& name, int batch, int most_q, int most_kv) {
  Random random("lengths of " + name);
  std::vector<Lengths> sequences;
  for (int i = 0; i < batch; ++i) {
    const int q = random.below(8) == 0 ? 0 : random.between(1, most_q);
    const int kv = random.below(8) == 0 ? random.between(0, q) : random.between(q, std::max(q, most_kv));
    sequences.push_back({q, kv});
  }
  return sequences;
}

std::vector<AttentionCase> batches() {
  CaseList list(base());
  const auto one_query = [](AttentionCase& c) { c.one_query = true; };
  list.add("batch_0", {}, [](AttentionCase& c) { c.max_kv_len = 64; });
  list.add("batch_0_with_rows", {}, [](AttentionCase& c) { c.spare_rows = 3, c.max_kv_len = 64; });
  list.add("batch_all_empty", {{0, 0}, {0, 5}, {0, 0}}, [](AttentionCase& c) { c.spare_rows = 2; });
  list.add("batch_no_keys", {{1, 0}, {5, 0}, {2, 0}});
  list.add("batch_no_keys_decode", decode_of({0, 0, 0}), one_query);
  for (const int batch : {1, 2, 3, 5, 16, 17, 31, 64, 127, 300}) {
    const std::string name = "batch_" + std::to_string(batch);
    std::vector<Lengths> sequences = random_lengths(name, batch, 1, batch > 64 ? 60 : 200);
    for (Lengths& s : sequences) s.q = 1;
    list.add(name + "_decode", sequences, one_query);
    list.add(name + "_speculative", random_lengths(name + "s", batch, 8, batch > 64 ? 30 : 100),
             [](AttentionCase& c) { c.max_q_len = 8; });
  }
  for (const int batch : {1, 2, 5, 12, 40}) {
    const std::string name = "batch_" + std::to_string(batch) + "_prefill";
    list.add(name, random_lengths(name, batch, batch > 5 ? 40 : 200, batch > 5 ? 80 : 300));
  }
  // Sequences of one length, whose heads are cut alike where there are thread blocks for that.
  for (const int batch : {1, 2, 3, 8, 36}) {
    for (const int sms : {0, 3, 4, 7}) {
      list.add("batch_" + std::to_string(batch) + "_alike_" + std::to_string(sms),
               decode_of(batch, (batch > 8 ? 100 : 1000) + 37 * sms),
               [&](AttentionCase& c) { c.one_query = true, c.kv_heads = sms == 3 ? 1 : 2, c.max_sms = sms; });
    }
  }
  // Some of them without a query: which of the others a thread block has is counted over those.
  for (const int sms : {0, 4}) {
    list.add("batch_alike_but_gone_" + std::to_string(sms), {{0, 640}, {1, 640}, {0, 0}, {0, 640}, {1, 640}},
             [&](AttentionCase& c) { c.max_q_len = 1, c.kv_heads = sms == 4 ? 1 : 2, c.max_sms = sms; });
  }
  // One prompt among many that decode.
  std::vector<Lengths> mixed = decode_of({9, 100, 1, 250, 64, 33, 17});
  mixed.insert(mixed.begin() + 3, {150, 210});
  mixed.push_back({90, 90});
  list.add("batch_mixed", mixed);
  list.add("batch_chunk_of_a_long_prompt", {{64, 1000}});
  list.add("batch_chunks_of_long_prompts", {{64, 700}, {32, 1100}, {1, 900}});
  list.add("batch_one_row_last", {{0, 0}, {0, 0}, {0, 0}, {1, 1}});
  list.add("batch_more_sequences_than_threads", decode_of(700, 3), [](AttentionCase& c) {
    c.one_query = true;
    c.kv_heads = 1;
  });
  return list.cases();
}
QUERN_ATTENTION_CASES(Batches, batches());

std::vector<AttentionCase> splits() {
  CaseList list(base());
  const auto one_query = [](AttentionCase& c) { c.one_query = true; };
  list.add("split_one_sequence", decode_of({on_cuda() ? 100000 : 5000}), one_query);
  list.add("split_one_sequence_one_head", decode_of({on_cuda() ? 131072 : 9000}), [](AttentionCase& c) {
    c.one_query = true;
    c.kv_heads = 1;
    c.group = 1;
  });
  list.add("split_skewed", decode_of({3, on_cuda() ? 60000 : 4000, 17, 200, 0, 1}), one_query);
  list.add("split_two_long", decode_of({2000, 2100}), one_query);
  list.add("split_speculative", {{5, 3000}, {1, 200}}, [](AttentionCase& c) { c.max_q_len = 5; });
  list.add("split_prefill", {{64, 2500}});
  list.add("split_large_group", {{1, 3000}}, [](AttentionCase& c) { c.group = 64, c.kv_heads = 1; });
  list.add("split_ragged", decode_of({3000, 5}), [](AttentionCase& c) {
    c.one_query = true;
    c.layout = Layout::ragged;
  });
  list.add("split_window", decode_of({4000, 60}), [](AttentionCase& c) {
    c.one_query = true;
    c.left = 1500;
  });
  list.add("split_page1", decode_of({2000}), [](AttentionCase& c) { c.one_query = true, c.page_size = 1; });
  list.add("split_dim40", decode_of({2500, 1}), [](AttentionCase& c) { c.one_query = true, c.dim_k = 40; });
  for (const int sms : {1, 2, 3, 1000}) {
    const std::string name = "max_sms_" + std::to_string(sms);
    list.add(name + "_decode", decode_of({1500, 20, 0, 700}), [&](AttentionCase& c) {
      c.one_query = true;
      c.max_sms = sms;
    });
    list.add(name + "_prefill", {{100, 300}, {1, 500}, {64, 64}}, [&](AttentionCase& c) { c.max_sms = sms; });
  }
  return list.cases();
}
QUERN_ATTENTION_CASES(Splits, splits());

std::vector<AttentionCase> room() {
  CaseList list(base());
  list.add("room_rows_decode", decode_of({40, 3}), [](AttentionCase& c) {
    c.one_query = true;
    c.spare_rows = 6;
  });
  list.add("room_rows_speculative", {{3, 40}, {2, 9}}, [](AttentionCase& c) {
    c.spare_rows = 11;
    c.max_q_len = 8;
  });
  list.add("room_rows_prefill", {{50, 50}, {3, 90}}, [](AttentionCase& c) { c.spare_rows = 200; });
  list.add("room_rows_sliced", {{50, 50}, {3, 90}}, [](AttentionCase& c) {
    c.spare_rows = 20;
    c.sliced = true;
  });
  list.add("room_length_decode", decode_of({40, 3, 0, 100}), [](AttentionCase& c) {
    c.one_query = true;
    c.max_kv_len = 131072;
  });
  list.add("room_length_prefill", {{50, 50}, {3, 90}}, [](AttentionCase& c) {
    c.max_kv_len = 1000000;
    c.max_q_len = 53;
  });
  list.add("room_queries", {{2, 50}, {1, 90}}, [](AttentionCase& c) { c.max_q_len = 100, c.spare_rows = 200; });
  return list.cases();
}
QUERN_ATTENTION_CASES(Room, room());

}  // namespace
}  // namespace quern::test
