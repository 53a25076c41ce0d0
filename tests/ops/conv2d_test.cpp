// conv2d against a loop in fp64: strides, padding, dilation, groups and layouts by each of its ways, and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <tuple>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "conv2d * kernel=windows dtype=bf16",
    "conv2d * kernel=windows dtype=f32",
    "conv2d * kernel=direct dtype=f16",
    "conv2d * kernel=implicit dtype=bf16 tile=128x128 places_first=0 bias=1 activation=silu",
    "conv2d * kernel=implicit dtype=f16 tile=128x128 places_first=1 bias=1 activation=none",
    "conv2d * kernel=implicit dtype=f16 tile=64x128 places_first=0 bias=0 activation=relu",
    "conv2d * kernel=implicit dtype=bf16 tile=64x128 places_first=1 bias=1 activation=gelu",
};
constexpr ThreeCalls<quern_conv2d_args> kConv2d{quern_conv2d, quern_conv2d_workspace, quern_conv2d_prepare};

// What lies side by side; pitched: columns do, and rows have a gap behind them; apart: nothing does.
enum class Order { places, channels, pitched, apart };

struct Case {
  const char* name;
  std::int64_t batch = 2, channels = 16, height = 9, width = 11, outs = 24, kernel_h = 3, kernel_w = 3;
  int stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, groups = 1;
  int top = 0, bottom = 0, left = 0, right = 0;
  Order x = Order::places, out = Order::places;
  bool weight_channels_last = false;
  Element type = Element::bf16;
  bool bias = true;
  quern_activation activation = QUERN_ACTIVATION_DEFAULT;
  int max_sms = 0, alignment = 0;
  std::uint32_t flags = 0;

