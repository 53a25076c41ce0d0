// fft against direct sums in fp64: lengths with every kind of factor, kinds, results, layouts and frames; round trips,
// rows with NaN, and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/fft_case.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "fft * n=400 kind=real result=power dtype=f32 out=f32 window=1 framed=1",
    "fft * n=1024 kind=real dtype=f32 out=f32",
    "fft * n=2048 kind=forward dtype=f16 out=f16 x_pairs=0",
    "fft * n=1000 kind=to_real dtype=f32 out=bf16 out_pairs=0",
    "fft * n=187 kind=inverse dtype=bf16 out=f32 window=1",
};

using Change = std::function<void(FftCase&)>;

void expect_right(const std::string& name, const Change& change, quern_context* where = nullptr) {
  FftCase c;
  c.name = name;
  change(c);
  Fourier fourier(c);
  ASSERT_NO_FATAL_FAILURE(fourier.run(where != nullptr ? where : context()));
  fourier.check();
}

constexpr quern_fft_kind kKinds[] = {QUERN_FFT_FORWARD, QUERN_FFT_INVERSE, QUERN_FFT_REAL, QUERN_FFT_TO_REAL};

class FftLengths : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Fft, FftLengths,
                         testing::Values(1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 31, 64, 97, 100, 128, 210, 243, 400, 512,
                                         1000, 1024, 4096),
                         testing::PrintToStringParamName());

TEST_P(FftLengths, AreRight) {
  for (const quern_fft_kind kind : kKinds) {
    const std::string name = "n" + std::to_string(GetParam()) + "_" + std::to_string(kind);
    expect_right(name, [&](FftCase& c) { c.n = GetParam(), c.kind = kind; });
  }
}

TEST(Fft, LongestAreRight) {
  expect_right("longest", [](FftCase& c) { c.n = 16384, c.rows = 1; });
  expect_right("longest real", [](FftCase& c) { c.n = 32768, c.rows = 1, c.kind = QUERN_FFT_REAL; });
  expect_right("longest to real", [](FftCase& c) { c.n = 32768, c.rows = 1, c.kind = QUERN_FFT_TO_REAL; });
  expect_right("odd", [](FftCase& c) { c.n = 3 * 31 * 173, c.rows = 1, c.kind = QUERN_FFT_REAL; });
  expect_right("prime", [](FftCase& c) { c.n = 4099, c.rows = 1, c.scaling = QUERN_FFT_BY_ROOT; });
}

TEST(Fft, TakesAnyNumberOfRows) {
  for (const int rows : {0, 1, 99}) {
    for (const int n : {12, 400}) {
      expect_right("rows" + std::to_string(rows), [&](FftCase& c) { c.n = n, c.rows = rows, c.kind = QUERN_FFT_REAL; });
    }
  }
  expect_right("few SMs", [](FftCase& c) { c.n = 12, c.rows = 99, c.max_sms = 1; });
  expect_right("outer", [](FftCase& c) { c.n = 30, c.outer = 4, c.x_places = c.out_places = FftPlaces::gaps; });
}

TEST(Fft, TakesEveryLayoutAndType) {
  constexpr Element kTypes[] = {Element::f32, Element::f16, Element::bf16};
  int which = 0;
  for (const quern_fft_kind kind : kKinds) {
    for (const FftPlaces places : {FftPlaces::gaps, FftPlaces::overlapping, FftPlaces::transposed}) {
      expect_right("layout" + std::to_string(++which), [&](FftCase& c) {
        c.n = kind == QUERN_FFT_INVERSE ? 45 : 48, c.kind = kind, c.x_places = places;
        c.out_places = places == FftPlaces::overlapping ? FftPlaces::gaps : places;
        c.x = kTypes[which % 3], c.out = kTypes[which / 2 % 3], c.scaling = QUERN_FFT_BY_ROOT;
        c.window = which % 2 == 0 && kind != QUERN_FFT_TO_REAL, c.alignment = which % 4 == 0 ? 2 << which / 4 % 3 : 0;
      });
    }
  }
}

