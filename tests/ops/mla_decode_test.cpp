// MLA decode against its definition in fp64: FlashMLA's grid of shapes, ragged and paged in every way, each kind of
// cache, lists of keys, masks; unused slots of the cache hold NaN, unused entries of page tables lie far outside of the
// pool.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string_view>

#include "tests/ops/mla_cases.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

class Mla : public testing::TestWithParam<MlaCase> {};

TEST_P(Mla, MatchesItsDefinition) {
  MlaProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  // To the bit from run to run, with a workspace that has been used.
  const MlaOutput once = problem.output();
  problem.poison_outputs();
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  const MlaOutput again = problem.output();
  for (int t = 0; t < GetParam().total_q(); ++t) ASSERT_EQ(problem.bits_of(once, t), problem.bits_of(again, t));
}

#define QUERN_MLA_CASES(prefix, list) \
  INSTANTIATE_TEST_SUITE_P(prefix, Mla, testing::ValuesIn((list).cases()), name_of_mla_case)

MlaCases heads() {
  MlaCases list;
  for (const int heads : {1, 3, 9, 16, 63, 64, 126, 128}) {
    list.add("heads" + std::to_string(heads), {{1, 140}, {2, 20}}, [&](MlaCase& c) {
      c.heads = heads;
      c.causal = true;
    });
  }
  // More than any model's: a token's heads are then rows of several blocks.
  for (const int heads : {129, 200, 257}) {
    list.add("heads" + std::to_string(heads), {{1, 70}, {2, 20}}, [&](MlaCase& c) {
      c.heads = heads;
      c.causal = true;
    });
    list.add("heads" + std::to_string(heads) + "_d64", {{1, 300}, {3, 65}, {1, 0}}, [&](MlaCase& c) {
      c.heads = heads, c.d_latent = 64, c.d_rope = 16;
      c.sinks = c.two_q = c.two_pools = true;
    });
  }
  list.add("heads130_heads_first", {{2, 40}, {1, 65}}, [](MlaCase& c) {
    c.heads = 130, c.d_latent = 128, c.heads_first = c.two_q = true, c.element = Element::f16;
  });
  list.add("heads144_e4m3_token", {{1, 70}, {2, 33}},
           [](MlaCase& c) { c.heads = 144, c.cache = MlaCache::e4m3_token, c.causal = true; });
  list.add("heads136_rows656", {{1, 70}, {2, 20}}, [](MlaCase& c) { c.heads = 136, c.cache = MlaCache::rows656; });
  list.add("heads160_list", {{1, 140}, {2, 70}}, [](MlaCase& c) { c.heads = 160, c.top_k = 64, c.max_sms = 1; });
  return list;
}
QUERN_MLA_CASES(Heads, heads());

