// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in f16, bf16 and f32
constexpr std::uint64_t kCounterBytes = 256 * 1024;
constexpr int kGap = 2;  // ragged: up to so many unused tokens behind a sequence

// What an entry of the page table holds that nobody may follow: far outside of any pool.
std::int32_t invalid_page() { return on_cuda() ? -1 : 0x7ffffff0; }

std::int64_t pool_of(const AttentionCase& c) {
  if (c.layout == Layout::ragged) {
    std::int64_t tokens = 1;
    for (const Lengths& s : c.sequences) tokens += s.kv + kGap;
    return tokens;
  }
  std::int64_t partial = 0;
  for (const Lengths& s : c.sequences) partial += s.kv % c.page_size != 0;
  const std::int64_t most = std::max(c.most_tokens / c.page_size, partial + 1);
  return std::min(pages_of(c), most) + 3;
}

std::size_t bytes16(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }

}  // namespace

AttentionProblem::AttentionProblem(const AttentionCase& c, Random random)
    : case_(c), pool_(pool_of(c)), tensors_(c, c.first_page + pool_) {
  AttentionTensors& t = tensors_;
  const auto offset = static_cast<std::uint64_t>(c.offset);
  q_buffer_ = Buffer(bytes16(t.q_elements));
  k_buffer_ = Buffer(bytes16(t.k_elements));
  v_buffer_ = Buffer(bytes16(t.v_elements));
  out_buffer_ = Buffer(bytes16(t.out_elements));
  lse_buffer_ = Buffer(static_cast<std::size_t>(t.lse_elements) * 4);
  const auto batch = static_cast<std::size_t>(c.batch());
  lengths_buffer_ = Buffer(batch * 4);
  cu_q_buffer_ = Buffer((batch + 1) * 4);
  table_buffer_ = Buffer(batch * static_cast<std::size_t>(t.max_pages) * 4);
  indptr_buffer_ = Buffer((batch + 1) * 4);
  indices_buffer_ = Buffer(static_cast<std::size_t>(t.page_indices.shape[0]) * 4);
  cu_kv_buffer_ = Buffer((batch + 1) * 4);
  slopes_buffer_ = Buffer(static_cast<std::size_t>(c.heads()) * 4);
  sinks_buffer_ = Buffer(static_cast<std::size_t>(c.heads()) * 4);

  const auto skip = [](const auto& layout, std::int64_t shift) {
    return static_cast<std::uint64_t>(layout.begin - shift) * 2;
  };
  const std::int64_t shift = c.offset / 2;
  t.q.place(static_cast<char*>(q_buffer_.data()) + skip(t.q_rows, shift), offset);
  t.out.place(static_cast<char*>(out_buffer_.data()) + skip(t.out_rows, shift), offset);
  t.k.place(k_buffer_.data(), offset);
  Buffer& values = t.v_elements == 0 ? k_buffer_ : v_buffer_;
  t.v.place(static_cast<char*>(values.data()) + skip(t.v_cache, shift), offset);
  t.lse.place(lse_buffer_.data());
  t.lengths.place(lengths_buffer_.data());
  t.cu_q.place(cu_q_buffer_.data());
  t.page_table.place(table_buffer_.data());
  t.page_indptr.place(indptr_buffer_.data());
  t.page_indices.place(indices_buffer_.data());
  t.cu_kv.place(cu_kv_buffer_.data());
  t.alibi_slopes.place(slopes_buffer_.data());
  t.sinks.place(sinks_buffer_.data());
  fill(c.sequences, random);
}

