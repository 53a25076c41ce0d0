// The activations of a real model (tests/data/attention.safetensors): prefilled in chunks, then decoded token by token, over
// shuffled pages, against attention as it was computed in fp64.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "bindings/demo/safetensors.h"
#include "tests/ops/array.h"
#include "tests/ops/attention_tensors.h"
#include "tests/ops/device.h"
#include "tests/ops/random.h"

namespace quern::test {
namespace {

// QUERN_TEST_DATA, else as seen from the project's folder, else where the program was built.
std::string data_file() {
  if (const char* folder = std::getenv("QUERN_TEST_DATA")) return std::string(folder) + "/attention.safetensors";
  const std::string here = "tests/data/attention.safetensors";
  return std::filesystem::exists(here) ? here : QUERN_TEST_DATA "/attention.safetensors";
}

constexpr int kTokens[] = {512, 317, 64};
constexpr int kSequences = 3, kHeads = 4, kKvHeads = 2, kDim = 64;

struct Activations {
  std::vector<std::uint16_t> q, k, v;
  std::vector<float> out, lse;
};

// The paged cache of all sequences, filled as the tokens come.
class Replay {
 public:
  // `cache` are the cache's elements, with a scale a token and head where they have 8 bits: quern_kv_append quantises.
  Replay(int layer, int page_size, Element cache = Element::bf16) : page_size_(page_size), cache_(cache) {
    const demo::Safetensors file(data_file());
    for (int s = 0; s < kSequences; ++s) {
      const std::string prefix = "seq" + std::to_string(s) + ".layer" + std::to_string(layer) + ".";
      Activations a;
      a.q = file.read<std::uint16_t>(prefix + "q", "BF16");
      a.k = file.read<std::uint16_t>(prefix + "k", "BF16");
      a.v = file.read<std::uint16_t>(prefix + "v", "BF16");
      a.out = file.read<float>(prefix + "out", "F32");
      a.lse = file.read<float>(prefix + "lse", "F32");
      activations_.push_back(std::move(a));
    }
    for (const int tokens : kTokens) columns_ = std::max(columns_, (tokens + page_size - 1) / page_size);
    std::vector<std::int32_t> free(static_cast<std::size_t>(kSequences * columns_ + 5));
    std::iota(free.begin(), free.end(), 0);
    Random random("pages of the model");
    random.shuffle(free);
    pages_ = static_cast<int>(free.size());
    table_.assign(free.begin(), free.begin() + kSequences * columns_);
    const auto elements = static_cast<std::size_t>(pages_ * page_size * kKvHeads * kDim);
    k_ = Buffer(elements * cache.bytes(), 0xff);
    v_ = Buffer(elements * cache.bytes(), 0xff);
    k_scale_ = Buffer(elements / kDim * 4, 0xff);
    v_scale_ = Buffer(elements / kDim * 4, 0xff);
    table_buffer_ = Buffer(table_.size() * 4);
    table_buffer_.write(table_);
  }

  int done(int sequence) const { return done_[sequence]; }

