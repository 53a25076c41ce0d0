// Attention with wide heads, of more than 256 columns of keys or of values: dims, the ways that tensors may lie, masks,
// splits, schedules; and what is refused of them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/attention_fixture.h"
#include "tests/ops/attention_problem.h"
#include "tests/ops/coded_attention.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

const std::vector<Lengths> kDecode = decode_of({75, 1, 0, 130, 16});
const std::vector<Lengths> kPrefill = {{70, 70}, {9, 97}, {1, 50}, {0, 0}, {17, 16}, {3, 0}};

// All cases of 512 columns have the same two kernels: for up to 16 rows a KV head, and for more.
AttentionCase of_512() {
  AttentionCase c;
  c.dim_k = 512;
  c.causal = true;
  return c;
}

std::vector<AttentionCase> wide() {
  CaseList list(of_512());
  const auto one_query = [](AttentionCase& c) { c.one_query = true; };
  list.add("512_decode", kDecode, one_query);
  list.add("512_decode_split", decode_of({2100, 3, 0, 300}), one_query);
  list.add("512_decode_few_sms", decode_of({500, 20, 0, 70}), [](AttentionCase& c) {
    c.one_query = true;
    c.max_sms = 3;
    c.left = 300;
  });
  list.add("512_speculative", {{5, 75}, {1, 17}, {0, 4}, {8, 8}, {3, 140}}, [](AttentionCase& c) { c.max_q_len = 8; });
  list.add("512_prefill", kPrefill);
  list.add("512_not_causal", kPrefill, [](AttentionCase& c) { c.causal = false, c.layout = Layout::hnd; });
  // Pages of no constant size are for the portable kernel, also where there are warpgroups.
  list.add("512_page24", kPrefill, [](AttentionCase& c) { c.page_size = 24; });
  list.add("512_page24_few_sms", {{40, 130}, {1, 500}, {64, 64}}, [](AttentionCase& c) {
    c.page_size = 24;
    c.kv_heads = 1, c.max_sms = 2;
    c.growth = 100.0;
  });
  list.add("512_left_and_right", {{40, 175}, {7, 3}, {64, 64}, {2, 250}}, [](AttentionCase& c) {
    c.causal = false;
    c.left = 29, c.right = 4;
    c.spare_rows = 5;
  });
  list.add("512_split", {{40, 900}, {1, 300}}, [](AttentionCase& c) { c.kv_heads = 1, c.growth = 100.0; });
  list.add("512_few_sms", {{100, 130}, {1, 500}, {64, 64}}, [](AttentionCase& c) { c.kv_heads = 1, c.max_sms = 2; });
  list.add("512_indptr_sliced", kPrefill, [](AttentionCase& c) {
    c.kv_heads = 1;
    c.indptr = c.sliced = true;
    c.padding = 8;
    c.lse = false;
  });
  // The last columns are 8 of 16: zeros stand beside them.
  list.add("264_ragged", kPrefill, [](AttentionCase& c) {
    c.format = Format::f16, c.dim_k = 264;
    c.layout = Layout::ragged;
  });
  // More than 16 query heads a KV head: the kernel for few rows is not needed.
  list.add("1024_page64", {{9, 70}, {1, 130}, {0, 5}, {2, 2}}, [](AttentionCase& c) {
    c.dim_k = 1024, c.page_size = 64;
    c.kv_heads = 1, c.group = 20;
  });
  // Maxima of the warpgroups that share out the keys differ at every step.
  list.add("1024_page64_growth", {{8, 700}, {4, 90}}, [](AttentionCase& c) {
    c.dim_k = 1024, c.page_size = 64;
    c.kv_heads = 1, c.group = 20;
    c.growth = 100.0, c.max_sms = 5;
  });
  // No owner's columns are whole spans, and the last one has fewer.
  list.add("600x744_page32", {{70, 330}, {9, 97}, {0, 0}, {66, 66}}, [](AttentionCase& c) {
    c.format = Format::f16, c.dim_k = 600, c.dim_v = 744, c.page_size = 32;
    c.layout = Layout::hnd;
    c.kv_heads = 2, c.group = 1;
    c.cap = 5.0f, c.sinks = true, c.left = 150;
  });
  // So many columns of queries for so tall tiles come again with every block of keys.
  list.add("1024x320_everything", {{3, 100}, {1, 17}, {12, 30}, {0, 3}}, [](AttentionCase& c) {
    c.format = Format::f16, c.dim_k = 1024, c.dim_v = 320, c.page_size = 1;
    c.kv_heads = 2, c.group = 18;
    c.cap = 5.0f, c.alibi = c.sinks = true, c.left = 60;
    c.alignment = 4, c.offset = 4, c.padding = 2;
  });
  list.add("64x1000_page3", {{5, 75}, {1, 17}, {0, 4}, {8, 8}}, [](AttentionCase& c) {
    c.dim_k = 64, c.dim_v = 1000, c.page_size = 3;
    c.max_q_len = 8, c.causal = false;
  });
  return list.cases();
}
QUERN_ATTENTION_CASES(Wide, wide());

