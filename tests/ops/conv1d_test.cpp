// conv1d against a loop in fp64: ragged sequences that begin and end anywhere, states of both dtypes and any strides,
// widths 2 to 8; each token's bits whatever the batch; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "conv1d * dtype=bf16 weight=bf16 state=bf16 taps=4 width=8",
};
constexpr ThreeCalls<quern_conv1d_args> kConv1d{quern_conv1d, quern_conv1d_workspace, quern_conv1d_prepare};

struct ConvCase {
  std::string name;
  Element x = Element::bf16, weight = Element::bf16, state = Element::bf16;
  std::vector<std::int64_t> lengths = {3, 0, 50, 1, 2, 7, 70};
  std::int64_t channels = 24, taps = 4, spare = 0;  // spare: tokens of no sequence, before and behind
  bool offsets = true, bias = true, has_state = true, states = true, ids = true, silu = false;
  bool channel_major = false;  // the state lies as [slots, channels, taps - 1]
  std::int64_t gap = 0;        // elements between rows
  std::int64_t tap_gap = 0;    // elements between channels' taps
  int max_sms = 0;

  std::int64_t batch() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t tokens() const {
    std::int64_t sum = 2 * spare;
    for (const std::int64_t length : lengths) sum += length;
    return sum;
  }
  std::int64_t slots() const { return batch() + 2; }
  Array::Extents state_strides() const {
    const std::int64_t before = taps - 1;
    if (channel_major) return {channels * before, 1, before};
    return {channels * before, channels, 1};
  }
};