TEST(Fft, ShortRowsHaveZerosBehindThem) {
  for (const quern_fft_kind kind : kKinds) {
    for (const int given : {0, 1, 17}) {
      expect_right("short", [&](FftCase& c) {
        c.n = 40, c.given = given, c.kind = kind, c.x_places = FftPlaces::even_gaps;
        c.out_places = FftPlaces::even_gaps, c.window = given == 17 && kind != QUERN_FFT_TO_REAL;
      });
    }
  }
}

TEST(Fft, TakesComplexNumbersOfDlpack) {
  expect_right("complex", [](FftCase& c) { c.n = 20, c.complex_dtype = true, c.outer = 2; });
  expect_right("complex", [](FftCase& c) { c.n = 20, c.complex_dtype = true, c.kind = QUERN_FFT_REAL; });
  expect_right("complex", [](FftCase& c) { c.n = 20, c.complex_dtype = true, c.kind = QUERN_FFT_TO_REAL; });
}

TEST(Fft, WorksInPlace) {
  for (const int n : {5, 12, 187, 256}) {
    expect_right("in place", [&](FftCase& c) { c.n = n, c.in_place = true, c.kind = QUERN_FFT_INVERSE; });
  }
}

TEST(Fft, PowerAndMagnitude) {
  for (const quern_fft_result result : {QUERN_FFT_POWER, QUERN_FFT_MAGNITUDE}) {
    expect_right("real", [&](FftCase& c) { c.n = 96, c.kind = QUERN_FFT_REAL, c.result = result; });
    expect_right("odd", [&](FftCase& c) { c.n = 35, c.kind = QUERN_FFT_REAL, c.result = result, c.window = true; });
    expect_right("complex", [&](FftCase& c) { c.n = 24, c.result = result, c.scaling = QUERN_FFT_BY_N; });
  }
  // Squares that f32 does not have.
  for (const double size : {1e30, 1e-30}) {
    FftCase c;
    c.name = "magnitudes", c.n = 4, c.result = QUERN_FFT_MAGNITUDE, c.rows = 1;
    Fourier fourier(c);
    for (int i = 0; i < 4; ++i)
      fourier.x.set(i == 1 ? 3 * size : 0, 0, 0, i, 0), fourier.x.set(i == 1 ? 4 * size : 0, 0, 0, i, 1);
    fourier.x.upload();
    ASSERT_NO_FATAL_FAILURE(fourier.run(context()));
    for (int k = 0; k < 4; ++k) EXPECT_NEAR(fourier.out.get(0, 0, k, 0) / size, 5.0, 1e-6);
  }
}

TEST(Fft, FramesOfSignals) {
  const auto frames = [](const char* name, const Change& change) {
    expect_right(name, [&](FftCase& c) {
      c.kind = QUERN_FFT_REAL, c.n = 40, c.samples = 203, c.hop = 16, c.rows = 2, c.window = true;
      change(c);
      if (c.frames == 0) c.frames = (c.samples + c.pad_begin + c.pad_end - c.taken()) / c.hop + 1;
    });
  };
  const auto centre = [](FftCase& c, quern_fft_padding padding) { c.pad_begin = c.pad_end = 20, c.padding = padding; };
  frames("plain", [](FftCase&) {});
  frames("reflected", [&](FftCase& c) { centre(c, QUERN_FFT_REFLECT); });
  frames("zeros", [&](FftCase& c) { centre(c, QUERN_FFT_ZEROS), c.result = QUERN_FFT_POWER; });
  frames("without the last", [&](FftCase& c) { centre(c, QUERN_FFT_REFLECT), c.frames = 12; });
  frames("short frames", [&](FftCase& c) { c.given = 25, c.pad_begin = 7, c.pad_end = 3; });
  frames("odd", [&](FftCase& c) { c.n = 41, c.hop = 50, centre(c, QUERN_FFT_REFLECT), c.window = false; });
  frames("f16", [&](FftCase& c) { c.x = Element::f16, c.x_places = FftPlaces::transposed, c.max_sms = 1; });
  frames("a signal as long as its padding", [&](FftCase& c) { c.samples = 21, centre(c, QUERN_FFT_REFLECT); });
}

