// The general convolution of conv1d against a loop in fp64: strides, padding, dilation, groups and layouts by each of
// its ways (windows that lie over each other in x, x laid out, window by window, no matrix product), and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

constexpr ThreeCalls<quern_conv1d_args> kConv1d{quern_conv1d, quern_conv1d_workspace, quern_conv1d_prepare};

enum class Order { places, channels, apart };  // what lies side by side

struct GeneralCase {
  const char* name;
  std::int64_t batch = 2, channels = 16, length = 33, outs = 24, taps = 3;
  int stride = 1, pad_begin = 0, pad_end = 0, dilation = 1, groups = 1;
  Order x = Order::places, out = Order::places;
  bool weight_in_rows = false;  // as a product's rows: [out_channels, taps, channels]
  Element type = Element::bf16;
  bool bias = true, silu = false;
  int max_sms = 0;

  std::int64_t places() const { return (length + pad_begin + pad_end - dilation * (taps - 1) - 1) / stride + 1; }
};

Array::Extents strides_of(Order order, std::int64_t channels, std::int64_t places) {
  if (order == Order::places) return {channels * places, places, 1};
  if (order == Order::channels) return {channels * places, 1, channels};
  return {channels * places * 2, places * 2, 2};
}

class General {
 public:
  explicit General(const GeneralCase& c)
      : args(sized<quern_conv1d_args>()),
        x(c.type, {c.batch, c.channels, c.length}, strides_of(c.x, c.channels, c.length)),
        weight(c.type, {c.outs, c.channels / c.groups, c.taps},
               c.weight_in_rows ? Array::Extents{c.channels / c.groups * c.taps, 1, c.channels / c.groups}
                                : Array::Extents{c.channels / c.groups * c.taps, c.taps, 1}),
        bias(c.type, {c.outs}),
        out(c.type, {c.batch, c.outs, c.places()}, strides_of(c.out, c.outs, c.places())),
        c_(c) {
    Random random(c.name);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t ch = 0; ch < c.channels; ++ch) {
        for (std::int64_t t = 0; t < c.length; ++t) x.set(random.normal(), b, ch, t);
      }
    }
    for (std::int64_t o = 0; o < c.outs; ++o) {
      bias.set(random.normal(), o);
      for (std::int64_t ch = 0; ch < c.channels / c.groups; ++ch) {
        for (std::int64_t j = 0; j < c.taps; ++j) weight.set(random.normal(), o, ch, j);
      }
    }
    args.x = x.tensor(), args.weight = weight.tensor(), args.out = out.tensor(), args.max_sms = c.max_sms;
    if (c.bias) args.bias = bias.tensor();
    args.stride = c.stride, args.pad_begin = c.pad_begin, args.pad_end = c.pad_end;
    args.dilation = c.dilation, args.groups = c.groups;
    if (c.silu) args.flags |= QUERN_CONV1D_SILU;
    for (Array* a : {&x, &weight, &bias, &out}) a->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kConv1d, args)) << c_.name;
    out.download();
  }
  void check() const {
    double worst = 0;
    const std::int64_t group = c_.channels / c_.groups;
    for (std::int64_t b = 0; b < c_.batch; ++b) {
      for (std::int64_t o = 0; o < c_.outs; ++o) {
        const std::int64_t first = o / (c_.outs / c_.groups) * group;
        for (std::int64_t t = 0; t < c_.places(); ++t) {
          double sum = c_.bias ? bias.get(o) : 0.0, magnitude = std::fabs(sum);
          for (std::int64_t j = 0; j < c_.taps; ++j) {
            const std::int64_t at = t * c_.stride + j * c_.dilation - c_.pad_begin;
            for (std::int64_t ch = 0; at >= 0 && at < c_.length && ch < group; ++ch) {
              const double product = weight.get(o, ch, j) * x.get(b, first + ch, at);
              sum += product, magnitude += std::fabs(product);
            }
          }
          if (c_.silu) sum = sum / (1 + std::exp(-sum));
          const double allowed = 2 * (c_.type.roundoff() * std::fabs(sum) + 0x1p-24 * 12 * magnitude) + 1e-30;
          const double got = out.get(b, o, t);
          worst = std::isnan(got) ? HUGE_VAL : std::max(worst, std::fabs(got - sum) / allowed);
          if (std::isinf(worst)) break;
        }
      }
    }
    EXPECT_LE(worst, 1.0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_conv1d_args args;
  Array x, weight, bias, out;

 private:
  GeneralCase c_;
};

std::vector<GeneralCase> general_cases() {
  std::vector<GeneralCase> cases;
  const auto add = [&](const char* name) -> GeneralCase& {
    cases.emplace_back();
    cases.back().name = name;
    return cases.back();
  };
  add("plain");
  // Nothing is laid out: windows lie over each other in x.
  GeneralCase& in_place = add("in_place");
  in_place.x = in_place.out = Order::channels, in_place.weight_in_rows = true, in_place.silu = true;
  GeneralCase& rows_to_places = add("rows_to_places");
  rows_to_places.x = Order::channels, rows_to_places.stride = 2;
  GeneralCase& whisper = add("whisper");
  whisper.stride = 2, whisper.pad_begin = whisper.pad_end = 1, whisper.silu = true, whisper.channels = 40;
  GeneralCase& causal = add("causal");
  causal.dilation = 4, causal.pad_begin = 8, causal.out = Order::channels;
  GeneralCase& dilated = add("dilated");
  dilated.dilation = 3, dilated.stride = 2, dilated.pad_begin = 2, dilated.pad_end = 5, dilated.type = Element::f16;
  GeneralCase& wave = add("wave");  // the first layer over samples of sound
  wave.channels = 1, wave.taps = 20, wave.stride = 5, wave.length = 211, wave.bias = false;
  GeneralCase& odd = add("odd_channels");
  odd.channels = 13, odd.outs = 11, odd.pad_end = 2;
  GeneralCase& grouped = add("grouped");
  grouped.channels = 36, grouped.outs = 24, grouped.groups = 3, grouped.pad_begin = grouped.pad_end = 1;
  GeneralCase& more_groups = add("more_groups_than_samples");
  more_groups.batch = 3, more_groups.groups = 4, more_groups.channels = 32, more_groups.outs = 32, more_groups.taps = 5;
  more_groups.out = Order::channels;
  GeneralCase& depthwise = add("depthwise");
  depthwise.groups = 24, depthwise.channels = depthwise.outs = 24, depthwise.taps = 7, depthwise.silu = true;
  depthwise.pad_begin = depthwise.pad_end = 3;
  GeneralCase& last = add("depthwise_channels_last");
  last.groups = 24, last.channels = 24, last.outs = 48, last.x = last.out = Order::channels, last.dilation = 2;
  GeneralCase& apart = add("apart");
  apart.x = apart.out = Order::apart, apart.stride = 3;
  GeneralCase& single = add("one_tap");
  single.taps = 1, single.x = Order::channels, single.weight_in_rows = true;
  GeneralCase& full = add("f32");
  full.type = Element::f32, full.pad_begin = 1, full.x = full.out = Order::channels;
  GeneralCase& whole = add("window_as_long_as_x");
  whole.length = 5, whole.taps = 5, whole.batch = 1;
  GeneralCase& padding = add("padding_alone");
  padding.length = 2, padding.taps = 2, padding.pad_begin = 6, padding.pad_end = 7;
  GeneralCase& none = add("no_samples");
  none.batch = 0;
  GeneralCase& long_one = add("long");
  long_one.batch = 1, long_one.length = 300, long_one.outs = 72, long_one.max_sms = 1;
  return cases;
}

TEST(Conv1dGeneral, IsTheSumOverItsWindow) {
  for (const GeneralCase& c : general_cases()) {
    General convolution(c);
    ASSERT_NO_FATAL_FAILURE(convolution.run(context())) << c.name;
    convolution.check();
  }
}

// What is readied and sized for the longest call serves every shorter one: one sample, one place, lengths of any
// divisor, whose channels then lie at distances that allow other accesses.
TEST(Conv1dGeneral, IsPreparedForFewer) {
  for (const auto& [x, out] :
       {std::pair{Order::places, Order::places}, {Order::channels, Order::channels}, {Order::places, Order::apart}}) {
    GeneralCase most;
    most.name = "prepared", most.x = x, most.out = out, most.batch = 3, most.length = 72, most.pad_begin = 2;
    most.groups = 2, most.channels = 32, most.outs = 32;
    const Context own = make_context();
    General longest(most);
    auto error = sized<quern_error>();
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_conv1d_workspace(own.get(), &longest.args, &bytes, &error), QUERN_OK) << error.text;
    ASSERT_EQ(quern_conv1d_prepare(own.get(), &longest.args, &error), QUERN_OK) << error.text;
    Buffer workspace(bytes, 0);
    for (const std::int64_t length : {71, 70, 68, 40, 33, 1}) {
      GeneralCase fewer = most;
      fewer.length = length, fewer.batch = length % 2 + 1;
      SCOPED_TRACE(length);
      General call(fewer);
      call.args.flags |= QUERN_CALL_CACHED_ONLY;
      call.args.workspace = workspace.data(), call.args.workspace_size = bytes;
      ASSERT_EQ(quern_conv1d(own.get(), &call.args, &error), QUERN_OK) << error.text;
      synchronize();
      call.out.download();
      call.check();
    }
  }
}

