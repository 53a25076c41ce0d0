// merge_state against its formula in fp64, empty parts, aliases and strides among the cases; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "tests/ops/attention_problem.h"
#include "tests/ops/element.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One call: parts a and b, the result in memory of its own.
class Merge {
 public:
  // `padding` elements lie between the rows of every tensor.
  // Tensors of `turned` (bit 0: a, 1: b, 2: the result) lie head by head.
  Merge(Element dtype, std::int64_t rows, std::int64_t heads, std::int64_t dim, std::int64_t padding = 0,
        int turned = 0)
      : dtype_(dtype),
        rows_(rows),
        heads_(heads),
        dim_(dim),
        pitch_(dim + padding),
        lse_pitch_(heads + padding / 8),
        turned_(turned) {
    Random random("merge_state");
    for (int i = 0; i < 2; ++i) {
      Part& part = parts_[i];
      part.values.assign(static_cast<std::size_t>(rows * heads * pitch_) * dtype.bytes(), 0xff);
      part.lse.assign(static_cast<std::size_t>(rows * lse_pitch_), std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          part.lse[lse_at(i, r, h)] = static_cast<float>(4.0 * random.normal());
          for (std::int64_t d = 0; d < dim; ++d) dtype.store(&part.values[at(i, r, h, d)], random.normal());
        }
      }
    }
    for (int i = 0; i < 3; ++i) {
      out_buffers_[i] = Buffer(static_cast<std::size_t>(rows * heads * pitch_) * dtype.bytes(), 0xff);
      lse_buffers_[i] = Buffer(static_cast<std::size_t>(rows * lse_pitch_) * 4, 0xff);
      const bool turn = is_turned(i);
      out[i].set(dtype.type(), {rows, heads, dim}, {turn ? pitch_ : heads * pitch_, turn ? rows * pitch_ : pitch_, 1});
      lse[i].set(kFloat32, {rows, heads}, {turn ? 1 : lse_pitch_, turn ? rows : 1});
      out[i].place(out_buffers_[i].data());
      lse[i].place(lse_buffers_[i].data());
    }
    args = sized<quern_merge_state_args>();
    args.out_a = out[0].get(), args.lse_a = lse[0].get();
    args.out_b = out[1].get(), args.lse_b = lse[1].get();
    args.out = out[2].get(), args.lse = lse[2].get();
  }

  // Part `part` saw no key for this row: what its values are says nothing.
  void empty(int part, std::int64_t row, std::int64_t head) {
    parts_[part].lse[lse_at(part, row, head)] = -kInfinity;
    for (std::int64_t d = 0; d < dim_; ++d) {
      dtype_.store(&parts_[part].values[at(part, row, head, d)], std::numeric_limits<double>::quiet_NaN());
    }
  }

  void run() {
    for (int i = 0; i < 2; ++i) {
      out_buffers_[i].write(parts_[i].values);
      lse_buffers_[i].write(parts_[i].lse);
    }
    auto error = sized<quern_error>();
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_merge_state_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer workspace(bytes, 0);
    args.workspace = workspace.data();
    args.workspace_size = bytes;
    ASSERT_EQ(quern_merge_state_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_merge_state(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  // Holds what lies in buffers `o` and `l` against the formula.
  void check(int o = 2, int l = 2) const {
    const std::vector<unsigned char> result = out_buffers_[o].read(), sums = lse_buffers_[l].read();
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        const double a = parts_[0].lse[lse_at(0, r, h)], b = parts_[1].lse[lse_at(1, r, h)], max = std::max(a, b);
        const double lse_exact = std::isinf(max) ? max : max + std::log(std::exp(a - max) + std::exp(b - max));
        float lse_given = 0;
        std::memcpy(&lse_given, &sums[lse_at(l, r, h) * 4], 4);
        if (args.lse != nullptr) {
          wrong += std::isinf(max) ? lse_given != -kInfinity
                                   : !(std::fabs(lse_given - lse_exact) <= 2e-6 * (1.0 + std::fabs(max)));
        }
        for (std::int64_t d = 0; d < dim_; ++d) {
          double exact = 0.0, size = 0.0;
          for (int i = 0; i < 2; ++i) {
            const double weight = std::exp(parts_[i].lse[lse_at(i, r, h)] - lse_exact);
            if (std::isinf(max) || weight == 0.0) continue;
            exact += weight * dtype_.load(&parts_[i].values[at(i, r, h, d)]);
            size += std::fabs(weight * dtype_.load(&parts_[i].values[at(i, r, h, d)]));
          }
          const double given = dtype_.load(&result[at(o, r, h, d)]);
          wrong += !(std::fabs(given - exact) <= dtype_.roundoff() * std::fabs(exact) * 1.01 + 3e-6 * size + 1e-7);
        }
      }
    }
    EXPECT_EQ(wrong, 0) << dtype_.name() << " " << rows_ << "x" << heads_ << "x" << dim_
                        << "; QUERN_TEST_SEED=" << run_seed();
    // Between the rows nothing was written.
    for (std::int64_t r = 0; r < rows_ * heads_; ++r) {
      for (std::size_t i = static_cast<std::size_t>(r * pitch_ + dim_) * dtype_.bytes();
           i < static_cast<std::size_t>((r + 1) * pitch_) * dtype_.bytes(); ++i)
        ASSERT_EQ(result[i], 0xff);
    }
  }

  quern_merge_state_args args{};
  TensorBox out[3], lse[3];  // a, b and the result

 private:
  struct Part {
    std::vector<unsigned char> values;
    std::vector<float> lse;
  };
  bool is_turned(int i) const { return (turned_ >> i & 1) != 0; }
  std::size_t at(int i, std::int64_t row, std::int64_t head, std::int64_t d) const {
    const std::int64_t place = is_turned(i) ? head * rows_ + row : row * heads_ + head;
    return static_cast<std::size_t>(place * pitch_ + d) * dtype_.bytes();
  }
  std::size_t lse_at(int i, std::int64_t row, std::int64_t head) const {
    return static_cast<std::size_t>(is_turned(i) ? head * rows_ + row : row * lse_pitch_ + head);
  }

  Element dtype_;
  std::int64_t rows_, heads_, dim_, pitch_, lse_pitch_;
  int turned_;
  Part parts_[2];
  Buffer out_buffers_[3], lse_buffers_[3];
};

