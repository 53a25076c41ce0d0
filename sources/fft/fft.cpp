// The fft op: Fourier transforms of rows and of the frames of signals.
// SPDX-License-Identifier: Apache-2.0
#include "sources/fft/fft.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/fft/params.cuh"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/strided.h"
#include "sources/tensor.h"

namespace quern::ops::fft {
namespace {

constexpr std::int64_t kMostSamples = 1 << 30;  // of a signal with its padding: frames' samples are counted in 32 bits
constexpr std::int64_t kMostRows = INT32_MAX - 65536;

// A tensor as one of pairs where its dtype is DLPack's complex and numbers are to be complex, else as it is.
class Pairs {
 public:
  Pairs(const DLTensor* given, bool complex) : given_(given) {
    if (!complex || given == nullptr || given->dtype.code != kDLComplex || given->dtype.bits != 64 ||
        given->dtype.lanes != 1 || given->ndim < 0 || given->ndim >= Tensor::kMaxRank ||
        (given->ndim > 0 && given->shape == nullptr)) {
      return;
    }
    pairs_ = *given;
    std::int64_t compact = 2;
    for (int d = given->ndim - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      shape_[at] = given->shape[d], strides_[at] = compact;
      // What is too large to be doubled is refused as it is.
      if (given->strides != nullptr)
        strides_[at] = given->strides[d] > (std::int64_t{1} << 48) ? given->strides[d] : 2 * given->strides[d];
      if (shape_[at] >= 0 && shape_[at] <= INT32_MAX && compact <= (std::int64_t{1} << 48) / 2)
        compact *= std::max<std::int64_t>(shape_[at], 1);
    }
    const auto last = static_cast<std::size_t>(given->ndim);
    shape_[last] = 2, strides_[last] = 1;
    pairs_.dtype = {kDLFloat, 32, 1};
    pairs_.ndim = given->ndim + 1, pairs_.shape = shape_.data(), pairs_.strides = strides_.data();
    given_ = &pairs_;
  }
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;
  const DLTensor* get() const { return given_; }

 private:
  const DLTensor* given_;
  DLTensor pairs_{};
  std::array<std::int64_t, Tensor::kMaxRank + 1> shape_{}, strides_{};
};

struct Problem {
  Shape shape;
  q::FftParams params;
  int sms;
};

// Reads the tensors of a call.
class Reader {
 public:
  Reader(const quern_fft_args& args, const Call& call)
      : args_(args),
        call_(call),
        x_pairs_(args.x, args.kind != QUERN_FFT_REAL),
        out_pairs_(args.out, args.kind != QUERN_FFT_TO_REAL && args.result == QUERN_FFT_COMPLEX) {}

  Problem read() {
    read_numbers();
    // Rows of x have one dimension before their numbers, or two.
    complex_x_ = takes_complex(shape_) ? 1 : 0, complex_out_ = makes_complex(shape_) ? 1 : 0;
    x_ = read_tensor(x_pairs_.get(), "x", 2 + complex_x_, (shape_.framed ? 2 : 3) + complex_x_, complex_x_ != 0);
    const int leading = shape_.framed ? 2 : x_.rank - 1 - complex_x_, rank = leading + 1 + complex_out_;
    out_ = read_tensor(out_pairs_.get(), "out", rank, rank, complex_out_ != 0);
    read_length();
    read_window();
    read_places();
    expect_apart(out_, "out");
    const bool in_place = shape_.kind == Kind::forward || shape_.kind == Kind::inverse;
    expect_beside(out_, "out", x_, "x", in_place);
    problem_.shape = shape_, problem_.sms = call_.sms;
    return problem_;
  }

 private:
  static void expect_one_of(std::int32_t given, const char* name, std::int32_t most, const char* allowed) {
    if (given < 0 || given > most) refuse_value(name, std::int64_t{given}, allowed);
  }

