// kv_copy_pages: every byte of the pages, and none beside them; layouts, dtypes, pools; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

constexpr std::int64_t kPages = 12;

struct CopyCase {
  std::string name;
  Element element = Element::bf16;
  std::int64_t page_size = 16, heads = 2, dim = 64, dim_v = 64;
  bool hnd = false, scales = false, other_pool = false, wide = false;
  bool turned = false;  // the other pool lies the other way round
  int alignment = 0, max_sms = 0;
};

class Copying {
 public:
  explicit Copying(const CopyCase& c)
      : args(sized<quern_kv_copy_pages_args>()),
        c_(c),
        k(pool(c.dim)),
        v(pool(c.dim_v)),
        k_to(pool(c.dim, c.turned)),
        v_to(pool(c.dim_v, c.turned)),
        k_scale(Element::f32, {kPages, c.page_size, c.heads}),
        v_scale(Element::f32, {kPages, c.page_size, c.heads}),
        k_scale_to(Element::f32, {kPages, c.page_size, c.heads}),
        v_scale_to(Element::f32, {kPages, c.page_size, c.heads}),
        pairs(IntegerBits{c.wide ? 64 : 32}, {6, 2}) {
    Random random(c.name);
    for (Array* x : {&k, &v}) {
      for (std::int64_t p = 0; p < kPages; ++p) {
        for (std::int64_t t = 0; t < c.page_size; ++t) {
          for (std::int64_t h = 0; h < c.heads; ++h) {
            for (std::int64_t d = 0; d < x->extent(3); ++d) x->set(random.normal(), p, t, h, d);
            (x == &k ? k_scale : v_scale).set(random.uniform(), p, t, h);
          }
        }
      }
    }
    // Pages 0 to 4 are read, 6 to 9 written; two pairs are skipped.
    const std::int64_t listed[6][2] = {{0, 6}, {3, 8}, {-1, 10}, {0, 7}, {4, 9}, {1, -5}};
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 2; ++j) pairs.set_integer(listed[i][j], i, j);
    }
    for (std::int64_t j = 0; j < 2; ++j) {
      TensorBox& box = j == 0 ? sources : destinations;
      box.set({kDLInt, static_cast<std::uint8_t>(c.wide ? 64 : 32), 1}, {6}, {2});
      box.place(pairs.box().tensor.data, static_cast<std::uint64_t>(j * (c.wide ? 8 : 4)));
    }
    args.k = k.tensor(), args.v = v.tensor(), args.sources = sources.get(), args.destinations = destinations.get();
    if (c.other_pool) args.k_to = k_to.tensor(), args.v_to = v_to.tensor();
    if (c.scales) args.k_scale = k_scale.tensor(), args.v_scale = v_scale.tensor();
    if (c.scales && c.other_pool) args.k_scale_to = k_scale_to.tensor(), args.v_scale_to = v_scale_to.tensor();
    args.alignment = c.alignment, args.max_sms = c.max_sms;
  }

  void upload() {
    for (Array* x : {&k, &v, &k_to, &v_to, &k_scale, &v_scale, &k_scale_to, &v_scale_to, &pairs}) x->upload();
  }

  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_kv_copy_pages_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_kv_copy_pages_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_kv_copy_pages(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  void check() {
    if (c_.turned) {
      check_elements(k, k_to);
      check_elements(v, v_to);
      return;
    }
    check(k, c_.other_pool ? k_to : k);
    check(v, c_.other_pool ? v_to : v);
    check(k_scale, c_.other_pool ? k_scale_to : k_scale, !c_.scales);
    check(v_scale, c_.other_pool ? v_scale_to : v_scale, !c_.scales);
  }

  quern_kv_copy_pages_args args;
  TensorBox sources, destinations;

 private:
  Array pool(std::int64_t dim, bool turned = false) const {
    if (c_.hnd == turned) return {c_.element, {kPages, c_.page_size, c_.heads, dim}};
    return {
        c_.element, {kPages, c_.page_size, c_.heads, dim}, {c_.page_size * c_.heads * dim, dim, c_.page_size * dim, 1}};
  }
  void check_elements(Array& from, Array& to) {
    to.download();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      const std::int64_t a = pairs.integer(i, 0), b = pairs.integer(i, 1);
      for (std::int64_t t = 0; a >= 0 && b >= 0 && t < c_.page_size; ++t) {
        for (std::int64_t h = 0; h < c_.heads; ++h) {
          for (std::int64_t d = 0; d < from.extent(3); ++d) wrong += to.get(b, t, h, d) != from.get(a, t, h, d);
        }
      }
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }
  // A page is so many bytes of the pool, in both layouts.
  void check(Array& from, Array& to, bool untouched = false) {
    const std::vector<unsigned char> source = from.memory();
    std::vector<unsigned char> expected = to.memory();
    const std::size_t page = expected.size() / kPages;
    for (std::int64_t i = 0; i < 6 && !untouched; ++i) {
      const std::int64_t a = pairs.integer(i, 0), b = pairs.integer(i, 1);
      if (a < 0 || b < 0) continue;
      std::memcpy(&expected[static_cast<std::size_t>(b) * page], &source[static_cast<std::size_t>(a) * page], page);
    }
    to.download();
    EXPECT_EQ(to.memory(), expected) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  CopyCase c_;

 public:
  Array k, v, k_to, v_to, k_scale, v_scale, k_scale_to, v_scale_to, pairs;
};

std::vector<CopyCase> copy_cases() {
  std::vector<CopyCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(CopyCase&)>& change) {
    CopyCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const bool hnd : {false, true}) {
    const std::string layout = hnd ? "hnd" : "nhd";
    for (const Element element :
         {Element(Element::f16), Element(Element::f32), Element(Element::e4m3), Element(Element::i8)}) {
      add(layout + "_" + element.name(),
          [&](CopyCase& c) { c.hnd = hnd, c.element = element, c.scales = element.bytes() == 1; });
    }
    add(layout + "_other_pool",
        [&](CopyCase& c) { c.hnd = hnd, c.other_pool = c.scales = true, c.element = Element::e5m2; });
    add(layout + "_into_the_other_layout",
        [&](CopyCase& c) { c.hnd = hnd, c.other_pool = c.turned = true, c.element = Element::f16; });
    add(layout + "_dims_24_8",
        [&](CopyCase& c) { c.hnd = hnd, c.dim = 24, c.dim_v = 8, c.element = Element::i8, c.page_size = 5; });
  }
  add("wide", [](CopyCase& c) { c.wide = true; });
  add("large_pages", [](CopyCase& c) { c.page_size = 128, c.heads = 8, c.dim = 128; });
  add("page_1", [](CopyCase& c) { c.page_size = 1, c.heads = 1; });
  add("alignment_4", [](CopyCase& c) { c.alignment = 4; });
  add("few_sms", [](CopyCase& c) { c.max_sms = 1, c.page_size = 64; });
  return cases;
}