class MergeState : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, MergeState,
                         testing::Values(Element(Element::f16), Element(Element::bf16), Element(Element::f32)),
                         [](const testing::TestParamInfo<Element>& dtype) { return std::string(dtype.param.name()); });

TEST_P(MergeState, MatchesItsFormula) {
  struct Extents {
    std::int64_t rows, heads, dim;
  };
  for (const Extents& e : std::initializer_list<Extents>{
           {1, 1, 8}, {7, 3, 64}, {2, 5, 24}, {33, 4, 128}, {3, 8, 256}, {2, 2, 512}, {1, 1, 4096}, {300, 2, 16}}) {
    Merge merge(GetParam(), e.rows, e.heads, e.dim);
    ASSERT_NO_FATAL_FAILURE(merge.run());
    merge.check();
  }
}

TEST_P(MergeState, TakesPartsWithoutKeysWhateverTheyHold) {
  Merge merge(GetParam(), 6, 3, 64);
  for (std::int64_t h = 0; h < 3; ++h) {
    merge.empty(0, 1, h);
    merge.empty(1, 2, h);
    merge.empty(0, 3, h), merge.empty(1, 3, h);
  }
  merge.empty(0, 5, 1);
  ASSERT_NO_FATAL_FAILURE(merge.run());
  merge.check();
}

TEST_P(MergeState, MayWriteOverEitherPart) {
  for (const int part : {0, 1}) {
    Merge merge(GetParam(), 9, 2, 128);
    merge.empty(1 - part, 4, 1);
    merge.args.out = merge.out[part].get();
    ASSERT_NO_FATAL_FAILURE(merge.run());
    merge.check(part, 2);
  }
}