MlaCases lengths() {
  MlaCases list;
  const std::vector<int> kv = {0, 1, 20, 63, 64, 65, 140};
  std::vector<MlaLengths> one, four;
  for (const int n : kv) one.push_back({1, n}), four.push_back({n % 4 + 1, n});
  list.add("one_query", one, [](MlaCase& c) { c.one_query = true; });
  list.add("ragged", four, [](MlaCase& c) { c.causal = true, c.heads = 9; });
  list.add("ragged_not_causal", four, [](MlaCase& c) { c.heads = 3; });
  list.add("kv128", {{1, 128}, {1, 127}, {1, 129}, {1, 192}, {1, 193}}, [](MlaCase& c) { c.heads = 64; });
  list.add("none_with_queries", {{1, 65}, {0, 100}, {2, 0}, {0, 0}, {1, 3}}, [](MlaCase& c) { c.heads = 16; });
  list.add("more_queries_than_keys", {{4, 2}, {3, 3}}, [](MlaCase& c) { c.causal = true; });
  list.add("long", {{1, 4096}}, [](MlaCase& c) { c.heads = 16, c.one_query = true; });
  list.add("skewed", {{1, 1500}, {1, 5}, {1, 70}, {2, 64}}, [](MlaCase& c) { c.heads = 64; });
  list.add("many_rows", {{3, 300}, {1, 65}}, [](MlaCase& c) { c.heads = 128, c.causal = true; });
  std::vector<MlaLengths> batch;
  for (int i = 0; i < 64; ++i) batch.push_back({1, 1 + i % 3 * 40});
  list.add("batch64", batch, [](MlaCase& c) { c.heads = 3, c.one_query = true, c.d_latent = 128; });
  // More than a warp has lanes, and more than are planned, on each of sm_90a's kernels that rows and few heads take.
  for (const int count : {70, 130}) {
    std::vector<MlaLengths> alike, mixed;
    for (int i = 0; i < count; ++i) alike.push_back({1, 40}), mixed.push_back({1, i % 29 == 0 ? 300 : i % 3 * 40});
    for (const int heads : {3, 20}) {
      const std::string of = std::to_string(count) + "_heads" + std::to_string(heads);
      list.add("alike" + of, alike, [=](MlaCase& c) { c.heads = heads, c.one_query = true; });
      list.add("mixed" + of, mixed, [=](MlaCase& c) { c.heads = heads, c.one_query = true; });
    }
  }
  list.add("max_sms1", {{1, 300}, {1, 64}, {1, 5}}, [](MlaCase& c) { c.heads = 128, c.max_sms = 1; });
  list.add("f16", {{2, 200}, {1, 64}}, [](MlaCase& c) { c.element = Element::f16, c.heads = 20; });
  return list;
}
QUERN_MLA_CASES(Lengths, lengths());

MlaCases pages() {
  MlaCases list;
  for (const int page : {1, 8, 16, 32, 64, 80, 128}) {
    list.add("page" + std::to_string(page), {{1, 140}, {2, 20}, {1, 65}}, [&](MlaCase& c) {
      c.page_size = page;
      c.heads = 17;
    });
  }
  list.add("indptr", {{1, 140}, {2, 20}, {1, 0}, {1, 65}}, [](MlaCase& c) { c.indptr = true; });
  list.add("indptr_page3", {{1, 14}, {2, 20}}, [](MlaCase& c) { c.indptr = true, c.page_size = 3; });
  list.add("two_q", {{2, 140}, {1, 65}}, [](MlaCase& c) { c.two_q = true, c.heads = 9; });
  list.add("two_pools", {{2, 140}, {1, 65}}, [](MlaCase& c) { c.two_pools = true; });
  list.add("heads_first", {{2, 140}, {1, 65}}, [](MlaCase& c) { c.heads_first = c.two_q = c.two_pools = true; });
  list.add("without_lse", {{2, 140}, {1, 65}}, [](MlaCase& c) { c.lse = c.status = false; });
  return list;
}
QUERN_MLA_CASES(Pages, pages());

MlaCases dims() {
  MlaCases list;
  struct Dims {
    int latent, rope;
  };
  for (const Dims& d : std::initializer_list<Dims>{{256, 64}, {256, 32}, {16, 16}, {128, 0}, {48, 16}, {512, 128}}) {
    for (const int heads : {5, 40}) {
      list.add("d" + std::to_string(d.latent) + "_" + std::to_string(d.rope) + "_h" + std::to_string(heads),
               {{2, 140}, {1, 20}, {1, 1000}, {1, 0}}, [&](MlaCase& c) {
                 c.d_latent = d.latent;
                 c.d_rope = d.rope;
                 c.heads = heads;
                 c.causal = true;
               });
    }
  }
  list.add("alignment4", {{2, 140}, {1, 20}}, [](MlaCase& c) { c.d_latent = 64, c.d_rope = 16, c.alignment = 4; });
  return list;
}
QUERN_MLA_CASES(Dims, dims());