  // Appends up to `most` tokens of each sequence to the cache, attends with their queries and checks the results.
  void step(int most) {
    std::vector<std::int32_t> lengths, cu_q = {0};
    std::vector<std::uint16_t> q;
    int longest = 1;
    for (int s = 0; s < kSequences; ++s) {
      const int begin = done_[s], count = std::min(most, kTokens[s] - begin);
      append(s, begin, count);
      done_[s] += count;
      const auto& from = activations_[static_cast<std::size_t>(s)].q;
      q.insert(q.end(), from.begin() + begin * kHeads * kDim, from.begin() + (begin + count) * kHeads * kDim);
      lengths.push_back(done_[s]);
      cu_q.push_back(cu_q.back() + count);
      longest = std::max(longest, count);
    }
    const int total = cu_q.back();
    if (total == 0) return;
    Buffer q_buffer(q.size() * 2), out_buffer(q.size() * 2, 0xff), lse_buffer(static_cast<std::size_t>(total * kHeads) * 4, 0xff);
    Buffer length_buffer(lengths.size() * 4), cu_buffer(cu_q.size() * 4);
    q_buffer.write(q);
    length_buffer.write(lengths);
    cu_buffer.write(cu_q);
    const DLDataType bf16 = dtype_of(Format::bf16);
    TensorBox q_box, k_box, v_box, out_box, lse_box, length_box, cu_box, table_box;
    q_box.set(bf16, {total, kHeads, kDim});
    out_box.set(bf16, {total, kHeads, kDim});
    k_box.set(cache_.type(), {pages_, page_size_, kKvHeads, kDim});
    v_box.set(cache_.type(), {pages_, page_size_, kKvHeads, kDim});
    TensorBox k_scale_box, v_scale_box;
    k_scale_box.set(kFloat32, {pages_, page_size_, kKvHeads});
    v_scale_box.set(kFloat32, {pages_, page_size_, kKvHeads});
    k_scale_box.place(k_scale_.data()), v_scale_box.place(v_scale_.data());
    lse_box.set(kFloat32, {total, kHeads});
    length_box.set(kInt32, {kSequences});
    cu_box.set(kInt32, {kSequences + 1});
    table_box.set(kInt32, {kSequences, columns_});
    q_box.place(q_buffer.data()), out_box.place(out_buffer.data()), lse_box.place(lse_buffer.data());
    k_box.place(k_.data()), v_box.place(v_.data()), table_box.place(table_buffer_.data());
    length_box.place(length_buffer.data()), cu_box.place(cu_buffer.data());
    auto args = sized<quern_attention_args>();
    args.flags = QUERN_ATTENTION_CAUSAL;
    args.q = q_box.get(), args.k = k_box.get(), args.v = v_box.get(), args.out = out_box.get(), args.lse = lse_box.get();
    args.lengths = length_box.get(), args.cu_q = cu_box.get(), args.page_table = table_box.get();
    if (cache_.bytes() == 1) args.k_scale = k_scale_box.get(), args.v_scale = v_scale_box.get();
    args.max_q_len = longest;
    args.max_kv_len = *std::max_element(lengths.begin(), lengths.end());
    args.scale = 0.125f;
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_attention_workspace(context(), &args, &args.workspace_size, &error), QUERN_OK) << error.text;
    if (workspace_.size() < args.workspace_size) workspace_ = Buffer(args.workspace_size, 0);
    args.workspace = workspace_.data();
    ASSERT_EQ(quern_attention(context(), &args, &error), QUERN_OK) << error.text;
    std::vector<std::uint16_t> out(q.size());
    std::vector<float> lse(static_cast<std::size_t>(total * kHeads));
    out_buffer.read(out.data(), out.size() * 2);
    lse_buffer.read(lse.data(), lse.size() * 4);
    check(cu_q, out, lse);
  }

 private:
  void append(int sequence, int begin, int count) {
    const auto row = static_cast<std::size_t>(kKvHeads * kDim);
    const Activations& a = activations_[static_cast<std::size_t>(sequence)];
    if (cache_.bytes() == 1) return quantise(sequence, begin, count, a);
    for (int j = begin; j < begin + count; ++j) {
      const std::int32_t page = table_[static_cast<std::size_t>(sequence * columns_ + j / page_size_)];
      const std::size_t to = static_cast<std::size_t>(page * page_size_ + j % page_size_) * row * 2;
      k_.write(&a.k[static_cast<std::size_t>(j) * row], row * 2, to);
      v_.write(&a.v[static_cast<std::size_t>(j) * row], row * 2, to);
    }
  }