// Each tensor's strides are its own.
TEST_P(MergeState, TakesTensorsThatLieDifferently) {
  for (const int turned : {1, 2, 4, 7}) {
    Merge merge(GetParam(), 5, 3, 40, 8, turned);
    ASSERT_NO_FATAL_FAILURE(merge.run());
    merge.check();
  }
}

TEST_P(MergeState, TakesStridesAndGoesWithoutLse) {
  Merge strided(GetParam(), 5, 3, 40, 16);
  ASSERT_NO_FATAL_FAILURE(strided.run());
  strided.check();
  Merge without(GetParam(), 5, 3, 40);
  without.args.lse = nullptr;
  ASSERT_NO_FATAL_FAILURE(without.run());
  without.check();
  Merge few_sms(GetParam(), 50, 3, 64);
  few_sms.args.max_sms = 1;
  ASSERT_NO_FATAL_FAILURE(few_sms.run());
  few_sms.check();
  Merge none(GetParam(), 0, 3, 64);
  ASSERT_NO_FATAL_FAILURE(none.run());
}

TEST(MergeStateRefuses, EveryWrongArgument) {
  using M = Merge&;
  struct Mistake {
    const char* what;
    std::vector<std::string_view> words;
    std::function<void(M)> make;
    bool by_the_call = false;
  };
  const std::vector<Mistake> mistakes = {
      {"out_a NULL", {"out_a", "NULL"}, [](M m) { m.args.out_a = nullptr; }},
      {"lse_a NULL", {"lse_a", "NULL"}, [](M m) { m.args.lse_a = nullptr; }},
      {"out_b NULL", {"out_b", "NULL"}, [](M m) { m.args.out_b = nullptr; }},
      {"lse_b NULL", {"lse_b", "NULL"}, [](M m) { m.args.lse_b = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](M m) { m.args.out = nullptr; }},
      {"out_a's rank", {"out_a", "dimensions"}, [](M m) { m.out[0].tensor.ndim = 2; }},
      {"lse_b's rank", {"lse_b", "dimensions"}, [](M m) { m.lse[1].tensor.ndim = 3; }},
      {"out_a's dtype", {"out_a", "int32"}, [](M m) { m.out[0].tensor.dtype = kInt32; }},
      {"out_b's dtype", {"out_b", "bf16"}, [](M m) { m.out[1].tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "bf16"}, [](M m) { m.out[2].tensor.dtype = dtype_of(Format::f16); }},
      {"lse's dtype", {"lse", "f32"}, [](M m) { m.lse[2].tensor.dtype = dtype_of(Format::bf16); }},
      {"out_b's rows", {"out_b.shape[0]", "4"}, [](M m) { m.out[1].shape[0] = 3; }},
      {"out's heads", {"out.shape[1]", "2"}, [](M m) { m.out[2].shape[1] = 1; }},
      {"out's dim", {"out.shape[2]", "64"}, [](M m) { m.out[2].shape[2] = 32; }},
      {"lse_a's rows", {"lse_a.shape[0]"}, [](M m) { m.lse[0].shape[0] = 5; }},
      {"lse's heads", {"lse.shape[1]"}, [](M m) { m.lse[2].shape[1] = 3; }},
      {"a dim of 12",
       {"shape[2]", "12", "multiples of 8"},
       [](M m) {
         for (TensorBox& t : m.out) t.shape[2] = 12;
       }},
      {"a dim of 0",
       {"shape[2]", "multiples of 8"},
       [](M m) {
         for (TensorBox& t : m.out) t.shape[2] = 0;
       }},
      {"a negative extent", {"out_a.shape[0]"}, [](M m) { m.out[0].shape[0] = -4; }},
      {"another device",
       {"out_b", "ROCm"},
       [](M m) { m.out[1].tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM); }},
      {"the last stride", {"out_a.strides[2]", "1"}, [](M m) { m.out[0].strides[2] = 2; }},
      {"a row's alignment", {"out_b", "stride"}, [](M m) { m.out[1].strides[1] += 4; }},
      {"out's alignment", {"out", "data"}, [](M m) { m.out[2].tensor.byte_offset = 8; }, true},
      {"out_a without data", {"out_a", "NULL"}, [](M m) { m.out[0].tensor.data = nullptr; }, true},
      {"lse without data", {"lse", "NULL"}, [](M m) { m.lse[2].tensor.data = nullptr; }, true},
      {"alignment 4", {"alignment", "4"}, [](M m) { m.args.alignment = 4; }},
      {"max_sms negative", {"max_sms", "-1"}, [](M m) { m.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](M m) { m.args.flags = QUERN_ATTENTION_CAUSAL; }},
      {"no size", {"size"}, [](M m) { m.args.size = 0; }},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    Merge merge(Element::bf16, 4, 2, 64, 8);
    mistake.make(merge);
    expect_refused(mistake.words, [&](quern_error* e) { return quern_merge_state(context(), &merge.args, e); });
    if (mistake.by_the_call) continue;
    std::uint64_t bytes = 5;
    expect_refused(mistake.words,
                   [&](quern_error* e) { return quern_merge_state_workspace(context(), &merge.args, &bytes, e); });
    expect_refused(mistake.words, [&](quern_error* e) { return quern_merge_state_prepare(context(), &merge.args, e); });
    EXPECT_EQ(bytes, 5u);
  }
}

