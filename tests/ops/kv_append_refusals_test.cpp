// What kv_append refuses.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/ops/kv_append_fixture.h"

namespace quern::test {
namespace {

// Where tokens go is data, which `host` looks at before it writes: what leads out is named.
struct Misplaced {
  By by;
  bool positions;
  std::vector<std::string_view> words;
  std::function<void(KvAppending&)> make;
};

TEST(KvAppendRefuses, PlacesOutsideOfTheCache) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  using A = KvAppending&;
  const Misplaced all[] = {
      {By::slots, true, {"slots[2]", "token 2", "is 256", "0 to 255"}, [](A a) { a.slots.set_integer(256, 2); }},
      {By::table,
       true,
       {"positions[1]", "sequence 1", "is 1000", "pages"},
       [](A a) { a.positions.set_integer(1000, 1); }},
      {By::table, false, {"lengths[1]", "sequence 1", "is 1000"}, [](A a) { a.lengths.set_integer(1000, 1); }},
      {By::table, false, {"lengths[0]", "sequence 0", "is 0"}, [](A a) { a.lengths.set_integer(0, 0); }},
      {By::table, false, {"cu_q[1]", "sequence 0", "-3"}, [](A a) { a.cu_q.set_integer(-3, 1); }},
      {By::indices, false, {"page_indptr[2]", "sequence 1", "9999"}, [](A a) { a.indptr.set_integer(9999, 2); }},
      {By::indices,
       false,
       {"page_indices[", "sequence", "is 16", "0 to 15"},
       [](A a) {
         for (std::int64_t i = 0; i < a.indices.extent(0); ++i) a.indices.set_integer(16, i);
       }},
      {By::table,
       true,
       {"page_table[", "sequence", "is -1", "0 to 15"},
       [](A a) {
         for (std::int64_t i = 0; i < a.table.extent(0); ++i) {
           for (std::int64_t j = 0; j < a.table.extent(1); ++j) a.table.set_integer(-1, i, j);
         }
       }},
  };
  for (const Misplaced& each : all) {
    SCOPED_TRACE(each.words[0]);
    AppendCase c;
    c.name = "misplaced", c.by = each.by, c.positions = each.positions;
    KvAppending appending(c);
    each.make(appending);
    appending.upload();
    const std::vector<unsigned char> before = appending.k_cache.memory();
    expect_refused(each.words, [&](quern_error* e) { return quern_kv_append(context(), &appending.args, e); });
    appending.k_cache.download();
    EXPECT_EQ(appending.k_cache.memory(), before);
  }
}

TEST(KvAppendRefuses, EveryWrongArgument) {
  using A = KvAppending&;
  const std::vector<Mistake<KvAppending>> mistakes = {
      {"k NULL", {"k", "NULL"}, [](A a) { a.args.k = nullptr; }},
      {"v NULL", {"v", "NULL"}, [](A a) { a.args.v = nullptr; }},
      {"k_cache NULL", {"k_cache", "NULL"}, [](A a) { a.args.k_cache = nullptr; }},
      {"v_cache NULL", {"v_cache", "NULL"}, [](A a) { a.args.v_cache = nullptr; }},
      {"no place", {"slots", "page_table"}, [](A a) { a.args.slots = nullptr; }},
      {"two places", {"slots", "page_table"}, [](A a) { a.args.page_table = a.table.tensor(); }},
      {"k's dtype", {"k", "int32"}, [](A a) { a.k.box().tensor.dtype = kInt32; }},
      {"v's dtype", {"v", "bf16"}, [](A a) { a.v.box().tensor.dtype = kFloat32; }},
      {"k_cache's dtype", {"k_cache", "f16"}, [](A a) { a.k_cache.box().tensor.dtype = dtype_of(Format::f16); }},
      {"v_cache's dtype", {"v_cache", "e4m3"}, [](A a) { a.v_cache.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"bytes without a type", {"kv_type"}, [](A a) { a.k_cache.box().tensor.dtype = {kDLUInt, 8, 1}; }},
      {"another type", {"kv_type"}, [](A a) { a.args.kv_type = QUERN_FP8_E5M2; }},
      {"q_out's type", {"q_type"}, [](A a) { a.args.q_type = QUERN_FP8_E4M3; }},
      {"v's tokens", {"v.shape[0]"}, [](A a) { a.v.box().shape[0] = 3; }},
      {"v's heads", {"v.shape[1]", "2"}, [](A a) { a.v.box().shape[1] = 1; }},
      {"q's dim", {"q.shape[2]", "64"}, [](A a) { a.q.box().shape[2] = 32; }},
      {"q_out's heads", {"q_out.shape[1]", "6"}, [](A a) { a.q_out.box().shape[1] = 5; }},
      {"k_cache's heads",
       {"k_cache.shape[2]", "2"},
       [](A a) { a.k_cache.box().shape[2] = a.v_cache.box().shape[2] = 1; }},
      {"v_cache's pages", {"v_cache.shape[0]", "16"}, [](A a) { a.v_cache.box().shape[0] = 15; }},
      {"k_cache's dim", {"k_cache.shape[3]", "64"}, [](A a) { a.k_cache.box().shape[3] = 32; }},
      {"a dim of 12", {"k.shape[2]", "12", "multiples of 8"}, [](A a) { a.k.box().shape[2] = 12; }},
      {"k_scale's dtype", {"k_scale", "f32"}, [](A a) { a.k_scale.box().tensor.dtype = kInt32; }},
      {"k_scale's rank", {"k_scale", "dimensions"}, [](A a) { a.k_scale.box().tensor.ndim = 2; }},
      {"k_scale's pages", {"k_scale.shape[0]", "16"}, [](A a) { a.k_scale.box().shape[0] = 4; }},
      {"scales of two kinds", {"k_scale", "v_scale"}, [](A a) { a.args.v_scale = nullptr; }},
      {"slots' length", {"slots.shape[0]"}, [](A a) { a.slots.box().shape[0] = 2; }},
      {"slots' dtype", {"slots", "int32"}, [](A a) { a.slots.box().tensor.dtype = kFloat32; }},
      {"rope without positions", {"positions", "NULL"}, [](A a) { a.args.positions = nullptr; }},
      {"cu_q with slots", {"cu_q", "NULL"}, [](A a) { a.args.cu_q = a.cu_q.tensor(); }},
      {"lengths with slots", {"lengths", "NULL"}, [](A a) { a.args.lengths = a.lengths.tensor(); }},
      {"neither positions nor lengths",
       {"positions", "lengths"},
       [](A a) { a.args.slots = nullptr, a.args.page_table = a.table.tensor(), a.args.positions = nullptr; }},
      {"positions and lengths",
       {"lengths", "NULL"},
       [](A a) { a.args.slots = nullptr, a.args.page_table = a.table.tensor(), a.args.lengths = a.lengths.tensor(); }},
      {"page_indptr alone",
       {"page_indices", "NULL"},
       [](A a) { a.args.slots = nullptr, a.args.page_indptr = a.indptr.tensor(); }},
      {"q_out without q", {"q_out", "NULL"}, [](A a) { a.args.q = nullptr; }},
      {"q_scale of 16 bits", {"q_scale", "NULL"}, [](A a) { a.args.q_scale = a.q_scale.tensor(); }},
      {"k_weight's length",
       {"k_weight.shape[0]", "64"},
       [](A a) { a.args.k_weight = a.k_weight.tensor(), a.k_weight.box().shape[0] = 63; }},
      {"k_weight's dtype",
       {"k_weight", "bf16"},
       [](A a) { a.args.k_weight = a.k_weight.tensor(), a.k_weight.box().tensor.dtype = kInt32; }},
      {"weights of two dtypes",
       {"k_weight", "bf16"},
       [](A a) {
         a.args.q_weight = a.q_weight.tensor(), a.args.k_weight = a.k_weight.tensor(),
         a.k_weight.box().tensor.dtype = kFloat32;
       }},
      {"eps", {"eps"}, [](A a) { a.args.eps = -1.0f; }},
      {"plus one of nothing", {"WEIGHT_PLUS_ONE"}, [](A a) { a.args.flags = QUERN_KV_APPEND_WEIGHT_PLUS_ONE; }},
      {"an unknown flag", {"flags"}, [](A a) { a.args.flags = QUERN_ATTENTION_WINDOW_LEFT; }},
      {"rope's rotary_dim", {"rope.rotary_dim"}, [](A a) { a.options.rotary_dim = 65; }},
      {"a cache over itself", {"k_cache.strides"}, [](A a) { a.k_cache.box().strides[1] = 8; }},
      {"the last stride", {"v_cache.strides[3]", "1"}, [](A a) { a.v_cache.box().strides[3] = 2; }},
      {"k's alignment", {"k", "stride"}, [](A a) { a.k.box().strides[0] += 4; }},
      {"without data", {"k_cache", "NULL"}, [](A a) { a.k_cache.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](A a) { a.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](A a) { a.args.max_sms = -1; }},
      {"no size", {"size"}, [](A a) { a.args.size = 0; }},
  };
  AppendCase c;
  c.name = "refusals";
  c.cache = Element::e4m3, c.scale = Scale::token;
  expect_all_refused(
      mistakes, ThreeCalls<quern_kv_append_args>{quern_kv_append, quern_kv_append_workspace, quern_kv_append_prepare},
      [&] { return std::make_unique<KvAppending>(c); },
      [](KvAppending& a) {
        return [&a] {
          a.k_cache.download(), a.q_out.download();
          return a.k_cache.is_untouched(0, 0, 0, 0) && a.q_out.is_untouched(0, 0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