// In the fastest kernel's dims and in others.
MlaCases masks() {
  MlaCases list;
  for (const int latent : {512, 64}) {
    const std::string of = "_d" + std::to_string(latent);
    const auto with = [&](const std::function<void(MlaCase&)>& change) {
      return [=](MlaCase& c) {
        c.d_latent = latent;
        c.heads = 10;
        change(c);
      };
    };
    list.add("window" + of, {{2, 300}, {1, 50}, {3, 129}}, with([](MlaCase& c) { c.causal = true, c.left = 70; }));
    list.add("window0" + of, {{2, 300}, {1, 50}}, with([](MlaCase& c) { c.left = 0, c.right = 0; }));
    list.add("window_right" + of, {{4, 80}, {2, 1}}, with([](MlaCase& c) { c.right = 1; }));
    list.add("cap" + of, {{2, 140}, {1, 65}}, with([](MlaCase& c) { c.cap = 2.0f; }));
    list.add("sinks" + of, {{2, 140}, {1, 0}, {1, 65}}, with([](MlaCase& c) { c.sinks = true; }));
    list.add("everything" + of, {{4, 600}, {1, 0}, {2, 65}}, with([](MlaCase& c) {
               c.sinks = c.causal = true;
               c.cap = 3.0f;
               c.left = 100;
             }));
  }
  return list;
}
QUERN_MLA_CASES(Masks, masks());

MlaCases caches() {
  MlaCases list;
  const auto of = [](MlaCache cache, int latent) {
    return [=](MlaCase& c) {
      c.cache = cache;
      c.d_latent = latent;
      c.heads = 20;
      c.causal = true;
    };
  };
  const std::vector<MlaLengths> lengths = {{2, 140}, {1, 0}, {1, 65}};
  list.add("e4m3_tensor", lengths, of(MlaCache::e4m3_tensor, 512));
  list.add("e4m3_token", lengths, of(MlaCache::e4m3_token, 512));
  list.add("rows656", lengths, of(MlaCache::rows656, 512));
  list.add("rows656_f16", lengths, [&](MlaCase& c) { of(MlaCache::rows656, 512)(c), c.element = Element::f16; });
  list.add("e4m3_tensor_d256", lengths, of(MlaCache::e4m3_tensor, 256));
  list.add("e4m3_token_two_pools", lengths, [&](MlaCase& c) { of(MlaCache::e4m3_token, 128)(c), c.two_pools = true; });
  // 16 heads and fewer have a kernel of their own.
  for (const MlaCache cache : {MlaCache::e4m3_tensor, MlaCache::e4m3_token}) {
    const std::string name = cache == MlaCache::e4m3_tensor ? "few_tensor" : "few_token";
    for (const int heads : {1, 7, 8, 16}) {
      list.add(name + "_heads" + std::to_string(heads), {{2, 140}, {1, 0}, {1, 65}, {3, 1000}, {1, 128}},
               [&](MlaCase& c) { of(cache, 512)(c), c.heads = heads; });
    }
    list.add(name + "_long", {{1, 4096}, {1, 1}, {1, 640}}, [&](MlaCase& c) {
      of(cache, 512)(c);
      c.heads = 16;
      c.one_query = true;
    });
    list.add(name + "_f16", lengths,
             [&](MlaCase& c) { of(cache, 512)(c), c.heads = 12, c.element = Element::f16, c.page_size = 3; });
    list.add(name + "_everything", {{4, 600}, {1, 0}, {2, 65}}, [&](MlaCase& c) {
      of(cache, 512)(c);
      c.heads = 5;
      c.sinks = c.two_pools = c.two_q = c.indptr = true;
      c.cap = 3.0f;
      c.left = 100;
    });
  }
  // And where the cache has q's type, of one query token a sequence.
  for (const int heads : {1, 7, 16}) {
    list.add("few_plain_heads" + std::to_string(heads), {{1, 140}, {1, 0}, {1, 65}, {1, 1000}, {1, 128}, {1, 33}},
             [&](MlaCase& c) { of(MlaCache::plain, 512)(c), c.heads = heads; });
  }
  list.add("few_plain_f16", {{1, 140}, {1, 300}},
           [&](MlaCase& c) { of(MlaCache::plain, 512)(c), c.heads = 12, c.element = Element::f16, c.page_size = 3; });
  list.add("few_plain_everything", {{1, 600}, {1, 0}, {1, 65}}, [&](MlaCase& c) {
    of(MlaCache::plain, 512)(c);
    c.heads = 5;
    c.sinks = c.two_pools = c.two_q = c.indptr = true;
    c.cap = 3.0f;
    c.left = 100;
  });
  // Rows that are not aligned to 16 bytes, and pools of two parts, by every kind.
  list.add("e4m3_tensor_two_pools", lengths,
           [&](MlaCase& c) { of(MlaCache::e4m3_tensor, 512)(c), c.two_pools = true; });
  list.add("e4m3_token_page5", lengths, [&](MlaCase& c) { of(MlaCache::e4m3_token, 512)(c), c.page_size = 5; });
  list.add("e4m3_token_window", {{3, 400}, {1, 300}},
           [&](MlaCase& c) { of(MlaCache::e4m3_token, 512)(c), c.left = 130, c.cap = 3.0f; });
  list.add("rows656_alignment4", lengths, [&](MlaCase& c) { of(MlaCache::rows656, 512)(c), c.alignment = 4; });
  list.add("e4m3_token_alignment4", lengths, [&](MlaCase& c) { of(MlaCache::e4m3_token, 512)(c), c.alignment = 4; });
  list.add("e4m3_token_page1", lengths, [&](MlaCase& c) { of(MlaCache::e4m3_token, 128)(c), c.page_size = 1; });
  return list;
}
QUERN_MLA_CASES(Caches, caches());