class Convolution {
 public:
  explicit Convolution(const ConvCase& c)
      : args(sized<quern_conv1d_args>()),
        x(c.x, {c.tokens(), c.channels}, {c.channels + c.gap, 1}),
        weight(c.weight, {c.channels, c.taps}, {c.taps + c.tap_gap, 1}),
        bias(c.weight, {c.channels}),
        offsets(IntegerBits{32}, {c.batch() + 1}),
        state(c.state, {c.slots(), c.taps - 1, c.channels}, c.state_strides()),
        state_ids(IntegerBits{32}, {c.batch()}),
        has_state(Array::bytes(c.batch())),
        out(c.x, {c.tokens(), c.channels}, {c.channels + 2 * c.gap, 1}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t ch = 0; ch < c.channels; ++ch) {
      for (std::int64_t t = c.spare; t < c.tokens() - c.spare; ++t) x.set(random.normal(), t, ch);
      for (std::int64_t j = 0; j < c.taps; ++j) weight.set(random.normal(), ch, j);
      bias.set(random.normal(), ch);
    }
    std::vector<std::int64_t> slots;
    for (std::int64_t s = 0; s < c.slots(); ++s) slots.push_back(s);
    random.shuffle(slots);
    std::int64_t at = c.spare;
    offsets.set_integer(at, 0);
    for (std::int64_t b = 0; b < c.batch(); ++b) {
      offsets.set_integer(at += c.lengths[static_cast<std::size_t>(b)], b + 1);
      state_ids.set_integer(b % 5 == 4 ? -1 : slots[static_cast<std::size_t>(b)], b);
      has_state.set_integer(b % 3 != 2, b);
      // What must not be read stays NaN.
      const std::int64_t slot = slot_of(b);
      if (slot < 0 || is_fresh(b)) continue;
      for (std::int64_t i = 0; i + 1 < c.taps; ++i) {
        for (std::int64_t ch = 0; ch < c.channels; ++ch) state.set(random.normal(), slot, i, ch);
      }
    }
    args.x = x.tensor(), args.weight = weight.tensor(), args.out = out.tensor(), args.max_sms = c.max_sms;
    if (c.bias) args.bias = bias.tensor();
    if (c.offsets) args.offsets = offsets.tensor();
    if (c.states) args.state = state.tensor();
    if (c.states && c.ids) args.state_ids = state_ids.tensor();
    if (c.states && c.has_state) args.has_state = has_state.tensor();
    if (c.silu) args.flags |= QUERN_CONV1D_SILU;
    upload();
  }
  void upload() {
    for (Array* a : {&x, &weight, &bias, &offsets, &state, &state_ids, &has_state, &out}) a->upload();
  }
  void run(quern_context* context) {
    expect();
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kConv1d, args));
    out.download(), state.download();
  }
  void check() const {
    double worst = 0;
    std::int64_t wrong = 0;
    for (std::int64_t t = 0; t < c_.tokens(); ++t) {
      const bool there = t >= c_.spare && t < c_.tokens() - c_.spare;
      for (std::int64_t ch = 0; ch < c_.channels; ++ch) {
        if (!there) {
          wrong += !out.is_untouched(t, ch);
          continue;
        }
        const auto at = static_cast<std::size_t>(t * c_.channels + ch);
        // Sums in f32 with one rounding a product, and the result's; silu within 5 ulp.
        const double allowed = 2 * (c_.x.roundoff() * std::fabs(results_[at]) + 0x1p-24 * 12 * magnitudes_[at]) + 1e-30;
        worst = std::max(worst, std::fabs(out.get(t, ch) - results_[at]) / allowed);
        wrong += std::isnan(out.get(t, ch));
      }
    }
    EXPECT_LE(worst, 1.0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
    EXPECT_EQ(wrong, 0) << c_.name;
    EXPECT_EQ(state.memory(), state_after_) << c_.name << ": the states";
  }
  // The results of a sequence, as they lie in memory.
  std::vector<double> results_of(std::int64_t sequence) const {
    std::vector<double> all;
    for (std::int64_t t = offsets.integer(sequence); t < offsets.integer(sequence + 1); ++t) {
      for (std::int64_t ch = 0; ch < c_.channels; ++ch) all.push_back(out.get(t, ch));
    }
    return all;
  }

  quern_conv1d_args args;
  Array x, weight, bias, offsets, state, state_ids, has_state, out;

 private:
  std::int64_t slot_of(std::int64_t b) const { return !c_.states ? -1 : c_.ids ? state_ids.integer(b) : b; }
  bool is_fresh(std::int64_t b) const { return c_.has_state && has_state.integer(b) == 0; }

  void expect() {
    results_.assign(static_cast<std::size_t>(c_.tokens() * c_.channels), 0.0);
    magnitudes_ = results_;
    Array after(c_.state, {c_.slots(), c_.taps - 1, c_.channels}, c_.state_strides());
    for (std::int64_t s = 0; s < c_.slots(); ++s) {
      for (std::int64_t i = 0; i + 1 < c_.taps; ++i) {
        for (std::int64_t ch = 0; ch < c_.channels; ++ch) {
          if (!state.is_untouched(s, i, ch)) after.set(state.get(s, i, ch), s, i, ch);
        }
      }
    }
    const std::int64_t before = c_.taps - 1;
    for (std::int64_t b = 0; b < c_.batch(); ++b) {
      const std::int64_t begin = offsets.integer(b), length = offsets.integer(b + 1) - begin, slot = slot_of(b);
      const auto input = [&](std::int64_t t, std::int64_t ch) {  // t from -before on
        if (t >= 0) return x.get(begin + t, ch);
        return slot < 0 || is_fresh(b) ? 0.0 : state.get(slot, before + t, ch);
      };
      for (std::int64_t ch = 0; ch < c_.channels; ++ch) {
        for (std::int64_t t = 0; t < length; ++t) {
          double sum = c_.bias ? bias.get(ch) : 0.0, magnitude = std::fabs(sum);
          for (std::int64_t j = 0; j < c_.taps; ++j) {
            const double product = weight.get(ch, j) * input(t - before + j, ch);
            sum += product, magnitude += std::fabs(product);
          }
          const auto at = static_cast<std::size_t>((begin + t) * c_.channels + ch);
          results_[at] = c_.silu ? sum / (1 + std::exp(-sum)) : sum;
          magnitudes_[at] = magnitude;
        }
        for (std::int64_t i = 0; length > 0 && slot >= 0 && i < before; ++i)
          after.set(input(length - before + i, ch), slot, i, ch);
      }
    }
    state_after_ = after.memory();
  }

  ConvCase c_;
  std::vector<double> results_, magnitudes_;
  std::vector<unsigned char> state_after_;
};

