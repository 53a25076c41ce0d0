// A call of mla_append with random tensors, and its formulas in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/ops/append_places.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rope_oracle.h"

namespace quern::test {

enum class Cache { plain, tensor, token, rows656 };
enum class LatentNorm { none, element, f32 };

struct LatentCase : PlacedCase {
  Element element = Element::bf16;
  Cache cache = Cache::plain;
  std::int64_t heads = 6, d_latent = 128, d_rope = 64;
  bool raw_bytes = false;
  bool apart = false;      // k_rope beside kv
  bool two_pools = false;  // cache_rope beside cache
  LatentNorm norm = LatentNorm::element;
  bool rope = true;
  quern_rope_options options{};
  bool queries = true, q_in_place = false;
  bool results = false, in_place = false;  // kv_out; over kv
  std::uint32_t flags = 0;
  int alignment = 0, max_sms = 0;

  bool codes() const { return cache != Cache::plain; }
  Element stored() const { return codes() ? Element(Element::e4m3) : element; }
  std::int64_t columns() const { return d_latent + d_rope; }
};

class MlaAppending : public Appending<quern_mla_append_args, LatentCase> {
 public:
  explicit MlaAppending(const LatentCase& c)
      : Appending(c),
        kv(c.element, {c.tokens(), c.apart ? c.d_latent : c.columns()}),
        k_rope(c.element, {c.tokens(), std::max<std::int64_t>(c.d_rope, 1)}),
        q(c.element, {c.tokens(), c.heads, std::max<std::int64_t>(c.d_rope, 1)}),
        q_out(c.element, {c.tokens(), c.heads, std::max<std::int64_t>(c.d_rope, 1)}),
        kv_out(c.element, {c.tokens(), kv.extent(1)}),
        k_rope_out(c.element, {c.tokens(), k_rope.extent(1)}),
        cache(c.stored(), {kPages, c.page_size,
                           c.cache == Cache::rows656 ? 656
                           : c.two_pools             ? c.d_latent
                                                     : c.columns()}),
        cache_rope(c.stored(), {kPages, c.page_size, std::max<std::int64_t>(c.d_rope, 1)}),
        scale(c.cache == Cache::token ? Array(Element::f32, {kPages, c.page_size}) : Array(Element::f32, {1})),
        weight(c.norm == LatentNorm::f32 ? Element(Element::f32) : c.element, {c.d_latent}),
        status(IntegerBits{32}, {1}) {
    Random random(c.name);
    for (std::int64_t t = 0; t < c.tokens(); ++t) {
      const double size = std::exp(random.normal());
      for (std::int64_t d = 0; d < c.columns(); ++d) {
        const double x = size * random.normal();
        if (c.apart && d >= c.d_latent) {
          k_rope.set(x, t, d - c.d_latent);
        } else {
          kv.set(x, t, d);
        }
      }
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t d = 0; d < c.d_rope; ++d) q.set(random.normal(), t, h, d);
      }
    }
    for (std::int64_t d = 0; d < c.d_latent; ++d) weight.set(1.0 + 0.3 * random.normal(), d);
    if (c.cache == Cache::tensor) scale.set((0.5 + random.uniform()) / 60.0, 0);
    status.set_integer(0, 0);
    place_tokens(c, random);
    set_args();
  }

  void run() {
    for (Array* x : {&kv, &k_rope, &q, &q_out, &kv_out, &k_rope_out, &cache, &cache_rope, &scale, &weight, &status}) {
      x->upload();
    }
    for (Array* x : told()) x->upload();
    append_prepared(args, quern_mla_append_workspace, quern_mla_append_prepare, quern_mla_append);
  }

  void check() {
    // What was given, before what may have been written over it is fetched.
    std::vector<std::vector<double>> exact;
    for (std::int64_t t = 0; t < c_.tokens(); ++t) exact.push_back(prepared(t));
    std::vector<std::vector<double>> queries;
    for (std::int64_t t = 0; t < c_.tokens() && c_.queries; ++t) {
      for (std::int64_t h = 0; h < c_.heads; ++h) queries.push_back(prepared_query(t, h));
    }
    for (Array* x : {&kv, &k_rope, &kv_out, &k_rope_out, &q, &q_out, &cache, &cache_rope, &scale, &status})
      x->download();
    std::vector<char> written(static_cast<std::size_t>(kPages * c_.page_size), 0);
    for (std::int64_t t = 0; t < c_.tokens(); ++t) {
      const auto token = static_cast<std::size_t>(t);
      if (page_[token] < 0) {
        for (std::int64_t h = 0; h < c_.heads && c_.queries && !c_.q_in_place; ++h)
          wrong_ += !q_out.is_untouched(t, h, 0);
        wrong_ += c_.results && !c_.in_place && !kv_out.is_untouched(t, 0);
        continue;
      }
      written[static_cast<std::size_t>(page_[token] * c_.page_size + place_[token])] = 1;
      check_stored(exact[token], page_[token], place_[token]);
      if (c_.results) check_result(exact[token], t);
      for (std::int64_t h = 0; h < c_.heads && c_.queries; ++h) {
        const std::vector<double>& wanted = queries[static_cast<std::size_t>(t * c_.heads + h)];
        for (std::int64_t d = 0; d < c_.d_rope; ++d)
          expect_rounded(wanted[static_cast<std::size_t>(d)], (c_.q_in_place ? q : q_out).get(t, h, d), c_.element,
                         8e-6);
      }
    }
    for (std::int64_t slot = 0; slot < kPages * c_.page_size; ++slot) {
      if (written[static_cast<std::size_t>(slot)] != 0) continue;
      const std::int64_t page = slot / c_.page_size, place = slot % c_.page_size;
      for (std::int64_t d = 0; d < cache.extent(2); ++d) wrong_ += !cache.is_untouched(page, place, d);
      for (std::int64_t d = 0; d < cache_rope.extent(2); ++d) wrong_ += !cache_rope.is_untouched(page, place, d);
      if (c_.cache == Cache::token) wrong_ += !scale.is_untouched(page, place);
    }
    EXPECT_EQ(status.integer(0), 0);
    EXPECT_EQ(wrong_, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  // As the cache has it after a download.
  double number_at(std::int64_t page, std::int64_t place, std::int64_t d) const {
    if (c_.cache == Cache::rows656) {
      if (d >= 512) return Element(Element::bf16).load(row656(page, place) + 528 + 2 * (d - 512));
      return cache.get(page, place, d) * scale_of(page, place, d);
    }
    const bool in_rope = c_.two_pools && d >= c_.d_latent;
    return (in_rope ? cache_rope.get(page, place, d - c_.d_latent) : cache.get(page, place, d)) *
           scale_of(page, place, d);
  }

 private:
  const unsigned char* row656(std::int64_t page, std::int64_t place) const {
    return &cache.memory()[static_cast<std::size_t>((page * c_.page_size + place) * 656)];
  }
  double scale_of(std::int64_t page, std::int64_t place, std::int64_t d) const {
    if (c_.cache == Cache::plain) return 1.0;
    if (c_.cache == Cache::tensor) return scale.get(0);
    if (c_.cache == Cache::token) return scale.get(page, place);
    return Element(Element::f32).load(row656(page, place) + 512 + 4 * (d / 128));
  }

  void set_args() {
    args.flags = c_.flags;
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.kv = kv.tensor(), args.cache = cache.tensor();
    if (c_.apart) {
      args.k_rope = k_rope.tensor();
    } else {
      args.d_rope = static_cast<std::int32_t>(c_.d_rope);
    }
    if (c_.two_pools) args.cache_rope = cache_rope.tensor();
    if (c_.cache == Cache::tensor || c_.cache == Cache::token) args.cache_scale = scale.tensor();
    if (c_.cache == Cache::rows656) args.cache_type = QUERN_MLA_CACHE_ROWS_656;
    if (c_.raw_bytes && c_.cache != Cache::rows656) args.cache_type = QUERN_MLA_CACHE_E4M3;
    if (c_.raw_bytes || c_.cache == Cache::rows656) {
      for (Array* x : {&cache, &cache_rope}) x->box().tensor.dtype = {kDLUInt, 8, 1};
    }
    tell_places(c_, &args);
    if (c_.queries) {
      args.q_rope = q.tensor();
      if (!c_.q_in_place) args.q_rope_out = q_out.tensor();
    }
    if (c_.results) {
      args.kv_out = c_.in_place ? kv.tensor() : kv_out.tensor();
      if (c_.apart) args.k_rope_out = c_.in_place ? k_rope.tensor() : k_rope_out.tensor();
    }
    if (c_.norm != LatentNorm::none) args.weight = weight.tensor();
    if (c_.rope) args.rope = &options;
    args.status = status.tensor();
    args.eps = 1e-5f;
  }

  double given(std::int64_t t, std::int64_t d) const {
    return c_.apart && d >= c_.d_latent ? k_rope.get(t, d - c_.d_latent) : kv.get(t, d);
  }
  // A token before it is stored, in fp64.
  std::vector<double> prepared(std::int64_t t) const {
    std::vector<double> x, turned;
    double squares = 0.0;
    for (std::int64_t d = 0; d < c_.d_latent; ++d) {
      x.push_back(given(t, d));
      squares += x.back() * x.back();
    }
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    for (std::int64_t d = 0; d < c_.d_latent && c_.norm != LatentNorm::none; ++d)
      x[static_cast<std::size_t>(d)] *= inverse * weight.get(d);
    for (std::int64_t d = c_.d_latent; d < c_.columns(); ++d) turned.push_back(given(t, d));
    if (c_.rope) rope_exactly(options, position_[static_cast<std::size_t>(t)], turned);
    x.insert(x.end(), turned.begin(), turned.end());
    return x;
  }
  std::vector<double> prepared_query(std::int64_t t, std::int64_t h) const {
    std::vector<double> x;
    for (std::int64_t d = 0; d < c_.d_rope; ++d) x.push_back(q.get(t, h, d));
    rope_exactly(options, position_[static_cast<std::size_t>(t)], x);
    return x;
  }

  void expect_rounded(double exact, double given, Element element, double slack) {
    wrong_ += !(std::fabs(given - exact) <= element.roundoff() * std::fabs(exact) * 1.01 + slack + 1e-30);
  }
  static double largest_of(const std::vector<double>& x, std::int64_t first, std::int64_t count) {
    double largest = 0.0;
    for (std::int64_t d = first; d < first + count; ++d)
      largest = std::max(largest, std::fabs(x[static_cast<std::size_t>(d)]));
    return largest;
  }

  void check_stored(const std::vector<double>& exact, std::int64_t page, std::int64_t place) {
    // Numbers that share a scale: all, or 128; what f32 arithmetic may be off by goes by the largest of the part.
    const std::int64_t group = c_.cache == Cache::rows656 ? 128 : c_.columns();
    for (std::int64_t first = 0; first < c_.columns(); first += group) {
      const std::int64_t count = std::min(group, c_.columns() - first);
      const double largest = largest_of(exact, first, count), slack = 4e-6 * largest;
      const bool coded = c_.codes() && !(c_.cache == Cache::rows656 && first >= 512);
      const double by = coded ? scale_of(page, place, first) : 1.0;
      if (coded && c_.cache != Cache::tensor) {
        const double wanted = largest > 0.0 ? largest / 448.0 : 1.0;
        if ((c_.flags & QUERN_MLA_APPEND_POWER_OF_TWO) != 0) {
          wrong_ +=
              std::ldexp(1.0, std::ilogb(by)) != by || !(by >= wanted * (1 - 4e-6) && by < 2 * wanted * (1 + 4e-6));
        } else {
          wrong_ += !(std::fabs(by - wanted) <= 4e-6 * wanted);
        }
      }
      for (std::int64_t d = first; d < first + count; ++d) {
        const double x = exact[static_cast<std::size_t>(d)], is = number_at(page, place, d);
        if (!coded) {
          expect_rounded(x, is, c_.cache == Cache::rows656 ? Element(Element::bf16) : c_.element, slack);
          continue;
        }
        // A code whose number is the nearest, or was within what f32 cannot tell apart.
        const Element e4m3(Element::e4m3);
        const double low = e4m3.rounded((x - slack) / by) * by, high = e4m3.rounded((x + slack) / by) * by;
        wrong_ += !(is >= low - 1e-12 && is <= high + 1e-12);
      }
    }
  }
  void check_result(const std::vector<double>& exact, std::int64_t t) {
    const Array& latent = c_.in_place ? kv : kv_out;
    const Array& rope = c_.in_place ? k_rope : k_rope_out;
    const double slack = 4e-6 * largest_of(exact, 0, c_.columns());
    for (std::int64_t d = 0; d < c_.columns(); ++d) {
      const bool beside = c_.apart && d >= c_.d_latent;
      expect_rounded(exact[static_cast<std::size_t>(d)], beside ? rope.get(t, d - c_.d_latent) : latent.get(t, d),
                     c_.element, slack);
    }
  }

 public:
  Array kv, k_rope, q, q_out, kv_out, k_rope_out, cache, cache_rope, scale, weight, status;
};

}  // namespace quern::test
