// What index_scores refuses, and what it tells in its status.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/ops/index_scores_fixture.h"

namespace quern::test {
namespace {

// What only the device can see is told in the status, and nothing is read out of bounds; on `host` it is refused.
TEST(IndexScoresStatus, IndexDataOutOfBounds) {
  struct Wrong {
    const char* what;
    bool ragged;
    std::int32_t bit;
    std::vector<std::string_view> words;
    std::function<void(Scoring&)> make;
  };
  const std::vector<Wrong> all = {
      {"a length beyond out",
       false,
       QUERN_MLA_STATUS_LENGTH | QUERN_MLA_STATUS_PAGE,  // unused entries of the table are pages of no pool
       {"lengths[1]", "500", "out's columns"},
       [](Scoring& s) { s.lengths.set_integer(500, 1); }},
      {"a negative length",
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[0]", "-3"},
       [](Scoring& s) { s.lengths.set_integer(-3, 0); }},
      {"a length beyond the rows",
       true,
       QUERN_MLA_STATUS_LENGTH,
       {"lengths[1]", "22", "room"},
       [](Scoring& s) { s.lengths.set_integer(22, 1); }},
      {"a page beyond the pool",
       false,
       QUERN_MLA_STATUS_PAGE,
       {"page_table[0][1]", "k's pages"},
       [](Scoring& s) { s.table.set_integer(5000, 0, 1); }},
      {"queries beyond q",
       false,
       QUERN_MLA_STATUS_QUERIES,
       {"cu_q[2]", "9", "q's rows"},
       [](Scoring& s) { s.cu_q.set_integer(9, 2); }},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.what);
    ScoreCase c;
    c.name = "status";
    c.sequences = {{2, 100}, {3, 20}}, c.ragged = wrong.ragged;
    Scoring scoring(c);
    wrong.make(scoring);
    if (on_cuda()) {
      ASSERT_NO_FATAL_FAILURE(scoring.run());
      EXPECT_EQ(scoring.status.integer(0), wrong.bit);
      continue;
    }
    scoring.upload();
    expect_refused(wrong.words, [&](quern_error* e) { return quern_index_scores(context(), &scoring.args, e); });
    scoring.out.download();
    EXPECT_TRUE(scoring.out.is_untouched(0, 0));
  }
}

TEST(IndexScoresRefuses, EveryWrongArgument) {
  using S = Scoring&;
  const std::vector<Mistake<Scoring>> mistakes = {
      {"q NULL", {"q", "NULL"}, [](S s) { s.args.q = nullptr; }},
      {"weights NULL", {"weights", "NULL"}, [](S s) { s.args.weights = nullptr; }},
      {"k NULL", {"k", "NULL"}, [](S s) { s.args.k = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](S s) { s.args.out = nullptr; }},
      {"lengths NULL", {"lengths", "NULL"}, [](S s) { s.args.lengths = nullptr; }},
      {"q's dtype", {"q", "e4m3"}, [](S s) { s.q.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"bytes without a type", {"q_type"}, [](S s) { s.q.box().tensor.dtype = {kDLUInt, 8, 1}; }},
      {"k's dtype", {"k", "e4m3"}, [](S s) { s.k.box().tensor.dtype = Element(Element::e5m2).type(); }},
      {"heads", {"q.shape[1]", "129"}, [](S s) { s.q.box().shape[1] = 129; }},
      {"dim", {"q.shape[2]", "24"}, [](S s) { s.q.box().shape[2] = 24; }},
      {"too many numbers", {"16384"}, [](S s) { s.q.box().shape[1] = 80, s.q.box().shape[2] = 256; }},
      {"weights' heads", {"weights.shape[1]", "64"}, [](S s) { s.weights.box().shape[1] = 63; }},
      {"q_scale's tokens", {"q_scale.shape[0]"}, [](S s) { s.q_scale.box().shape[0] = 1; }},
      {"q_scale's dtype", {"q_scale", "f32"}, [](S s) { s.q_scale.box().tensor.dtype = kInt32; }},
      {"k's dim", {"k.shape[2]", "128"}, [](S s) { s.k.box().shape[2] = 64; }},
      {"k_scale's pages", {"k_scale.shape[0]"}, [](S s) { s.k_scale.box().shape[0] = 1; }},
      {"out's rows", {"out.shape[0]"}, [](S s) { s.out.box().shape[0] = 3; }},
      {"out's dtype", {"out", "f32"}, [](S s) { s.out.box().tensor.dtype = kInt32; }},
      {"out's last stride", {"out.strides[1]", "1"}, [](S s) { s.out.box().strides[1] = 2; }},
      {"out over itself", {"out.strides[0]"}, [](S s) { s.out.box().strides[0] = 8; }},
      {"no place of keys", {"page_table", "cu_kv"}, [](S s) { s.args.page_table = nullptr; }},
      {"two places of keys", {"page_table"}, [](S s) { s.args.page_indptr = s.indptr.tensor(); }},
      {"cu_q's length", {"cu_q.shape[0]", "3"}, [](S s) { s.cu_q.box().shape[0] = 2; }},
      {"page_table's rows", {"page_table.shape[0]", "2"}, [](S s) { s.table.box().shape[0] = 1; }},
      {"max_q_len", {"max_q_len", "-1"}, [](S s) { s.args.max_q_len = -1; }},
      {"max_q_len without cu_q", {"max_q_len", "3"}, [](S s) { s.args.cu_q = nullptr; }},
      {"status' length", {"status.shape[0]", "1"}, [](S s) { s.status.box().shape[0] = 2; }},
      {"q's alignment", {"q", "stride"}, [](S s) { s.q.box().strides[1] += 8; }},
      {"an unknown flag", {"flags"}, [](S s) { s.args.flags = 1u << 20; }},
      {"without data", {"out", "NULL"}, [](S s) { s.out.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](S s) { s.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](S s) { s.args.max_sms = -1; }},
      {"no size", {"size"}, [](S s) { s.args.size = 0; }},
  };
  ScoreCase c;
  c.name = "refusals";
  c.sequences = {{2, 70}, {3, 20}};
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_index_scores_args>{quern_index_scores, quern_index_scores_workspace, quern_index_scores_prepare},
      [&] { return std::make_unique<Scoring>(c); },
      [](Scoring& s) {
        return [&s] {
          s.out.download();
          return s.out.is_untouched(0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
