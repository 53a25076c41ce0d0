// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/coded_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace quern::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr IntegerBits kBits{32};

std::int64_t pool_of(const CodedCase& c) {
  std::int64_t all = 3;
  for (const Lengths& s : c.sequences) all += c.ragged ? s.kv : (s.kv + c.page_size - 1) / c.page_size;
  return all;
}

Array query_scale_of(const CodedCase& c) {
  if (c.q_scale == CacheScale::token) return {Element::f32, {c.total_q(), c.heads()}};
  return {Element::f32, {c.q_scale == CacheScale::head ? c.heads() : 1}};
}

}  // namespace

std::int64_t CodedCase::total_q() const {
  std::int64_t rows = 0;
  for (const Lengths& s : sequences) rows += s.q;
  return rows;
}
std::int64_t CodedCase::longest() const {
  std::int64_t most = 1;
  for (const Lengths& s : sequences) most = std::max<std::int64_t>(most, s.kv);
  return most;
}

CodedAttention::CodedAttention(const CodedCase& c)
    : args(sized<quern_attention_args>()),
      c_(c),
      pool_(pool_of(c)),
      q(c.queries.value_or(c.element), {c.total_q(), c.heads(), c.dim}),
      k(cache_of(c.dim)),
      v(cache_of(c.v())),
      out(c.codes.value_or(c.element), {c.total_q(), c.heads(), c.v()}),
      out_scale(Element::f32, {c.total_q(), c.heads() * ((c.v() + 127) / 128)}, {1, (c.total_q() + 3) / 4 * 4}),
      lse(Element::f32, {c.total_q(), c.heads()}),
      q_scale(query_scale_of(c)),
      k_scale(scale_of()),
      v_scale(scale_of()),
      lengths(kBits, {c.batch()}),
      cu_q(kBits, {c.batch() + 1}),
      cu_kv(kBits, {c.batch() + 1}),
      table(kBits, {c.batch(), (c.longest() + c.page_size - 1) / c.page_size + 1}),
      mask(Array::bytes(std::max<std::int64_t>(1, c.total_q() * (c.longest() / 8 + 1)))),
      mask_indptr(kBits, {c.batch() + 1}),
      mask_keys(kBits, {c.batch()}),
      slopes(Element::f32, {c.heads()}) {
  Random random(c.name);
  fill(random);
  fill_mask(random);
  set_args();
}

Array CodedAttention::cache_of(std::int64_t dim) const {
  const Element element = c_.cache.value_or(c_.element);
  if (c_.ragged) return {element, {pool_, c_.kv_heads, dim}};
  if (!c_.hnd) return {element, {pool_, c_.page_size, c_.kv_heads, dim}};
  return {
      element, {pool_, c_.page_size, c_.kv_heads, dim}, {c_.page_size * c_.kv_heads * dim, dim, c_.page_size * dim, 1}};
}
Array CodedAttention::scale_of() const {
  if (c_.scale != CacheScale::token) return {Element::f32, {c_.scale == CacheScale::head ? c_.kv_heads : 1}};
  const std::int64_t heads = c_.shared_scales ? 0 : 1, row = c_.shared_scales ? 1 : c_.kv_heads;
  if (c_.ragged) return {Element::f32, {pool_, c_.kv_heads}, {row, heads}};
  return {Element::f32, {pool_, c_.page_size, c_.kv_heads}, {c_.page_size * row, row, heads}};
}

std::int64_t CodedAttention::page_of(std::int64_t sequence, std::int64_t key) const {
  return pages_[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(key / c_.page_size)];
}

double CodedAttention::cached(const Array& codes, const Array& scales, std::int64_t sequence, std::int64_t key,
                              std::int64_t head, std::int64_t d) const {
  const std::int64_t token = kv_begin_[static_cast<std::size_t>(sequence)] + key, place = key % c_.page_size;
  const double code = c_.ragged ? codes.get(token, head, d) : codes.get(page_of(sequence, key), place, head, d);
  if (c_.scale == CacheScale::none) return code;
  if (c_.scale != CacheScale::token) return code * scales.get(c_.scale == CacheScale::head ? head : 0);
  return code * (c_.ragged ? scales.get(token, head) : scales.get(page_of(sequence, key), place, head));
}