  void pad(int by) { top = bottom = left = right = by; }
  void take(std::int64_t kernel, int stride) {
    kernel_h = kernel_w = kernel;
    stride_h = stride_w = stride;
  }
  std::int64_t rows() const { return (height + top + bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  std::int64_t columns() const { return (width + left + right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
};

Array::Extents strides_of(Order order, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  switch (order) {
    case Order::places:
      return {channels * rows * columns, rows * columns, columns, 1};
    case Order::channels:
      return {rows * columns * channels, 1, columns * channels, channels};
    case Order::pitched:
      return {channels * rows * (columns + 5), rows * (columns + 5), columns + 5, 1};
    case Order::apart:
      break;
  }
  return {channels * rows * columns * 2, 2, columns * channels * 2, channels * 2};
}

double activated(quern_activation activation, double y) {
  switch (activation) {
    case QUERN_ACTIVATION_RELU:
      return std::fmax(y, 0.0);
    case QUERN_ACTIVATION_GELU:
      return y / 2 * (1 + std::erf(y / std::sqrt(2.0)));
    case QUERN_ACTIVATION_GELU_TANH:
      return y / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (y + 0.044715 * y * y * y)));
    case QUERN_ACTIVATION_SILU:
      return y / (1 + std::exp(-y));
    default:
      return y;
  }
}

class Images {
 public:
  explicit Images(const Case& c)
      : args(sized<quern_conv2d_args>()),
        x(c.type, {c.batch, c.channels, c.height, c.width}, strides_of(c.x, c.channels, c.height, c.width)),
        weight(c.type, {c.outs, c.channels / c.groups, c.kernel_h, c.kernel_w},
               strides_of(c.weight_channels_last ? Order::channels : Order::places, c.channels / c.groups, c.kernel_h,
                          c.kernel_w)),
        bias(c.type, {c.outs}),
        out(c.type, {c.batch, c.outs, c.rows(), c.columns()}, strides_of(c.out, c.outs, c.rows(), c.columns())),
        c_(c) {
    Random random(c.name);
    const auto fill = [&](Array& a) {
      for (std::int64_t i = 0; i < a.extent(0); ++i) {
        for (std::int64_t j = 0; j < a.extent(1); ++j) {
          for (std::int64_t r = 0; r < a.extent(2); ++r) {
            for (std::int64_t s = 0; s < a.extent(3); ++s) a.set(random.normal(), i, j, r, s);
          }
        }
      }
    };
    fill(x), fill(weight);
    for (std::int64_t o = 0; o < c.outs; ++o) bias.set(random.normal(), o);
    args.x = x.tensor(), args.weight = weight.tensor(), args.out = out.tensor();
    if (c.bias) args.bias = bias.tensor();
    args.stride_h = c.stride_h, args.stride_w = c.stride_w;
    args.dilation_h = c.dilation_h, args.dilation_w = c.dilation_w, args.groups = c.groups;
    args.pad_top = c.top, args.pad_bottom = c.bottom, args.pad_left = c.left, args.pad_right = c.right;
    args.activation = c.activation, args.max_sms = c.max_sms, args.alignment = c.alignment, args.flags = c.flags;
    for (Array* a : {&x, &weight, &bias, &out}) a->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kConv2d, args)) << c_.name;
    out.download();
  }
  void check() const {
    double worst = 0;
    for (std::int64_t b = 0; b < c_.batch; ++b) {
      for (std::int64_t o = 0; o < c_.outs; ++o) {
        for (std::int64_t r = 0; r < c_.rows(); ++r) {
          for (std::int64_t s = 0; s < c_.columns(); ++s) worst = std::fmax(worst, error_at(b, o, r, s));
        }
      }
    }
    EXPECT_LE(worst, 1.0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_conv2d_args args;
  Array x, weight, bias, out;

 private:
  // 1 is what rounding allows.
  double error_at(std::int64_t b, std::int64_t o, std::int64_t r, std::int64_t s) const {
    const std::int64_t channels = c_.channels / c_.groups, first = o / (c_.outs / c_.groups) * channels;
    double sum = c_.bias ? bias.get(o) : 0.0, magnitude = std::fabs(sum);
    for (std::int64_t i = 0; i < c_.kernel_h; ++i) {
      for (std::int64_t j = 0; j < c_.kernel_w; ++j) {
        const std::int64_t row = r * c_.stride_h + i * c_.dilation_h - c_.top,
                           column = s * c_.stride_w + j * c_.dilation_w - c_.left;
        if (row < 0 || row >= c_.height || column < 0 || column >= c_.width) continue;
        for (std::int64_t ch = 0; ch < channels; ++ch) {
          const double product = weight.get(o, ch, i, j) * x.get(b, first + ch, row, column);
          sum += product, magnitude += std::fabs(product);
        }
      }
    }
    const double wanted = activated(c_.activation, sum), got = out.get(b, o, r, s);
    const double allowed = 2 * (c_.type.roundoff() * std::fabs(wanted) + 0x1p-24 * 12 * magnitude) + 1e-30;
    return std::isnan(got) ? HUGE_VAL : std::fabs(got - wanted) / allowed;
  }

  Case c_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name) -> Case& {
    all.emplace_back();
    all.back().name = name;
    return all.back();
  };
  add("valid");
  Case& same = add("same");
  same.pad(1), same.activation = QUERN_ACTIVATION_SILU;
  Case& last = add("channels last");
  last.pad(1), last.x = last.out = Order::channels, last.weight_channels_last = true;
  last.activation = QUERN_ACTIVATION_RELU;
  Case& strided = add("stride 2, channels last");
  strided = last, strided.name = "stride 2, channels last", strided.take(3, 2);
  Case& to_places = add("channels last to places");
  to_places.x = Order::channels, to_places.weight_channels_last = true, to_places.pad(1), to_places.max_sms = 1;
  Case& sides = add("every side of its own");
  sides.top = 2, sides.right = 3, sides.stride_w = 2, sides.dilation_h = 2, sides.kernel_w = 4, sides.bottom = 1;
  sides.x = Order::channels, sides.type = Element::f16, sides.activation = QUERN_ACTIVATION_GELU;
  // Vision transformers' first layer: windows side by side, read along rows of x.
  Case& patch = add("patches of 16");
  patch.channels = 3, patch.take(16, 16), patch.height = 32, patch.width = 48, patch.outs = 40;
  patch.out = Order::channels;
  Case& patch14 = add("patches of 14");
  patch14.channels = 3, patch14.take(14, 14), patch14.height = 43, patch14.width = 29, patch14.batch = 1;
  patch14.activation = QUERN_ACTIVATION_GELU_TANH;
  Case& patch_last = add("patches, channels last");
  patch_last.channels = 3, patch_last.take(4, 4), patch_last.x = patch_last.out = Order::channels;
  patch_last.weight_channels_last = true, patch_last.height = 16, patch_last.width = 20;
  Case& stem = add("stem");  // of residual networks
  stem.channels = 3, stem.take(7, 2), stem.pad(3), stem.height = 20, stem.width = 22;
  Case& single = add("1 x 1");
  single.take(1, 1);
  Case& single_last = add("1 x 1, channels last");
  single_last.take(1, 1), single_last.x = single_last.out = Order::channels, single_last.weight_channels_last = true;
  Case& single_strided = add("1 x 1, stride 2");
  single_strided.take(1, 2), single_strided.x = single_strided.out = Order::channels;
  Case& row = add("one row");
  row.height = 1, row.kernel_h = 1, row.left = 2;
  Case& column = add("one column");
  column.width = 1, column.kernel_w = 1, column.top = column.bottom = 1, column.x = column.out = Order::channels;
  Case& flat = add("1 x 3");
  flat.kernel_h = 1, flat.left = flat.right = 1;
  Case& odd = add("odd channels");
  odd.channels = 13, odd.outs = 11, odd.pad(1), odd.x = Order::channels;
  Case& grouped = add("grouped");
  grouped.channels = 36, grouped.outs = 24, grouped.groups = 3, grouped.pad(1);
  Case& more_groups = add("more groups than samples");
  more_groups.batch = 3, more_groups.channels = 32, more_groups.outs = 32, more_groups.groups = 4;
  more_groups.x = more_groups.out = Order::channels, more_groups.pad(1);
  Case& depthwise = add("depthwise");
  depthwise.channels = depthwise.outs = depthwise.groups = 24, depthwise.pad(1);
  depthwise.activation = QUERN_ACTIVATION_SILU;
  Case& depthwise_last = add("depthwise, channels last, stride 2");
  depthwise_last.channels = depthwise_last.groups = 24, depthwise_last.outs = 48, depthwise_last.take(5, 2);
  depthwise_last.x = depthwise_last.out = Order::channels, depthwise_last.pad(2);
  depthwise_last.activation = QUERN_ACTIVATION_GELU;
  Case& few = add("few output channels");
  few.outs = 3, few.pad(1), few.activation = QUERN_ACTIVATION_RELU;
  Case& dilated = add("dilated");
  dilated.dilation_h = dilated.dilation_w = 3, dilated.pad(3), dilated.x = dilated.out = Order::channels;
  Case& dilated_places = add("dilated, 5 x 2");
  dilated_places.dilation_h = 2, dilated_places.dilation_w = 5, dilated_places.kernel_h = 5;
  dilated_places.kernel_w = 2, dilated_places.pad(1);
  Case& dilated_few = add("dilated, few channels");
  dilated_few.channels = 3, dilated_few.dilation_h = 2, dilated_few.dilation_w = 3, dilated_few.pad(1);
  Case& gap = add("rows with a gap");
  gap.x = gap.out = Order::pitched, gap.pad(1);
  Case& gap_of_x = add("rows of x with a gap");
  gap_of_x.x = Order::pitched, gap_of_x.take(1, 1);
  Case& apart = add("apart");
  apart.x = apart.out = Order::apart, apart.take(3, 2);
  Case& full = add("f32");
  full.type = Element::f32, full.pad(1), full.x = full.out = Order::channels, full.bias = false;
  Case& full_few = add("f32, few channels");
  full_few.type = Element::f32, full_few.channels = 3, full_few.take(4, 4), full_few.height = 12, full_few.width = 16;
  Case& whole = add("a window as large as x");
  whole.height = whole.width = 4, whole.take(4, 1), whole.batch = 1;
  Case& padding = add("hardly anything but padding");
  padding.height = 1, padding.width = 2, padding.take(2, 1), padding.pad(4);
  Case& none = add("no samples");
  none.batch = 0;
  Case& unaligned = add("aligned to 4 bytes");
  unaligned.alignment = 4, unaligned.pad(1), unaligned.x = unaligned.out = Order::channels;
  unaligned.weight_channels_last = true;
  return all;
}

TEST(Conv2d, IsTheSumOverItsWindow) {
  for (const Case& c : cases()) {
    Images images(c);
    ASSERT_NO_FATAL_FAILURE(images.run(context())) << c.name;
    images.check();
  }
}

// On `host`, which has the products of Hopper's warpgroups, results that may not depend on the batch are those of the
// persistent kernel: what else would be the portable one's, and tiles of every width, of several rounds too.
std::vector<Case> persistent_cases() {
  std::vector<Case> all;
  for (const Case& c : cases()) {
    const bool overlap = c.kernel_h * c.kernel_w > c.stride_h * c.stride_w;
    if (overlap && c.type.bytes() == 2 && c.channels / c.groups >= 8 && c.outs / c.groups >= 8) all.push_back(c);
  }
  const auto add = [&](const char* name, std::int64_t outs, Order order) {
    Case& c = all.emplace_back();
    c.name = name, c.outs = outs, c.x = c.out = order, c.pad(1), c.max_sms = 1;
    c.weight_channels_last = order == Order::channels;
  };
  add("128 columns", 72, Order::channels);
  add("128 columns, no bias", 128, Order::channels), all.back().bias = false, all.back().channels = 24;
  add("64 columns, many tiles", 40, Order::channels), all.back().batch = 7, all.back().channels = 40;
  add("128 columns, many tiles", 104, Order::channels), all.back().batch = 7, all.back().type = Element::f16;
  add("176 columns", 170, Order::channels), all.back().batch = 3;
  add("256 columns", 200, Order::channels), all.back().channels = 24;
  add("512 columns", 264, Order::channels);
  add("places are 64 columns", 40, Order::places), all.back().height = all.back().width = 8;
  add("places are 128 columns, odd", 136, Order::places), all.back().batch = 3;
  add("places are 256 columns", 136, Order::places), all.back().height = all.back().width = 16;
  add("places are columns of several tiles", 24, Order::places), all.back().height = 19, all.back().width = 33;
  // Few kernels: every activation is the same code.
  for (Case& c : all) {
    c.flags = QUERN_CALL_BATCH_INVARIANT;
    if (c.activation != QUERN_ACTIVATION_SILU) c.activation = QUERN_ACTIVATION_DEFAULT;
  }
  return all;
}

TEST(Conv2dPersistent, IsTheSumOverItsWindow) {
  for (const Case& c : persistent_cases()) {
    Images images(c);
    ASSERT_NO_FATAL_FAILURE(images.run(context())) << c.name;
    images.check();
  }
}

// Few tiles of many k blocks: blocks of threads have parts of a tile, one's begins where another's ends.
TEST(Conv2dPersistent, SharesOutTheKOfFewTiles) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "these are as many tiles as `host` divides";
  for (const auto& [batch, outs, order] :
       {std::tuple{1, 24, Order::channels}, {6, 8, Order::channels}, {1, 16, Order::places}}) {
    Case c;
    c.name = "few tiles", c.channels = 328, c.batch = batch, c.outs = outs, c.x = c.out = order, c.pad(1);
    c.weight_channels_last = true;
    SCOPED_TRACE(std::to_string(batch) + " samples, " + std::to_string(outs) + " channels");
    Images images(c);
    ASSERT_NO_FATAL_FAILURE(images.run(context()));
    images.check();
    const std::vector<unsigned char> fair = images.out.memory();
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 10 + seed;
      });
      ASSERT_NO_FATAL_FAILURE(images.run(unfair.get()));
      EXPECT_EQ(images.out.memory(), fair) << "seed " << seed;
    }
  }
}

