// merge_states against its formula in fp64: numbers of parts, empty ones, strides; its refusals; and a cascade of
// shared prefixes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct MergeCase {
  std::int64_t parts, rows, heads, dim;
  bool parts_inside = false;  // [rows, parts, heads, d] seen through strides
  bool with_lse = true;
  int max_sms = 0;
};

class Merging {
 public:
  Merging(Element element, const MergeCase& c)
      : args(sized<quern_merge_states_args>()),
        c_(c),
        parts(element, {c.parts, c.rows, c.heads, c.dim}, strides(c.dim + 8)),
        lses(Element::f32, {c.parts, c.rows, c.heads}, lse_strides()),
        out(element, {c.rows, c.heads, c.dim}, {c.heads * (c.dim + 8), c.dim + 8, 1}),
        lse(Element::f32, {c.rows, c.heads}, {c.heads + 1, 1}) {
    Random random("merge_states");
    for (std::int64_t p = 0; p < c.parts; ++p) {
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t h = 0; h < c.heads; ++h) {
          // Some parts saw no key; what stands in them is NaN.
          const bool empty = random.below(4) == 0 || (r == 1 && h == 0);
          lses.set(empty ? -kInfinity : 4.0 * random.normal(), p, r, h);
          for (std::int64_t d = 0; d < c.dim; ++d) {
            parts.set(empty ? std::numeric_limits<double>::quiet_NaN() : random.normal(), p, r, h, d);
          }
        }
      }
    }
    args.parts = parts.tensor(), args.part_lses = lses.tensor(), args.out = out.tensor();
    if (c.with_lse) args.lse = lse.tensor();
    args.max_sms = c.max_sms;
  }

  void run() {
    for (Array* x : {&parts, &lses, &out, &lse}) x->upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_merge_states_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_merge_states_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_merge_states(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download(), lse.download();
  }

  void check() const {
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        double max = -kInfinity, sum = 0.0;
        for (std::int64_t p = 0; p < c_.parts; ++p) max = std::max(max, lses.get(p, r, h));
        for (std::int64_t p = 0; p < c_.parts && max > -kInfinity; ++p) sum += std::exp(lses.get(p, r, h) - max);
        const double joint = max > -kInfinity ? max + std::log(sum) : -kInfinity;
        if (c_.with_lse) {
          wrong += max > -kInfinity ? !(std::fabs(lse.get(r, h) - joint) <= 3e-6 * (1.0 + std::fabs(max)))
                                    : lse.get(r, h) != -kInfinity;
        } else {
          wrong += !lse.is_untouched(r, h);
        }
        for (std::int64_t d = 0; d < c_.dim; ++d) {
          double exact = 0.0, size = 0.0;
          for (std::int64_t p = 0; p < c_.parts; ++p) {
            if (lses.get(p, r, h) == -kInfinity) continue;
            const double term = std::exp(lses.get(p, r, h) - joint) * parts.get(p, r, h, d);
            exact += term, size += std::fabs(term);
          }
          wrong += !(std::fabs(out.get(r, h, d) - exact) <=
                     out.element().roundoff() * std::fabs(exact) * 1.01 + 4e-6 * size + 1e-7);
        }
        for (std::int64_t d = c_.dim; d < c_.dim + 8 && (r + 1 < c_.rows || h + 1 < c_.heads); ++d)
          wrong += !out.is_untouched(r, h, d);
      }
    }
    EXPECT_EQ(wrong, 0) << out.element().name() << " " << c_.parts << "x" << c_.rows << "x" << c_.heads << "x" << c_.dim
                        << "; QUERN_TEST_SEED=" << run_seed();
  }

 private:
  Array::Extents strides(std::int64_t pitch) const {
    const std::int64_t row = c_.heads * pitch;
    return c_.parts_inside ? Array::Extents{row, c_.parts * row, pitch, 1}
                           : Array::Extents{c_.rows * row, row, pitch, 1};
  }
  Array::Extents lse_strides() const {
    return c_.parts_inside ? Array::Extents{c_.heads, c_.parts * c_.heads, 1}
                           : Array::Extents{c_.rows * c_.heads, c_.heads, 1};
  }

 public:
  quern_merge_states_args args;

 private:
  MergeCase c_;

 public:
  Array parts, lses, out, lse;
};

class MergeStates : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, MergeStates,
                         testing::Values(Element(Element::f16), Element(Element::bf16), Element(Element::f32)),
                         [](const testing::TestParamInfo<Element>& dtype) { return std::string(dtype.param.name()); });

