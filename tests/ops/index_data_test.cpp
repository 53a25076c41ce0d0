// Index tensors that lead out of what they point into: on `host` an error that names the sequence, the value and its
// bound, before anything has run; never a crash.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/ops/attention_problem.h"
#include "tests/ops/coded_attention.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

std::int32_t* ints(const DLTensor* tensor) {
  return reinterpret_cast<std::int32_t*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

AttentionCase case_of(bool indptr, Layout layout = Layout::nhd) {
  AttentionCase c;
  c.name = "misled";
  c.sequences = {{3, 40}, {1, 9}, {2, 20}};
  c.layout = layout;
  c.indptr = indptr;
  c.causal = true;
  return c;
}

struct Misled {
  const char* what;
  std::vector<std::string_view> words;
  std::function<void(quern_attention_args&)> make;
};

void expect_all_named(const AttentionCase& c, const std::vector<Misled>& mistakes) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  for (const Misled& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    AttentionProblem problem(c, Random("misled"));
    problem.make_workspace(context());
    const AttentionOutput before = problem.output();
    mistake.make(problem.args());
    expect_refused(mistake.words, [&](quern_error* e) { return quern_attention(context(), &problem.args(), e); });
    EXPECT_EQ(problem.output().out, before.out);
  }
}

using Args = quern_attention_args&;

TEST(IndexData, PageTables) {
  expect_all_named(
      case_of(false),
      {
          {"a page below the pool",
           {"page_table[1][0]", "sequence 1", "keys 0 to 8", "is -1", "0 to"},
           [](Args a) {
             ints(a.page_table)[a.page_table->strides != nullptr ? a.page_table->strides[0] : a.page_table->shape[1]] =
                 -1;
           }},
          {"a page beyond the pool",
           {"page_table[0][0]", "sequence 0", "1000000"},
           [](Args a) { ints(a.page_table)[0] = 1000000; }},
          {"a negative length", {"lengths[2]", "sequence 2", "-1"}, [](Args a) { ints(a.lengths)[2] = -1; }},
          {"a length beyond the maximum",
           {"lengths[0]", "sequence 0", "1000000", "max_kv_len"},
           [](Args a) { ints(a.lengths)[0] = 1000000; }},
          {"a length beyond the table",
           {"lengths[1]", "sequence 1", "page_table"},
           [](Args a) {
             a.max_kv_len = 100000;
             ints(a.lengths)[1] = 99999;
           }},
          {"queries that fall", {"cu_q[2]", "sequence 1"}, [](Args a) { ints(a.cu_q)[2] = 1; }},
          {"queries beyond q", {"cu_q[3]", "sequence 2", "total_q"}, [](Args a) { ints(a.cu_q)[3] = 1000; }},
          {"queries from below", {"cu_q[0]", "-5"}, [](Args a) { ints(a.cu_q)[0] = -5; }},
          {"more queries than the maximum", {"sequence 0", "3", "max_q_len"}, [](Args a) { a.max_q_len = 2; }},
      });
}

TEST(IndexData, PageIndices) {
  expect_all_named(
      case_of(true),
      {
          {"a page beyond the pool",
           {"page_indices[0]", "sequence 0", "77777"},
           [](Args a) { ints(a.page_indices)[0] = 77777; }},
          {"offsets that fall", {"page_indptr[2]", "sequence 1"}, [](Args a) { ints(a.page_indptr)[2] = 0; }},
          {"offsets beyond", {"page_indptr[3]", "page_indices"}, [](Args a) { ints(a.page_indptr)[3] = 100000; }},
          {"a length beyond its pages",
           {"lengths[1]", "page_indptr"},
           [](Args a) {
             a.max_kv_len = 100000;
             ints(a.lengths)[1] = 5000;
           }},
      });
}

TEST(IndexData, RaggedKeys) {
  expect_all_named(case_of(false, Layout::ragged),
                   {
                       {"tokens that fall", {"cu_kv[1]", "sequence 0"}, [](Args a) { ints(a.cu_kv)[1] = -1; }},
                       {"tokens beyond k", {"cu_kv[3]", "sequence 2", "k"}, [](Args a) { ints(a.cu_kv)[3] = 100000; }},
                       {"a length beyond its tokens",
                        {"lengths[0]", "cu_kv"},
                        [](Args a) {
                          a.max_kv_len = 100000;
                          ints(a.lengths)[0] = 5000;
                        }},
                   });
}

// Rows of a custom mask that lie outside of it, and numbers of keys that no sequence has, by any bounds.
TEST(IndexData, CustomMasks) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  for (const bool ragged : {false, true}) {
    CodedCase c;
    c.name = "misled masks", c.mask = true, c.ragged = ragged;
    c.sequences = {{3, 40}, {1, 33}, {4, 64}};
    CodedAttention attention(c);
    ASSERT_NO_FATAL_FAILURE(attention.run(context()));
    std::int32_t *const begin = ints(attention.args.mask_indptr), *const keys = ints(attention.args.mask_keys);
    keys[1] = 30;  // so that every sequence has rows
    const std::int32_t bytes = static_cast<std::int32_t>(attention.args.mask->shape[0]);
    const auto refused = [&](const std::vector<std::string_view>& words) {
      expect_refused(words, [&](quern_error* e) { return quern_attention(context(), &attention.args, e); });
    };
    for (const std::int32_t wrong : {-1, bytes - 3, 1'000'000'000, -1'000'000'000}) {
      const std::int32_t right = std::exchange(begin[1], wrong);
      refused({"mask_indptr[1]", "sequence 1", std::to_string(wrong), "0 to " + std::to_string(bytes - 4), "mask"});
      begin[1] = right;
    }
    for (const std::int32_t wrong : {-5, 1'000'000'000}) {
      const std::int32_t right = std::exchange(keys[0], wrong);
      refused({"mask_keys[0]", "sequence 0", std::to_string(wrong), "max_kv_len"});
      keys[0] = right;
    }
  }
}

// What no query sees is never followed, and may be anything.
TEST(IndexData, EntriesBeforeAWindowMayBeAnything) {
  if (on_cuda()) GTEST_SKIP() << "the same as elsewhere";
  AttentionCase c = case_of(false);
  c.sequences = {{1, 100}};
  c.page_size = 16;
  AttentionProblem problem(c, Random("misled"));
  problem.make_workspace(context());
  problem.args().flags |= QUERN_ATTENTION_WINDOW_LEFT;
  problem.args().window_left = 10;
  ints(problem.args().page_table)[0] = -1;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_attention(context(), &problem.args(), &error), QUERN_OK) << error.text;
}

// Positions of moe_combine.
TEST(IndexData, Positions) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  float x[4 * 8] = {}, out[2 * 8] = {7};
  std::int32_t positions[2 * 2] = {0, 3, -1, 4};
  TensorBox x_box, out_box, positions_box;
  x_box.set(kFloat32, {4, 8}), out_box.set(kFloat32, {2, 8}), positions_box.set(kInt32, {2, 2});
  x_box.place(x), out_box.place(out), positions_box.place(positions);
  auto args = sized<quern_moe_combine_args>();
  args.x = x_box.get(), args.out = out_box.get(), args.positions = positions_box.get();
  args.alignment = 4;
  expect_refused({"positions[1][1]", "token 1", "is 4", "-1 to 3"},
                 [&](quern_error* e) { return quern_moe_combine(context(), &args, e); });
  EXPECT_EQ(out[0], 7.0f);
  positions[3] = 2;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_moe_combine(context(), &args, &error), QUERN_OK) << error.text;
}

}  // namespace
}  // namespace quern::test
