// A call of kv_append with random tensors, and its formulas in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/ops/append_places.h"
#include "tests/ops/refusal.h"
#include "tests/ops/rope_oracle.h"

namespace quern::test {

enum class Scale { none, tensor, head, token };

struct AppendCase : PlacedCase {
  Element element = Element::bf16;
  std::optional<Element> cache;  // else element
  std::int64_t kv_heads = 2, heads = 6, dim = 64, dim_v = 0;
  bool hnd = false, raw_bytes = false;
  Scale scale = Scale::none;
  bool queries = true, q_in_place = false;
  std::optional<Element> q_out;
  Scale q_scale = Scale::none;
  bool rope = true;
  quern_rope_options options{};
  bool q_norm = false, k_norm = false, norm_f32 = false;
  std::uint32_t flags = 0;
  int alignment = 0, max_sms = 0;

  std::int64_t v() const { return dim_v != 0 ? dim_v : dim; }
  Element cache_element() const { return cache.value_or(element); }
};

class KvAppending : public Appending<quern_kv_append_args, AppendCase> {
 public:
  explicit KvAppending(const AppendCase& c)
      : Appending(c),
        k(c.element, {c.tokens(), c.kv_heads, c.dim}),
        v(c.element, {c.tokens(), c.kv_heads, c.v()}),
        q(c.element, {c.tokens(), c.heads, c.dim}),
        q_out(c.q_out.value_or(c.element), {c.tokens(), c.heads, c.dim}),
        k_cache(cache_of(c.dim)),
        v_cache(cache_of(c.v())),
        k_scale(scale_of(c.scale)),
        v_scale(scale_of(c.scale)),
        q_scale(c.q_scale == Scale::token ? Array(Element::f32, {c.tokens(), c.heads})
                                          : Array(Element::f32, {c.q_scale == Scale::head ? c.heads : 1})),
        q_weight(c.norm_f32 ? Element(Element::f32) : c.element, {c.dim}),
        k_weight(c.norm_f32 ? Element(Element::f32) : c.element, {c.dim}) {
    Random random(c.name);
    for (Array* x : {&k, &v, &q}) {
      for (std::int64_t t = 0; t < c.tokens(); ++t) {
        for (std::int64_t h = 0; h < x->extent(1); ++h) {
          const double size = std::exp(random.normal());
          for (std::int64_t d = 0; d < x->extent(2); ++d) x->set(size * random.normal(), t, h, d);
        }
      }
    }
    for (Array* x : {&q_weight, &k_weight}) {
      for (std::int64_t d = 0; d < c.dim; ++d) x->set(1.0 + 0.3 * random.normal(), d);
    }
    if (c.scale == Scale::tensor || c.scale == Scale::head) {
      for (Array* x : {&k_scale, &v_scale}) {
        for (std::int64_t h = 0; h < x->extent(0); ++h)
          x->set((0.5 + random.uniform()) * 6.0 / c.cache_element().largest(), h);
      }
    }
    if (c.q_scale == Scale::tensor || c.q_scale == Scale::head) {
      for (std::int64_t h = 0; h < q_scale.extent(0); ++h)
        q_scale.set((0.5 + random.uniform()) * 6.0 / q_out.element().largest(), h);
    }
    place_tokens(c, random);
    set_args();
  }

  void run() {
    upload();
    append_prepared(args, quern_kv_append_workspace, quern_kv_append_prepare, quern_kv_append);
  }

  void upload() {
    for (Array* x : {&k, &v, &q, &q_out, &k_cache, &v_cache, &k_scale, &v_scale, &q_scale, &q_weight, &k_weight}) {
      x->upload();
    }
    for (Array* x : told()) x->upload();
  }