TEST(Conv2dPersistent, DoesNotSpill) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const Context compiling = compiling_context();
  std::string why;
  if (!has_compiler(compiling.get(), "sm_90a", &why)) GTEST_SKIP() << why;
  std::string lines;
  for (const char* rest :
       {"128x64 places_first=0 bias=1 activation=none", "128x128 places_first=0 bias=1 activation=silu",
        "128x128 places_first=1 bias=1 activation=none", "128x176 places_first=0 bias=1 activation=none",
        "128x256 places_first=1 bias=1 activation=silu"})
    lines += std::string("conv2d sm_90a kernel=persistent dtype=bf16 tile=") + rest + "\n";
  const std::vector<Warmed> warmed = warm(compiling.get(), {"sm_90a"}, lines);
  EXPECT_EQ(warmed.size(), 5u);
  expect_compiled(warmed);
  each_entry(compiling.get(), "sm_90a", warmed,
             [](const quern_entry& entry) { EXPECT_EQ(entry.local_bytes, 0) << constants_of(entry); });
}

// A tile belongs to one of the two kernels.
TEST(Conv2dPersistent, HasTilesOfItsOwn) {
  for (const auto& [kernel, tile] :
       {std::pair{"persistent", "64x128"}, {"implicit", "128x256"}, {"implicit", "128x64"}}) {
    const std::string line = std::string("conv2d host kernel=") + kernel + " dtype=bf16 tile=" + tile +
                             " places_first=0 bias=0 activation=none\n";
    auto options = sized<quern_warm_options>();
    options.manifest = line.data(), options.manifest_length = line.size(), options.flags = QUERN_WARM_LIST_ONLY;
    auto error = sized<quern_error>();
    quern_list* list = nullptr;
    EXPECT_EQ(quern_warm(context(), &options, &list, &error), QUERN_PARTIAL);
    auto result = sized<quern_warm_result>();
    ASSERT_EQ(quern_list_warm_result(list, 0, &result), QUERN_OK);
    EXPECT_EQ(result.outcome, QUERN_WARM_FAILED);
    EXPECT_NE(std::string(result.text).find(tile), std::string::npos) << result.text;
    quern_list_free(list);
  }
}