void AttentionProblem::fill(const std::vector<Lengths>& sequences, Random random) {
  sequences_ = sequences;
  if (sequences.size() != case_.sequences.size()) throw std::invalid_argument("AttentionProblem::fill: another batch");
  q_begin_.assign(1, 0);
  for (const Lengths& s : sequences_) q_begin_.push_back(q_begin_.back() + s.q);
  const std::uint64_t seed = random.next();
  if (case_.layout == Layout::ragged) {
    assign_ragged(random);
  } else {
    assign_pages(random);
  }
  k_.assign(static_cast<std::size_t>(tensors_.k_elements - unused_elements(tensors_.k_cache)), kNan16);
  v_.assign(
      static_cast<std::size_t>(tensors_.v_elements - (tensors_.v_elements > 0 ? unused_elements(tensors_.v_cache) : 0)),
      kNan16);
  q_.assign(static_cast<std::size_t>(tensors_.q_elements), kNan16);
  for (int s = 0; s < case_.batch(); ++s) {
    const int number = case_.numbers.empty() ? s : case_.numbers[static_cast<std::size_t>(s)];
    fill_cache(s, Random(seed + 2 * static_cast<std::uint64_t>(number)));
    fill_queries(s, Random(seed + 2 * static_cast<std::uint64_t>(number) + 1));
  }
  Random per_head(seed - 1);
  slopes_.resize(static_cast<std::size_t>(case_.heads()));
  sinks_.resize(slopes_.size());
  for (std::size_t h = 0; h < slopes_.size(); ++h) {
    slopes_[h] = static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / case_.heads()));
    sinks_[h] = static_cast<float>(2.0 * per_head.normal());
  }
  upload();
  poison_outputs();
}

void AttentionProblem::assign_ragged(Random& random) {
  kv_begin_.assign(1, 0);
  for (const Lengths& s : sequences_) kv_begin_.push_back(kv_begin_.back() + s.kv + random.between(0, kGap));
}

// Every sequence gets pages at random places; where there are fewer than needed, full ones are shared, as common
// prefixes are.
void AttentionProblem::assign_pages(Random& random) {
  std::vector<std::int32_t> free(static_cast<std::size_t>(pool_));
  std::iota(free.begin(), free.end(), 0);
  random.shuffle(free);
  std::size_t partial = 0;
  for (const Lengths& s : sequences_) partial += s.kv % case_.page_size != 0;
  std::vector<std::int32_t> full;
  pages_.assign(sequences_.size(), {});
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const int kv = sequences_[i].kv;
    for (int begin = 0; begin < kv; begin += case_.page_size) {
      const bool whole = begin + case_.page_size <= kv;
      if (whole && free.size() <= partial) {
        pages_[i].push_back(full[random.below(full.size())]);
        continue;
      }
      pages_[i].push_back(free.back());
      if (whole) full.push_back(free.back());
      partial -= !whole;
      free.pop_back();
    }
  }
}

void AttentionProblem::fill_cache(int sequence, Random random) {
  const NormalNumbers& numbers = normal_numbers(case_.format);
  std::vector<std::uint16_t>& values = tensors_.v_elements == 0 ? k_ : v_;
  const auto dim_k = static_cast<std::size_t>(case_.dim_k), dim_v = static_cast<std::size_t>(case_.v());
  const int kv = sequences_[static_cast<std::size_t>(sequence)].kv;
  for (int j = 0; j < kv; ++j) {
    for (int h = 0; h < case_.kv_heads; ++h) {
      std::uint16_t* k = &k_[static_cast<std::size_t>(cache_at(tensors_.k_cache, sequence, j, h))];
      numbers.fill(random, k, dim_k);
      numbers.fill(random, &values[static_cast<std::size_t>(cache_at(tensors_.v_cache, sequence, j, h))], dim_v);
      if (case_.growth == 0.0) continue;
      const double more = case_.growth * j / kv / (case_.dim_k * case_.scale_used());
      for (std::size_t d = 0; d < dim_k; ++d) k[d] = encode(double{decode(k[d], case_.format)} + more, case_.format);
    }
  }
}

void AttentionProblem::fill_queries(int sequence, Random random) {
  const auto dim = static_cast<std::size_t>(case_.dim_k);
  for (int row = q_begin(sequence); row < q_begin(sequence + 1); ++row) {
    for (int h = 0; h < case_.heads(); ++h) {
      std::uint16_t* q = &q_[static_cast<std::size_t>(tensors_.q_rows.at(row, h))];
      normal_numbers(case_.format).fill(random, q, dim);
      if (case_.growth == 0.0) continue;
      for (std::size_t d = 0; d < dim; ++d) q[d] = encode(double{decode(q[d], case_.format)} + 1.0, case_.format);
    }
  }
}

