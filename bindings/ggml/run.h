// What the ops of a graph are launched with: quern's context, the workspace, memory for what lies between two launches,
// and ggml's tensors as quern takes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ggml.h>
#include <quern.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory.h"
#include "widened.h"

namespace quern::ggml {

// What quern refused or failed at, in its words.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr DLDataType kF32 = {kDLFloat, 32, 1}, kF16 = {kDLFloat, 16, 1}, kBf16 = {kDLBfloat, 16, 1},
                     kI8 = {kDLInt, 8, 1}, kU8 = {kDLUInt, 8, 1}, kI32 = {kDLInt, 32, 1}, kI64 = {kDLInt, 64, 1};

// ggml's element types that quern has too; bits 0 for others.
DLDataType type_of(const ggml_tensor* tensor);
inline bool has_type(const ggml_tensor* tensor, std::initializer_list<ggml_type> types) {
  for (const ggml_type type : types) {
    if (tensor->type == type) return true;
  }
  return false;
}
// Whether strides are whole elements, which all but views of other types' memory have.
bool is_even(const ggml_tensor* tensor);

inline float float_parameter(const ggml_tensor* tensor, int place) {
  return reinterpret_cast<const float*>(tensor->op_params)[place];
}

// Up to six dimensions, the slowest first, in elements.
struct View {
  void* data = nullptr;
  DLDataType type = {};
  std::vector<std::int64_t> shape, strides;

  // A part: without the first dimension, at this place of it.
  [[nodiscard]] View at(std::int64_t place) const;
  // The dimensions in another order.
  [[nodiscard]] View turned(std::initializer_list<int> order) const;
  [[nodiscard]] std::int64_t count() const;
};
// All four dimensions, ggml's last first.
View view_of(const ggml_tensor* tensor);

class Run {
 public:
  Run(Memory& memory, Widened& widened, quern_context* context)
      : memory_(memory), widened_(widened), context_(context) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // For the time of the launches of one node.
  const DLTensor* tensor(const View& view);
  // Memory of the device until the node's launches are done.
  View scratch(DLDataType type, std::vector<std::int64_t> shape);
  // A few numbers on the device. They are put there once, and stay while graphs ask for them.
  View numbers(const std::vector<std::int32_t>& values);
  View factors(const std::vector<float>& values);
  [[nodiscard]] const quern_expression* expression(const char* formula);
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] Widened& widened() { return widened_; }
  // What a graph's nodes share, keyed by what it was made of: forgotten with the graph. A graph's tensors may take
  // turns in the same memory, so that an address alone says too little.
  struct Origin {
    const ggml_tensor* tensor;
    View view;
    bool operator==(const Origin& other) const {
      return tensor == other.tensor && view.data == other.view.data && view.shape == other.view.shape &&
             view.strides == other.view.strides;
    }
  };
  struct Mask {
    Origin of;
    View bits, indptr, keys;
    bool is_binary;
  };
  std::vector<Mask>& masks() { return masks_; }
  struct Angles {
    Origin positions, factors;
    std::array<float, 3> numbers;  // base, frequency scale, attention factor
    std::int64_t dimensions;
    View table, places;
  };
  std::vector<Angles>& angles() { return angles_; }
  // Keeps what the last node had in scratch for the rest of the graph.
  void keep_scratch();

  void end_node();
  void end_graph();

  // Launches an op whose tensors are set.
  template <typename Args>
  void launch(Args& args, std::int32_t (*call)(quern_context*, const Args*, quern_error*),
              std::int32_t (*workspace)(quern_context*, const Args*, std::uint64_t*, quern_error*)) {
    args.size = sizeof args;
    args.alignment = alignment();
    quern_error error = {};
    error.size = sizeof error;
    std::uint64_t bytes = 0;
    check(workspace(context_, &args, &bytes, &error), error);
    args.workspace = bytes == 0 ? nullptr : workspace_of(bytes);
    args.workspace_size = bytes;
    const std::int32_t status = call(context_, &args, &error);
    if (status != QUERN_OK && status != QUERN_MISS && status != QUERN_PENDING && status != QUERN_INVALID) {
      drop_workspace();
    }
    check(status, error);
    forget_tensors();
  }
#define QUERN_LAUNCH(run, op, args) (run).launch(args, quern_##op, quern_##op##_workspace)

  // outputs of these operands by a formula; copies with casts.
  void pointwise(const char* formula, const std::vector<View>& operands, const View& out,
                 const std::vector<float>& scalars = {});
  void copy(const View& from, const View& to);

 private:
  struct Held {
    DLTensor tensor;
    std::array<std::int64_t, 12> extents;
  };
  struct Chunk {
    char* memory;
    std::size_t bytes, used;
  };
  void check(std::int32_t status, const quern_error& error);
  [[nodiscard]] std::int32_t alignment() const;
  void forget_tensors();
  void* workspace_of(std::uint64_t bytes);
  void drop_workspace();  // a failed launch may leave it half-written

  Memory& memory_;
  Widened& widened_;
  quern_context* context_;
  std::vector<std::unique_ptr<Held>> tensors_;
  std::uint64_t places_ = 16;  // addresses and strides, or-ed: what all are aligned to
  std::vector<Chunk> chunks_;
  std::size_t kept_chunks_ = 0;  // these stay until the graph's end
  std::vector<Mask> masks_;
  std::vector<Angles> angles_;
  std::map<std::vector<std::int32_t>, void*> numbers_;
  char* numbers_memory_ = nullptr;
  std::size_t numbers_used_ = 0;
  void* workspace_ = nullptr;
  std::uint64_t workspace_bytes_ = 0;
};

}  // namespace quern::ggml