  void read_numbers() {
    expect_one_of(args_.kind, "kind", QUERN_FFT_TO_REAL, "enum quern_fft_kind");
    expect_one_of(args_.result, "result", QUERN_FFT_MAGNITUDE, "enum quern_fft_result");
    expect_one_of(args_.scaling, "scaling", QUERN_FFT_BY_ROOT, "enum quern_fft_scaling");
    expect_one_of(args_.padding, "padding", QUERN_FFT_REFLECT, "enum quern_fft_padding");
    for (const auto& [name, value] :
         {std::pair{"n", args_.n}, {"hop", args_.hop}, {"pad_begin", args_.pad_begin}, {"pad_end", args_.pad_end}}) {
      if (value < 0) refuse_value(name, std::int64_t{value}, "0 and more");
    }
    shape_.kind = static_cast<Kind>(args_.kind), shape_.result = static_cast<Result>(args_.result);
    shape_.framed = args_.hop > 0;
    if (shape_.kind == Kind::to_real && args_.result != QUERN_FFT_COMPLEX)
      refuse_value("result", std::int64_t{args_.result}, "QUERN_FFT_COMPLEX with kind QUERN_FFT_TO_REAL");
    if (shape_.framed && shape_.kind != Kind::real)
      refuse_value("hop", std::int64_t{args_.hop}, "0, but for kind QUERN_FFT_REAL");
    if (shape_.framed) return;
    for (const auto& [name, value] :
         {std::pair{"pad_begin", args_.pad_begin}, {"pad_end", args_.pad_end}, {"padding", args_.padding}}) {
      if (value != 0) refuse_value(name, std::int64_t{value}, "0 without hop");
    }
  }

  Tensor read_tensor(const DLTensor* given, const char* name, int least, int most, bool complex) const {
    if (given == nullptr) refuse_missing(name);
    if (given->ndim < least || given->ndim > most) {
      if (least == most) refuse_rank(name, given->ndim, least);
      refuse_rank(name, given->ndim, least, most);
    }
    const Tensor t = ops::read(given, name, given->ndim, {Dtype::f16, Dtype::bf16, Dtype::f32}, call_.place);
    if (complex) {
      if (t.shape[t.rank - 1] != 2)
        refuse_extent(name, t.rank - 1, t.shape[t.rank - 1], "2, re and im, or a dtype of complex numbers");
      expect_unit_stride(t, name, t.rank - 1);
    }
    Tensor data = t;
    std::fill(std::begin(data.strides), std::end(data.strides), 0);
    expect_aligned(data, name, std::max(call_.alignment, static_cast<int>(bytes_of(t.dtype))));
    return t;
  }

  int numbers_of_x() const { return x_.rank - 1 - complex_x_; }
  int numbers_of_out() const { return out_.rank - 1 - complex_out_; }

  void read_length() {
    const std::int64_t of_x = x_.shape[numbers_of_x()], of_out = out_.shape[numbers_of_out()];
    std::int64_t n = args_.n;
    if (n == 0 && shape_.kind == Kind::to_real) n = of_out;
    if (n == 0 && !shape_.framed) n = of_x;
    if (n == 0 && shape_.framed && args_.window != nullptr && args_.window->ndim == 1 && args_.window->shape != nullptr)
      n = args_.window->shape[0];
    const bool halved = of_reals(shape_) && n % 2 == 0;
    if (n < 1 || n > (halved ? 2 : 1) * std::int64_t{kMostNumbers})
      refuse_value("n", n, of_reals(shape_) ? "1 to 16384, and even numbers to 32768" : "1 to 16384");
    shape_.n = static_cast<std::int32_t>(n);
    const std::int64_t bins = n / 2 + 1;
    expect_extent(out_, "out", numbers_of_out(), shape_.kind == Kind::real ? bins : n);
    const std::int64_t most = shape_.kind == Kind::to_real ? bins : n;
    if (!shape_.framed && of_x > most)
      refuse_extent("x", numbers_of_x(), of_x,
                    ("at most " + std::to_string(most) + ", of n " + std::to_string(n)).c_str());
    shape_.x = x_.dtype, shape_.out = out_.dtype;
    problem_.params.given = static_cast<q::i32>(shape_.framed ? n : of_x);
    static constexpr auto kScale = [](std::int32_t scaling, double length) {
      return scaling == QUERN_FFT_BY_N ? 1 / length : scaling == QUERN_FFT_BY_ROOT ? 1 / std::sqrt(length) : 1.0;
    };
    problem_.params.scale = static_cast<float>(kScale(args_.scaling, static_cast<double>(n)));
  }

  void read_window() {
    if (args_.window == nullptr) return;
    if (shape_.kind == Kind::to_real)
      throw Error(QUERN_INVALID, "window is given; it must be NULL with kind QUERN_FFT_TO_REAL");
    const Tensor window = ops::read(args_.window, "window", 1, {Dtype::f32}, call_.place);
    expect_unit_stride(window, "window", 0);
    if (shape_.framed) {
      if (window.shape[0] < 1 || window.shape[0] > shape_.n)
        refuse_extent("window", 0, window.shape[0], ("1 to " + std::to_string(shape_.n) + ", n").c_str());
      problem_.params.given = static_cast<q::i32>(window.shape[0]);
    } else {
      expect_extent(window, "window", 0, problem_.params.given);
    }
    expect_beside(out_, "out", window, "window");
    shape_.window = true;
    problem_.params.window = reinterpret_cast<const float*>(window.data);
  }