MlaCases lists() {
  MlaCases list;
  const std::vector<MlaLengths> lengths = {{2, 140}, {1, 20}, {1, 0}, {3, 300}};
  const auto of = [](int top_k, bool slots, MlaCache cache) {
    return [=](MlaCase& c) {
      c.top_k = top_k;
      c.slots = slots;
      c.cache = cache;
      c.heads = 20;
      c.causal = !slots;
    };
  };
  list.add("positions64", lengths, of(64, false, MlaCache::plain));
  list.add("positions100_all", lengths, of(301, false, MlaCache::plain));
  list.add("slots100", lengths, of(100, true, MlaCache::plain));
  list.add("positions_rows656", lengths, of(130, false, MlaCache::rows656));
  list.add("slots_rows656", lengths, of(70, true, MlaCache::rows656));
  list.add("positions_e4m3_token", lengths, of(33, false, MlaCache::e4m3_token));
  list.add("slots_e4m3_tensor", lengths, of(33, true, MlaCache::e4m3_tensor));
  list.add("positions_alignment4", lengths, [&](MlaCase& c) { of(130, false, MlaCache::rows656)(c), c.alignment = 4; });
  list.add("positions_window", lengths, [&](MlaCase& c) { of(150, false, MlaCache::plain)(c), c.left = 60; });
  list.add("positions_few_token", lengths, [&](MlaCase& c) { of(150, false, MlaCache::e4m3_token)(c), c.heads = 9; });
  list.add("positions_few_plain", lengths, [&](MlaCase& c) { of(150, false, MlaCache::plain)(c), c.heads = 9; });
  list.add("slots_few_tensor", lengths, [&](MlaCase& c) { of(290, true, MlaCache::e4m3_tensor)(c), c.heads = 16; });
  list.add("slots_f16_heads128", {{1, 400}, {1, 50}}, [&](MlaCase& c) {
    of(300, true, MlaCache::rows656)(c);
    c.element = Element::f16;
    c.heads = 128;
  });
  list.add("prefill", {{40, 140}, {33, 33}}, of(48, false, MlaCache::plain));
  list.add("one_query", {{1, 140}, {1, 7}}, [&](MlaCase& c) { of(48, false, MlaCache::plain)(c), c.one_query = true; });
  list.add("top2048", {{1, 2100}},
           [&](MlaCase& c) { of(2048, false, MlaCache::plain)(c), c.d_latent = 64, c.sinks = true; });
  return list;
}
QUERN_MLA_CASES(Indices, lists());

