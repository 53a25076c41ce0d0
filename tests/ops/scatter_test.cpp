// scatter against a loop: rows set to the bit, the last of an id's rows, sums in f32 in the order of places, padding,
// shards; the same bits under every schedule; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "scatter * stage=move x=bf16 out=f32 width=4 add=1 sorted=1",
    "scatter * stage=finish out=f32 width=4",
};
constexpr ThreeCalls<quern_scatter_args> kScatter{quern_scatter, quern_scatter_workspace, quern_scatter_prepare};

constexpr std::size_t kPiece = 64;

struct ScatterCase {
  std::string name;
  Element x = Element::bf16, out = Element::bf16;
  std::int64_t rows = 37, n = 64, count = 29;
  std::int64_t pitch = 0, out_pitch = 0;  // elements between rows; 0: n
  std::int64_t first = 0, padding = -1;
  bool add = false, unique = false, shard = false, wide = false;
  float scale = 0.0f;
  int alignment = 0, max_sms = 0;
};

class Scattering {
 public:
  explicit Scattering(const ScatterCase& c)
      : args(sized<quern_scatter_args>()),
        x(c.x, {c.count, c.n}, {c.pitch > 0 ? c.pitch : c.n, 1}),
        out(c.out, {c.rows, c.n}, {c.out_pitch > 0 ? c.out_pitch : c.n, 1}),
        ids(IntegerBits{c.wide ? 64 : 32}, {c.count}),
        c_(c) {
    Random random(c.name);
    std::vector<std::int64_t> places;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      places.push_back(c.first + r);
      // What is to be added to are numbers; what is to be replaced stays NaN, so that rows without an id show.
      for (std::int64_t k = 0; c.add && k < c.n; ++k) out.set(random.normal(), r, k);
    }
    random.shuffle(places);
    for (std::int64_t i = 0; i < c.count; ++i) {
      for (std::int64_t k = 0; k < c.n; ++k) x.set(random.normal(), i, k);
      const auto reach = static_cast<std::uint64_t>(std::max<std::int64_t>(c.shard ? 3 * c.rows : c.rows, 1));
      std::int64_t id = c.first + static_cast<std::int64_t>(random.below(reach)) - (c.shard ? c.rows : 0);
      if (c.unique) id = places[static_cast<std::size_t>(i)];
      ids.set_integer(c.padding >= 0 && random.below(4) == 0 ? c.padding : id, i);
    }
    args.x = x.tensor(), args.ids = ids.tensor(), args.out = out.tensor();
    args.first = c.first, args.scale = c.scale, args.alignment = c.alignment, args.max_sms = c.max_sms;
    if (c.padding >= 0) args.padding = c.padding, args.flags |= QUERN_SCATTER_HAS_PADDING;
    if (c.add) args.flags |= QUERN_SCATTER_ADD;
    if (c.unique) args.flags |= QUERN_SCATTER_UNIQUE;
    if (c.shard) args.flags |= QUERN_SCATTER_SHARD;
    upload();
  }
  void upload() {
    for (Array* a : {&x, &ids, &out}) a->upload();
  }
  void run(quern_context* context) {
    expect();
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kScatter, args));
    out.download();
  }
  void check() const {
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t k = 0; k < c_.n; ++k) {
        const auto at = static_cast<std::size_t>(r * c_.n + k);
        wrong += there_[static_cast<std::size_t>(r)] ? out.get(r, k) != expected_[at]
                 : c_.add                            ? out.get(r, k) != before_[at]
                                                     : !out.is_untouched(r, k);
      }
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_scatter_args args;
  Array x, out, ids;

 private:
  // Row by row of x: the last stands, or each is added to an f32 by one rounding; of a place with more than 64 rows 64
  // at a time, and then these sums.
  void expect() {
    const float scale = c_.scale == 0.0f ? 1.0f : c_.scale;
    there_.assign(static_cast<std::size_t>(c_.rows), false);
    std::vector<float> sums(static_cast<std::size_t>(c_.rows * c_.n));
    for (std::int64_t r = 0; c_.add && r < c_.rows; ++r) {
      for (std::int64_t k = 0; k < c_.n; ++k)
        sums[static_cast<std::size_t>(r * c_.n + k)] = static_cast<float>(out.get(r, k));
    }
    before_.assign(sums.begin(), sums.end());
    std::vector<std::vector<std::int64_t>> going(static_cast<std::size_t>(c_.rows));
    for (std::int64_t i = 0; i < c_.count; ++i) {
      const std::int64_t id = ids.integer(i), row = id - c_.first;
      if (row < 0 || row >= c_.rows || (c_.padding >= 0 && id == c_.padding)) continue;
      going[static_cast<std::size_t>(row)].push_back(i);
    }
    for (std::size_t row = 0; row < going.size(); ++row) {
      const std::vector<std::int64_t>& rows = going[row];
      there_[row] = !rows.empty();
      for (std::int64_t k = 0; k < c_.n && !rows.empty(); ++k) {
        float& sum = sums[row * static_cast<std::size_t>(c_.n) + static_cast<std::size_t>(k)];
        const auto value = [&](std::size_t i) { return static_cast<float>(x.get(rows[i], k)); };
        if (!c_.add) {
          sum = scale * value(rows.size() - 1);
        } else if (rows.size() <= kPiece) {
          for (std::size_t i = 0; i < rows.size(); ++i) sum = std::fma(scale, value(i), sum);
        } else {
          for (std::size_t begin = 0; begin < rows.size(); begin += kPiece) {
            float piece = 0;
            for (std::size_t i = begin; i < std::min(begin + kPiece, rows.size()); ++i)
              piece = std::fma(scale, value(i), piece);
            sum += piece;
          }
        }
      }
    }
    for (const float sum : sums) expected_.push_back(c_.out.rounded(static_cast<double>(sum)));
  }

  ScatterCase c_;
  std::vector<bool> there_;
  std::vector<double> expected_, before_;
};