  // Frames that x has, and that out has room for.
  void read_frames() {
    const std::int64_t samples = x_.shape[1];
    const std::int64_t all = samples + args_.pad_begin + args_.pad_end;
    if (all > kMostSamples)
      refuse_extent("x", 1, samples, "at most 2^30 samples with pad_begin and pad_end: split the signal");
    if (args_.padding == QUERN_FFT_REFLECT) {
      for (const auto& [name, pad] : {std::pair{"pad_begin", args_.pad_begin}, {"pad_end", args_.pad_end}}) {
        if (pad > 0 && pad >= samples)
          refuse_value(name, std::int64_t{pad}, ("fewer than x's " + std::to_string(samples) + " to reflect").c_str());
      }
    }
    const std::int64_t frame = problem_.params.given, frames = all < frame ? 0 : (all - frame) / args_.hop + 1;
    if (out_.shape[1] > frames)
      refuse_extent("out", 1, out_.shape[1], ("at most the " + std::to_string(frames) + " frames that x has").c_str());
    expect_extent(out_, "out", 0, x_.shape[0]);
    q::FftParams& p = problem_.params;
    p.samples = static_cast<q::i32>(samples), p.hop = args_.hop, p.pad_begin = args_.pad_begin;
    p.reflect = args_.padding == QUERN_FFT_REFLECT;
    p.x_outer = x_.strides[0], p.x_inner = 0;
  }

  void read_places() {
    q::FftParams& p = problem_.params;
    const int leading = numbers_of_out();
    if (shape_.framed) {
      read_frames();
    } else {
      for (int d = 0; d < leading; ++d) expect_extent(out_, "out", d, x_.shape[d]);
      p.x_outer = leading == 2 ? x_.strides[0] : 0, p.x_inner = x_.strides[leading - 1];
    }
    p.x = x_.data, p.out = out_.data;
    p.x_step = x_.strides[numbers_of_x()], p.out_step = out_.strides[leading];
    p.out_outer = leading == 2 ? out_.strides[0] : 0, p.out_inner = out_.strides[leading - 1];
    const std::int64_t inner = out_.shape[leading - 1], outer = leading == 2 ? out_.shape[0] : 1;
    p.rows = outer * inner;
    if (p.rows > kMostRows)
      refuse_extent("out", leading - 1, inner, "fewer than 2^31 - 65536 rows in all: split the call");
    p.inner = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(inner, 1)));
    shape_.x_pairs = may_pair_x(shape_) && pairs(x_, complex_x_ != 0);
    shape_.out_pairs = may_pair_out(shape_) && pairs(out_, complex_out_ != 0);
  }

  // Whether all rows' numbers lie side by side, in pairs that are aligned to their size.
  bool pairs(const Tensor& t, bool complex) const {
    const int numbers = t.rank - 1 - (complex ? 1 : 0);
    bool even = t.shape[numbers] <= 1 || t.strides[numbers] == (complex ? 2 : 1);
    for (int d = 0; d < numbers; ++d) even = even && t.strides[d] % 2 == 0;
    return even && call_.alignment >= 2 * bytes_of(t.dtype);
  }

  const quern_fft_args& args_;
  const Call& call_;
  const Pairs x_pairs_, out_pairs_;
  Shape shape_;
  Problem problem_{};
  Tensor x_, out_;
  int complex_x_ = 0, complex_out_ = 0;  // dimensions behind the numbers
};

Problem read_problem(const quern_fft_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 1, may_lack_data);
  return Reader(args, call).read();
}

const jit::Kernel* kernel_of(const Problem& problem, const Runtime& runtime, const quern_fft_args& args) {
  return kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

}  // namespace

std::uint64_t workspace(const Runtime& runtime, const quern_fft_args& args) {
  plan_of(read_problem(args, runtime, true).shape, runtime.driver->device().limits);
  return 0;
}

void prepare(const Runtime& runtime, const quern_fft_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  plan_of(problem.shape, runtime.driver->device().limits);
  kernel_of(problem, runtime, args);
}

void run(const Runtime& runtime, const quern_fft_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const Plan plan = plan_of(problem.shape, runtime.driver->device().limits);
  const jit::Kernel* kernel = kernel_of(problem, runtime, args);
  if (problem.params.rows == 0) return;
  std::int64_t blocks = (problem.params.rows + plan.teams - 1) / plan.teams;
  if (args.max_sms > 0) blocks = std::min(blocks, std::int64_t{problem.sms} * blocks_per_sm(plan));
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.block[0] = static_cast<std::uint32_t>(plan.threads());
  launch.shared_bytes = plan.shared_bytes();
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching fft", problem.params);
}

}  // namespace quern::ops::fft