class KvCopyPages : public testing::TestWithParam<CopyCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, KvCopyPages, testing::ValuesIn(copy_cases()),
                         [](const testing::TestParamInfo<CopyCase>& test) { return test.param.name; });

TEST_P(KvCopyPages, CopiesThemAndNothingElse) {
  Copying copying(GetParam());
  ASSERT_NO_FATAL_FAILURE(copying.run());
  copying.check();
}

// A latent cache has no heads, and no values: its rows as they are, 656 bytes wide among them, and their scales.
TEST(KvCopyPagesLatent, CopiesThemAndNothingElse) {
  struct Latent {
    Element element;
    std::int64_t width, page_size;
    bool scales, other_pool;
  };
  for (const Latent& c : {Latent{Element::bf16, 576, 64, false, false},
                          {Element::e4m3, 576, 16, true, true},
                          {Element::i8, 656, 5, false, true},
                          {Element::e4m3, 72, 3, true, false}}) {
    SCOPED_TRACE(std::to_string(c.width) + " of " + c.element.name());
    Random random("latent");
    Array rows(c.element, {kPages, c.page_size, c.width}), to(c.element, {kPages, c.page_size, c.width});
    Array scales(Element::f32, {kPages, c.page_size}), scales_to(Element::f32, {kPages, c.page_size});
    for (std::int64_t p = 0; p < kPages; ++p) {
      for (std::int64_t t = 0; t < c.page_size; ++t) {
        for (std::int64_t d = 0; d < c.width; ++d) rows.set(random.normal(), p, t, d);
        scales.set(random.uniform(), p, t);
      }
    }
    Array from(IntegerBits{32}, {2}), at(IntegerBits{32}, {2});
    from.set_integer(3, 0), from.set_integer(0, 1), at.set_integer(11, 0), at.set_integer(7, 1);
    for (Array* x : {&rows, &to, &scales, &scales_to, &from, &at}) x->upload();
    auto args = sized<quern_kv_copy_pages_args>();
    args.k = rows.tensor(), args.sources = from.tensor(), args.destinations = at.tensor();
    if (c.other_pool) args.k_to = to.tensor();
    if (c.scales) args.k_scale = scales.tensor();
    if (c.scales && c.other_pool) args.k_scale_to = scales_to.tensor();
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_kv_copy_pages_prepare(context(), &args, &error), QUERN_OK) << error.text;
    const auto expected = [&](const Array& source, const Array& target) {
      const std::vector<unsigned char> read = source.memory();
      std::vector<unsigned char> bytes = target.memory();
      const std::size_t page = bytes.size() / kPages;
      for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{3, 11}, {0, 7}})
        std::memcpy(&bytes[b * page], &read[a * page], page);
      return bytes;
    };
    Array &target = c.other_pool ? to : rows, &target_scales = c.other_pool ? scales_to : scales;
    const std::vector<unsigned char> wanted = expected(rows, target);
    const std::vector<unsigned char> wanted_scales =
        c.scales ? expected(scales, target_scales) : target_scales.memory();
    ASSERT_EQ(quern_kv_copy_pages(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    for (Array* x : {&rows, &to, &scales, &scales_to}) x->download();
    EXPECT_EQ(target.memory(), wanted) << "QUERN_TEST_SEED=" << run_seed();
    EXPECT_EQ(target_scales.memory(), wanted_scales);

    const auto refused = [&](const std::vector<std::string_view>& parts) {
      expect_refused(parts, [&](quern_error* e) { return quern_kv_copy_pages(context(), &args, e); });
    };
    args.v_scale = scales.tensor();
    refused({"v_scale is given", "without v"});
    args.v_scale = nullptr;
    Array narrow(c.element, {kPages, c.page_size, c.width - 8});
    args.k_to = narrow.tensor();
    refused({"k_to.shape[2]", std::to_string(c.width)});
    Array with_heads(c.element, {kPages, c.page_size, 1, c.width});
    args.k_to = with_heads.tensor();
    refused({"k_to has 4 dimensions"});
  }
}