std::vector<ScatterCase> scatter_cases() {
  std::vector<ScatterCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(ScatterCase&)>& change) {
    ScatterCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const Element element : {Element::f16, Element::f32, Element::e4m3, Element::i8})
    add(std::string("sets_") + Element(element).name(), [&](ScatterCase& c) { c.x = c.out = element; });
  add("sets_f32_to_bf16", [](ScatterCase& c) { c.x = Element::f32, c.scale = 0.3f; });
  add("sets_unique", [](ScatterCase& c) { c.unique = true, c.wide = true, c.first = 100; });
  for (const Element from : {Element::bf16, Element::f32}) {
    for (const Element to : {Element::bf16, Element::f32}) {
      if (from.kind() == Element::f32 && to.kind() == Element::f32) continue;
      add(std::string("adds_") + from.name() + "_to_" + to.name(),
          [&](ScatterCase& c) { c.x = from, c.out = to, c.add = true, c.scale = 1.75f, c.count = 99; });
    }
  }
  add("adds_unique", [](ScatterCase& c) { c.add = c.unique = true, c.out = Element::f32; });
  const auto sums = [&](const std::string& name, const std::function<void(ScatterCase&)>& change) {
    add("sums_" + name, [&](ScatterCase& c) { c.add = true, c.out = Element::f32, change(c); });
  };
  for (const std::int64_t n : {1, 7, 33, 1028})
    sums("n" + std::to_string(n), [&](ScatterCase& c) { c.n = n, c.count = 50, c.rows = 9; });
  sums("one_place", [](ScatterCase& c) { c.rows = 1, c.count = 301, c.n = 12; });
  sums("few_places", [](ScatterCase& c) { c.rows = 5, c.count = 700, c.n = 7, c.out = Element::bf16; });
  sums("two_places", [](ScatterCase& c) { c.rows = 2, c.count = 131, c.n = 4, c.scale = 0.7f; });
  sums("many", [](ScatterCase& c) { c.count = 4301, c.rows = 700, c.n = 4, c.max_sms = 1; });
  sums("padding", [](ScatterCase& c) { c.padding = 5; });
  sums("shard", [](ScatterCase& c) { c.shard = c.wide = true, c.first = std::int64_t{1} << 40, c.count = 90; });
  sums("pitch", [](ScatterCase& c) { c.pitch = 67, c.out_pitch = 66; });
  sums("alignment_4", [](ScatterCase& c) { c.alignment = 4; });
  sums("none", [](ScatterCase& c) { c.count = 0; });
  add("no_places", [](ScatterCase& c) { c.rows = 0, c.shard = true; });
  add("shard", [](ScatterCase& c) { c.shard = true, c.first = 4000; });
  add("padding", [](ScatterCase& c) { c.padding = 0, c.wide = true; });
  return cases;
}

