// Problems of MLA decode: tensors, and calls of the op on them.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/mla_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every format of a cache

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

int MlaCase::total_q() const {
  int sum = 0;
  for (const MlaLengths& s : sequences) sum += s.q;
  return sum;
}
int MlaCase::max_q() const {
  int most = 0;
  for (const MlaLengths& s : sequences) most = std::max(most, s.q);
  return most;
}
int MlaCase::max_kv() const {
  int most = 1;
  for (const MlaLengths& s : sequences) most = std::max(most, s.kv);
  return most;
}

MlaProblem::MlaProblem(const MlaCase& c, Random random) : c_(c), element_(c.element) {
  max_pages_ = (c.max_kv() + c.page_size - 1) / c.page_size + 1;
  pool_ = 3;
  for (const MlaLengths& s : c.sequences) pool_ += (s.kv + c.page_size - 1) / c.page_size;
  const bool plain = c.cache == MlaCache::plain;
  const int bytes = plain ? 2 : 1;
  rope_bytes_ = c.two_pools ? c.d_rope * bytes : 0;
  row_bytes_ = c.cache == MlaCache::rows656 ? 656 : (c.two_pools ? c.d_latent : c.columns()) * bytes;
  make_tensors();
  fill(c.sequences, random);
}

void MlaProblem::make_tensors() {
  const std::int64_t tokens = c_.total_q(), heads = c_.heads, latent = c_.d_latent, columns = c_.columns();
  const std::int64_t width = c_.two_q ? latent : columns;
  const auto strides = [&](std::int64_t w, std::int64_t* token, std::int64_t* head) {
    *token = c_.heads_first ? w : heads * w;
    *head = c_.heads_first ? tokens * w : w;
  };
  std::int64_t token = 0, head = 0;
  strides(width, &token, &head);
  q_buffer_ = Buffer(size_of(tokens * heads * width * 2));
  q.set(element_.type(), {tokens, heads, width}, {token, head, 1});
  q.place(q_buffer_.data());
  q_rope_buffer_ = Buffer(size_of(tokens * heads * c_.d_rope * 2));
  strides(c_.d_rope, &token, &head);
  q_rope.set(element_.type(), {tokens, heads, c_.d_rope}, {token, head, 1});
  q_rope.place(q_rope_buffer_.data());
  strides(latent, &token, &head);
  out_buffer_ = Buffer(size_of(tokens * heads * latent * 2));
  out.set(element_.type(), {tokens, heads, latent}, {token, head, 1});
  out.place(out_buffer_.data());
  lse_buffer_ = Buffer(size_of(tokens * heads * 4));
  lse.set(kFloat32, {tokens, heads});
  lse.place(lse_buffer_.data());

  const std::int64_t places = static_cast<std::int64_t>(pool_) * c_.page_size;
  latent_buffer_ = Buffer(size_of(places * row_bytes_));
  rope_buffer_ = Buffer(size_of(places * rope_bytes_));
  const DLDataType bytes8 = {kDLUInt, 8, 1};
  const DLDataType type = c_.cache == MlaCache::rows656 ? bytes8
                          : c_.cache == MlaCache::plain ? element_.type()
                                                        : Element(Element::e4m3).type();
  const int of = c_.cache == MlaCache::plain ? 2 : 1;
  cache.set(type, {pool_, c_.page_size, row_bytes_ / of});
  cache.place(latent_buffer_.data());
  cache_rope.set(type, {pool_, c_.page_size, c_.d_rope});
  cache_rope.place(rope_buffer_.data());
  scale_buffer_ = Buffer(size_of(places * 4));
  if (c_.cache == MlaCache::e4m3_token) {
    cache_scale.set(kFloat32, {pool_, c_.page_size});
  } else {
    cache_scale.set(kFloat32, {1});
  }
  cache_scale.place(scale_buffer_.data());

  const std::int64_t batch = c_.batch();
  lengths_buffer_ = Buffer(size_of(batch * 4));
  lengths.set(kInt32, {batch});
  lengths.place(lengths_buffer_.data());
  cu_q_buffer_ = Buffer(size_of((batch + 1) * 4));
  cu_q.set(kInt32, {batch + 1});
  cu_q.place(cu_q_buffer_.data());
  table_buffer_ = Buffer(size_of(batch * max_pages_ * 4));
  page_table.set(kInt32, {batch, max_pages_});
  page_table.place(table_buffer_.data());
  indptr_buffer_ = Buffer(size_of((batch + 1) * 4));
  page_indptr.set(kInt32, {batch + 1});
  page_indptr.place(indptr_buffer_.data());
  page_indices_buffer_ = Buffer(size_of(batch * max_pages_ * 4));
  page_indices.set(kInt32, {batch * max_pages_});
  page_indices.place(page_indices_buffer_.data());
  indices_buffer_ = Buffer(size_of(tokens * c_.top_k * 4));
  indices.set(kInt32, {tokens, c_.top_k});
  indices.place(indices_buffer_.data());
  sinks_buffer_ = Buffer(size_of(heads * 4));
  sinks.set(kFloat32, {heads});
  sinks.place(sinks_buffer_.data());
  status_buffer_ = Buffer(4, 0);
  status.set(kInt32, {1});
  status.place(status_buffer_.data());

  args = sized<quern_mla_decode_args>();
  args.flags = c_.flags | (c_.causal ? std::uint32_t{QUERN_MLA_CAUSAL} : 0u) |
               (c_.left ? std::uint32_t{QUERN_MLA_WINDOW_LEFT} : 0u) |
               (c_.right ? std::uint32_t{QUERN_MLA_WINDOW_RIGHT} : 0u) |
               (c_.slots ? std::uint32_t{QUERN_MLA_SLOTS} : 0u);
  args.alignment = c_.alignment;
  args.max_sms = c_.max_sms;
  args.q = q.get();
  if (c_.two_q) args.q_rope = q_rope.get();
  args.cache = cache.get();
  if (c_.two_pools) args.cache_rope = cache_rope.get();
  if (c_.cache == MlaCache::e4m3_tensor || c_.cache == MlaCache::e4m3_token) args.cache_scale = cache_scale.get();
  args.cache_type = c_.cache == MlaCache::rows656 ? QUERN_MLA_CACHE_ROWS_656 : QUERN_MLA_CACHE_AS_TENSOR;
  args.out = out.get();
  if (c_.lse) args.lse = lse.get();
  if (!c_.slots) {
    args.lengths = lengths.get();
    if (!c_.one_query) args.cu_q = cu_q.get();
    if (c_.indptr) {
      args.page_indptr = page_indptr.get();
      args.page_indices = page_indices.get();
    } else {
      args.page_table = page_table.get();
    }
    args.max_q_len = c_.one_query ? 0 : std::max(c_.max_q(), 1);
    args.max_kv_len = c_.max_kv();
  }
  if (c_.top_k > 0) args.indices = indices.get();
  if (c_.sinks) args.sinks = sinks.get();
  if (c_.status) args.status = status.get();
  if (c_.left) args.window_left = *c_.left;
  if (c_.right) args.window_right = *c_.right;
  args.scale = c_.scale();
  args.logit_cap = c_.cap;
}

