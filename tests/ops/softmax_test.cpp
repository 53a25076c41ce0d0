// softmax against exponentials and their sum in fp64.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "softmax * dtype=f32",         "softmax * dtype=f32 log=1 each=16",     "softmax * dtype=bf16 out=bf16 each=80",
    "softmax * dtype=f16 out=f32", "softmax * dtype=f32 cluster=0 each=16",
};
constexpr ThreeCalls<quern_softmax_args> kSoftmax{quern_softmax, quern_softmax_workspace, quern_softmax_prepare};

struct Case {
  std::string name;
  std::int64_t rows = 4, n = 111;
  Element logits = Element::f32, out = Element::f32;
  bool log = false, in_place = false, status = true;
  Layout2 where = {}, where_out = {};
  std::vector<float> temperatures = {1.0f, 0.7f, 2.0f, 0.0f, 0.25f};  // taken in turns
  std::int32_t max_sms = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Problem {
 public:
  explicit Problem(const Case& c)
      : args(sized<quern_softmax_args>()),
        logits(c.logits, c.rows, c.n, c.where),
        out(c.out, c.rows, c.n, c.where_out),
        temperatures(Element::f32, {c.rows}),
        status(IntegerBits{32}, {c.rows}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      logits.fill(random, kAllNumbers[random.below(std::size(kAllNumbers))], r);
      temperatures.set(c.temperatures[static_cast<std::size_t>(r) % c.temperatures.size()], r);
    }
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.n; ++i) given_.push_back(logits.get(r, i));
    }
    args.logits = logits.tensor(), args.out = c.in_place ? logits.tensor() : out.tensor();
    args.temperatures = temperatures.tensor(), args.status = c.status ? status.tensor() : nullptr;
    args.flags = c.log ? std::uint32_t{QUERN_SOFTMAX_LOG} : 0u, args.max_sms = c.max_sms;
    upload();
  }
  void upload() {
    for (Array* each : {&logits.array(), &out.array(), &temperatures, &status}) each->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_op(context, kSoftmax, args));
    for (Array* each : {&logits.array(), &out.array(), &status}) each->download();
  }
  const Rows& result() const { return c_.in_place ? logits : out; }

  // The error of a probability p = e^-z / s is that of z in f32, whose relative error is a few roundings, and of the
  // sum's; then that of the result's type.
  void check() const {
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      SCOPED_TRACE("row " + std::to_string(r));
      const std::vector<double> x(given_.begin() + r * c_.n, given_.begin() + (r + 1) * c_.n);
      const double t = temperatures.get(r);
      const std::vector<std::int64_t> order = ranked(x);
      const bool nan = order.size() != x.size(), empty = order.empty() || !(x[static_cast<std::size_t>(order[0])] >
                                                                            -std::numeric_limits<double>::infinity());
      if (c_.status) {
        EXPECT_EQ(status.integer(r), (empty ? QUERN_SAMPLE_EMPTY : 0) | (nan ? static_cast<int>(QUERN_SAMPLE_NAN) : 0));
      }
      const double max = empty ? 0.0 : x[static_cast<std::size_t>(order[0])];
      double sum = 0.0;
      std::vector<double> z(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        z[i] = std::isnan(x[i]) || empty ? std::numeric_limits<double>::infinity()
               : x[i] == max             ? 0.0
                                         : (max - x[i]) / t;
        if (t == 0.0 && !empty)
          z[i] = static_cast<std::int64_t>(i) == order[0] ? 0.0 : std::numeric_limits<double>::infinity();
        sum += std::exp(-z[i]);
      }
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < c_.n; ++i) {
        const double found = result().get(r, i), zi = z[static_cast<std::size_t>(i)];
        const double exact = c_.log ? -zi - std::log(sum) : empty ? 0.0 : std::exp(-zi) / sum;
        const double far = std::isinf(zi) ? 0.0 : (zi + 4) * 0x1p-21;
        const double spread =
            c_.log ? far + std::fabs(exact) * c_.out.roundoff()
                   : exact * (far + c_.out.roundoff()) + (c_.out.kind() == Element::f16 ? 0x1p-24 : 0x1p-126);
        const bool same = c_.log && (empty || std::isinf(exact)) ? std::isinf(found) && found < 0
                                                                 : std::fabs(found - exact) <= spread;
        wrong += !same;
        if (!same && wrong < 4) ADD_FAILURE() << i << ": " << found << " and not " << exact;
      }
    }
    EXPECT_TRUE(result().is_clean_outside());
  }

  quern_softmax_args args;
  Rows logits, out;
  Array temperatures, status;

 private:
  const Case c_;
  std::vector<double> given_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name) -> Case& {
    all.emplace_back().name = name;
    return all.back();
  };
  for (const std::int64_t n : {1, 3, 4, 5, 111, 127, 128, 129, 32000, 128256, 151936, 262144}) {
    for (const bool log : {false, true}) {
      if (log && n > 200000 && !on_cuda()) continue;
      Case& c = add("n" + std::to_string(n) + (log ? "_log" : ""));
      c.n = n, c.log = log, c.rows = n > 10000 && !on_cuda() ? 2 : 5;
    }
  }
  for (const std::int64_t rows : {0, 1, 2, 99, 989}) add("rows" + std::to_string(rows)).rows = rows;
  for (const Element element : {Element::f16, Element::bf16}) {
    for (const bool narrow : {false, true}) {
      Case& c = add(std::string(element.name()) + (narrow ? "_narrow" : ""));
      c.logits = element, c.out = narrow ? element : Element(Element::f32), c.n = 5000, c.where = {3, 1};
      c.where_out = {1, narrow ? 1 : 2}, c.log = !narrow, c.rows = 12;
    }
  }
  for (const std::int64_t offset : {0, 1, 2, 3}) {
    Case& c = add("offset" + std::to_string(offset));
    c.where = {5, offset}, c.where_out = {offset, offset == 3 ? 3 : 1}, c.n = 3001, c.rows = 12;
  }
  Case& over = add("in_place");
  over.in_place = true, over.n = 40001, over.where = {3, 1}, over.max_sms = 1;
  Case& few = add("few_multiprocessors");
  few.max_sms = 2, few.rows = 24, few.n = 50000;
  add("without_status").status = false;
  return all;
}
class Softmax : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, Softmax, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