// Extents, strides and padding at random.
TEST(Conv2d, IsTheSumOverAnyWindow) {
  Random random("any window");
  const auto below = [&](int bound) { return random.between(0, bound - 1); };
  for (int i = 0; i < 40; ++i) {
    Case c;
    const std::string name = "random " + std::to_string(i);
    c.name = name.c_str();
    c.batch = 1 + below(3), c.groups = below(4) == 0 ? 2 : 1;
    c.channels = c.groups * (1 + below(20)), c.outs = c.groups * (1 + below(20));
    c.kernel_h = 1 + below(4), c.kernel_w = 1 + below(4);
    c.stride_h = 1 + below(3), c.stride_w = 1 + below(3);
    c.dilation_h = 1 + below(2), c.dilation_w = 1 + below(2);
    c.top = below(3), c.bottom = below(3), c.left = below(3), c.right = below(3);
    c.height = c.dilation_h * (c.kernel_h - 1) + 1 + below(9), c.width = c.dilation_w * (c.kernel_w - 1) + 1 + below(9);
    c.x = static_cast<Order>(below(4)), c.out = static_cast<Order>(below(4));
    c.weight_channels_last = below(2) != 0, c.bias = below(2) != 0;
    c.activation = static_cast<quern_activation>(below(6));
    c.flags = below(2) != 0 ? QUERN_CALL_BATCH_INVARIANT : 0;
    Images images(c);
    ASSERT_NO_FATAL_FAILURE(images.run(context())) << name;
    images.check();
  }
}