// A row's bits do not depend on what else is in the batch.
TEST(MlaInvariance, ARowsBitsAreItsOwn) {
  for (const int latent : {512, 64}) {
    MlaCase c;
    c.name = "invariant";
    c.d_latent = latent;
    c.heads = latent == 512 ? 4 : 20;
    c.flags = QUERN_CALL_BATCH_INVARIANT;
    c.causal = true;
    c.sequences = {{1, 4200}, {2, 300}, {1, 0}, {1, 70}};
    MlaProblem together(c, Random("invariant"));
    ASSERT_NO_FATAL_FAILURE(together.run(context()));
    together.check();
    const MlaOutput all = together.output();
    // Fewer multiprocessors cut a batch elsewhere, and so does a batch of another size.
    together.args.max_sms = 1;
    together.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(together.call(context()));
    const MlaOutput fewer = together.output();
    for (int t = 0; t < c.total_q(); ++t) ASSERT_EQ(together.bits_of(all, t), together.bits_of(fewer, t));
    // The first sequence alone, by tensors that end behind it.
    together.args.max_sms = 0;
    together.lengths.shape[0] = together.page_table.shape[0] = 1;
    together.cu_q.shape[0] = 2;
    together.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(together.call(context()));
    ASSERT_EQ(together.bits_of(all, 0), together.bits_of(together.output(), 0));
  }
}