std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(ConvCase&)>& change) {
    ConvCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const std::int64_t taps : {2, 3, 4, 5, 8}) {
    add("taps" + std::to_string(taps), [&](ConvCase& c) { c.taps = taps, c.silu = taps == 4; });
  }
  add("f16", [](ConvCase& c) { c.x = c.weight = c.state = Element::f16, c.silu = true; });
  add("f32", [](ConvCase& c) { c.x = c.weight = c.state = Element::f32, c.silu = true; });
  add("f32_beside", [](ConvCase& c) { c.weight = c.state = Element::f32; });
  // One CPU's grid is short: runs of several tokens, that begin and end within sequences.
  const auto ragged = [&](const std::string& name, const std::vector<std::int64_t>& lengths) {
    add(name, [&](ConvCase& c) { c.lengths = lengths, c.max_sms = 1, c.channels = 512; });
  };
  ragged("long", {331, 2, 90});
  ragged("tiny", std::vector<std::int64_t>(97, 2));
  ragged("mixed", {1, 63, 1, 64, 65, 3, 2, 2, 0, 0, 61, 1});
  add("decode", [](ConvCase& c) { c.lengths.assign(9, 1), c.offsets = false; });
  add("decode_channel_major", [](ConvCase& c) { c.lengths.assign(9, 1), c.offsets = false, c.channel_major = true; });
  add("channel_major", [](ConvCase& c) { c.channel_major = true; });
  add("spare", [](ConvCase& c) { c.spare = 5; });
  add("places", [](ConvCase& c) { c.ids = c.has_state = false; });
  add("no_states", [](ConvCase& c) { c.states = c.bias = false; });
  add("taps_apart", [](ConvCase& c) { c.tap_gap = 1; });
  add("channels5", [](ConvCase& c) { c.channels = 5; });
  add("channels1", [](ConvCase& c) { c.channels = 1, c.gap = 3; });
  add("gap", [](ConvCase& c) { c.gap = 4; });
  add("no_tokens", [](ConvCase& c) { c.lengths = {0, 0}; });
  add("no_sequences", [](ConvCase& c) { c.lengths = {}, c.spare = 3; });
  return cases;
}

TEST(Conv1d, IsTheSumOverItsWindow) {
  for (const ConvCase& c : conv_cases()) {
    Convolution convolution(c);
    ASSERT_NO_FATAL_FAILURE(convolution.run(context())) << c.name;
    convolution.check();
  }
}

// Two halves of a sequence, the state between them, have the bits of the whole.
TEST(Conv1d, GoesOnFromItsState) {
  ConvCase whole;
  whole.name = "whole", whole.lengths = {40, 17}, whole.ids = whole.has_state = false, whole.max_sms = 1;
  Convolution at_once(whole);
  ASSERT_NO_FATAL_FAILURE(at_once.run(context()));
  for (const std::int64_t cut : {1, 2, 3, 16}) {
    std::vector<double> joined;
    Convolution halves(whole);
    for (const bool second : {false, true}) {
      ConvCase part = whole;
      part.lengths = {second ? 40 - cut : cut, second ? 17 - cut : cut}, part.max_sms = 0;
      Convolution half(part);
      std::int64_t to = 0;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t t = 0; t < part.lengths[static_cast<std::size_t>(b)]; ++t, ++to) {
          for (std::int64_t ch = 0; ch < whole.channels; ++ch)
            half.x.set(at_once.x.get((b == 0 ? 0 : 40) + (second ? cut : 0) + t, ch), to, ch);
        }
      }
      for (std::int64_t ch = 0; ch < whole.channels; ++ch) {
        half.bias.set(at_once.bias.get(ch), ch);
        for (std::int64_t j = 0; j < 4; ++j) half.weight.set(at_once.weight.get(ch, j), ch, j);
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t i = 0; i < 3; ++i) half.state.set(halves.state.get(b, i, ch), b, i, ch);
        }
      }
      half.upload();
      ASSERT_NO_FATAL_FAILURE(half.run(context()));
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t i = 0; i < 3; ++i) {
          for (std::int64_t ch = 0; ch < whole.channels; ++ch) halves.state.set(half.state.get(b, i, ch), b, i, ch);
        }
        const std::vector<double> all = at_once.results_of(b), some = half.results_of(b);
        const std::ptrdiff_t skipped = second ? cut * whole.channels : 0;
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + skipped)) << "cut at " << cut;
      }
    }
    EXPECT_EQ(halves.state.memory(), at_once.state.memory());
  }
}

TEST(Conv1dScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Context unfair = unfair_context(seed);
    ConvCase c;
    c.name = "unfair", c.channels = 256, c.max_sms = seed == 0 ? 0 : 1;
    c.lengths = {1, 63, 1, 64, 65, 3, 2, 2, 0, 61, 1};
    Convolution convolution(c);
    ASSERT_NO_FATAL_FAILURE(convolution.run(unfair.get()));
    convolution.check();
  }
}