// A sample's results have the same bits whatever else is in the batch.
TEST(Conv2d, OfASampleAlone) {
  for (const Order order : {Order::places, Order::channels}) {
    Case c;
    c.name = "alone", c.x = c.out = order, c.pad(1), c.batch = 5, c.channels = 64, c.height = c.width = 7;
    Images together(c);
    together.args.flags |= QUERN_CALL_BATCH_INVARIANT;
    ASSERT_NO_FATAL_FAILURE(together.run(context()));
    together.check();
    const std::vector<unsigned char> all = together.out.memory();
    together.x.box().shape[0] = together.out.box().shape[0] = 1;
    const std::size_t sample = all.size() / 5;
    for (std::size_t i : {1u, 4u}) {
      together.x.box().tensor.byte_offset = i * static_cast<std::size_t>(c.channels * c.height * c.width) * 2;
      together.out.box().tensor.byte_offset = i * sample;
      ASSERT_NO_FATAL_FAILURE(together.run(context()));
      EXPECT_EQ(together.out.memory(), all) << i;
    }
  }
}

// `host` in an unfair order, by seed: a missing barrier or wait gives other bits.
TEST(Conv2dScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  for (const Order order : {Order::places, Order::channels}) {
    Case c;
    c.name = "unfair", c.x = c.out = order, c.pad(1), c.channels = 40,
    c.weight_channels_last = order == Order::channels;
    // Of the portable kernel; and of the persistent one, several tiles a block and more k blocks than stages.
    for (const bool persistent : {false, true}) {
      if (persistent) {
        c.flags = QUERN_CALL_BATCH_INVARIANT, c.max_sms = 1, c.channels = 72, c.batch = 4;
        c.outs = order == Order::channels ? 40 : 200;
      }
      Images images(c);
      ASSERT_NO_FATAL_FAILURE(images.run(context()));
      const std::vector<unsigned char> fair = images.out.memory();
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const Context unfair = make_context([&](quern_context_options& o) {
          o.flags |= QUERN_CONTEXT_HOST_SEED;
          o.host_seed = run_seed() * 10 + seed;
        });
        ASSERT_NO_FATAL_FAILURE(images.run(unfair.get()));
        EXPECT_EQ(images.out.memory(), fair) << "seed " << seed;
      }
    }
  }
}