TEST(KvCopyPagesRefuses, PagesThatThePoolsDoNotHave) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  for (const std::int64_t column : {0, 1}) {
    CopyCase c;
    c.name = "misled";
    Copying copying(c);
    copying.pairs.set_integer(kPages, 3, column);
    copying.upload();
    const std::vector<unsigned char> before = copying.k.memory();
    const std::string number = std::to_string(kPages), bound = "0 to " + std::to_string(kPages - 1);
    expect_refused({column == 0 ? "sources[3]" : "destinations[3]", "is " + number, bound},
                   [&](quern_error* e) { return quern_kv_copy_pages(context(), &copying.args, e); });
    copying.k.download();
    EXPECT_EQ(copying.k.memory(), before);
  }
}

TEST(KvCopyPagesRefuses, EveryWrongArgument) {
  using C = Copying&;
  const std::vector<Mistake<Copying>> mistakes = {
      {"k NULL", {"k", "NULL"}, [](C c) { c.args.k = nullptr; }},
      {"v NULL", {"v_to", "NULL without v"}, [](C c) { c.args.v = nullptr; }},
      {"sources NULL", {"sources", "NULL"}, [](C c) { c.args.sources = nullptr; }},
      {"destinations NULL", {"destinations", "NULL"}, [](C c) { c.args.destinations = nullptr; }},
      {"k's rank", {"k has 2 dimensions", "3 or 4"}, [](C c) { c.k.box().tensor.ndim = 2; }},
      {"k without heads", {"k.shape[2] is 2", "multiples of 8"}, [](C c) { c.k.box().tensor.ndim = 3; }},
      {"v's dtype", {"v", "e4m3"}, [](C c) { c.v.box().tensor.dtype = kFloat32; }},
      {"k_to's dtype", {"k_to", "e4m3"}, [](C c) { c.k_to.box().tensor.dtype = kFloat32; }},
      {"k_to's heads", {"k_to.shape[2]", "2"}, [](C c) { c.k_to.box().shape[2] = 1; }},
      {"v's page size", {"v.shape[1]", "16"}, [](C c) { c.v.box().shape[1] = c.v_to.box().shape[1] = 8; }},
      {"a dim of 12", {"k.shape[3]", "multiples of 8"}, [](C c) { c.k.box().shape[3] = 12; }},
      {"k_scale's dtype", {"k_scale", "f32"}, [](C c) { c.k_scale.box().tensor.dtype = kInt32; }},
      {"v_scale's pages", {"v_scale.shape[0]", "12"}, [](C c) { c.v_scale.box().shape[0] = 3; }},
      {"k_scale_to alone", {"k_scale_to", "k_scale"}, [](C c) { c.args.k_scale = nullptr; }},
      {"destinations' length", {"destinations.shape[0]", "6"}, [](C c) { c.destinations.shape[0] = 5; }},
      {"destinations' dtype", {"destinations", "int64"}, [](C c) { c.sources.tensor.dtype = {kDLInt, 64, 1}; }},
      {"the last stride", {"k.strides[3]", "1"}, [](C c) { c.k.box().strides[3] = 2; }},
      {"a pool over itself", {"k_to.strides"}, [](C c) { c.k_to.box().strides[1] = 16; }},
      {"a row's alignment", {"k", "stride"}, [](C c) { c.k.box().strides[1] += 4; }},
      {"without data", {"v_to", "NULL"}, [](C c) { c.v_to.box().tensor.data = nullptr; }, true},
      {"alignment 2", {"alignment", "2"}, [](C c) { c.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](C c) { c.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](C c) { c.args.flags = QUERN_ATTENTION_CAUSAL; }},
      {"no size", {"size"}, [](C c) { c.args.size = 0; }},
  };
  CopyCase c;
  c.name = "refusals";
  c.element = Element::e4m3, c.scales = c.other_pool = true;
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_kv_copy_pages_args>{quern_kv_copy_pages, quern_kv_copy_pages_workspace,
                                           quern_kv_copy_pages_prepare},
      [&] { return std::make_unique<Copying>(c); },
      [](Copying& one) {
        return [&one] {
          one.k_to.download();
          return one.k_to.is_untouched(6, 0, 0, 0) && one.k_to.is_untouched(9, 15, 1, 63);
        };
      });
}

}  // namespace
}  // namespace quern::test