TEST(Conv1dRefuses, EveryWrongArgument) {
  using C = Convolution&;
  const std::vector<Mistake<Convolution>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](C c) { c.args.x = nullptr; }},
      {"weight NULL", {"weight", "NULL"}, [](C c) { c.args.weight = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](C c) { c.args.out = nullptr; }},
      {"x's dtype", {"x", "int32", "bf16"}, [](C c) { c.x.box().tensor.dtype = kInt32; }},
      {"weight's dtype",
       {"weight", "f16", "bf16, f32"},
       [](C c) { c.weight.box().tensor.dtype = dtype_of(Format::f16); }},
      {"bias' dtype", {"bias", "f32", "bf16"}, [](C c) { c.bias.box().tensor.dtype = kFloat32; }},
      {"state's dtype", {"state", "f16", "bf16, f32"}, [](C c) { c.state.box().tensor.dtype = dtype_of(Format::f16); }},
      {"out's dtype", {"out", "f32", "bf16"}, [](C c) { c.out.box().tensor.dtype = kFloat32; }},
      {"one tap", {"weight.shape[1]", "2 to 8"}, [](C c) { c.weight.box().shape[1] = 1; }},
      {"nine taps", {"weight.shape[1]", "2 to 8"}, [](C c) { c.weight.box().shape[1] = 9; }},
      {"weight's channels", {"weight.shape[0]", "24"}, [](C c) { c.weight.box().shape[0] = 23; }},
      {"bias' channels", {"bias.shape[0]", "24"}, [](C c) { c.bias.box().shape[0] = 25; }},
      {"out's tokens", {"out.shape[0]", "133"}, [](C c) { c.out.box().shape[0] = 132; }},
      {"state's rows", {"state.shape[1]", "3"}, [](C c) { c.state.box().shape[1] = 4; }},
      {"state's channels", {"state.shape[2]", "24"}, [](C c) { c.state.box().shape[2] = 8; }},
      {"states over each other", {"state.strides"}, [](C c) { c.state.box().strides[0] = 24; }},
      {"too few slots",
       {"state.shape[0]", "state_ids"},
       [](C c) { c.args.state_ids = nullptr, c.state.box().shape[0] = 6; }},
      {"state_ids' number", {"state_ids.shape[0]", "7"}, [](C c) { c.state_ids.box().shape[0] = 6; }},
      {"has_state's dtype", {"has_state", "int32", "uint8"}, [](C c) { c.has_state.box().tensor.dtype = kInt32; }},
      {"ids without states", {"state_ids", "without state"}, [](C c) { c.args.state = nullptr; }},
      {"no offsets", {"offsets.shape[0]", "1 and more"}, [](C c) { c.offsets.box().shape[0] = 0; }},
      {"offsets' dtype", {"offsets", "f32", "int32"}, [](C c) { c.offsets.box().tensor.dtype = kFloat32; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](C c) { c.x.box().strides[1] = 2; }},
      {"over x", {"out lies over x"}, [](C c) { c.args.out = c.args.x; }},
      {"an unknown flag", {"flags"}, [](C c) { c.args.flags = 1u << 17; }},
      {"data's alignment", {"x", "data"}, [](C c) { c.x.box().tensor.byte_offset = 8; }, true},
      {"without data", {"out", "NULL"}, [](C c) { c.out.box().tensor.data = nullptr; }, true},
      {"no size", {"size"}, [](C c) { c.args.size = 0; }},
  };
  const std::vector<Mistake<Convolution>> by_value = {
      {"falling offsets", {"offsets[3]", "sequence 2"}, [](C c) { c.offsets.set_integer(1, 3), c.upload(); }, true},
      {"tokens that there are not",
       {"offsets[7]", "133"},
       [](C c) { c.offsets.set_integer(134, 7), c.upload(); },
       true},
      {"a slot that there is not",
       {"state_ids[1]", "-1 to 8"},
       [](C c) { c.state_ids.set_integer(9, 1), c.upload(); },
       true},
      {"a slot that comes twice",
       {"state_ids[6]", "state_ids[0]", "twice"},
       [](C c) { c.state_ids.set_integer(c.state_ids.integer(0), 6), c.upload(); },
       true},
  };
  ConvCase good;
  good.name = "refused";
  const auto make = [&] { return std::make_unique<Convolution>(good); };
  const auto watch = [](Convolution& c) {
    return [&c, state = c.state.memory()] {
      c.out.download(), c.state.download();
      return c.out.is_untouched(0, 0) && c.out.is_untouched(132, 23) && c.state.memory() == state;
    };
  };
  expect_all_refused(mistakes, kConv1d, make, watch);
  if (!on_cuda()) expect_all_refused(by_value, kConv1d, make, watch);
}

}  // namespace
}  // namespace quern::test