void MlaProblem::fill(const std::vector<MlaLengths>& sequences, Random random) {
  c_.sequences = sequences;
  q_begin_.assign(1, 0);
  for (const MlaLengths& s : sequences) q_begin_.push_back(q_begin_.back() + s.q);
  const auto batch = sequences.size();
  // Pages at random places of the pool; what the table holds behind the last page in use is far outside of it.
  std::vector<std::int32_t> free(size_of(pool_));
  std::iota(free.begin(), free.end(), 0);
  random.shuffle(free);
  pages_.assign(batch, {});
  std::vector<std::int32_t> table(batch * size_of(max_pages_), 0x7ffffff0), indptr(1, 0), listed, lengths_now;
  for (std::size_t i = 0; i < batch; ++i) {
    const int count = (sequences[i].kv + c_.page_size - 1) / c_.page_size;
    for (int n = 0; n < count; ++n) {
      pages_[i].push_back(free.back());
      free.pop_back();
      table[i * size_of(max_pages_) + size_of(n)] = pages_[i].back();
      listed.push_back(pages_[i].back());
    }
    indptr.push_back(static_cast<std::int32_t>(listed.size()));
    lengths_now.push_back(sequences[i].kv);
  }
  listed.resize(batch * size_of(max_pages_), 0x7ffffff0);
  table_buffer_.write(table);
  indptr_buffer_.write(indptr);
  page_indices_buffer_.write(listed);
  lengths_buffer_.write(lengths_now);
  cu_q_buffer_.write(q_begin_);

  const auto heads = size_of(c_.heads), columns = size_of(c_.columns()), latent = size_of(c_.d_latent);
  const std::size_t tokens = q_buffer_.size() / (heads * 2 * (c_.two_q ? latent : columns));
  queries_.assign(tokens * heads * columns, 0.0);
  std::vector<unsigned char> q_bytes(q_buffer_.size(), kPoison), rope(q_rope_buffer_.size(), kPoison);
  const std::size_t width = c_.two_q ? latent : columns;
  for (std::size_t t = 0; t < size_of(q_begin_.back()); ++t) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t row = c_.heads_first ? h * tokens + t : t * heads + h;
      for (std::size_t d = 0; d < columns; ++d) {
        double& value = queries_[(t * heads + h) * columns + d];
        value = element_.rounded(random.normal());
        const bool in_q = d < width;
        element_.store(in_q ? &q_bytes[(row * width + d) * 2] : &rope[(row * (columns - width) + d - width) * 2],
                       value);
      }
    }
  }
  q_buffer_.write(q_bytes);
  q_rope_buffer_.write(rope);
  sinks_.assign(heads, 0.0f);
  for (float& sink : sinks_) sink = static_cast<float>(2.0 * random.normal());
  sinks_buffer_.write(sinks_);
  fill_cache(random);
  fill_indices(random);
  poison_outputs();
}