// Any problem of a few hundred elements.
TEST(Fft, RandomProblems) {
  Random random("fft");
  constexpr Element kTypes[] = {Element::f32, Element::f16, Element::bf16};
  for (int i = 0; i < 6; ++i) {
    expect_right("random" + std::to_string(i), [&](FftCase& c) {
      c.n = random.between(1, 700), c.rows = random.between(1, 9), c.outer = random.between(0, 3);
      c.kind = kKinds[random.below(4)], c.x = kTypes[random.below(3)], c.out = kTypes[random.below(3)];
      c.scaling = random.below(2) == 0 ? QUERN_FFT_BY_N : QUERN_FFT_BY_ROOT;
      c.x_places = static_cast<FftPlaces>(random.below(5));
      c.out_places = random.below(2) == 0 ? FftPlaces::transposed : FftPlaces::gaps;
      if (c.kind == QUERN_FFT_TO_REAL) return;
      c.window = random.below(2) == 0, c.result = static_cast<quern_fft_result>(random.below(3));
      if (c.kind != QUERN_FFT_REAL || random.below(2) == 0) return;
      c.outer = 0, c.hop = random.between(1, 300), c.samples = c.n + random.between(0, 900);
      c.pad_begin = random.between(0, static_cast<int>(c.samples) - 1), c.pad_end = random.between(0, c.pad_begin);
      c.padding = random.below(2) == 0 ? QUERN_FFT_REFLECT : QUERN_FFT_ZEROS;
      c.frames = (c.samples + c.pad_begin + c.pad_end - c.n) / c.hop + 1;
    });
  }
}

TEST(Fft, ComesBack) {
  for (const int n : {30, 35, 512}) {
    FftCase c;
    c.name = "there", c.n = n, c.kind = QUERN_FFT_REAL;
    Fourier there(c);
    ASSERT_NO_FATAL_FAILURE(there.run(context()));
    c.name = "back", c.kind = QUERN_FFT_TO_REAL, c.scaling = QUERN_FFT_BY_N;
    Fourier back(c);
    back.args.x = there.out.tensor();
    ASSERT_NO_FATAL_FAILURE(back.run(context()));
    // Parseval's theorem: each bin stands for two, but those that are their own mirror images.
    double before = 0, after = 0, worst = 0;
    for (int i = 0; i < n; ++i) {
      before += std::pow(there.x.get(0, 1, i, 0), 2);
      worst = std::max(worst, std::fabs(there.x.get(0, 1, i, 0) - back.out.get(0, 1, i, 0)));
    }
    for (int k = 0; k < n / 2 + 1; ++k) {
      const double power = std::pow(there.out.get(0, 1, k, 0), 2) + std::pow(there.out.get(0, 1, k, 1), 2);
      after += power * (k == 0 || 2 * k == n ? 1 : 2) / n;
    }
    EXPECT_NEAR(after / before, 1.0, 1e-6);
    EXPECT_LE(worst, 2e-6);
  }
}

// Rows have the same bits whatever lies beside them, numbers or not.
TEST(Fft, RowsAreOnTheirOwn) {
  for (const int n : {12, 100, 187}) {
    FftCase c;
    c.name = "beside", c.n = n, c.rows = 30;
    Fourier plain(c), spoilt(c);
    for (int i = 0; i < n; i += 3) {
      spoilt.x.set(i % 2 == 0 ? NAN : std::numeric_limits<double>::infinity(), 0, 7, i, 0);
    }
    spoilt.x.upload();
    c.rows = 1;
    Fourier alone(c);
    ASSERT_NO_FATAL_FAILURE(plain.run(context()));
    ASSERT_NO_FATAL_FAILURE(spoilt.run(context()));
    ASSERT_NO_FATAL_FAILURE(alone.run(context()));
    int wrong = 0;
    for (int r = 0; r < 30; ++r) {
      for (int k = 0; k < n; ++k) {
        if (r == 7) {
          wrong += !std::isnan(spoilt.out.get(0, r, k, 0));
        } else {
          wrong += spoilt.out.get(0, r, k, 0) != plain.out.get(0, r, k, 0);
          wrong += spoilt.out.get(0, r, k, 1) != plain.out.get(0, r, k, 1);
        }
        if (r == 0) wrong += alone.out.get(0, 0, k, 0) != plain.out.get(0, 0, k, 0);
      }
    }
    EXPECT_EQ(wrong, 0) << "n " << n;
  }
}