// What nobody may read is NaN already, scales too.
void CodedAttention::fill(Random& random) {
  std::vector<std::int64_t> free(static_cast<std::size_t>(pool_));
  std::iota(free.begin(), free.end(), 0);
  random.shuffle(free);
  q_begin_ = {0}, kv_begin_ = {0};
  for (std::int64_t s = 0; s < c_.batch(); ++s) {
    const Lengths& length = c_.sequences[static_cast<std::size_t>(s)];
    q_begin_.push_back(q_begin_.back() + length.q), kv_begin_.push_back(kv_begin_.back() + length.kv);
    pages_.emplace_back();
    for (std::int64_t j = 0; j * c_.page_size < length.kv && !c_.ragged; ++j) {
      pages_.back().push_back(free.back());
      table.set_integer(free.back(), s, j);
      free.pop_back();
    }
    lengths.set_integer(length.kv, s);
  }
  for (std::int64_t s = 0; s <= c_.batch(); ++s) {
    cu_q.set_integer(q_begin_[static_cast<std::size_t>(s)], s),
        cu_kv.set_integer(kv_begin_[static_cast<std::size_t>(s)], s);
  }
  const bool coded = k.element().bytes() == 1;
  // Codes as a quantiser makes them: up to the largest; their scales make numbers of about 1 of them.
  const auto sign_of = [&](std::int64_t i) { return c_.negative && i % 2 == 1 ? -1.0 : 1.0; };
  const double usual = coded && c_.scale != CacheScale::none ? k.element().largest() / 4.0 : 1.0;
  for (Array* scale : {&k_scale, &v_scale}) {
    if (c_.scale == CacheScale::token || c_.scale == CacheScale::none) continue;
    for (std::int64_t h = 0; h < scale->extent(0); ++h) scale->set(sign_of(h) * (0.5 + random.uniform()) / usual, h);
  }
  for (std::int64_t s = 0; s < c_.batch(); ++s) {
    const std::int64_t kv = c_.sequences[static_cast<std::size_t>(s)].kv;
    for (std::int64_t j = 0; j < kv; ++j) {
      const std::int64_t token = kv_begin_[static_cast<std::size_t>(s)] + j, place = j % c_.page_size;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        for (Array* x : {&k, &v}) {
          for (std::int64_t d = 0; d < x->extent(c_.ragged ? 2 : 3); ++d) {
            const double part = x == &k && c_.falls && 4 * j >= kv ? 1.0 / 16 : 1.0;
            const double value = usual * random.normal() * part * (x == &v && !coded ? c_.size : 1.0);
            if (c_.ragged) {
              x->set(value, token, h, d);
            } else {
              x->set(value, page_of(s, j), place, h, d);
            }
          }
          if (c_.scale != CacheScale::token) continue;
          Array& scale = x == &k ? k_scale : v_scale;
          const double value =
              sign_of(j) * (x == &v ? c_.size * std::exp(c_.spread * random.normal()) : 0.5 + random.uniform()) / usual;
          if (c_.ragged) {
            scale.set(value, token, h);
          } else {
            scale.set(value, page_of(s, j), place, h);
          }
        }
      }
    }
    const Lengths& length = c_.sequences[static_cast<std::size_t>(s)];
    for (Array* x : {&k, &v}) {
      if (!(x == &k ? c_.bad_keys : c_.bad_values) || length.q == 0) continue;
      // Not all of several queries see it.
      const std::int64_t j = random.between(length.kv - std::max(length.q - 1, 1), length.kv - 1),
                         token = kv_begin_[static_cast<std::size_t>(s)] + j;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        if (c_.cache && c_.cache->kind() == Element::i8) {  // int8 has no NaN; its scale may be
          (x == &k ? k_scale : v_scale).set(nan, page_of(s, j), j % c_.page_size, h);
        } else if (c_.ragged) {
          x->set(nan, token, h, 5);
        } else {
          x->set(nan, page_of(s, j), j % c_.page_size, h, 5);
        }
      }
    }
  }
  const double usual_q = q.element().bytes() == 1 && c_.q_scale != CacheScale::none ? q.element().largest() / 4.0 : 1.0;
  for (std::int64_t t = 0; t < c_.total_q(); ++t) {
    for (std::int64_t h = 0; h < c_.heads(); ++h) {
      for (std::int64_t d = 0; d < c_.dim; ++d) q.set(usual_q * random.normal(), t, h, d);
      if (c_.q_scale == CacheScale::token) q_scale.set((c_.falls ? 3.0 : 0.5 + random.uniform()) / usual_q, t, h);
    }
  }
  if (c_.q_scale != CacheScale::token) {
    for (std::int64_t h = 0; h < q_scale.extent(0); ++h) q_scale.set((0.5 + random.uniform()) / usual_q, h);
  }
  for (std::int64_t h = 0; h < c_.heads(); ++h)
    slopes.set(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(c_.heads())), h);
}

