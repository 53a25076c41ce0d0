// Small calls of ops that point by index tensors, right as they are, and how each tensor is spoiled: what the checked
// form must tell of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/rows.h"

namespace quern::test {

inline constexpr std::int64_t kNone = -1;

// A small call of an op that is right, with the index tensors that a test spoils.
class Trial {
 public:
  explicit Trial(std::string op) : op_(std::move(op)) {}

  Array& add(Array array) { return *arrays_.emplace_back(std::make_unique<Array>(std::move(array))); }
  Array& numbers(Element element, Array::Extents shape) {
    Array& made = add(Array(element, shape));
    std::vector<std::int64_t> extents = std::move(shape);
    extents.resize(4, 1);
    const auto rank = static_cast<int>(made.box().tensor.ndim);
    for (std::int64_t i = 0; i < extents[0] * extents[1] * extents[2] * extents[3]; ++i) {
      const std::int64_t d = i % extents[3], c = i / extents[3] % extents[2],
                         b = i / extents[3] / extents[2] % extents[1], a = i / extents[3] / extents[2] / extents[1];
      const double value = random_.normal();
      rank == 4   ? made.set(value, a, b, c, d)
      : rank == 3 ? made.set(value, a, b, c)
      : rank == 2 ? made.set(value, a, b)
                  : made.set(value, a);
    }
    return made;
  }
  Array& integers(Array::Extents shape, const std::vector<std::int64_t>& values) {
    Array& made = add(Array(IntegerBits{32}, shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      shape.size() == 2 ? made.set_integer(values[i], at / shape[1], at % shape[1]) : made.set_integer(values[i], at);
    }
    return made;
  }
  Array& written(Element element, Array::Extents shape) { return *outputs_.emplace_back(&add(Array(element, shape))); }
  Array& written(IntegerBits bits, Array::Extents shape) { return *outputs_.emplace_back(&add(Array(bits, shape))); }

  // The same call on a stream, workspace and kernels being ready.
  std::int32_t enqueue(quern_context* in, void* stream, quern_error* error) { return enqueue_(in, stream, error); }
  void upload() {
    for (const auto& array : arrays_) array->upload();
  }
  void download() {
    for (const auto& array : arrays_) array->download();
  }

  template <class Args>
  void calls(const ThreeCalls<Args>& op, Args args) {
    run_ = [this, op, args](quern_context* in, quern_error* error) mutable {
      std::uint64_t bytes = 0;
      std::int32_t status = op.workspace(in, &args, &bytes, error);
      if (workspace_ == nullptr) workspace_ = std::make_unique<Buffer>(bytes, 0);
      args.workspace = bytes != 0 ? workspace_->data() : nullptr, args.workspace_size = bytes;
      if (status == QUERN_OK) status = op.prepare(in, &args, error);
      args.flags |= QUERN_CALL_CACHED_ONLY;
      return status != QUERN_OK ? status : op.run(in, &args, error);
    };
    enqueue_ = [this, op, args](quern_context* in, void* stream, quern_error* error) mutable {
      args.workspace = workspace_->data(), args.workspace_size = workspace_->size();
      args.stream = stream;
      return op.run(in, &args, error);
    };
  }

  // Runs it with what the arrays hold, outputs poisoned before.
  std::int32_t run(quern_context* in, quern_error* error) {
    for (const auto& array : arrays_) array->upload();
    const std::int32_t status = run_(in, error);
    synchronize();
    for (const auto& array : arrays_) array->download();
    return status;
  }
  bool has_written_nothing() const {
    for (const Array* output : outputs_) {
      for (const unsigned char byte : output->memory())
        if (byte != 0xff) return false;
    }
    return true;
  }
  const std::string& op() const { return op_; }
  const std::vector<Array*>& outputs() const { return outputs_; }

 private:
  std::string op_;
  Random random_{"checked"};
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<Array*> outputs_;
  std::unique_ptr<Buffer> workspace_;
  std::function<std::int32_t(quern_context*, quern_error*)> run_;
  std::function<std::int32_t(quern_context*, void*, quern_error*)> enqueue_;
};

// How an index tensor is spoiled, and what must be told.
struct Spoiled {
  Array* array;
  std::int64_t row, column;  // column kNone: the array has one dimension
  std::int64_t value;
  const char* argument;
  std::int64_t told_row, told_column;
  const char* text;
};
struct Built {
  std::unique_ptr<Trial> trial;
  std::vector<Spoiled> mistakes;
};

#define QUERN_CALLS(op) \
  ThreeCalls<quern_##op##_args> { quern_##op, quern_##op##_workspace, quern_##op##_prepare }

struct Maker {
  const char* name;
  Built (*make)();
};
inline std::ostream& operator<<(std::ostream& out, const Maker& maker) { return out << maker.name; }

// Each makes the call anew.
std::span<const Maker> checked_makers();
const Maker& checked_maker(const std::string& name);

}  // namespace quern::test