// Nothing but padding under a window.
TEST(Conv1dGeneral, TakesAnEmptyX) {
  GeneralCase empty;
  empty.name = "empty", empty.length = 0, empty.pad_begin = 2, empty.pad_end = 3;
  General convolution(empty);
  ASSERT_NO_FATAL_FAILURE(convolution.run(context()));
  convolution.check();
}

TEST(Conv1dGeneral, LaysOutNothingWhereWindowsLieInX) {
  GeneralCase c;
  c.name = "in place", c.x = c.out = Order::channels, c.weight_in_rows = true;
  General in_place(c);
  GeneralCase padded = c;
  padded.pad_begin = 1;
  General laid(padded);
  std::uint64_t without = 0, with = 0;
  ASSERT_EQ(quern_conv1d_workspace(context(), &in_place.args, &without, nullptr), QUERN_OK);
  ASSERT_EQ(quern_conv1d_workspace(context(), &laid.args, &with, nullptr), QUERN_OK);
  EXPECT_LT(without, with);
}

TEST(Conv1dGeneralRefuses, EveryWrongArgument) {
  using G = General&;
  const std::vector<Mistake<General>> mistakes = {
      {"x's rank", {"x", "3"}, [](G g) { g.x.box().tensor.ndim = 2; }},
      {"weight's dtype", {"weight", "f32", "bf16"}, [](G g) { g.weight.box().tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "f32", "bf16"}, [](G g) { g.out.box().tensor.dtype = kFloat32; }},
      {"x's channels", {"x.shape[1]", "16"}, [](G g) { g.x.box().shape[1] = 15; }},
      {"no taps", {"weight.shape[2]", "1 and more"}, [](G g) { g.weight.box().shape[2] = 0; }},
      {"groups", {"groups", "5", "divisor"}, [](G g) { g.args.groups = 5; }},
      {"stride", {"stride", "-1"}, [](G g) { g.args.stride = -1; }},
      {"dilation", {"dilation", "-2"}, [](G g) { g.args.dilation = -2; }},
      {"pad_begin", {"pad_begin", "-1"}, [](G g) { g.args.pad_begin = -1; }},
      {"pad_end", {"pad_end", "-1"}, [](G g) { g.args.pad_end = -1; }},
      {"no room", {"x.shape[2]", "window"}, [](G g) { g.args.dilation = 17; }},
      {"out's places", {"out.shape[2]", "31"}, [](G g) { g.out.box().shape[2] = 30; }},
      {"out's channels", {"out.shape[1]", "24"}, [](G g) { g.out.box().shape[1] = 8; }},
      {"bias' channels", {"bias.shape[0]", "24"}, [](G g) { g.bias.box().shape[0] = 25; }},
      {"offsets", {"offsets", "NULL"}, [](G g) { g.args.offsets = g.bias.tensor(); }},
      {"state", {"state", "NULL"}, [](G g) { g.args.state = g.x.tensor(); }},
      {"reserved", {"reserved", "0"}, [](G g) { g.args.reserved = 1; }},
      {"over x", {"out lies over x"}, [](G g) { g.out.box().tensor.data = g.x.box().tensor.data; }, true},
      {"results over each other", {"out.strides"}, [](G g) { g.out.box().strides[0] = 1; }},
      {"an unknown flag", {"flags"}, [](G g) { g.args.flags = 1u << 17; }},
      {"no workspace", {"workspace"}, [](G g) { g.args.workspace = nullptr, g.args.workspace_size = 0; }, true},
      {"data's alignment", {"x", "data"}, [](G g) { g.x.box().tensor.byte_offset = 8; }, true},
  };
  GeneralCase good;
  good.name = "refused";
  const auto make = [&] { return std::make_unique<General>(good); };
  const auto watch = [](General& g) {
    return [&g] {
      g.out.download();
      return g.out.is_untouched(0, 0, 0) && g.out.is_untouched(1, 23, 30);
    };
  };
  expect_all_refused(mistakes, kConv1d, make, watch);
}

}  // namespace
}  // namespace quern::test