// Of each sequence a random number of its last keys; one sequence in four has no mask.
void CodedAttention::fill_mask(Random& random) {
  mask_begin_ = {0};
  for (std::int64_t s = 0; s < c_.batch(); ++s) {
    const Lengths& length = c_.sequences[static_cast<std::size_t>(s)];
    const int keys = s % 4 == 3 ? 0 : random.between(0, length.kv);
    mask_keys_.push_back(keys);
    mask_begin_.push_back(mask_begin_.back() + std::int64_t{length.q} * ((keys + 7) / 8));
    mask_keys.set_integer(keys, s);
  }
  for (std::int64_t s = 0; s <= c_.batch(); ++s) mask_indptr.set_integer(mask_begin_[static_cast<std::size_t>(s)], s);
  for (std::int64_t i = 0; i < mask.extent(0); ++i) {
    bits_.push_back(static_cast<unsigned char>(random.below(256) | random.below(256)));
    mask.set_integer(bits_.back(), i);
  }
}

void CodedAttention::set_args() {
  args.flags = c_.flags;
  if (c_.causal) args.flags |= QUERN_ATTENTION_CAUSAL;
  args.alignment = c_.alignment;
  args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor(), args.out = out.tensor(), args.lse = lse.tensor();
  if (c_.codes) args.out_scale = out_scale.tensor();
  args.lengths = lengths.tensor(), args.cu_q = cu_q.tensor();
  if (c_.ragged) {
    args.cu_kv = cu_kv.tensor();
  } else {
    args.page_table = table.tensor();
  }
  if (c_.scale != CacheScale::none) args.k_scale = k_scale.tensor(), args.v_scale = v_scale.tensor();
  if (c_.q_scale != CacheScale::none) args.q_scale = q_scale.tensor();
  if (c_.mask) args.mask = mask.tensor(), args.mask_indptr = mask_indptr.tensor(), args.mask_keys = mask_keys.tensor();
  if (c_.left) args.flags |= QUERN_ATTENTION_WINDOW_LEFT, args.window_left = *c_.left;
  if (c_.alibi) args.alibi_slopes = slopes.tensor();
  args.logit_cap = c_.cap;
  args.max_kv_len = static_cast<std::int32_t>(c_.longest());
  for (const Lengths& s : c_.sequences) args.max_q_len = std::max(args.max_q_len, s.q);
  if (!c_.raw_bytes) return;
  const auto type = [](Element element) { return element.kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2; };
  for (Array* x : {&k, &v}) x->box().tensor.dtype = {kDLUInt, 8, 1};
  args.kv_type = type(k.element());
  if (c_.codes) out.box().tensor.dtype = {kDLUInt, 8, 1}, args.out_type = type(out.element());
  if (q.element().bytes() == 1) q.box().tensor.dtype = {kDLUInt, 8, 1}, args.q_type = type(q.element());
}