// What is readied and sized for the largest call serves every smaller one.
TEST(Conv2d, IsPreparedForFewer) {
  Case most;
  most.name = "prepared", most.batch = 3, most.height = 12, most.width = 10, most.channels = most.outs = 16;
  for (const auto& [kernel_h, kernel_w, flags] :
       {std::tuple{3, 3, 0u}, {1, 3, 0u}, {3, 1, 0u}, {1, 1, 0u}, {3, 3, std::uint32_t{QUERN_CALL_BATCH_INVARIANT}}}) {
    for (const Order order : {Order::places, Order::channels}) {
      most.flags = flags, most.x = most.out = order, most.kernel_h = kernel_h, most.kernel_w = kernel_w;
      const Context own = make_context();
      Images largest(most);
      auto error = sized<quern_error>();
      std::uint64_t bytes = 0;
      ASSERT_EQ(quern_conv2d_workspace(own.get(), &largest.args, &bytes, &error), QUERN_OK) << error.text;
      ASSERT_EQ(quern_conv2d_prepare(own.get(), &largest.args, &error), QUERN_OK) << error.text;
      Buffer workspace(bytes, 0);
      for (const auto& [height, width] : {std::pair{12, 9}, {7, 10}, {5, 7}, {3, 4}, {1, 9}, {11, 1}}) {
        if (height < kernel_h || width < kernel_w) continue;
        SCOPED_TRACE(std::to_string(kernel_h) + " x " + std::to_string(kernel_w) + " over " + std::to_string(height) +
                     " x " + std::to_string(width) + (order == Order::places ? "" : ", channels last"));
        Case fewer = most;
        fewer.height = height, fewer.width = width, fewer.batch = height % 2 + 1;
        Images call(fewer);
        call.args.flags |= QUERN_CALL_CACHED_ONLY;
        call.args.workspace = workspace.data(), call.args.workspace_size = bytes;
        ASSERT_EQ(quern_conv2d(own.get(), &call.args, &error), QUERN_OK) << error.text;
        synchronize();
        call.out.download();
        call.check();
      }
    }
  }
}

// One place, channels last: a matrix product of what lies there, and nothing else.
TEST(Conv2d, LaysOutNothingForOnePlace) {
  Case c;
  c.name = "in place", c.x = c.out = Order::channels, c.weight_channels_last = true, c.take(1, 1);
  Images in_place(c);
  Case other = c;
  other.x = Order::places;
  Images laid(other);
  std::uint64_t without = 0, with = 0;
  ASSERT_EQ(quern_conv2d_workspace(context(), &in_place.args, &without, nullptr), QUERN_OK);
  ASSERT_EQ(quern_conv2d_workspace(context(), &laid.args, &with, nullptr), QUERN_OK);
  EXPECT_LT(without, with);
}

