// What mla_append refuses, and what it says of index data that lead out of bounds.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tests/ops/mla_append_fixture.h"

namespace quern::test {
namespace {

// What only the device can see is told in the status and skipped; on `host` it is refused by name.
TEST(MlaAppendStatus, IndexDataOutOfBounds) {
  struct Wrong {
    const char* what;
    By by;
    bool positions;
    std::int32_t bit;
    std::vector<std::string_view> words;
    std::function<void(MlaAppending&)> make;
  };
  const std::vector<Wrong> all = {
      {"a slot beyond the pool",
       By::slots,
       true,
       QUERN_MLA_STATUS_INDEX,
       {"slots[2]", "256", "cache's places"},
       [](MlaAppending& a) { a.slots.set_integer(kPages * 16, 2); }},
      {"a page beyond the pool",
       By::table,
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_table[1][2]", "16", "cache's pages"},
       [](MlaAppending& a) { a.table.set_integer(kPages, 1, 2); }},
      {"a negative page",
       By::indices,
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_indices[3]", "-5", "cache's pages"},
       [](MlaAppending& a) { a.indices.set_integer(-5, 3); }},
      {"a position beyond the table",
       By::table,
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"positions[0]", "64", "sequence 0"},
       [](MlaAppending& a) { a.positions.set_integer(64, 0); }},
      {"a length beyond the table",
       By::table,
       false,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[4]", "sequence 4"},
       [](MlaAppending& a) { a.lengths.set_integer(99, 4); }},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.what);
    LatentCase c;
    c.name = "status";
    c.by = wrong.by, c.positions = wrong.positions;
    MlaAppending a(c);
    wrong.make(a);
    if (on_cuda()) {
      ASSERT_NO_FATAL_FAILURE(a.run());
      a.status.download();
      EXPECT_EQ(a.status.integer(0), wrong.bit);
      continue;
    }
    for (Array* x : {&a.slots, &a.table, &a.indices, &a.positions, &a.lengths, &a.indptr, &a.cu_q}) x->upload();
    expect_refused(wrong.words, [&](quern_error* e) { return quern_mla_append(context(), &a.args, e); });
    a.cache.download();
    EXPECT_TRUE(a.cache.is_untouched(0, 0, 0));
  }
}