TEST_P(MergeStates, MatchesItsFormula) {
  for (const MergeCase& c : std::initializer_list<MergeCase>{{1, 3, 2, 64},
                                                             {2, 7, 3, 64},
                                                             {3, 5, 1, 8},
                                                             {4, 33, 4, 128},
                                                             {5, 3, 2, 24},
                                                             {9, 2, 2, 512},
                                                             {17, 40, 2, 16},
                                                             {4, 6, 3, 64, true},
                                                             {4, 6, 3, 64, false, false},
                                                             {3, 60, 3, 64, false, true, 1},
                                                             {4, 0, 3, 64},
                                                             {0, 4, 2, 64}}) {
    Merging merging(GetParam(), c);
    ASSERT_NO_FATAL_FAILURE(merging.run());
    merging.check();
  }
}

TEST(MergeStatesRefuses, EveryWrongArgument) {
  using M = Merging&;
  const std::vector<Mistake<Merging>> mistakes = {
      {"parts NULL", {"parts", "NULL"}, [](M m) { m.args.parts = nullptr; }},
      {"part_lses NULL", {"part_lses", "NULL"}, [](M m) { m.args.part_lses = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](M m) { m.args.out = nullptr; }},
      {"parts' rank", {"parts", "dimensions"}, [](M m) { m.parts.box().tensor.ndim = 3; }},
      {"parts' dtype", {"parts", "int32"}, [](M m) { m.parts.box().tensor.dtype = kInt32; }},
      {"out's dtype", {"out", "bf16"}, [](M m) { m.out.box().tensor.dtype = kFloat32; }},
      {"lse's dtype", {"lse", "f32"}, [](M m) { m.lse.box().tensor.dtype = kInt32; }},
      {"part_lses' parts", {"part_lses.shape[0]", "3"}, [](M m) { m.lses.box().shape[0] = 2; }},
      {"out's heads", {"out.shape[1]", "2"}, [](M m) { m.out.box().shape[1] = 1; }},
      {"lse's rows", {"lse.shape[0]", "4"}, [](M m) { m.lse.box().shape[0] = 5; }},
      {"a dim of 12", {"parts.shape[3]", "multiples of 8"}, [](M m) { m.parts.box().shape[3] = 12; }},
      {"the last stride", {"parts.strides[3]", "1"}, [](M m) { m.parts.box().strides[3] = 2; }},
      {"a row's alignment", {"parts", "stride"}, [](M m) { m.parts.box().strides[2] += 4; }},
      {"outputs over each other", {"out.strides"}, [](M m) { m.out.box().strides[1] = 8; }},
      {"without data", {"parts", "NULL"}, [](M m) { m.parts.box().tensor.data = nullptr; }, true},
      {"alignment 8", {"alignment", "8"}, [](M m) { m.args.alignment = 8; }},
      {"max_sms negative", {"max_sms", "-1"}, [](M m) { m.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](M m) { m.args.flags = QUERN_ATTENTION_CAUSAL; }},
      {"no size", {"size"}, [](M m) { m.args.size = 0; }},
  };
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_merge_states_args>{quern_merge_states, quern_merge_states_workspace, quern_merge_states_prepare},
      [] {
        return std::make_unique<Merging>(Element::bf16, MergeCase{3, 4, 2, 64});
      },
      [](Merging& m) {
        return [&m] {
          m.out.download();
          return m.out.is_untouched(0, 0, 0) && m.out.is_untouched(3, 1, 63);
        };
      });
}

