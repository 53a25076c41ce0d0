// Tuning: runs the candidates for a product of so many rows on the device, on operands of random numbers, and times
// them in alternation.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "jit/error.h"
#include "sources/constants.h"
#include "sources/gemm/plan/tunings.h"
#include "sources/manifest.h"
#include "sources/workspace.h"

namespace quern::ops::gemm {
namespace {

// The model's choice stands unless another is faster by more than this: smaller differences come from the device's
// clock.
constexpr double kWorthLeaving = 0.98;
// Several sets of operands are used in turn, together this many times as large as the L2 (within bounds), so that
// operands come from memory as in a model whose weights exceed the L2.
constexpr std::uint64_t kTimesL2 = 4, kMostSets = 64;
// Candidates are measured in alternation, so that changes of the device's clock affect all of them.
constexpr int kRounds = 5;
constexpr int kMostLaunches = 2000;

struct Product {
  Shape shape;
  std::int64_t n, k, batch;
};

Product read_product(Tag op, const Constants& given) {
  Constants extents, rest;
  for (const jit::Constant& constant : given) {
    if (constant.name == "variant") {
      throw Error(QUERN_INVALID, std::string(all()[op].name) + ": variant is \"" + constant.value +
                                     "\"; it is what tuning finds, and must not be given");
    }
    (constant.name == "n" || constant.name == "k" || constant.name == "batch" ? extents : rest).push_back(constant);
  }
  rest.push_back({"variant", name_of(Variant::tiny)});
  Product product;
  product.shape = from_constants(rest, op);
  ConstantReader reader(all()[op].name, extents);
  product.n = reader.integer("n", 1, INT32_MAX, 1);
  product.k = reader.integer("k", 1, INT32_MAX, 1);
  product.batch = op == tag_gemm ? reader.integer("batch", 1, INT32_MAX, 1, 1) : 1;
  reader.finish();
  return product;
}

std::string text_of(const Product& product, Tag op) {
  return constants_text(product_constants(product.shape, op, {product.n, product.k, product.batch}));
}

DLDataType dlpack(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return {kDLFloat, 16, 1};
    case Dtype::bf16:
      return {kDLBfloat, 16, 1};
    case Dtype::e4m3:
      return {kDLFloat8_e4m3fn, 8, 1};
    case Dtype::e5m2:
      return {kDLFloat8_e5m2, 8, 1};
    default:
      return {kDLFloat, 32, 1};
  }
}

// A DLTensor with its shape.
class Operand {
 public:
  // `column`: the dimension before the last is the contiguous one.
  Operand(Dtype dtype, std::vector<std::int64_t> shape, bool column, const Place& place)
      : dtype_(dtype), shape_(std::move(shape)), strides_(shape_.size()) {
    const std::size_t last = shape_.size() - 1;
    std::int64_t next = 1;
    const auto put = [&](std::size_t dimension) {
      strides_[dimension] = next;
      // Rows begin at multiples of 16 bytes, which every kernel accepts.
      next *= shape_[dimension];
      if (next == shape_[dimension]) next = (next + 15) / 16 * 16;
    };
    if (column && last > 0) {
      put(last - 1), put(last);
    } else {
      put(last);
      if (last > 0) put(last - 1);
    }
    for (std::size_t d = last >= 2 ? last - 1 : 0; d-- > 0;) put(d);
    bytes_ = static_cast<std::uint64_t>(next * bytes_of(dtype));
    tensor_.device = {place.device_type, place.device_id};
    tensor_.ndim = static_cast<std::int32_t>(shape_.size());
    tensor_.dtype = dlpack(dtype);
  }
  std::uint64_t bytes() const { return bytes_; }
  Dtype dtype() const { return dtype_; }
  const DLTensor* at(void* data) {
    tensor_.data = data;
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.data();
    return &tensor_;
  }

