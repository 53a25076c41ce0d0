// gather against a loop: copies to the bit, conversions rounded once, padding, shards; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/manifest.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "gather * table=bytes out=bytes width=16",
    "gather * table=bytes out=bytes width=1",
    "gather * table=bf16 out=f32 width=4",
    "gather * table=f32 out=f16 width=2",
};

struct GatherCase {
  std::string name;
  Element table = Element::bf16, out = Element::bf16;
  std::int64_t rows = 37, n = 64, count = 29;
  std::int64_t pitch = 0, out_pitch = 0;  // elements between rows; 0: n
  std::int64_t first = 0, padding = -1;
  bool shard = false, wide = false;
  float scale = 0.0f;
  int alignment = 0, max_sms = 0;
};

void PrintTo(const GatherCase& c, std::ostream* out) { *out << c.name; }

class Gathering {
 public:
  explicit Gathering(const GatherCase& c)
      : args(sized<quern_gather_args>()),
        table(c.table, {c.rows, c.n}, {c.pitch > 0 ? c.pitch : c.n, 1}),
        out(c.out, {c.count, c.n}, {c.out_pitch > 0 ? c.out_pitch : c.n, 1}),
        ids(IntegerBits{c.wide ? 64 : 32}, {c.count}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t k = 0; k < c.n; ++k) table.set(random.normal(), r, k);
    }
    // Of a shard's ids two in three are others'.
    for (std::int64_t i = 0; i < c.count; ++i) {
      const auto reach = static_cast<std::uint64_t>(c.shard ? 3 * c.rows : c.rows);
      const std::int64_t id = c.first + static_cast<std::int64_t>(random.below(reach)) - (c.shard ? c.rows : 0);
      ids.set_integer(c.padding >= 0 && random.below(4) == 0 ? c.padding : id, i);
    }
    args.table = table.tensor(), args.ids = ids.tensor(), args.out = out.tensor();
    args.first = c.first, args.scale = c.scale, args.alignment = c.alignment, args.max_sms = c.max_sms;
    if (c.padding >= 0) args.padding = c.padding, args.flags |= QUERN_GATHER_HAS_PADDING;
    if (c.shard) args.flags |= QUERN_GATHER_SHARD;
  }

  void upload() {
    for (Array* x : {&table, &ids, &out}) x->upload();
  }
  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_gather_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_gather_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_gather(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
  }

  void check() {
    out.download();
    std::int64_t wrong = 0;
    const double scale = c_.scale == 0.0f ? 1.0 : static_cast<double>(c_.scale);
    for (std::int64_t i = 0; i < c_.count; ++i) {
      const std::int64_t id = ids.integer(i), row = id - c_.first;
      const bool there = row >= 0 && row < c_.rows && (c_.padding < 0 || id != c_.padding);
      for (std::int64_t k = 0; k < c_.n; ++k) {
        // The product of two f32 numbers is rounded to f32 first.
        const double product = there ? static_cast<double>(static_cast<float>(table.get(row, k) * scale)) : 0.0;
        wrong += out.get(i, k) != c_.out.rounded(product);
      }
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_gather_args args;
  Array table, out, ids;

 private:
  GatherCase c_;
};

std::vector<GatherCase> gather_cases() {
  std::vector<GatherCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(GatherCase&)>& change) {
    GatherCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const Element element : {Element::f16, Element::bf16, Element::f32, Element::e4m3, Element::e5m2, Element::i8}) {
    add(std::string("copies_") + Element(element).name(), [&](GatherCase& c) { c.table = c.out = element; });
  }
  for (const Element from : {Element::f16, Element::bf16, Element::f32}) {
    for (const Element to : {Element::f16, Element::bf16, Element::f32}) {
      add(std::string(Element(from).name()) + "_to_" + Element(to).name(),
          [&](GatherCase& c) { c.table = from, c.out = to, c.scale = 11.3125f; });
    }
  }
  for (const std::int64_t n : {1, 3, 7, 33, 1024, 4099}) {
    add("n" + std::to_string(n), [&](GatherCase& c) { c.n = n; });
    add("n" + std::to_string(n) + "_to_f32", [&](GatherCase& c) { c.n = n, c.out = Element::f32; });
  }
  add("padding", [](GatherCase& c) { c.padding = 5; });
  add("padding_first", [](GatherCase& c) { c.padding = 0, c.wide = true; });
  add("padding_outside", [](GatherCase& c) { c.padding = 1000; });
  add("shard", [](GatherCase& c) { c.shard = true, c.first = 4000; });
  add("shard_far", [](GatherCase& c) { c.shard = c.wide = true, c.first = std::int64_t{1} << 40, c.scale = 0.5f; });
  add("wide", [](GatherCase& c) { c.wide = true; });
  add("pitch_odd", [](GatherCase& c) { c.pitch = 67; });
  add("pitch_4", [](GatherCase& c) { c.out_pitch = 68; });
  add("alignment_4", [](GatherCase& c) { c.alignment = 4; });
  add("many_rows", [](GatherCase& c) { c.count = 3000, c.max_sms = 1, c.n = 24; });
  add("one", [](GatherCase& c) { c.count = c.rows = 1; });
  add("none", [](GatherCase& c) { c.count = 0; });
  return cases;
}