// Attention over the first keys of each sequence and over the rest, joined: what the definition gives for all of them.
TEST(MergeStateOfAttention, TwoPartsMakeTheWhole) {
  AttentionCase c;
  c.sequences = decode_of({200, 64, 100, 33});
  c.one_query = true;
  c.layout = Layout::ragged;
  AttentionProblem problem(c, Random("whole"));
  // Where the first part ends: one sequence lies in it as a whole, one in the second part.
  const std::vector<std::int32_t> cuts = {70, 64, 1, 0};
  std::vector<std::int32_t> rest, rest_begins = {0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    rest.push_back(c.sequences[i].kv - cuts[i]);
    rest_begins[i] = problem.kv_begin(static_cast<int>(i)) + cuts[i];
    rest_begins[i + 1] = rest_begins[i] + rest[i];  // where the last one ends
  }
  const auto attend = [&](const std::vector<std::int32_t>& lengths, const std::vector<std::int32_t>* begins) {
    Buffer length_buffer(lengths.size() * 4), begin_buffer(5 * 4);
    length_buffer.write(lengths);
    problem.tensors().lengths.place(length_buffer.data());
    if (begins != nullptr) {
      begin_buffer.write(*begins);
      problem.tensors().cu_kv.place(begin_buffer.data());
    }
    problem.poison_outputs();
    problem.run(context());
    synchronize();
    return problem.output();
  };
  const AttentionOutput parts[2] = {attend(cuts, nullptr), attend(rest, &rest_begins)};

  TensorBox out[2], lse[2];
  Buffer out_buffers[2], lse_buffers[2];
  for (int i = 0; i < 2; ++i) {
    out_buffers[i] = Buffer(parts[i].out.size() * 2);
    lse_buffers[i] = Buffer(parts[i].lse.size() * 4);
    out_buffers[i].write(parts[i].out);
    lse_buffers[i].write(parts[i].lse);
    out[i].set(dtype_of(c.format), {c.total_q(), c.heads(), c.v()});
    lse[i].set(kFloat32, {c.total_q(), c.heads()});
    out[i].place(out_buffers[i].data());
    lse[i].place(lse_buffers[i].data());
  }
  auto args = sized<quern_merge_state_args>();
  args.out_a = out[0].get(), args.lse_a = lse[0].get();
  args.out_b = out[1].get(), args.lse_b = lse[1].get();
  args.out = problem.args().out, args.lse = problem.args().lse;
  auto error = sized<quern_error>();
  Buffer workspace(0);
  args.workspace = workspace.data();
  problem.poison_outputs();
  ASSERT_EQ(quern_merge_state(context(), &args, &error), QUERN_OK) << error.text;
  problem.check();
}

}  // namespace
}  // namespace quern::test