TEST(MlaAppendRefuses, EveryWrongArgument) {
  using A = MlaAppending&;
  const std::vector<Mistake<MlaAppending>> mistakes = {
      {"kv NULL", {"kv", "NULL"}, [](A a) { a.args.kv = nullptr; }},
      {"cache NULL", {"cache", "NULL"}, [](A a) { a.args.cache = nullptr; }},
      {"cache_scale NULL", {"cache_scale", "NULL"}, [](A a) { a.args.cache_scale = nullptr; }},
      {"kv's dtype", {"kv", "f16", "bf16"}, [](A a) { a.kv.box().tensor.dtype = kFloat32; }},
      {"kv's rank", {"kv", "2"}, [](A a) { a.kv.box().tensor.ndim = 1; }},
      {"d_latent", {"kv.shape[1]", "100"}, [](A a) { a.kv.box().shape[1] = 100; }},
      {"k_rope's dtype", {"k_rope", "bf16"}, [](A a) { a.k_rope.box().tensor.dtype = kFloat32; }},
      {"k_rope's tokens", {"k_rope.shape[0]"}, [](A a) { a.k_rope.box().shape[0] = 3; }},
      {"k_rope's columns", {"k_rope.shape[1]", "40"}, [](A a) { a.k_rope.box().shape[1] = 40; }},
      {"d_rope beside k_rope", {"d_rope", "32"}, [](A a) { a.args.d_rope = 32; }},
      {"d_rope", {"d_rope", "24"}, [](A a) { a.args.k_rope = a.args.k_rope_out = nullptr, a.args.d_rope = 24; }},
      {"weight's length", {"weight.shape[0]", "128"}, [](A a) { a.weight.box().shape[0] = 127; }},
      {"weight's dtype", {"weight", "bf16"}, [](A a) { a.weight.box().tensor.dtype = kInt32; }},
      {"eps", {"eps"}, [](A a) { a.args.eps = -1.0f; }},
      {"cache's dtype", {"cache", "bf16"}, [](A a) { a.cache.box().tensor.dtype = dtype_of(Format::f16); }},
      {"cache_type", {"cache_type", "3"}, [](A a) { a.args.cache_type = 3; }},
      {"656-byte rows of other dims", {"ROWS_656"}, [](A a) { a.args.cache_type = QUERN_MLA_CACHE_ROWS_656; }},
      {"cache's columns", {"cache.shape[2]", "128"}, [](A a) { a.cache.box().shape[2] = 112; }},
      {"cache_rope's pages", {"cache_rope.shape[0]", "16"}, [](A a) { a.cache_rope.box().shape[0] = 15; }},
      {"cache_rope's dtype", {"cache_rope", "e4m3"}, [](A a) { a.cache_rope.box().tensor.dtype = kInt32; }},
      {"a cache over itself", {"cache.strides"}, [](A a) { a.cache.box().strides[1] = 16; }},
      {"the last stride", {"cache.strides[2]", "1"}, [](A a) { a.cache.box().strides[2] = 2; }},
      {"cache_scale's pages", {"cache_scale.shape[0]", "16"}, [](A a) { a.scale.box().shape[0] = 4; }},
      {"cache_scale's dtype", {"cache_scale", "f32"}, [](A a) { a.scale.box().tensor.dtype = kInt32; }},
      {"no place", {"slots", "page_table"}, [](A a) { a.args.slots = nullptr; }},
      {"two places", {"slots", "page_table"}, [](A a) { a.args.page_table = a.table.tensor(); }},
      {"rope without positions", {"positions", "NULL"}, [](A a) { a.args.positions = nullptr; }},
      {"slots' length", {"slots.shape[0]"}, [](A a) { a.slots.box().shape[0] = 2; }},
      {"rope's rotary_dim", {"rope.rotary_dim"}, [](A a) { a.options.rotary_dim = 66; }},
      {"q_rope without rope", {"rope", "q_rope"}, [](A a) { a.args.rope = nullptr; }},
      {"q_rope's columns", {"q_rope.shape[2]", "64"}, [](A a) { a.q.box().shape[2] = 32; }},
      {"q_rope's tokens", {"q_rope.shape[0]"}, [](A a) { a.q.box().shape[0] = 2; }},
      {"q_rope_out's heads", {"q_rope_out.shape[1]", "6"}, [](A a) { a.q_out.box().shape[1] = 5; }},
      {"q_rope_out alone", {"q_rope_out", "NULL"}, [](A a) { a.args.q_rope = nullptr; }},
      {"k_rope_out missing", {"k_rope_out", "NULL"}, [](A a) { a.args.k_rope_out = nullptr; }},
      {"k_rope_out alone", {"k_rope_out", "NULL"}, [](A a) { a.args.kv_out = nullptr; }},
      {"kv_out's columns", {"kv_out.shape[1]", "128"}, [](A a) { a.kv_out.box().shape[1] = 64; }},
      {"kv_out's dtype", {"kv_out", "bf16"}, [](A a) { a.kv_out.box().tensor.dtype = kFloat32; }},
      {"status' length", {"status.shape[0]", "1"}, [](A a) { a.status.box().shape[0] = 2; }},
      {"kv's alignment", {"kv", "stride"}, [](A a) { a.kv.box().strides[0] += 4; }},
      {"an unknown flag", {"flags"}, [](A a) { a.args.flags = QUERN_ATTENTION_WINDOW_LEFT; }},
      {"reserved", {"reserved"}, [](A a) { a.args.reserved = 1; }},
      {"without data", {"cache", "NULL"}, [](A a) { a.cache.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](A a) { a.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](A a) { a.args.max_sms = -1; }},
      {"no size", {"size"}, [](A a) { a.args.size = 0; }},
  };
  LatentCase c;
  c.name = "refusals";
  c.cache = Cache::token, c.apart = c.two_pools = c.results = true;
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_mla_append_args>{quern_mla_append, quern_mla_append_workspace, quern_mla_append_prepare},
      [&] { return std::make_unique<MlaAppending>(c); },
      [](MlaAppending& a) {
        return [&a] {
          a.cache.download(), a.q_out.download();
          return a.cache.is_untouched(0, 0, 0) && a.q_out.is_untouched(0, 0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