void CodedAttention::run(quern_context* on) {
  for (Array* x : {&q, &k, &v, &out, &out_scale, &lse, &q_scale, &k_scale, &v_scale, &lengths, &cu_q, &cu_kv, &table,
                   &mask, &mask_indptr, &mask_keys, &slopes})
    x->upload();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_attention_workspace(on, &args, &args.workspace_size, &error), QUERN_OK) << error.text;
  Buffer workspace(args.workspace_size, 0);
  args.workspace = workspace.data();
  ASSERT_EQ(quern_attention_prepare(on, &args, &error), QUERN_OK) << error.text;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(quern_attention(on, &args, &error), QUERN_OK) << error.text;
  synchronize();
  out.download(), out_scale.download(), lse.download();
}

bool CodedAttention::sees(std::int64_t sequence, std::int64_t query, std::int64_t key) const {
  const auto s = static_cast<std::size_t>(sequence);
  const Lengths& length = c_.sequences[s];
  const std::int64_t position = length.kv - length.q + query;
  if ((c_.causal && key > position) || (c_.left && key < position - *c_.left)) return false;
  const std::int64_t bit = key - (length.kv - mask_keys_[s]);
  if (!c_.mask || bit < 0) return true;
  const std::int64_t row = mask_begin_[s] + query * ((mask_keys_[s] + 7) / 8);
  return (bits_[static_cast<std::size_t>(row + bit / 8)] >> bit % 8 & 1) != 0;
}

CodedAttention::Row CodedAttention::row_exactly(std::int64_t sequence, std::int64_t query, std::int64_t head) const {
  const std::int64_t kv = c_.sequences[static_cast<std::size_t>(sequence)].kv, kv_head = head / c_.group;
  const std::int64_t token = q_begin_[static_cast<std::size_t>(sequence)] + query;
  const std::int64_t position = kv - c_.sequences[static_cast<std::size_t>(sequence)].q + query;
  const double of_q = c_.q_scale == CacheScale::none    ? 1.0
                      : c_.q_scale == CacheScale::token ? q_scale.get(token, head)
                                                        : q_scale.get(c_.q_scale == CacheScale::head ? head : 0);
  Row row{std::vector<double>(static_cast<std::size_t>(c_.v()), 0.0), -kInfinity, 0.0, 0.0, 0.0, false};
  std::vector<double> logits(static_cast<std::size_t>(kv), -kInfinity);
  double max = -kInfinity;
  for (std::int64_t j = 0; j < kv; ++j) {
    if (!sees(sequence, query, j)) continue;
    double product = 0.0, size = 0.0;
    for (std::int64_t d = 0; d < c_.dim; ++d) {
      const double term = of_q * q.get(token, head, d) * cached(k, k_scale, sequence, j, kv_head, d) /
                          std::sqrt(static_cast<double>(c_.dim));
      product += term, size += std::fabs(term);
    }
    row.bad |= std::isnan(product);
    for (std::int64_t d = 0; d < c_.v(); ++d) row.bad |= std::isnan(cached(v, v_scale, sequence, j, kv_head, d));
    if (c_.cap > 0.0f) product = double{c_.cap} * std::tanh(product / double{c_.cap});
    if (c_.alibi) product += slopes.get(head) * static_cast<double>(j - position);
    row.logits = std::max(row.logits, size);
    logits[static_cast<std::size_t>(j)] = product;
    max = std::max(max, product);
  }
  if (max == -kInfinity || row.bad) return row;
  double sum = 0.0;
  std::vector<double> squares(row.out.size(), 0.0);
  for (std::int64_t j = 0; j < kv; ++j) {
    const double weight = std::exp(logits[static_cast<std::size_t>(j)] - max);
    if (weight == 0.0) continue;
    sum += weight;
    for (std::size_t d = 0; d < row.out.size(); ++d) {
      const double term = weight * cached(v, v_scale, sequence, j, kv_head, static_cast<std::int64_t>(d));
      row.out[d] += term, squares[d] += term * term;
      row.size = std::max(row.size, std::fabs(term));
    }
  }
  for (std::size_t d = 0; d < row.out.size(); ++d) {
    row.out[d] /= sum;
    row.by_weights = std::max(row.by_weights, 3.0 * std::sqrt(squares[d]) / sum);
  }
  row.size /= sum;
  row.lse = max + std::log(sum);
  return row;
}