void AttentionProblem::upload() {
  q_buffer_.write(q_);
  k_buffer_.write(k_, bytes16(unused_elements(tensors_.k_cache)));
  if (!v_.empty()) v_buffer_.write(v_, bytes16(unused_elements(tensors_.v_cache)));
  std::vector<std::int32_t> lengths;
  for (const Lengths& s : sequences_) lengths.push_back(s.kv);
  lengths_buffer_.write(lengths);
  cu_q_buffer_.write(std::vector<std::int32_t>(q_begin_.begin(), q_begin_.end()));
  if (case_.layout == Layout::ragged) {
    cu_kv_buffer_.write(std::vector<std::int32_t>(kv_begin_.begin(), kv_begin_.end()));
  } else {
    const auto columns = static_cast<std::size_t>(tensors_.max_pages);
    std::vector<std::int32_t> table(sequences_.size() * columns, invalid_page()), indptr(1, 0), indices;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      for (std::size_t j = 0; j < pages_[i].size(); ++j) {
        table[i * columns + j] = pages_[i][j] + case_.first_page;
        indices.push_back(pages_[i][j] + case_.first_page);
      }
      indptr.push_back(static_cast<std::int32_t>(indices.size()));
    }
    indices.resize(static_cast<std::size_t>(tensors_.page_indices.shape[0]), invalid_page());
    table_buffer_.write(table);
    indptr_buffer_.write(indptr);
    indices_buffer_.write(indices);
  }
  slopes_buffer_.write(slopes_);
  sinks_buffer_.write(sinks_);
}

void AttentionProblem::poison_outputs() {
  out_buffer_.fill(kPoison);
  lse_buffer_.fill(kPoison);
}

void AttentionProblem::make_workspace(quern_context* context) {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_attention_workspace(context, &args(), &bytes, &error), QUERN_OK) << error.text;
  // As it is after a call: the counters zero, whatever else behind them.
  workspace_ = Buffer(bytes, kPoison);
  workspace_.write(std::vector<char>(std::min(bytes, kCounterBytes)));
  args().workspace = workspace_.data();
  args().workspace_size = bytes;
}

void AttentionProblem::call(quern_context* context, void* stream) {
  auto error = sized<quern_error>();
  args().stream = stream;
  ASSERT_EQ(quern_attention(context, &args(), &error), QUERN_OK) << error.text;
}

void AttentionProblem::run(quern_context* context) {
  auto error = sized<quern_error>();
  make_workspace(context);
  ASSERT_EQ(quern_attention_prepare(context, &args(), &error), QUERN_OK) << error.text;
  call(context);
  expect_counters_zero();
}

void AttentionProblem::expect_counters_zero() const {
  std::vector<std::uint32_t> counters(std::min<std::size_t>(workspace_.size(), kCounterBytes) / 4);
  workspace_.read(counters.data(), counters.size() * 4);
  EXPECT_EQ(std::count(counters.begin(), counters.end(), 0u), static_cast<std::ptrdiff_t>(counters.size()))
      << "counters are left behind in the workspace";
}

AttentionOutput AttentionProblem::output() const {
  AttentionOutput o;
  o.out.resize(out_buffer_.size() / 2);
  o.lse.resize(lse_buffer_.size() / 4);
  out_buffer_.read(o.out.data(), out_buffer_.size());
  lse_buffer_.read(o.lse.data(), lse_buffer_.size());
  return o;
}

std::vector<std::uint32_t> AttentionProblem::bits_of(const AttentionOutput& output, int sequence) const {
  std::vector<std::uint32_t> bits;
  for (int i = q_begin(sequence); i < q_begin(sequence + 1); ++i) {
    for (int h = 0; h < case_.heads(); ++h) {
      const auto at = static_cast<std::size_t>(tensors_.out_rows.at(i, h));
      for (int d = 0; d < case_.v(); ++d) bits.push_back(output.out[at + static_cast<std::size_t>(d)]);
      std::uint32_t lse = 0;
      std::memcpy(&lse, &output.lse[static_cast<std::size_t>(tensors_.lse_rows.at(i, h))], 4);
      bits.push_back(lse);
    }
  }
  return bits;
}

}  // namespace quern::test