 private:
  Dtype dtype_;
  std::vector<std::int64_t> shape_, strides_;
  std::uint64_t bytes_ = 0;
  DLTensor tensor_{};
};

// Fills memory with numbers of random signs and mantissas and magnitudes between 1/2 and 2: the power that a device
// draws, and so its clock, depends on the bits.
class RandomBytes {
 public:
  void fill(jit::Bench& bench, void* memory, std::uint64_t bytes, Dtype dtype) {
    for (std::uint64_t& word : words_) word = one(dtype);
    const std::uint64_t step = words_.size() * sizeof(words_[0]);
    for (std::uint64_t at = 0; at < bytes; at += step) {
      bench.write(static_cast<std::uint8_t*>(memory) + at, words_.data(), std::min(step, bytes - at));
    }
  }

 private:
  std::uint64_t one(Dtype dtype) {
    state_ += 0x9e3779b97f4a7c15u;  // splitmix64
    std::uint64_t x = state_;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    switch (dtype) {
      case Dtype::e4m3:
      case Dtype::e5m2:
        return (x & 0x8787878787878787u) | 0x3030303030303030u;
      case Dtype::bf16:
        return (x & 0x80ff80ff80ff80ffu) | 0x3f003f003f003f00u;
      case Dtype::f16:
        return (x & 0x87ff87ff87ff87ffu) | 0x3800380038003800u;
      default:
        return (x & 0x80ffffff80ffffffu) | 0x3f0000003f000000u;
    }
  }

  std::uint64_t state_ = 1;
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(1 << 16);
};

// Several sets of operands of one product of so many rows, and the problem of each.
class Rig {
 public:
  Rig(Tag op, const Product& product, std::int64_t rows, const Runtime& runtime, jit::Bench& bench)
      : op_(op),
        product_(product),
        runtime_(runtime),
        bench_(bench),
        device_(runtime.driver->device()),
        place_{device_.device_type, device_.device_id, true},
        a_(product.shape.a, led({rows, product.k}), product.shape.transposed_a, place_),
        b_(product.shape.b, led({product.n, product.k}), product.shape.transposed_b, place_),
        out_(product.shape.out, led({rows, columns()}), false, place_) {
    const std::int64_t blocks = (product.k + 127) / 128;
    const bool in_blocks = product.shape.scales == Scales::blocks;
    scales_.emplace_back(Dtype::f32, in_blocks ? std::vector{rows, blocks} : std::vector{rows}, in_blocks, place_);
    scales_.emplace_back(Dtype::f32, in_blocks ? std::vector{(product.n + 127) / 128, blocks} : std::vector{product.n},
                         false, place_);
    out_scale_.emplace(Dtype::f32, led({rows, (columns() + 127) / 128}), false, place_);
    for (std::size_t i = 0; i < product.shape.operands.size(); ++i) {
      const expression::OperandKind kind = product.shape.epilogue->operands[i];
      if (kind == expression::OperandKind::unused) continue;
      const bool row = kind == expression::OperandKind::row, column = kind == expression::OperandKind::column;
      std::vector<std::int64_t> shape =
          column ? std::vector{columns()} : led(row ? std::vector{rows} : std::vector{rows, columns()});
      operands_[i].emplace(product.shape.operands[i], std::move(shape), false, place_);
    }
  }

  // The problem of a call without data. Throws Error(QUERN_INVALID) for extents that no call could have.
  Problem shape() { return problem({}, nullptr); }