TEST(Scatter, PutsRowsWhereTheirIdsSay) {
  for (const ScatterCase& c : scatter_cases()) {
    Scattering scattering(c);
    ASSERT_NO_FATAL_FAILURE(scattering.run(context())) << c.name;
    scattering.check();
  }
}

TEST(ScatterScheduling, ChangesNoBit) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    ScatterCase c;
    c.name = "unfair", c.add = true, c.out = Element::f32, c.count = 301, c.rows = 20, c.max_sms = seed == 0 ? 1 : 0;
    Scattering scattering(c);
    ASSERT_NO_FATAL_FAILURE(scattering.run(unfair.get()));
    scattering.check();
  }
}

TEST(ScatterRefuses, EveryWrongArgument) {
  using S = Scattering&;
  const std::vector<Mistake<Scattering>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](S s) { s.args.x = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](S s) { s.args.ids = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](S s) { s.args.out = nullptr; }},
      {"x's rank", {"x", "dimensions"}, [](S s) { s.x.box().tensor.ndim = 1; }},
      {"ids' dtype", {"ids", "int32"}, [](S s) { s.ids.box().tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "int32", "f16"}, [](S s) { s.out.box().tensor.dtype = kInt32; }},
      {"codes to floats", {"out", "e4m3"}, [](S s) { s.x.box().tensor.dtype = {kDLFloat8_e4m3fn, 8, 1}; }},
      {"codes added",
       {"x", "e4m3", "f16, bf16, f32"},
       [](S s) {
         s.args.flags |= QUERN_SCATTER_ADD;
         s.x.box().tensor.dtype = s.out.box().tensor.dtype = {kDLFloat8_e4m3fn, 8, 1};
       }},
      {"ids' number", {"ids.shape[0]", "29"}, [](S s) { s.ids.box().shape[0] = 28; }},
      {"out's columns", {"out.shape[1]", "64"}, [](S s) { s.out.box().shape[1] = 63; }},
      {"no columns", {"x.shape[1]", "0"}, [](S s) { s.x.box().shape[1] = 0; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](S s) { s.x.box().strides[1] = 2; }},
      {"rows over each other", {"out.strides[0]"}, [](S s) { s.out.box().strides[0] = 8; }},
      {"over x", {"out lies over x"}, [](S s) { s.args.x = s.args.out, s.ids.box().shape[0] = 37; }},
      {"over some of x",
       {"out lies over x"},
       [](S s) { s.out.box().tensor.data = static_cast<unsigned char*>(s.x.box().tensor.data) + 64; },
       true},
      {"a scale below 0", {"scale", "-1"}, [](S s) { s.args.scale = -1.0f; }},
      {"reserved", {"reserved", "1"}, [](S s) { s.args.reserved = 1; }},
      {"an unknown flag", {"flags"}, [](S s) { s.args.flags = 1u << 20; }},
      {"without data", {"x", "NULL"}, [](S s) { s.x.box().tensor.data = nullptr; }, true},
      {"data's alignment", {"out", "data"}, [](S s) { s.out.box().tensor.byte_offset = 8; }, true},
      {"alignment 2", {"alignment", "2"}, [](S s) { s.args.alignment = 2; }},
      {"no size", {"size"}, [](S s) { s.args.size = 0; }},
  };
  const std::vector<Mistake<Scattering>> by_value = {
      {"an id that out lacks",
       {"ids[3]", "is 137", "100 to 136", "QUERN_SCATTER_SHARD"},
       [](S s) { s.ids.set_integer(137, 3), s.ids.upload(); },
       true},
      {"an id that comes twice",
       {"ids[7] is 100", "ids[2]", "QUERN_SCATTER_UNIQUE"},
       [](S s) { s.ids.set_integer(100, 7), s.ids.upload(); },
       true},
  };
  ScatterCase good;
  good.name = "refused", good.unique = true, good.first = 100;
  const auto watch = [](Scattering& s) {
    return [&s] {
      s.out.download();
      return s.out.is_untouched(0, 0) && s.out.is_untouched(28, 63);
    };
  };
  const auto make = [&] {
    auto scattering = std::make_unique<Scattering>(good);
    for (int i = 0; i < 29; ++i) scattering->ids.set_integer(98 + i + (i < 2 ? 30 : 0), i);
    scattering->upload();
    return scattering;
  };
  expect_all_refused(mistakes, kScatter, make, watch);
  if (!on_cuda()) expect_all_refused(by_value, kScatter, make, watch);
}

}  // namespace
}  // namespace quern::test