  void quantise(int sequence, int begin, int count, const Activations& a) {
    if (count == 0) return;
    Array k(Element::bf16, {count, kKvHeads, kDim}), v(Element::bf16, {count, kKvHeads, kDim}), slots(IntegerBits{32}, {count});
    const std::size_t row = kKvHeads * kDim, from = static_cast<std::size_t>(begin) * row;
    for (int j = 0; j < count; ++j) {
      const std::int32_t page = table_[static_cast<std::size_t>(sequence * columns_ + (begin + j) / page_size_)];
      slots.set_integer(std::int64_t{page} * page_size_ + (begin + j) % page_size_, j);
      for (std::size_t i = 0; i < row; ++i) {
        const std::size_t at = from + static_cast<std::size_t>(j) * row + i;
        const auto head = static_cast<std::int64_t>(i / kDim), d = static_cast<std::int64_t>(i % kDim);
        k.set(decode(a.k[at], Format::bf16), j, head, d);
        v.set(decode(a.v[at], Format::bf16), j, head, d);
      }
    }
    for (Array* x : {&k, &v, &slots}) x->upload();
    TensorBox caches[2], scales[2];
    for (TensorBox& cache : caches) cache.set(cache_.type(), {pages_, page_size_, kKvHeads, kDim});
    for (TensorBox& scale : scales) scale.set(kFloat32, {pages_, page_size_, kKvHeads});
    caches[0].place(k_.data()), caches[1].place(v_.data());
    scales[0].place(k_scale_.data()), scales[1].place(v_scale_.data());
    auto args = sized<quern_kv_append_args>();
    args.k = k.tensor(), args.v = v.tensor(), args.k_cache = caches[0].get(), args.v_cache = caches[1].get();
    args.k_scale = scales[0].get(), args.v_scale = scales[1].get(), args.slots = slots.tensor();
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_kv_append(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  // What the cache's rounding may cost, relative: of 8 bits in the mean over a step, else in any result of a head.
  double allowed() const {
    switch (cache_.kind()) {
      case Element::e4m3:
        return 0.06;
      case Element::e5m2:
        return 0.12;
      case Element::i8:
        return 0.02;
      default:
        return 3.0 * unit_roundoff(Format::bf16);
    }
  }

  void check(const std::vector<std::int32_t>& cu_q, const std::vector<std::uint16_t>& out, const std::vector<float>& lse) {
    const bool coded = cache_.bytes() == 1;
    double squares = 0.0, squared_errors = 0.0;
    for (int s = 0; s < kSequences; ++s) {
      const Activations& a = activations_[static_cast<std::size_t>(s)];
      const int begin = cu_q[static_cast<std::size_t>(s)], count = cu_q[static_cast<std::size_t>(s) + 1] - begin;
      for (int i = 0; i < count * kHeads; ++i) {
        const auto truth = static_cast<std::size_t>((done_[s] - count) * kHeads + i);
        const auto here = static_cast<std::size_t>(begin * kHeads + i);
        double largest = 0.0, error = 0.0;
        for (std::size_t d = 0; d < kDim; ++d) {
          const double exact = a.out[truth * kDim + d];
          largest = std::max(largest, std::fabs(exact));
          const double off = decode(out[here * kDim + d], Format::bf16) - exact;
          error = std::max(error, std::fabs(off));
          squares += exact * exact, squared_errors += off * off;
        }
        if (!coded) {
          ASSERT_LE(error, allowed() * largest) << "sequence " << s << ", token " << truth / kHeads;
        }
        const double lse_allowed = coded ? allowed() : 4e-6;
        ASSERT_LE(std::fabs(lse[here] - a.lse[truth]), lse_allowed * (1.0 + std::fabs(a.lse[truth])))
            << "sequence " << s << ", token " << truth / kHeads;
      }
    }
    if (coded) {
      ASSERT_LE(std::sqrt(squared_errors), allowed() * std::sqrt(squares));
    }
  }

  int page_size_, columns_ = 0, pages_ = 0;
  Element cache_;
  int done_[kSequences] = {};
  std::vector<Activations> activations_;
  std::vector<std::int32_t> table_;
  Buffer k_, v_, k_scale_, v_scale_, table_buffer_, workspace_;
};

class RealActivations : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Layers, RealActivations, testing::Values(0, 3));

// The last 40 tokens of the longest sequence are decoded one by one; those of the others run out on the way.
TEST_P(RealActivations, ChunksThenTokens) {
  Replay replay(GetParam(), 16);
  while (replay.done(0) < kTokens[0] - 40) {
    ASSERT_NO_FATAL_FAILURE(replay.step(std::min(118, kTokens[0] - 40 - replay.done(0))));
  }
  while (replay.done(0) < kTokens[0]) ASSERT_NO_FATAL_FAILURE(replay.step(1));
}

TEST_P(RealActivations, TokenByTokenFromTheStart) {
  Replay replay(GetParam(), 3);
  while (replay.done(0) < (on_cuda() ? kTokens[0] : 70)) ASSERT_NO_FATAL_FAILURE(replay.step(1));
}

TEST_P(RealActivations, AFewTokensAtATime) {
  Replay replay(GetParam(), 64);
  Random random("steps");
  while (replay.done(0) < kTokens[0]) ASSERT_NO_FATAL_FAILURE(replay.step(random.between(1, on_cuda() ? 9 : 60)));
}

// Prefilled in chunks, then token by token, over caches of 8 bits.
TEST_P(RealActivations, OverCachesOf8Bits) {
  for (const Element cache : {Element(Element::e4m3), Element(Element::e5m2), Element(Element::i8)}) {
    SCOPED_TRACE(cache.name());
    Replay replay(GetParam(), 16, cache);
    while (replay.done(0) < kTokens[0] - 4) {
      ASSERT_NO_FATAL_FAILURE(replay.step(std::min(127, kTokens[0] - 4 - replay.done(0))));
    }
    while (replay.done(0) < kTokens[0]) ASSERT_NO_FATAL_FAILURE(replay.step(1));
  }
}

TEST_P(RealActivations, WholePromptsAtOnce) {
  Replay replay(GetParam(), 128);
  ASSERT_NO_FATAL_FAILURE(replay.step(kTokens[0]));
}

}  // namespace
}  // namespace quern::test