// Decode over prefixes that are shared by all sequences, by half of them, and by nobody: each prefix is one sequence
// whose queries are those of all that share it; the parts are joined in one call.
TEST(Cascade, SharedPrefixesMakeTheWhole) {
  constexpr std::int64_t kBatch = 6, kHeads = 4, kKvHeads = 2, kDim = 64, kPage = 16;
  constexpr std::int64_t kAll = 80, kHalf = 48;  // keys of the shared prefixes
  const std::int64_t own[kBatch] = {5, 33, 1, 64, 17, 40};
  Random random("cascade");
  Array q(Element::bf16, {kBatch, kHeads, kDim}), k(Element::bf16, {40, kPage, kKvHeads, kDim}),
      v(Element::bf16, {40, kPage, kKvHeads, kDim});
  for (std::int64_t i = 0; i < kBatch; ++i) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t d = 0; d < kDim; ++d) q.set(random.normal(), i, h, d);
    }
  }
  for (Array* cache : {&k, &v}) {
    for (std::int64_t p = 0; p < 40; ++p) {
      for (std::int64_t t = 0; t < kPage; ++t) {
        for (std::int64_t h = 0; h < kKvHeads; ++h) {
          for (std::int64_t d = 0; d < kDim; ++d) cache->set(random.normal(), p, t, h, d);
        }
      }
    }
  }
  Array part_lses(Element::f32, {3, kBatch, kHeads});
  Array part_values(Element::bf16, {3, kBatch, kHeads, kDim}), out(Element::bf16, {kBatch, kHeads, kDim}),
      whole(Element::bf16, {kBatch, kHeads, kDim});
  Array lse(Element::f32, {kBatch, kHeads}), whole_lse(Element::f32, {kBatch, kHeads});
  for (Array* x : {&q, &k, &v, &part_lses, &part_values, &out, &whole, &lse, &whole_lse}) x->upload();
  const auto attend = [&](const std::vector<std::vector<std::int64_t>>& pages, const std::vector<std::int64_t>& lengths,
                          const std::vector<std::int64_t>& cu_q, const DLTensor* to, const DLTensor* to_lse) {
    const auto batch = static_cast<std::int64_t>(lengths.size());
    constexpr IntegerBits kBits{32};
    Array table(kBits, {batch, 16}), length(kBits, {batch}), cu(kBits, {batch + 1});
    for (std::int64_t i = 0; i < batch; ++i) {
      for (std::size_t j = 0; j < pages[static_cast<std::size_t>(i)].size(); ++j) {
        table.set_integer(pages[static_cast<std::size_t>(i)][j], i, static_cast<std::int64_t>(j));
      }
    }
    length.fill(lengths), cu.fill(cu_q);
    table.upload(), length.upload(), cu.upload();
    auto args = sized<quern_attention_args>();
    args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor(), args.out = to, args.lse = to_lse;
    args.lengths = length.tensor(), args.cu_q = cu.tensor(), args.page_table = table.tensor();
    args.max_kv_len = 256;
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_attention_workspace(context(), &args, &args.workspace_size, &error), QUERN_OK) << error.text;
    Buffer workspace(args.workspace_size, 0);
    args.workspace = workspace.data();
    ASSERT_EQ(quern_attention(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  };
  // Pages 0 to 4 are everybody's, 5 to 7 the first half's, 8 to 10 the other half's.
  std::vector<std::vector<std::int64_t>> all_pages, own_pages;
  std::vector<std::int64_t> all_lengths, own_lengths;
  std::int64_t free = 11;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    std::vector<std::int64_t> pages = {0, 1, 2, 3, 4}, mine;
    for (std::int64_t p = 0; p < 3; ++p) pages.push_back((i < 3 ? 5 : 8) + p);
    for (std::int64_t j = 0; j < own[i]; j += kPage) mine.push_back(free), pages.push_back(free++);
    all_pages.push_back(pages), own_pages.push_back(mine);
    all_lengths.push_back(kAll + kHalf + own[i]), own_lengths.push_back(own[i]);
  }
  TensorBox boxes[3], lse_boxes[3];
  for (std::int64_t level = 0; level < 3; ++level) {
    boxes[level].set(Element(Element::bf16).type(), {kBatch, kHeads, kDim});
    boxes[level].place(part_values.box().tensor.data, static_cast<std::uint64_t>(level * kBatch * kHeads * kDim * 2));
    lse_boxes[level].set(kFloat32, {kBatch, kHeads});
    lse_boxes[level].place(part_lses.box().tensor.data, static_cast<std::uint64_t>(level * kBatch * kHeads * 4));
  }
  const std::vector<std::int64_t> each = {0, 1, 2, 3, 4, 5, 6};
  ASSERT_NO_FATAL_FAILURE(attend(all_pages, all_lengths, each, whole.tensor(), whole_lse.tensor()));
  ASSERT_NO_FATAL_FAILURE(attend({{0, 1, 2, 3, 4}}, {kAll}, {0, 6}, boxes[0].get(), lse_boxes[0].get()));
  ASSERT_NO_FATAL_FAILURE(
      attend({{5, 6, 7}, {8, 9, 10}}, {kHalf, kHalf}, {0, 3, 6}, boxes[1].get(), lse_boxes[1].get()));
  ASSERT_NO_FATAL_FAILURE(attend(own_pages, own_lengths, each, boxes[2].get(), lse_boxes[2].get()));
  auto args = sized<quern_merge_states_args>();
  args.parts = part_values.tensor(), args.part_lses = part_lses.tensor(), args.out = out.tensor(),
  args.lse = lse.tensor();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_merge_states(context(), &args, &error), QUERN_OK) << error.text;
  synchronize();
  out.download(), lse.download(), whole.download(), whole_lse.download();
  for (std::int64_t i = 0; i < kBatch; ++i) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      EXPECT_NEAR(lse.get(i, h), whole_lse.get(i, h), 4e-6);
      double largest = 0.0, error_here = 0.0;
      for (std::int64_t d = 0; d < kDim; ++d) {
        largest = std::max(largest, std::fabs(whole.get(i, h, d)));
        error_here = std::max(error_here, std::fabs(out.get(i, h, d) - whole.get(i, h, d)));
      }
      EXPECT_LE(error_here, 4.0 * Element(Element::bf16).roundoff() * largest)
          << i << " " << h << "; QUERN_TEST_SEED=" << run_seed();
    }
  }
}

}  // namespace
}  // namespace quern::test
