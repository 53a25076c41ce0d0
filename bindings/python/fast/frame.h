// The memory of one call: the args struct, what it points to, and the tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bindings/python/fast/launcher.h"
#include "bindings/python/fast/tensors.h"

namespace quern::python {

// Lives on the stack of the call, and refers to itself: never moved.
class Frame {
 public:
  Frame(const Op& op, Launcher& launcher);

  // Reads the arguments: those of a call, and a dict of more or NULL. False, maybe with an exception, where one is not
  // for here.
  bool fill(PyObject* const* values, PyObject* names, PyObject* more);
  // Chooses the stream; as above.
  bool choose_stream();
  // Launches, with a workspace of its own where the caller gave none. False with an exception.
  bool run(PyObject* const* values, Py_ssize_t count);

 private:
  static constexpr std::size_t kMaxTensors = 64, kMaxListed = 48;

  bool take(PyObject* name, PyObject* value);
  void find_alignment(const Argument& argument);
  bool put(const Argument& argument, PyObject* value);
  bool put_list(const Argument& argument, PyObject* value);
  bool put_floats(const Argument& argument, PyObject* value);
  bool put_expression(const Argument& argument, PyObject* value);
  bool put_integer(const Argument& argument, PyObject* value);
  bool take_workspace(PyObject* value);
  void take_kept();
  bool find_workspace(PyObject* const* values, Py_ssize_t count, bool* larger);
  bool allocate(PyObject* const* values, Py_ssize_t count, std::uint64_t bytes, bool keep);
  void drop_workspace();
  void raise_flag(const Argument& argument);
  const DLTensor* read(PyObject* value);

  template <typename Value>
  void store(std::size_t part, std::size_t offset, Value value);
  std::byte* use(std::size_t part);

  // What every op's args struct begins with.
  using Common = quern_merge_state_args;
  Common& common() { return *reinterpret_cast<Common*>(parts_[0].data()); }

  const Op& op_;
  Launcher& launcher_;
  TensorReader reader_;
  bool own_workspace_ = false, given_stream_ = false;
  const Argument* found_alignment_ = nullptr;  // the argument that says "found"
  Owned fresh_workspace_;                      // a graph's own
  std::size_t tensor_count_ = 0, listed_count_ = 0, float_count_ = 0;
  std::array<bool, kMaxParts> used_ = {};
  alignas(16) std::array<std::array<std::byte, kPartBytes>, kMaxParts> parts_;
  std::array<View, kMaxTensors> tensors_;
  std::array<const DLTensor*, kMaxListed> listed_;
  std::array<float, kMaxListed> floats_;
};

}  // namespace quern::python