  // Allocates and fills as many sets of operands as the size of the L2 asks for.
  void load(std::uint64_t workspace_bytes) {
    RandomBytes random;
    const auto filled = [&](const Operand& operand) {
      void* memory = bench_.allocate(operand.bytes());
      random.fill(bench_, memory, operand.bytes(), operand.dtype());
      return memory;
    };
    Shared shared;
    if (product_.shape.scales != Scales::none) shared.scale_a = filled(scales_[0]), shared.scale_b = filled(scales_[1]);
    if (product_.shape.out_scale) shared.out_scale = bench_.allocate(out_scale_->bytes());
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i]) shared.operands[i] = filled(*operands_[i]);
    }
    if (workspace_bytes > 0) {
      workspace_ = bench_.allocate(workspace_bytes);
      workspace_bytes_ = workspace_bytes;
      const std::vector<std::uint8_t> zeros(kCounterBytes);
      bench_.write(workspace_, zeros.data(), std::min<std::uint64_t>(zeros.size(), workspace_bytes));
    }
    const std::uint64_t each = a_.bytes() + b_.bytes() + out_.bytes();
    const std::uint64_t wanted = std::min(kTimesL2 * device_.l2_bytes, device_.memory_bytes / 4);
    const std::uint64_t sets = std::clamp<std::uint64_t>((wanted + each - 1) / each, 2, kMostSets);
    for (std::uint64_t i = 0; i < sets; ++i) {
      const Set set{filled(a_), filled(b_), bench_.allocate(out_.bytes())};
      problems_.push_back(problem(set, &shared));
    }
  }

  void launch(const Choice& choice) {
    Problem problem = problems_[next_++ % problems_.size()];
    launch_as(runtime_, problem, choice, workspace_, workspace_bytes_);
  }
  std::size_t sets() const { return problems_.size(); }

 private:
  struct Set {
    void *a = nullptr, *b = nullptr, *out = nullptr;
  };
  struct Shared {
    void *scale_a = nullptr, *scale_b = nullptr, *out_scale = nullptr;
    std::array<void*, q::kMaxOperands> operands{};
  };

  std::int64_t columns() const { return product_.shape.gate ? product_.n / 2 : product_.n; }
  std::vector<std::int64_t> led(std::vector<std::int64_t> shape) const {
    if (product_.batch != 1) shape.insert(shape.begin(), product_.batch);
    return shape;
  }

  Problem problem(const Set& set, const Shared* shared) {
    const Shape& shape = product_.shape;
    const Shared none, &data = shared != nullptr ? *shared : none;
    std::array<const DLTensor*, q::kMaxOperands> operands{};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i]) operands[i] = operands_[i]->at(data.operands[i]);
    }
    const std::array<float, q::kMaxScalars> scalars = {1, 1, 1, 1, 1, 1, 1, 1};
    quern_epilogue epilogue{};
    epilogue.size = sizeof(epilogue);
    epilogue.flags = shape.gate ? QUERN_EPILOGUE_GATE : 0;
    epilogue.expression = shape.epilogue;
    epilogue.operands = operands.data();
    epilogue.operand_count = static_cast<std::uint32_t>(operands.size());
    epilogue.scalars = scalars.data();
    epilogue.scalar_count = static_cast<std::uint32_t>(scalars.size());
    if (shape.out_scale) epilogue.out_scale = out_scale_->at(data.out_scale);
    const auto common = [&](auto args) {
      args.size = sizeof(args);
      args.stream = bench_.stream();
      args.alignment = shape.copy_bytes;
      args.a = a_.at(set.a), args.b = b_.at(set.b), args.out = out_.at(set.out);
      args.epilogue = &epilogue;
      return args;
    };
    const bool may_lack_data = shared == nullptr;
    if (op_ == tag_gemm) {
      quern_gemm_args args = common(quern_gemm_args{});
      args.flags = shape.a == Dtype::f32 ? QUERN_GEMM_TF32 : 0;
      return read_problem(args, runtime_, may_lack_data);
    }
    quern_fp8_gemm_args args = common(quern_fp8_gemm_args{});
    args.scale_a = scales_[0].at(data.scale_a), args.scale_b = scales_[1].at(data.scale_b);
    return read_problem(args, runtime_, may_lack_data);
  }

  const Tag op_;
  const Product& product_;
  const Runtime& runtime_;
  jit::Bench& bench_;
  const jit::DeviceInfo& device_;
  const Place place_;
  Operand a_, b_, out_;
  std::vector<Operand> scales_;
  std::optional<Operand> out_scale_;
  std::array<std::optional<Operand>, q::kMaxOperands> operands_;
  void* workspace_ = nullptr;
  std::uint64_t workspace_bytes_ = 0;
  std::vector<Problem> problems_;
  std::size_t next_ = 0;
};