  void check() {
    const Array before(c_.q_in_place ? copy_of(q) : Array(Element::f32, {1}));
    for (Array* x : {&q, &q_out, &k_cache, &v_cache, &k_scale, &v_scale, &q_scale}) x->download();
    const Array& queries = c_.q_in_place ? before : q;
    std::vector<char> written(static_cast<std::size_t>(kPages * c_.page_size), 0);
    for (std::int64_t t = 0; t < c_.tokens(); ++t) {
      if (is_skipped(t)) {
        for (std::int64_t h = 0; h < c_.heads && c_.queries && !c_.q_in_place; ++h)
          wrong_ += !q_out.is_untouched(t, h, 0);
        continue;
      }
      const auto token = static_cast<std::size_t>(t);
      written[static_cast<std::size_t>(page_[token] * c_.page_size + place_[token])] = 1;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        check_head(prepared(k, t, h, c_.k_norm ? &k_weight : nullptr, c_.rope), k_cache, c_.scale, k_scale, h,
                   {page_[token], place_[token], h});
        check_head(prepared(v, t, h, nullptr, false), v_cache, c_.scale, v_scale, h, {page_[token], place_[token], h});
      }
      for (std::int64_t h = 0; h < c_.heads && c_.queries; ++h) {
        check_head(prepared(queries, t, h, c_.q_norm ? &q_weight : nullptr, c_.rope), c_.q_in_place ? q : q_out,
                   c_.q_scale, q_scale, h, {t, h});
      }
    }
    for (std::int64_t slot = 0; slot < kPages * c_.page_size; ++slot) {
      if (written[static_cast<std::size_t>(slot)] != 0) continue;
      for (std::int64_t h = 0; h < c_.kv_heads; ++h) {
        for (std::int64_t d = 0; d < c_.dim; ++d)
          wrong_ += !k_cache.is_untouched(slot / c_.page_size, slot % c_.page_size, h, d);
        for (std::int64_t d = 0; d < c_.v(); ++d)
          wrong_ += !v_cache.is_untouched(slot / c_.page_size, slot % c_.page_size, h, d);
        if (c_.scale == Scale::token) wrong_ += !k_scale.is_untouched(slot / c_.page_size, slot % c_.page_size, h);
      }
    }
    EXPECT_EQ(wrong_, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

 private:
  Array cache_of(std::int64_t dim) const {
    if (!c_.hnd) return {c_.cache_element(), {kPages, c_.page_size, c_.kv_heads, dim}};
    return {c_.cache_element(),
            {kPages, c_.page_size, c_.kv_heads, dim},
            {c_.page_size * c_.kv_heads * dim, dim, c_.page_size * dim, 1}};
  }
  Array scale_of(Scale scale) const {
    if (scale == Scale::token) return {Element::f32, {kPages, c_.page_size, c_.kv_heads}};
    return {Element::f32, {scale == Scale::head ? c_.kv_heads : 1}};
  }
  static Array copy_of(const Array& x) {
    Array copy(x.element(), {x.extent(0), x.extent(1), x.extent(2)});
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t h = 0; h < x.extent(1); ++h) {
        for (std::int64_t d = 0; d < x.extent(2); ++d) copy.set(x.get(t, h, d), t, h, d);
      }
    }
    return copy;
  }

  void set_args() {
    args.flags = c_.flags;
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.k = k.tensor(), args.v = v.tensor(), args.k_cache = k_cache.tensor(), args.v_cache = v_cache.tensor();
    if (c_.scale != Scale::none) args.k_scale = k_scale.tensor(), args.v_scale = v_scale.tensor();
    tell_places(c_, &args);
    if (c_.queries) {
      args.q = q.tensor();
      if (!c_.q_in_place) args.q_out = q_out.tensor();
      if (c_.q_scale != Scale::none) args.q_scale = q_scale.tensor();
      if (c_.q_norm) args.q_weight = q_weight.tensor();
    }
    if (c_.k_norm) args.k_weight = k_weight.tensor();
    if (c_.rope) args.rope = &options;
    args.eps = 1e-5f;
    if (!c_.raw_bytes) return;
    for (Array* x : {&k_cache, &v_cache}) x->box().tensor.dtype = {kDLUInt, 8, 1};
    args.kv_type = c_.cache_element().kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2;
  }

  // A head before it is stored, in fp64.
  std::vector<double> prepared(const Array& from, std::int64_t token, std::int64_t head, const Array* weight,
                               bool turns) const {
    std::vector<double> x;
    double squares = 0.0;
    for (std::int64_t d = 0; d < from.extent(2); ++d) {
      x.push_back(from.get(token, head, d));
      squares += x.back() * x.back();
    }
    if (weight != nullptr) {
      const double plus = (c_.flags & QUERN_KV_APPEND_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0;
      const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
      for (std::size_t d = 0; d < x.size(); ++d) x[d] *= inverse * (weight->get(static_cast<std::int64_t>(d)) + plus);
    }
    if (turns) rope_exactly(options, position_[static_cast<std::size_t>(token)], x);
    return x;
  }

  void check_head(const std::vector<double>& exact, const Array& stored, Scale kind, const Array& scales,
                  std::int64_t head, const std::vector<std::int64_t>& at) {
    const auto value = [&](std::int64_t d) {
      return at.size() == 3 ? stored.get(at[0], at[1], at[2], d) : stored.get(at[0], at[1], d);
    };
    double largest = 0.0, scale = 1.0;
    for (const double x : exact) largest = std::max(largest, std::fabs(x));
    const Element element = stored.element();
    if (kind == Scale::token) {
      scale = at.size() == 3 ? scales.get(at[0], at[1], at[2]) : scales.get(at[0], at[1]);
      const double wanted = largest > 0.0 ? largest / element.largest() : 1.0;
      wrong_ += !(std::fabs(scale - wanted) <= 2e-6 * wanted);
    } else if (kind != Scale::none) {
      scale = scales.get(kind == Scale::head ? head : 0);
    }
    // What f32 arithmetic may be off by.
    const double slack = 2e-6 * largest;
    for (std::size_t d = 0; d < exact.size(); ++d) {
      const double given = value(static_cast<std::int64_t>(d)) * scale;
      if (element.bytes() > 1) {
        wrong_ += !(std::fabs(given - exact[d]) <= element.roundoff() * std::fabs(exact[d]) * 1.01 + slack + 1e-30);
        continue;
      }
      // A code whose number is the nearest, or was within what f32 cannot tell apart.
      const double near[] = {element.rounded((exact[d] - slack) / scale) * scale,
                             element.rounded((exact[d] + slack) / scale) * scale};
      wrong_ += !(given >= near[0] - 1e-12 && given <= near[1] + 1e-12);
    }
  }

 public:
  Array k, v, q, q_out, k_cache, v_cache, k_scale, v_scale, q_scale, q_weight, k_weight;
};

}  // namespace quern::test