bool CodedAttention::may_multiply_codes() const {
  const auto is_fp8 = [](Element element) { return element.bytes() == 1 && element.kind() != Element::i8; };
  std::int64_t most = 0;
  for (const Lengths& s : c_.sequences) most = std::max<std::int64_t>(most, s.q * c_.group);
  return is_fp8(q.element()) && is_fp8(k.element()) && c_.scale != CacheScale::token &&
         (most > 64 || (c_.flags & QUERN_CALL_BATCH_INVARIANT) != 0);
}

// That of the 128 results from `first` on, each of which may be off by so much.
bool CodedAttention::scale_is_right(double scale, const std::vector<double>& results, std::size_t first,
                                    double allowed) const {
  double largest = 0.0;
  for (std::size_t d = first; d < first + 128; ++d) largest = std::max(largest, std::fabs(results[d]));
  if (largest == 0.0) return scale == 1.0;
  return std::fabs(scale * c_.codes->largest() - largest) <= allowed + 1e-6 * largest;
}

void CodedAttention::check() {
  // Products of 8 bits: weights are e4m3 too, and sums of products keep some 14 bits on the way.
  const bool codes = may_multiply_codes();
  const double of_weights = codes ? 0.0625 : c_.element.roundoff(), of_sums = codes ? 2e-4 : 0.0;
  std::int64_t wrong = 0, spoilt = 0, spared = 0;
  for (std::int64_t s = 0; s < c_.batch(); ++s) {
    for (std::int64_t i = 0; i < c_.sequences[static_cast<std::size_t>(s)].q; ++i) {
      for (std::int64_t h = 0; h < c_.heads(); ++h) {
        const std::int64_t token = q_begin_[static_cast<std::size_t>(s)] + i;
        const Row row = row_exactly(s, i, h);
        if (row.bad) {
          bool nan = false;
          for (std::int64_t d = 0; d < c_.v(); ++d) nan |= std::isnan(out.get(token, h, d));
          wrong += !nan, ++spoilt;
          continue;
        }
        ++spared;
        double largest = 0.0;
        for (const double x : row.out) largest = std::max(largest, std::fabs(x));
        const double unit = c_.element.roundoff(), least = c_.element.kind() == Element::f16 ? 1.2e-7 : 1e-30;
        const double allowed = 1.01 * (unit * largest + of_weights * row.by_weights) +
                               (8e-6 + of_sums) * (1.0 + row.logits) * (row.size + (codes ? largest : 0.0)) + least;
        for (std::size_t d = 0; d < row.out.size(); ++d) {
          const auto column = static_cast<std::int64_t>(d);
          double given = out.get(token, h, column), of_code = 0.0;
          if (c_.codes) {
            const double scale = out_scale.get(token, h * (c_.v() / 128) + column / 128);
            wrong += !scale_is_right(scale, row.out, d / 128 * 128, allowed);
            // A code is off by half of what lies between two.
            const bool e4m3 = c_.codes->kind() == Element::e4m3;
            const double least_code = e4m3 ? 0x1p-10 : 0x1p-17;
            given *= scale;
            of_code = std::max((std::fabs(row.out[d]) + allowed) * (e4m3 ? 0x1p-4 : 0x1p-3), scale * least_code);
          }
          wrong += !(std::fabs(given - row.out[d]) <= allowed + 1.001 * of_code);
        }
        const double given = lse.get(token, h);
        wrong += row.lse == -kInfinity ? given != -kInfinity
                                       : !(std::fabs(given - row.lse) <=
                                           (4e-6 + of_sums) * (1.0 + std::fabs(row.lse) + row.logits + double{c_.cap}));
      }
    }
  }
  EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  const bool bad = c_.bad_keys || c_.bad_values;
  if (bad) {
    EXPECT_GT(spoilt, 0) << c_.name;
  }
  // A sequence's only query sees its last keys, which are the bad ones.
  if (c_.causal && !(bad && c_.total_q() == c_.batch())) {
    EXPECT_GT(spared, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }
}

}  // namespace quern::test
