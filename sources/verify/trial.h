// Random calls of ops by which a cached kernel is tried: the same call on two devices, whose results are held against
// each other, and against a plain loop in double precision where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "capi/quern.h"
#include "jit/bench.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::verify {

using Random = std::mt19937_64;

// A tensor of a call, as it is here; numbers are read and written as double.
class Field {
 public:
  Field(Dtype dtype, std::vector<std::int64_t> shape);
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / bytes_of(dtype); }
  double get(std::int64_t i) const;
  void set(std::int64_t i, double value);  // f16, bf16, f32 and integers
  const DLTensor* tensor() const { return &tensor_; }
  void place(void* data, DLDevice device) { tensor_.data = data, tensor_.device = device; }

  const Dtype dtype;
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;
  bool compared = false;  // a result, which is held against the other device's; else it is given
  // Beside the rounding of its dtype each number may err by so much of the tensor's root mean square.
  double slack = 0;
  std::vector<double> truth;  // NaN where it is not known; empty: nothing is

 private:
  DLTensor tensor_{};
};

class Trial {
 public:
  explicit Trial(Random& random) : random_(random) {}

  Field& given(Dtype dtype, std::vector<std::int64_t> shape);  // random: normal numbers, small codes of 8 bits
  Field& integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values);
  Field& result(Dtype dtype, std::vector<std::int64_t> shape, double slack);

  template <class Args>
  void call(std::uint64_t (*workspace)(const Runtime&, const Args&), void (*launch)(const Runtime&, const Args&),
            Args args) {
    args.size = sizeof(Args);
    call_ = [=](const Runtime& runtime, jit::Bench& bench, void** allocated) mutable {
      args.workspace_size = workspace(runtime, args);
      // It is handed out before the launch, which may throw.
      args.workspace = *allocated = bench.allocate(args.workspace_size);
      const std::vector<unsigned char> zeros(args.workspace_size);
      if (args.workspace != nullptr) bench.write(args.workspace, zeros.data(), zeros.size());
      args.stream = bench.stream();
      launch(runtime, args);
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
                  const std::vector<std::vector<unsigned char>>& reference) const;

  std::string what;  // "rows 3, n 4096"

 private:
  Random& random_;
  std::vector<std::unique_ptr<Field>> fields_;
  std::vector<std::shared_ptr<void>> kept_;
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

// Calls of an op that may choose the kernel with these constants, each made when it is asked for; few of them do.
struct OpTrials {
  const char* op;
  // Why there are none for these constants; "" where there are.
  std::string (*refusal)(const Given& given);
  int (*count)(const Given& given);
  std::unique_ptr<Trial> (*make)(const Given& given, int which, Random& random);
};
// Null where no trial is made for the op.
const OpTrials* trials_of(std::string_view op);

extern const OpTrials kMergeState, kRmsnorm, kSoftmax, kArgmax, kGather, kMoeCombine, kRope, kGemm, kAttention;

}  // namespace quern::ops::verify