// A NaN key harms only the queries that see it: not those of the same tile, nor those of another block of a cluster.
TEST(MlaNan, HarmsOnlyTheQueriesThatSeeIt) {
  struct Kind {
    MlaCache cache;
    int heads, latent, page;
    bool scale;
    Element::Kind element = Element::bf16;
  };
  const std::vector<Kind> kinds = {
      {MlaCache::plain, 4, 512, 64, false},      {MlaCache::plain, 40, 512, 64, false},
      {MlaCache::plain, 40, 512, 5, false},      {MlaCache::plain, 20, 512, 64, false, Element::f16},
      {MlaCache::plain, 20, 64, 64, false},      {MlaCache::e4m3_tensor, 9, 512, 64, false},
      {MlaCache::e4m3_token, 9, 512, 64, true},  {MlaCache::e4m3_tensor, 96, 512, 64, false},
      {MlaCache::e4m3_token, 96, 512, 64, true}, {MlaCache::e4m3_token, 40, 512, 64, false},
      {MlaCache::rows656, 96, 512, 64, false},   {MlaCache::rows656, 40, 512, 64, true, Element::f16},
      {MlaCache::e4m3_token, 20, 64, 64, true},
  };
  for (const Kind& kind : kinds) {
    MlaCase c;
    c.cache = kind.cache;
    c.heads = kind.heads;
    c.d_latent = kind.latent;
    c.page_size = kind.page;
    c.element = kind.element;
    c.causal = true;
    c.sequences = {{3, 150}, {1, 70}};
    SCOPED_TRACE("heads " + std::to_string(c.heads) + ", latent " + std::to_string(c.d_latent) + ", cache " +
                 std::to_string(static_cast<int>(c.cache)) + ", page " + std::to_string(c.page_size));
    MlaProblem problem(c, Random("nan"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const MlaOutput whole = problem.output();
    problem.spoil_last_key(0, kind.scale);
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    const MlaOutput spoilt = problem.output();
    for (const int t : {0, 1, 3}) EXPECT_EQ(problem.bits_of(whole, t), problem.bits_of(spoilt, t)) << "query " << t;
    for (int h = 0; h < c.heads; ++h) {
      const auto at = static_cast<std::size_t>((2 * c.heads + h) * c.d_latent) * 2;
      for (std::size_t i = at; i < at + static_cast<std::size_t>(c.d_latent) * 2; i += 2) {
        ASSERT_TRUE(std::isnan(Element(c.element).load(&spoilt.out[i]))) << "head " << h;
      }
      EXPECT_TRUE(std::isnan(spoilt.lse[static_cast<std::size_t>(2 * c.heads + h)])) << "head " << h;
    }
  }
}

// A scale that makes of finite codes what f16 cannot hold harms only the queries that see the key, and them not by NaN.
TEST(MlaNan, AHugeScaleIsHeldWithinItsType) {
  struct Kind {
    MlaCache cache;
    int heads, alignment;
  };
  for (const Kind& kind : {Kind{MlaCache::rows656, 3, 16}, Kind{MlaCache::e4m3_token, 17, 16},
                           Kind{MlaCache::rows656, 3, 4}, Kind{MlaCache::e4m3_token, 3, 4}}) {
    MlaCase c;
    c.cache = kind.cache;
    c.heads = kind.heads;
    c.d_latent = 512;
    c.alignment = kind.alignment;
    c.element = Element::f16;
    c.causal = true;
    c.sequences = {{2, 70}};
    SCOPED_TRACE("heads " + std::to_string(c.heads) + ", cache " + std::to_string(static_cast<int>(c.cache)));
    MlaProblem problem(c, Random("huge"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const MlaOutput whole = problem.output();
    problem.scale_last_key(0, 1e5f);
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    const MlaOutput huge = problem.output();
    EXPECT_EQ(problem.bits_of(whole, 0), problem.bits_of(huge, 0));
    EXPECT_NE(problem.bits_of(whole, 1), problem.bits_of(huge, 1));
    for (int i = 0; i < c.heads * c.d_latent; ++i) {
      const auto at = static_cast<std::size_t>(c.heads * c.d_latent + i) * 2;
      ASSERT_FALSE(std::isnan(Element(c.element).load(&huge.out[at]))) << "number " << i;
    }
  }
}

// What lies in index tensors is told in the status on a GPU, and nothing is read out of bounds; on `host` it is refused
// by name.
TEST(MlaStatus, IndexDataOutOfBounds) {
  using Spoil = std::function<void(MlaProblem&)>;
  struct Mistake {
    std::vector<std::string_view> words;
    std::uint32_t status;
    Spoil make;
  };
  const std::vector<Mistake> mistakes = {
      {{"lengths[0]", "100000"}, QUERN_MLA_STATUS_LENGTH, [](MlaProblem& p) { p.overwrite(p.lengths, {100000, 70}); }},
      {{"lengths[0]", "-5"}, QUERN_MLA_STATUS_LENGTH, [](MlaProblem& p) { p.overwrite(p.lengths, {-5, 70}); }},
      {{"page_table[0][0]"}, QUERN_MLA_STATUS_PAGE, [](MlaProblem& p) { p.overwrite(p.page_table, {0x7ffffff0}); }},
      {{"page_table[0][0]", "-1"}, QUERN_MLA_STATUS_PAGE, [](MlaProblem& p) { p.overwrite(p.page_table, {-1}); }},
      {{"cu_q"}, QUERN_MLA_STATUS_QUERIES, [](MlaProblem& p) { p.overwrite(p.cu_q, {0, 1, 30}); }},
      {{"cu_q"}, QUERN_MLA_STATUS_QUERIES, [](MlaProblem& p) { p.overwrite(p.cu_q, {0, -7, 3}); }},
  };
  for (const int latent : {512, 64}) {
    for (const Mistake& mistake : mistakes) {
      MlaCase c;
      c.d_latent = latent;
      c.sequences = {{1, 100}, {2, 70}};
      MlaProblem problem(c, Random("status"));
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      mistake.make(problem);
      if (on_cuda()) {
        ASSERT_NO_FATAL_FAILURE(problem.call(context()));
        EXPECT_NE(problem.output().status & mistake.status, 0u) << mistake.words.front();
        continue;
      }
      expect_refused(mistake.words, [&](quern_error* e) { return quern_mla_decode(context(), &problem.args, e); });
    }
  }
}

}  // namespace
}  // namespace quern::test