// Compiles the kernels of all choices, several at a time.
void compile(const std::vector<Choice>& choices, Problem shape, const Runtime& runtime) {
  const std::uint32_t flags = shape.flags;
  for (const std::uint32_t how : {flags | QUERN_CALL_BACKGROUND, flags}) {
    shape.flags = how;
    for (const Choice& choice : choices) {
      try {
        kernel_of(runtime, shape, choice.variant);
      } catch (const Error& error) {
        if (error.status() != QUERN_PENDING) throw;
      }
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The microseconds of a launch of each choice.
std::vector<double> measure(const std::vector<Choice>& choices, double milliseconds, Rig& rig, jit::Bench& bench) {
  const auto timed = [&](const Choice& choice, int launches) {
    bench.start();
    for (int i = 0; i < launches; ++i) rig.launch(choice);
    return bench.stop() / launches;
  };
  std::vector<int> launches;
  for (const Choice& choice : choices) {
    timed(choice, 1);
    const double once = std::max(timed(choice, 2), 0.1);
    launches.push_back(static_cast<int>(std::clamp(1e3 * milliseconds / (kRounds * once), 1.0, double{kMostLaunches})));
  }
  std::vector<std::vector<double>> times(choices.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < choices.size(); ++i) times[i].push_back(timed(choices[i], launches[i]));
  }
  std::vector<double> medians;
  for (std::vector<double>& of_one : times) medians.push_back(median(std::move(of_one)));
  return medians;
}

}  // namespace

TuneFinding tune_product(Tag op, const Runtime& runtime, const Constants& given, std::int64_t rows,
                         const TuneOptions& options) {
  const Product product = read_product(op, given);
  const std::unique_ptr<jit::Bench> bench = runtime.driver->bench();
  Rig rig(op, product, rows, runtime, *bench);
  const Problem shape = rig.shape();
  TuneFinding finding;
  finding.product = text_of(product, op);
  // All numbers of rows of a class are treated alike.
  const Sizes sizes{row_class(rows), product.batch};
  const Choice model = by_model(shape, sizes);
  finding.model_choice = Tunings::text_of(model);
  const std::span<const TunedRows> known = runtime.tunings->all(shape);
  const auto found = std::find_if(known.begin(), known.end(), [&](const TunedRows& tuned) {
    return tuned.batch == product.batch && tuned.rows == row_class(rows);
  });
  const auto tell = [&](const TunedRows& tuned) {
    finding.choice = Tunings::text_of(tuned.choice);
    finding.microseconds = tuned.microseconds, finding.model_microseconds = tuned.model_microseconds;
  };
  if (found != known.end() && !options.again) {
    finding.outcome = TuneFinding::Outcome::known;
    tell(*found);
    return finding;
  }
  if (options.list_only) {
    finding.outcome = TuneFinding::Outcome::absent;
    return finding;
  }

  const std::vector<Choice> choices = candidates(shape, sizes);
  compile(choices, shape, runtime);
  std::uint64_t workspace = 0;
  for (const Choice& choice : choices) workspace = std::max(workspace, workspace_bytes(shape, choice.variant));
  rig.load(workspace);
  const std::vector<double> times = measure(choices, options.milliseconds, rig, *bench);
  const auto model_at = static_cast<std::size_t>(std::find(choices.begin(), choices.end(), model) - choices.begin());
  const auto least_at = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const std::size_t best = times[least_at] < kWorthLeaving * times[model_at] ? least_at : model_at;
  const TunedRows tuned{product.batch, row_class(rows), choices[best], times[best], times[model_at]};
  runtime.tunings->keep(shape, tuned);
  finding.outcome = TuneFinding::Outcome::measured;
  finding.candidates = static_cast<int>(choices.size());
  tell(tuned);
  return finding;
}

}  // namespace quern::ops::gemm