TEST(Conv2dRefuses, EveryWrongArgument) {
  using G = Images&;
  const std::vector<Mistake<Images>> mistakes = {
      {"no x", {"x"}, [](G g) { g.args.x = nullptr; }},
      {"x's rank", {"x", "4"}, [](G g) { g.x.box().tensor.ndim = 3; }},
      {"x's dtype", {"x", "float64"}, [](G g) { g.x.box().tensor.dtype = {kDLFloat, 64, 1}; }},
      {"weight's dtype", {"weight", "f32", "bf16"}, [](G g) { g.weight.box().tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "f32", "bf16"}, [](G g) { g.out.box().tensor.dtype = kFloat32; }},
      {"bias' dtype", {"bias", "f32", "bf16"}, [](G g) { g.bias.box().tensor.dtype = kFloat32; }},
      {"x's channels", {"x.shape[1]", "16"}, [](G g) { g.x.box().shape[1] = 15; }},
      {"no rows of taps", {"weight.shape[2]", "1 and more"}, [](G g) { g.weight.box().shape[2] = 0; }},
      {"no taps", {"weight.shape[3]", "1 and more"}, [](G g) { g.weight.box().shape[3] = 0; }},
      {"groups", {"groups", "5", "divisor"}, [](G g) { g.args.groups = 5; }},
      {"negative groups", {"groups", "-1"}, [](G g) { g.args.groups = -1; }},
      {"stride_h", {"stride_h", "-1"}, [](G g) { g.args.stride_h = -1; }},
      {"stride_w", {"stride_w", "-1"}, [](G g) { g.args.stride_w = -1; }},
      {"dilation_h", {"dilation_h", "-2"}, [](G g) { g.args.dilation_h = -2; }},
      {"dilation_w", {"dilation_w", "-2"}, [](G g) { g.args.dilation_w = -2; }},
      {"pad_top", {"pad_top", "-1"}, [](G g) { g.args.pad_top = -1; }},
      {"pad_bottom", {"pad_bottom", "-1"}, [](G g) { g.args.pad_bottom = -1; }},
      {"pad_left", {"pad_left", "-1"}, [](G g) { g.args.pad_left = -1; }},
      {"pad_right", {"pad_right", "-1"}, [](G g) { g.args.pad_right = -1; }},
      {"activation", {"activation", "6", "quern_activation"}, [](G g) { g.args.activation = 6; }},
      {"no room for rows", {"x.shape[2]", "window"}, [](G g) { g.args.dilation_h = 5; }},
      {"no room for columns", {"x.shape[3]", "window"}, [](G g) { g.args.dilation_w = 6; }},
      {"out's samples", {"out.shape[0]", "2"}, [](G g) { g.out.box().shape[0] = 1; }},
      {"out's channels", {"out.shape[1]", "24"}, [](G g) { g.out.box().shape[1] = 8; }},
      {"out's rows", {"out.shape[2]", "7"}, [](G g) { g.out.box().shape[2] = 6; }},
      {"out's columns", {"out.shape[3]", "9"}, [](G g) { g.out.box().shape[3] = 8; }},
      {"bias' channels", {"bias.shape[0]", "24"}, [](G g) { g.bias.box().shape[0] = 25; }},
      {"bias' stride", {"bias.strides[0]"}, [](G g) { g.bias.box().strides[0] = 2; }},
      {"over x", {"out lies over x"}, [](G g) { g.out.box().tensor.data = g.x.box().tensor.data; }, true},
      {"results over each other", {"out.strides"}, [](G g) { g.out.box().strides[0] = 1; }},
      {"an unknown flag", {"flags"}, [](G g) { g.args.flags = 1u << 17; }},
      {"alignment", {"alignment", "3"}, [](G g) { g.args.alignment = 3; }},
      {"max_sms", {"max_sms", "-1"}, [](G g) { g.args.max_sms = -1; }},
      {"no workspace", {"workspace"}, [](G g) { g.args.workspace = nullptr, g.args.workspace_size = 0; }, true},
      {"x's alignment", {"x", "data"}, [](G g) { g.x.box().tensor.byte_offset = 8; }, true},
      {"weight's alignment", {"weight", "data"}, [](G g) { g.weight.box().tensor.byte_offset = 8; }, true},
  };
  Case good;
  good.name = "refused";
  const auto make = [&] { return std::make_unique<Images>(good); };
  const auto watch = [](Images& g) {
    return [&g] {
      g.out.download();
      return g.out.is_untouched(0, 0, 0, 0) && g.out.is_untouched(1, 23, 6, 8);
    };
  };
  expect_all_refused(mistakes, kConv2d, make, watch);
}

}  // namespace
}  // namespace quern::test