void MlaProblem::fill_cache(Random& random) {
  latent_bytes_.assign(latent_buffer_.size(), kPoison);
  rope_part_bytes_.assign(rope_buffer_.size(), kPoison);
  scales_.assign(scale_buffer_.size() / 4, std::numeric_limits<float>::quiet_NaN());
  if (c_.cache == MlaCache::e4m3_tensor) scales_[0] = 0.037f;
  keys_.assign(pages_.size(), {});
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    keys_[i].resize(size_of(c_.sequences[i].kv) * size_of(c_.columns()));
    for (int j = 0; j < c_.sequences[i].kv; ++j) store_key(static_cast<int>(i), j, random);
  }
  latent_buffer_.write(latent_bytes_);
  rope_buffer_.write(rope_part_bytes_);
  scale_buffer_.write(scales_);
}

void MlaProblem::store_key(int sequence, int j, Random& random) {
  const auto s = size_of(sequence);
  const auto page = size_of(pages_[s][size_of(j / c_.page_size)]);
  const std::size_t place = page * size_of(c_.page_size) + size_of(j % c_.page_size);
  unsigned char* row = &latent_bytes_[place * size_of(row_bytes_)];
  double* value = &keys_[s][size_of(j) * size_of(c_.columns())];
  const Element e4m3(Element::e4m3);
  const bool rows656 = c_.cache == MlaCache::rows656;
  if (c_.cache == MlaCache::e4m3_token) scales_[place] = static_cast<float>(0.01 + 0.1 * random.uniform());
  float groups[4] = {};
  for (float& g : groups) g = static_cast<float>(0.01 + 0.1 * random.uniform());
  if (rows656) std::memcpy(row + 512, groups, sizeof(groups));
  for (int d = 0; d < c_.columns(); ++d) {
    const bool of_rope = d >= c_.d_latent;
    const double x = random.normal();
    if (rows656 && of_rope) {
      const Element bf16(Element::bf16);
      bf16.store(row + 528 + (d - 512) * 2, x);
      value[d] = bf16.rounded(x);
      continue;
    }
    const Element stored = c_.cache == MlaCache::plain ? element_ : e4m3;
    const double scale = c_.cache == MlaCache::plain ? 1.0
                         : rows656                   ? double{groups[d / 128]}
                                                     : double{scales_[c_.cache == MlaCache::e4m3_token ? place : 0]};
    unsigned char* to = row + size_of(d) * stored.bytes();
    if (of_rope && c_.two_pools) {
      to = &rope_part_bytes_[place * size_of(rope_bytes_) + size_of(d - c_.d_latent) * stored.bytes()];
    }
    stored.store(to, x / scale);
    value[d] = stored.load(to) * scale;
  }
}