class Gather : public testing::TestWithParam<GatherCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, Gather, testing::ValuesIn(gather_cases()),
                         [](const testing::TestParamInfo<GatherCase>& test) { return test.param.name; });

TEST_P(Gather, TakesTheRowsOfItsIds) {
  Gathering gathering(GetParam());
  ASSERT_NO_FATAL_FAILURE(gathering.run());
  gathering.check();
}

TEST(GatherRefuses, IdsThatTheTableLacks) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  for (const std::int64_t id : {-1, 99, 137}) {
    GatherCase c;
    c.name = "lacking", c.first = 100;
    Gathering gathering(c);
    gathering.ids.set_integer(id, 3);
    gathering.upload();
    expect_refused({"ids[3]", "is " + std::to_string(id), "100 to 136", "QUERN_GATHER_SHARD"},
                   [&](quern_error* e) { return quern_gather(context(), &gathering.args, e); });
    gathering.out.download();
    EXPECT_TRUE(gathering.out.is_untouched(0, 0));
  }
}

TEST(GatherRefuses, EveryWrongArgument) {
  using G = Gathering&;
  const std::vector<Mistake<Gathering>> mistakes = {
      {"table NULL", {"table", "NULL"}, [](G g) { g.args.table = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](G g) { g.args.ids = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](G g) { g.args.out = nullptr; }},
      {"table's rank", {"table", "dimensions"}, [](G g) { g.table.box().tensor.ndim = 1; }},
      {"ids' dtype", {"ids", "int32"}, [](G g) { g.ids.box().tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "int32", "f16"}, [](G g) { g.out.box().tensor.dtype = kInt32; }},
      {"codes to floats", {"out", "e4m3"}, [](G g) { g.table.box().tensor.dtype = {kDLFloat8_e4m3fn, 8, 1}; }},
      {"out's rows", {"out.shape[0]", "29"}, [](G g) { g.out.box().shape[0] = 28; }},
      {"out's columns", {"out.shape[1]", "64"}, [](G g) { g.out.box().shape[1] = 63; }},
      {"no columns", {"table.shape[1]", "0"}, [](G g) { g.table.box().shape[1] = 0; }},
      {"table's last stride", {"table.strides[1]", "1"}, [](G g) { g.table.box().strides[1] = 2; }},
      {"rows over each other", {"out.strides[0]"}, [](G g) { g.out.box().strides[0] = 8; }},
      {"over the table", {"out lies over table"}, [](G g) { g.args.table = g.args.out; }},
      {"over some of the table",
       {"out lies over table"},
       [](G g) { g.out.box().tensor.data = static_cast<unsigned char*>(g.table.box().tensor.data) + 256; },
       true},
      {"a scale below 0", {"scale", "-1"}, [](G g) { g.args.scale = -1.0f; }},
      {"reserved", {"reserved", "1"}, [](G g) { g.args.reserved = 1; }},
      {"an unknown flag", {"flags"}, [](G g) { g.args.flags = 1u << 18; }},
      {"without data", {"table", "NULL"}, [](G g) { g.table.box().tensor.data = nullptr; }, true},
      {"data's alignment", {"out", "data"}, [](G g) { g.out.box().tensor.byte_offset = 8; }, true},
      {"alignment 2", {"alignment", "2"}, [](G g) { g.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](G g) { g.args.max_sms = -1; }},
      {"no size", {"size"}, [](G g) { g.args.size = 0; }},
  };
  GatherCase c;
  c.name = "refusals";
  expect_all_refused(
      mistakes, ThreeCalls<quern_gather_args>{quern_gather, quern_gather_workspace, quern_gather_prepare},
      [&] { return std::make_unique<Gathering>(c); },
      [](Gathering& one) {
        return [&one] {
          one.out.download();
          return one.out.is_untouched(0, 0) && one.out.is_untouched(28, 63);
        };
      });
}

TEST(GatherRefuses, ScalesOfWhatIsCopied) {
  GatherCase c;
  c.name = "scaled codes", c.table = c.out = Element::i8, c.scale = 2.0f;
  Gathering gathering(c);
  expect_refused({"scale", "2", "f16, bf16 or f32"},
                 [&](quern_error* e) { return quern_gather(context(), &gathering.args, e); });
}

// What a model's warming names is what its embedding takes.
TEST(GatherWarm, NamesWhatCallsTake) {
  auto model = sized<quern_model>();
  model.hidden_size = 4096, model.layers = 1, model.heads = 32, model.kv_heads = 8, model.head_dim = 128;
  std::vector<std::string> lines;
  for (const std::string& line : listed_by_warm(context(), model)) {
    if (line.starts_with("gather ")) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("table=bytes out=bytes width=16"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace quern::test