TEST_P(Softmax, IsWhatItsDefinitionSays) {
  Problem problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// A temperature that is none makes its row NaN, and no other.
TEST(SoftmaxRows, TellOfTheirTemperature) {
  Case c;
  c.name = "temperatures", c.rows = 5, c.n = 300;
  Problem problem(c);
  const float wrong[] = {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (std::int64_t r = 0; r < 3; ++r) problem.temperatures.set(wrong[r], r);
  problem.upload();
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  for (std::int64_t r = 0; r < 5; ++r) {
    EXPECT_EQ((problem.status.integer(r) & QUERN_SAMPLE_PARAMETER) != 0, r < 3);
    EXPECT_EQ(std::isnan(problem.out.get(r, 7)), r < 3);
  }
}

// The bits of a row are its own: alone, and whatever the schedule.
TEST(SoftmaxRows, AreTheSameAloneAndInAnyOrder) {
  Case c;
  c.name = "rows", c.rows = 3, c.n = 50001;
  Problem together(c);
  ASSERT_NO_FATAL_FAILURE(together.run(context()));
  Problem alone(c);
  alone.logits.array().box().shape[0] = alone.out.array().box().shape[0] = 1;
  alone.temperatures.box().shape[0] = alone.status.box().shape[0] = 1;
  ASSERT_NO_FATAL_FAILURE(alone.run(context()));
  for (std::int64_t i = 0; i < c.n; ++i) {
    const double a = alone.out.get(0, i), b = together.out.get(0, i);
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i;
  }
  if (on_cuda()) return;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    Problem again(c);
    ASSERT_NO_FATAL_FAILURE(again.run(unfair.get()));
    EXPECT_EQ(again.out.memory(), together.out.memory()) << "seed " << seed;
  }
}

TEST(SoftmaxRefuses, EveryWrongArgument) {
  using P = Problem&;
  const std::vector<Mistake<Problem>> mistakes = {
      {"logits NULL", {"logits", "NULL"}, [](P d) { d.args.logits = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](P d) { d.args.out = nullptr; }},
      {"logits' rank", {"logits", "dimensions"}, [](P d) { d.logits.array().box().tensor.ndim = 1; }},
      {"logits' dtype", {"logits", "int32"}, [](P d) { d.logits.array().box().tensor.dtype = kInt32; }},
      {"out's dtype", {"out", "bf16"}, [](P d) { d.out.array().box().tensor.dtype = dtype_of(Format::bf16); }},
      {"no columns", {"logits.shape[1]", "1 to 1048576"}, [](P d) { d.logits.array().box().shape[1] = 0; }},
      {"too many", {"logits.shape[1]", "1 to 1048576"}, [](P d) { d.logits.array().box().shape[1] = (1 << 20) + 1; }},
      {"out's columns", {"out.shape[1]", "300"}, [](P d) { d.out.array().box().shape[1] = 299; }},
      {"out's last stride", {"out.strides[1]"}, [](P d) { d.out.array().box().strides[1] = 2; }},
      {"out's rows", {"out.strides[0]"}, [](P d) { d.out.array().box().strides[0] = 7; }},
      {"out over logits, further apart",
       {"out is logits", "elements apart"},
       [](P d) {
         d.out.array().box().tensor.data = d.logits.array().box().tensor.data;
         d.out.array().box().strides[0] = 900;
       },
       true},
      {"temperatures' length", {"temperatures.shape[0]", "3"}, [](P d) { d.temperatures.box().shape[0] = 2; }},
      {"status' dtype", {"status", "int32"}, [](P d) { d.status.box().tensor.dtype = kFloat32; }},
      {"temperature",
       {"temperature", "-1"},
       [](P d) {
         d.args.temperatures = nullptr, d.args.temperature = -1.0f;
         d.args.flags |= QUERN_SOFTMAX_TEMPERATURE;
       }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 20; }},
      {"max_sms", {"max_sms"}, [](P d) { d.args.max_sms = -1; }},
      {"reserved", {"reserved"}, [](P d) { d.args.reserved = 1; }},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  Case good;
  good.name = "refused", good.rows = 3, good.n = 300;
  expect_all_refused(
      mistakes, kSoftmax, [&] { return std::make_unique<Problem>(good); },
      [](P d) {
        return [&d] {
          d.out.array().download();
          return d.out.is_untouched();
        };
      });
}

TEST(SoftmaxWarm, NamesWhatCallsTake) {
  auto model = sized<quern_model>();
  model.hidden_size = 4096, model.layers = 1, model.heads = 32, model.kv_heads = 8, model.head_dim = 128;
  model.vocab_size = 32000;
  const std::set<std::string> lines = listed_by_warm(context(), model);
  for (const char* op : {"softmax ", "argmax ", "top_k ", "renormalise ", "verify_draft "}) {
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) { return line.starts_with(op); })) << op;
  }
  const Context fresh = compiling_context();
  for (const char* wrong :
       {"softmax host dtype=f16 out=bf16", "softmax host dtype=f32 each=96", "softmax host64 dtype=f32 cluster=1",
        "renormalise host dtype=f16", "top_k host dtype=f32 held=2"}) {
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host", "host64"}, std::string(wrong) + "\n");
    ASSERT_EQ(warmed.size(), 1u) << wrong;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << wrong;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
