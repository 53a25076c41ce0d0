// The ops as data, for bindings that meet an op's arguments by their names at run time: Node.js, TVM-FFI, JAX. What is
// known of them is made of quern.h (ops.inc). Nothing here calls anything but quern.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace quern::described {

enum Kind { kTensor, kTensors, kInt32, kUint32, kInt64, kUint64, kFloat, kDouble, kFloats, kExpression, kPart };

struct Field {
  const char* name;
  Kind kind;
  std::size_t offset;
  std::size_t count;  // of a list: where its length goes; of kPart, a struct that the args point to: its size
};

struct Op {
  const char* name;
  std::size_t size;
  std::int32_t (*run)(quern_context*, const void*, quern_error*);
  std::int32_t (*prepare)(quern_context*, const void*, quern_error*);
  std::int32_t (*workspace)(quern_context*, const void*, std::uint64_t*, quern_error*);
  std::vector<Field> fields;  // those behind a kPart are the part's
};

const std::vector<Op>& ops();

struct Constant {
  const char* name;
  std::int64_t value;
};
const std::vector<Constant>& constants();

// What every op's args struct begins with.
using Common = quern_merge_state_args;

// A call was refused, by quern or before it got there.
struct Refused : std::runtime_error {
  Refused(std::int32_t status, const std::string& text) : std::runtime_error(text), status(status) {}
  std::int32_t status;
};

quern_error blank();
// Throws what a call of quern.h returned.
void check(std::int32_t status, const quern_error& error);

// An op's args struct, filled by name, and what it points to. Tensors given by address are the caller's to keep.
class Arguments {
 public:
  explicit Arguments(const Op& op);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Where an argument goes. Throws where the op has none of this name.
  struct Place {
    const Field* field;
    std::byte* memory;  // of the struct that the field lies in
  };
  [[nodiscard]] Place place(std::string_view name);

  void tensor(const Place& place, const DLTensor* tensor);
  void tensors(const Place& place, std::vector<const DLTensor*> tensors);
  void integer(const Place& place, std::int64_t value);
  void number(const Place& place, double value);
  void floats(const Place& place, std::vector<float> values);
  void expression(const Place& place, quern_context* context, const std::string& formula);
  // A compact tensor that these arguments hold.
  const DLTensor* own(void* data, DLDevice device, DLDataType type, const std::int64_t* shape, std::size_t dimensions);

  [[nodiscard]] const Op& op() const { return op_; }
  [[nodiscard]] const void* get() const { return memory_.data(); }
  [[nodiscard]] Common& common() { return *reinterpret_cast<Common*>(memory_.data()); }

 private:
  struct Tensor {
    DLTensor tensor = {};
    std::vector<std::int64_t> shape;
  };
  std::byte* struct_of(const Field* part);

  const Op& op_;
  alignas(16) std::array<std::byte, 2048> memory_ = {};
  std::vector<std::unique_ptr<Tensor>> owned_;
  std::vector<std::vector<const DLTensor*>> lists_;  // moved, their elements stay where they are
  std::vector<std::vector<float>> numbers_;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> parts_;
};

}  // namespace quern::described
