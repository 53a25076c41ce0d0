// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/mla_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every format of a cache
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double difference(double a, double b) {
  const double d = std::fabs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

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

void MlaProblem::spoil_last_key(int sequence, bool scale) {
  const auto s = size_of(sequence);
  const int j = c_.sequences[s].kv - 1;
  const auto page = size_of(pages_[s][size_of(j / c_.page_size)]);
  const std::size_t place = page * size_of(c_.page_size) + size_of(j % c_.page_size);
  unsigned char* row = &latent_bytes_[place * size_of(row_bytes_)];
  const bool rows656 = c_.cache == MlaCache::rows656;
  if (scale && rows656) std::memset(row + 512, kPoison, 4);
  if (scale && !rows656) scales_[place] = std::numeric_limits<float>::quiet_NaN();
  if (!scale) std::memset(row, kPoison, c_.cache == MlaCache::plain ? 2 : 1);
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

const double* MlaProblem::key(int sequence, int j) const {
  return &keys_[size_of(sequence)][size_of(j) * size_of(c_.columns())];
}

struct MlaProblem::Row {
  std::vector<double> out;
  double lse = -kInfinity;
  double by_weights = 0.0, logit_size = 0.0;
};

// In T: fp64 is the definition; f32 the plain maths, in which quantised keys are what tensor cores would be given.
template <class T>
MlaProblem::Row MlaProblem::row_of(int sequence, int query, int head) const {
  const MlaLengths& length = c_.sequences[size_of(sequence)];
  const int token = q_begin(sequence) + query, position = length.kv - length.q + query;
  constexpr bool kExact = std::is_same_v<T, double>;
  int first = 0, last = length.kv - 1;
  if (c_.left) first = std::max(first, position - *c_.left);
  if (c_.right) last = std::min(last, position + *c_.right);
  if (c_.causal) last = std::min(last, position);
  std::vector<int> seen;
  if (c_.top_k > 0) {
    for (int n = 0; n < c_.top_k; ++n) {
      const int j = chosen_[size_of(token) * size_of(c_.top_k) + size_of(n)];
      if (j >= first && j <= last) seen.push_back(j);
    }
  } else {
    for (int j = first; j <= last; ++j) seen.push_back(j);
  }
  const auto columns = size_of(c_.columns()), latent = size_of(c_.d_latent);
  const double* of = &queries_[(size_of(token) * size_of(c_.heads) + size_of(head)) * columns];
  const T scale = static_cast<T>(c_.scale()), cap = static_cast<T>(c_.cap);
  const bool rounds = !kExact && c_.cache != MlaCache::plain;
  const auto number = [&](double x) { return static_cast<T>(rounds ? element_.rounded(x) : x); };
  std::vector<T> logits;
  std::vector<double> sizes;
  T max = -std::numeric_limits<T>::infinity();
  for (const int j : seen) {
    const double* k = key(sequence, j);
    T product = 0;
    double size = 0;
    for (std::size_t d = 0; d < columns; ++d) {
      const T term = static_cast<T>(of[d]) * number(k[d]);
      product += term;
      size += std::fabs(double{term});
    }
    T x = product * scale;
    if (c_.cap > 0.0f) x = cap * std::tanh(x / cap);
    logits.push_back(x);
    sizes.push_back(size * double{scale});
    max = std::max(max, x);
  }
  Row row;
  row.out.assign(latent, 0.0);
  const T sink = static_cast<T>(sinks_[size_of(head)]);
  if (c_.sinks) max = std::max(max, sink);
  if (std::isinf(max)) return row;
  T sum = c_.sinks ? std::exp(sink - max) : T(0);
  std::vector<T> sums(latent, T(0));
  std::vector<double> squares(latent), magnitudes(latent);
  for (std::size_t n = 0; n < seen.size(); ++n) {
    const T weight = std::exp(logits[n] - max);
    sum += weight;
    const double* k = key(sequence, seen[n]);
    for (std::size_t d = 0; d < latent; ++d) {
      const T term = weight * number(k[d]);
      sums[d] += term;
      magnitudes[d] += std::fabs(double{term});
      squares[d] += double{term} * double{term};
    }
    row.logit_size += double{weight} * sizes[n];
  }
  for (std::size_t d = 0; d < latent; ++d) {
    row.out[d] = double{sums[d] / sum};
    row.by_weights = std::max(row.by_weights, std::min(magnitudes[d], 3.0 * std::sqrt(squares[d])) / double{sum});
  }
  row.logit_size /= double{sum};
  row.lse = double{max + std::log(sum)};
  return row;
}

void MlaProblem::check() const {
  const MlaOutput o = output();
  double work = 0.0;
  for (const MlaLengths& s : c_.sequences)
    work += static_cast<double>(s.q) * std::max(s.kv, 1) * c_.heads * c_.columns();
  const double share = std::min(1.0, (on_cuda() ? 2e8 : 4e6) / work);
  Random random("rows of MLA");
  int wrong = 0, checked = 0;
  double worst = 0.0;
  std::ostringstream told;
  for (int s = 0; s < c_.batch(); ++s) {
    const int queries = c_.sequences[size_of(s)].q;
    for (int i = 0; i < queries; ++i) {
      for (int h = 0; h < c_.heads; ++h) {
        const bool edge = (i == 0 || i == queries - 1) && (h == 0 || h == c_.heads - 1);
        if (!edge && random.uniform() >= share) continue;
        ++checked;
        const Row exact = row_of<double>(s, i, h), plain = row_of<float>(s, i, h);
        const int token = q_begin(s) + i;
        const unsigned char* given = &o.out[at_out(token, h)];
        double off = 0.0, plain_off = 0.0, largest = 0.0;
        for (std::size_t d = 0; d < exact.out.size(); ++d) {
          off = std::max(off, difference(element_.load(given + 2 * d), exact.out[d]));
          plain_off = std::max(plain_off, difference(element_.rounded(plain.out[d]), exact.out[d]));
          largest = std::max(largest, std::fabs(exact.out[d]));
        }
        const double allowed = 2.0 * plain_off + element_.roundoff() * (largest + exact.by_weights) + 1e-7;
        double lse_off = 0.0, lse_allowed = 0.0;
        if (c_.lse) {
          const float of = o.lse[size_of(token) * size_of(c_.heads) + size_of(h)];
          if (std::isinf(exact.lse)) {
            lse_off = of == -std::numeric_limits<float>::infinity() ? 0.0 : kInfinity;
          } else {
            lse_off = difference(double{of}, exact.lse);
            // Keys rounded as they are widened make logits that differ as much.
            lse_allowed = 2.0 * difference(plain.lse, exact.lse) + 2e-6 * (1.0 + std::fabs(exact.lse)) +
                          0x1p-23 * (double{c_.cap} + exact.logit_size);
            // They round by chance, here and there: about three times the deviation of as many as a key has.
            if (c_.cache != MlaCache::plain)
              lse_allowed += 2.0 * element_.roundoff() * exact.logit_size / std::sqrt(double(c_.columns()));
            // Of sums of 8-bit products the tensor cores keep 14 bits.
            if (on_cuda() && c_.multiplies_codes()) lse_allowed += 0x1p-14 * exact.logit_size;
          }
        }
        worst = std::max(worst, off / allowed);
        if (off <= allowed && lse_off <= lse_allowed) continue;
        if (++wrong <= 4) {
          told << "sequence " << s << " (" << queries << " queries, " << c_.sequences[size_of(s)].kv << " keys), query "
               << i << ", head " << h << ": out is off by " << off << " (allowed " << allowed << "), lse by " << lse_off
               << " (allowed " << lse_allowed << ")\n";
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0) << "rows of " << checked << " are wrong; QUERN_TEST_SEED=" << run_seed() << "\n" << told.str();
  EXPECT_EQ(o.status, 0u);
  // Rows past the last sequence's are untouched.
  const auto tokens = static_cast<int>(o.lse.size() / size_of(c_.heads));
  for (int t = q_begin_.back(); t < tokens; ++t) {
    for (const unsigned char byte : bits_of(o, t)) ASSERT_EQ(byte, kPoison) << "query token " << t << " was written";
  }
}

}  // namespace quern::test