TEST(FftScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Context unfair = unfair_context(seed);
    for (const int n : {16, 187, 512}) {
      for (const quern_fft_kind kind : {QUERN_FFT_REAL, QUERN_FFT_INVERSE}) {
        expect_right("unfair", [&](FftCase& c) { c.n = n, c.kind = kind, c.rows = 19, c.max_sms = 1; }, unfair.get());
      }
    }
  }
}

TEST(FftRefuses, EveryWrongArgument) {
  using F = Fourier&;
  const auto watch = [](Fourier& f) {
    return [&f] {
      f.out.download();
      return f.out.is_untouched(0, 0, 0, 0) && f.out.is_untouched(0, 2, 8, 0);
    };
  };
  FftCase good;
  good.name = "refused", good.kind = QUERN_FFT_REAL, good.window = true;
  const std::vector<Mistake<Fourier>> mistakes = {
      {"x NULL", {"x is NULL"}, [](F f) { f.args.x = nullptr; }},
      {"out NULL", {"out is NULL"}, [](F f) { f.args.out = nullptr; }},
      {"kind", {"kind is 4", "quern_fft_kind"}, [](F f) { f.args.kind = 4; }},
      {"result", {"result is -1", "quern_fft_result"}, [](F f) { f.args.result = -1; }},
      {"scaling", {"scaling is 3", "quern_fft_scaling"}, [](F f) { f.args.scaling = 3; }},
      {"padding", {"padding is 2", "quern_fft_padding"}, [](F f) { f.args.padding = 2; }},
      {"n negative", {"n is -1"}, [](F f) { f.args.n = -1; }},
      {"n too large", {"n is 32770", "32768"}, [](F f) { f.args.n = 32770; }},
      {"n too large and odd", {"n is 16385", "16384"}, [](F f) { f.args.n = 16385; }},
      {"n shorter than x", {"x.shape[1] is 16", "at most 15"}, [](F f) { f.args.n = 15, f.out.box().shape[2] = 8; }},
      {"out's length", {"out.shape[1] is 8", "9"}, [](F f) { f.out.box().shape[2] = 8; }},
      {"out's rows", {"out.shape[0] is 2", "3"}, [](F f) { f.out.box().shape[1] = 2; }},
      {"out's pairs", {"out.shape[2] is 3", "2, re and im"}, [](F f) { f.out.box().shape[3] = 3; }},
      {"out's pairs apart", {"out.strides[2] is 2"}, [](F f) { f.out.box().strides[3] = 2; }},
      {"x's rank", {"x has 1 dimensions"}, [](F f) { f.x.box().tensor.ndim = 1; }},
      {"out's rank", {"out has 2 dimensions"}, [](F f) { f.out.box().tensor.ndim = 2; }},
      {"x's dtype", {"x is int32", "f32"}, [](F f) { f.x.box().tensor.dtype = {kDLInt, 32, 1}; }},
      {"out's dtype", {"out is e4m3", "f32"}, [](F f) { f.out.box().tensor.dtype = {kDLFloat8_e4m3fn, 8, 1}; }},
      {"a complex x", {"x is complex64"}, [](F f) { f.x.box().tensor.dtype = {kDLComplex, 64, 1}; }},
      {"out over itself", {"out.strides[0] is 17"}, [](F f) { f.out.box().strides[1] = 17; }},
      {"out over x", {"out lies over x"}, [](F f) { f.out.box().tensor.data = f.x.box().tensor.data; }, true},
      {"window's length", {"window.shape[0] is 15", "16"}, [](F f) { f.window.box().shape[0] = 15; }},
      {"window's dtype", {"window is f16"}, [](F f) { f.window.box().tensor.dtype = {kDLFloat, 16, 1}; }},
      {"window's stride", {"window.strides[0] is 2"}, [](F f) { f.window.box().strides[0] = 2; }},
      {"window to real",
       {"window"},
       [](F f) { f.args.kind = QUERN_FFT_TO_REAL, f.args.x = f.out.tensor(), f.args.out = f.x.tensor(); }},
      {"power to real", {"result is 1", "TO_REAL"}, [](F f) { f.args.kind = QUERN_FFT_TO_REAL, f.args.result = 1; }},
      {"padding without hop", {"pad_begin is 3", "hop"}, [](F f) { f.args.pad_begin = 3; }},
      {"hop negative", {"hop is -1"}, [](F f) { f.args.hop = -1; }},
      {"hop of complex rows",
       {"hop is 4", "QUERN_FFT_REAL"},
       [](F f) { f.args.kind = QUERN_FFT_FORWARD, f.args.hop = 4; }},
      {"an unknown flag", {"flags"}, [](F f) { f.args.flags = 1u << 18; }},
      {"alignment", {"alignment is 3"}, [](F f) { f.args.alignment = 3; }},
      {"data's alignment", {"x", "data is aligned to 8"}, [](F f) { f.x.box().tensor.byte_offset = 8; }, true},
      {"without data", {"x", "NULL"}, [](F f) { f.x.box().tensor.data = nullptr; }, true},
      {"max_sms negative", {"max_sms", "-1"}, [](F f) { f.args.max_sms = -1; }},
      {"no size", {"size"}, [](F f) { f.args.size = 0; }},
  };
  expect_all_refused(mistakes, kFft, [&] { return std::make_unique<Fourier>(good); }, watch);
  good.n = 14, good.hop = 4, good.samples = 30, good.rows = 1, good.frames = 5, good.padding = QUERN_FFT_REFLECT;
  const auto watch_frames = [](Fourier& f) {
    return [&f] {
      f.out.download();
      return f.out.is_untouched(0, 0, 0, 0);
    };
  };
  const std::vector<Mistake<Fourier>> of_frames = {
      {"too many frames", {"out.shape[1] is 6", "at most the 5"}, [](F f) { f.out.box().shape[1] = 6; }},
      {"more than there is to reflect", {"pad_end is 30", "30 to reflect"}, [](F f) { f.args.pad_end = 30; }},
      {"signals", {"out.shape[0] is 2", "1"}, [](F f) { f.out.box().shape[0] = 2; }},
      {"a window longer than n",
       {"window.shape[0] is 14", "1 to 13"},
       [](F f) { f.args.n = 13, f.out.box().shape[2] = 7; }},
      {"too many samples",
       {"x.shape[1]", "2^30"},
       [](F f) { f.args.pad_end = 1 << 30, f.args.padding = QUERN_FFT_ZEROS; }},
  };
  expect_all_refused(of_frames, kFft, [&] { return std::make_unique<Fourier>(good); }, watch_frames);
}