TEST(WideAttention, TakesACustomMaskAroundBadValues) {
  CodedCase c;
  c.name = "wide_mask";
  c.sequences = {{3, 40}, {1, 70}, {5, 5}, {2, 130}, {4, 9}};
  c.dim = 320, c.dim_v = 264;
  c.kv_heads = 1, c.group = 20;
  c.mask = c.bad_values = true;
  CodedAttention problem(c);
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// Scheduled unfairly, copies delivered late.
TEST(WideAttention, unfair) {
  if (on_cuda()) GTEST_SKIP() << "the host's executor is what is unfair";
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = seed;
    });
    AttentionCase decode = of_512();
    decode.name = "wide_decode";
    decode.sequences = decode_of({300, 0, 70});
    decode.one_query = true;
    AttentionCase prefill = of_512();
    prefill.name = "wide_prefill";
    prefill.sequences = {{20, 150}, {1, 64}, {9, 9}};
    prefill.max_sms = 1;
    prefill.page_size = 24;
    AttentionCase pairs = prefill;  // by pairs of blocks, whose consumers have rows of their own
    pairs.name = "wide_pairs";
    pairs.page_size = 16;
    pairs.sequences = {{80, 300}, {1, 64}, {35, 35}};
    pairs.max_sms = 4;
    AttentionCase quarters = pairs;  // or the same rows
    quarters.name = "wide_quarters";
    quarters.sequences = {{5, 600}, {1, 64}};
    quarters.dim_k = 1024, quarters.page_size = 64;
    quarters.kv_heads = 1, quarters.group = 20;
    for (const AttentionCase& c : {decode, prefill, pairs, quarters}) {
      SCOPED_TRACE(c.name);
      AttentionProblem problem(c, Random(c.name));
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
  }
}

// Codes are for narrow heads.
TEST(WideAttention, RefusesEightBits) {
  for (const bool queries : {false, true}) {
    CodedCase c;
    c.name = "refused";
    c.dim = queries ? 264 : 64, c.dim_v = 512;
    (queries ? c.queries : c.cache) = Element::e4m3;
    CodedAttention problem(c);
    const std::vector<std::string_view> words = {queries ? "q of 8 bits" : "k and v of 8 bits", "256", "out's dtype"};
    std::uint64_t bytes = 77;
    expect_refused(words, [&](quern_error* e) { return quern_attention(context(), &problem.args, e); });
    expect_refused(words, [&](quern_error* e) { return quern_attention_prepare(context(), &problem.args, e); });
    expect_refused(words,
                   [&](quern_error* e) { return quern_attention_workspace(context(), &problem.args, &bytes, e); });
    EXPECT_EQ(bytes, 77u);
    problem.out.download();
    EXPECT_TRUE(problem.out.is_untouched(0, 0, 0));
  }
}

}  // namespace
}  // namespace quern::test