void MlaProblem::fill_indices(Random& random) {
  const auto tokens = indices_buffer_.size() / 4 / std::max<std::size_t>(size_of(c_.top_k), 1);
  chosen_.assign(tokens * size_of(c_.top_k), -1);
  std::vector<std::int32_t> given = chosen_;
  for (int s = 0; s < c_.batch() && c_.top_k > 0; ++s) {
    const int kv = c_.sequences[size_of(s)].kv;
    for (int t = q_begin(s); t < q_begin(s + 1); ++t) {
      std::vector<std::int32_t> all(size_of(kv));
      std::iota(all.begin(), all.end(), 0);
      random.shuffle(all);
      for (int n = 0; n < c_.top_k; ++n) {
        // Some entries are skipped, wherever they stand.
        if (size_of(n) >= all.size() || random.below(8) == 0) continue;
        const std::size_t at = size_of(t) * size_of(c_.top_k) + size_of(n);
        const std::int32_t j = all[size_of(n)];
        chosen_[at] = j;
        given[at] = c_.slots ? pages_[size_of(s)][size_of(j / c_.page_size)] * c_.page_size + j % c_.page_size : j;
      }
    }
  }
  indices_buffer_.write(given);
}

void MlaProblem::poison_outputs() {
  out_buffer_.fill(kPoison);
  lse_buffer_.fill(kPoison);
  status_buffer_.fill(0);
}

void MlaProblem::overwrite(const TensorBox& box, const std::vector<std::int32_t>& values) {
  (&box == &lengths ? lengths_buffer_ : &box == &cu_q ? cu_q_buffer_ : table_buffer_).write(values);
}

std::size_t MlaProblem::place_of_last_key(int sequence) const {
  const auto s = size_of(sequence);
  const int j = c_.sequences[s].kv - 1;
  return size_of(pages_[s][size_of(j / c_.page_size)]) * size_of(c_.page_size) + size_of(j % c_.page_size);
}

void MlaProblem::spoil_last_key(int sequence, bool scale) {
  const std::size_t place = place_of_last_key(sequence);
  unsigned char* row = &latent_bytes_[place * size_of(row_bytes_)];
  if (scale) return scale_last_key(sequence, std::numeric_limits<float>::quiet_NaN());
  std::memset(row, kPoison, c_.cache == MlaCache::plain ? 2 : 1);
  latent_buffer_.write(latent_bytes_);
}

void MlaProblem::scale_last_key(int sequence, float scale) {
  const std::size_t place = place_of_last_key(sequence);
  if (c_.cache == MlaCache::rows656) {
    std::memcpy(&latent_bytes_[place * size_of(row_bytes_) + 512], &scale, sizeof(scale));
  } else {
    scales_[place] = scale;
  }
  latent_buffer_.write(latent_bytes_);
  scale_buffer_.write(scales_);
}

void MlaProblem::run(quern_context* context) {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_mla_decode_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
  workspace_ = Buffer(bytes, 0);
  args.workspace = workspace_.data();
  args.workspace_size = bytes;
  ASSERT_EQ(quern_mla_decode_prepare(context, &args, &error), QUERN_OK) << error.text;
  call(context);
}

void MlaProblem::call(quern_context* context, void* stream) {
  auto error = sized<quern_error>();
  args.stream = stream;
  ASSERT_EQ(quern_mla_decode(context, &args, &error), QUERN_OK) << error.text;
  if (stream == nullptr) synchronize();
}

MlaOutput MlaProblem::output() const {
  MlaOutput o;
  o.out = out_buffer_.read();
  o.lse.resize(lse_buffer_.size() / 4);
  lse_buffer_.read(o.lse.data(), lse_buffer_.size());
  status_buffer_.read(&o.status, 4);
  return o;
}

std::size_t MlaProblem::at_out(int token, int head) const {
  const std::size_t tokens = lse_buffer_.size() / 4 / size_of(c_.heads);
  return (c_.heads_first ? size_of(head) * tokens + size_of(token)
                         : size_of(token) * size_of(c_.heads) + size_of(head)) *
         size_of(c_.d_latent) * 2;
}

std::vector<unsigned char> MlaProblem::bits_of(const MlaOutput& o, int token) const {
  std::vector<unsigned char> bits;
  for (int h = 0; h < c_.heads; ++h) {
    const auto* row = &o.out[at_out(token, h)];
    bits.insert(bits.end(), row, row + size_of(c_.d_latent) * 2);
    const auto* of = reinterpret_cast<const unsigned char*>(&o.lse[size_of(token) * size_of(c_.heads) + size_of(h)]);
    bits.insert(bits.end(), of, of + 4);
  }
  return bits;
}

}  // namespace quern::test