// The line of a manifest that a call's kernel is warmed by.
TEST(FftWarms, WhatCallsTake) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "the lines are host's";
  const auto expect_line = [](const std::string& line, const Change& change) {
    FftCase c;
    c.name = "warm";
    change(c);
    Fourier fourier(c);
    const Context fresh = make_context([](quern_context_options&) {});
    auto error = sized<quern_error>();
    ASSERT_EQ(kFft.prepare(fresh.get(), &fourier.args, &error), QUERN_OK) << error.text;
    EXPECT_EQ(manifest_of(fresh.get()), std::vector<std::string>{line});
    // What a smaller call takes is the same.
    fourier.args.flags |= QUERN_CALL_CACHED_ONLY;
    --fourier.x.box().shape[c.hop > 0 ? 2 : 1], --fourier.out.box().shape[1];
    EXPECT_EQ(kFft.run(fresh.get(), &fourier.args, &error), QUERN_OK) << error.text;
  };
  expect_line("fft host n=12 kind=inverse result=complex dtype=f32 out=f16 window=0 x_pairs=1 out_pairs=1",
              [](FftCase& c) { c.n = 12, c.rows = 2, c.kind = QUERN_FFT_INVERSE, c.out = Element::f16; });
  expect_line("fft host n=12 kind=to_real dtype=f32 out=f32 x_pairs=0 out_pairs=1",
              [](FftCase& c) { c.n = 12, c.kind = QUERN_FFT_TO_REAL, c.x_places = FftPlaces::gaps; });
  expect_line("fft host n=16 kind=real result=power dtype=f32 out=f32 window=1 framed=1", [](FftCase& c) {
    c.kind = QUERN_FFT_REAL, c.result = QUERN_FFT_POWER, c.window = true, c.hop = 5, c.rows = 1, c.samples = 41,
    c.frames = 6;
  });
}

}  // namespace
}  // namespace quern::test
