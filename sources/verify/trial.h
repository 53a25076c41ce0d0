// Random calls of ops by which a cached kernel is tried: the same call on two devices, whose results are held against
// each other, and against a plain loop in double precision where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "capi/quern.h"
#include "jit/bench.h"
#include "sources/op.h"
#include "sources/repeat/repeats.h"
#include "sources/tensor.h"

namespace quern::ops::verify {

using Random = std::mt19937_64;

// What sums in f32 and the device's own exponentials may cost, of a tensor's root mean square.
inline constexpr double kF32Slack = 0x1p-17;
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A tensor of a call, as it is here; numbers are read and written as double, by their place in memory.
class Field {
 public:
  Field(Dtype dtype, std::vector<std::int64_t> shape);
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / bytes_of(dtype); }
  double get(std::int64_t i) const;
  void set(std::int64_t i, double value);  // cut to what the dtype holds; 8-bit floating point is rounded to nearest
  // The tensor of its memory that the call is given instead of all of it, compact.
  Field& view(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps);
  // Of rows: so many elements of each, the rest a gap.
  Field& columns(std::int64_t n) { return view({shape[0], n}, {shape[1], 1}); }
  // It is given, and written too: what is in it afterwards is compared.
  Field& updated(double may_err = 0);
  // Results of 8 bits and integers that are rounded may be so many apart.
  Field& rounded(double steps = 1);
  // Nothing is known of what is in it, until it is told.
  Field& unknown() {
    truth.assign(static_cast<std::size_t>(count()), kUnknown);
    return *this;
  }
  void know(std::int64_t i, double value) { truth[static_cast<std::size_t>(i)] = value; }
  Field& as_unsigned() {
    tensor_.dtype.code = kDLUInt;
    return *this;
  }
  const DLTensor* tensor() const { return &tensor_; }
  void place(void* data, DLDevice device) { tensor_.data = data, tensor_.device = device; }

  const Dtype dtype;
  std::vector<std::int64_t> shape, strides;
  std::vector<unsigned char> bytes;
  bool compared = false;  // a result, which is held against the other device's; else it is given
  // Beside the rounding of its dtype each number may err by so much of the tensor's root mean square.
  double slack = 0;
  double step = 0;            // and by so much
  std::vector<double> truth;  // NaN where it is not known; empty: nothing is

 private:
  DLTensor tensor_{};
};

class Trial {
 public:
  explicit Trial(Random& random) : random_(random) {}

  Random& random() { return random_; }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  Field& given(Dtype dtype, std::vector<std::int64_t> shape);  // random: normal numbers, small codes of 8 bits
  Field& uniform(Dtype dtype, std::vector<std::int64_t> shape, double low, double high);
  Field& integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values, Dtype dtype = Dtype::i32);
  Field& result(Dtype dtype, std::vector<std::int64_t> shape, double slack = 0);

  // Called before results are compared: fills in truths that only a call which is compared needs.
  void later(std::function<void()> fill) { later_ = std::move(fill); }

  template <class Args>
  void call(std::uint64_t (*workspace)(const Runtime&, const Args&), void (*launch)(const Runtime&, const Args&),
            Args args) {
    call_by(workspace, launch, args);
  }
  // The same of anything that can be called so.
  template <class Workspace, class Launch, class Args>
  void call_by(Workspace workspace, Launch launch, Args args) {
    args.size = sizeof(Args);
    call_ = [=, this](const Runtime& runtime, jit::Bench& bench, void** allocated) mutable {
      args.workspace_size = workspace(runtime, args);
      // It is handed out before the launch, which may throw.
      args.workspace = *allocated = bench.allocate(args.workspace_size);
      const std::vector<unsigned char> zeros(args.workspace_size);
      if (args.workspace != nullptr) bench.write(args.workspace, zeros.data(), zeros.size());
      args.stream = bench.stream();
      if (repeats != nullptr) {
        repeats->learn_elsewhere(runtime, Tag{}, launch, args);
        repeats->run(runtime, Tag{}, launch, args);
      } else {
        launch(runtime, args);
      }
    };
  }
  // Kept as long as the trial: what args point to beside tensors.
  template <class T>
  T& keep(T value) {
    auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return *kept;
  }

  // Runs it there and returns the results' bytes, those compared in order. Throws Error.
  std::vector<std::vector<unsigned char>> run(const Runtime& runtime, jit::Bench& bench);

  // The worst of the results against the reference's, and of them against the truth (-1: there is none); 1 is what
  // rounding allows. `where` says where the worst lies.
  struct Verdict {
    double error = 0, truth_error = -1;
    std::string where;
  };
  Verdict compare(const std::vector<std::vector<unsigned char>>& results,
                  const std::vector<std::vector<unsigned char>>& reference);

  std::string what;  // "rows 3, n 4096"
  Repeats* repeats =
      nullptr;  // where given: the call is kept first, as if its tensors lay elsewhere, and then repeated

 private:
  Random& random_;
  std::vector<std::unique_ptr<Field>> fields_;
  std::vector<std::shared_ptr<void>> kept_;
  std::function<void()> later_;
  std::function<void(const Runtime&, jit::Bench&, void** workspace)> call_;
};

// A kernel's constants by name, as its manifest line has them.
class Given {
 public:
  explicit Given(const Constants& constants) : constants_(constants) {}
  std::string text(const char* name, const char* otherwise = "") const;
  std::int64_t integer(const char* name, std::int64_t otherwise = 0) const;
  bool flag(const char* name) const { return integer(name) != 0; }
  Dtype dtype(const char* name, Dtype otherwise = Dtype::other) const;

 private:
  const Constants& constants_;
};

// Rows of about so many elements (a multiple of 8), lying so that these constants' accesses are what they allow: rows
// that end within a vector are whole vectors apart, and accesses of 2 bytes take rows at odd distances.
struct RowPlaces {
  RowPlaces(const Given& given, std::int64_t length)
      : n(length - (given.flag("tail") ? 3 : 0)),
        step(length + (given.integer("access", 16) == 2 ? 1 : 0)),
        alignment(static_cast<std::int32_t>(std::max<std::int64_t>(given.integer("access", 16), 4))) {}
  std::int64_t n, step;
  std::int32_t alignment;
};

// Calls of an op that may choose the kernel with these constants: each is made when it is asked for, number 0 to
// count - 1, and few of them launch it.
struct OpTrials {
  void (*make)(const Given& given, int which, Trial& trial);
  int count = 1;
  // Why there are none for these constants; "" where there are.
  std::string (*refusal)(const Given& given) = nullptr;
};
// Those of sources/OP/trial.cpp. Null: there is no op of this name.
const OpTrials* trials_of(std::string_view op);

}  // namespace quern::ops::verify

#define QUERN_OP(name, ...)             \
  namespace quern::ops::name {          \
  extern const verify::OpTrials trials; \
  }
#include "sources/ops.def"
#undef QUERN_OP
