// Python's arrays as DLTensors, for the time of a call. What is not read here at once is left to the package's
// tensor.py, which takes more and says what is wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bindings/python/fast/exchange.h"
#include "bindings/python/fast/limited.h"

namespace quern::python {

inline constexpr int kMaxDimensions = 8;

// A tensor with its extents and what keeps its memory where the caller's array does not: filled in place, never moved.
struct View {
  DLTensor tensor;
  std::array<std::int64_t, 2 * kMaxDimensions> extents;
};

// How arrays of a type are read. The package's compiled.py knows these numbers.
enum class How : long { kElsewhere = 0, kNumpy = 1, kTensor = 2, kExchange = 3, kTorch = 4, kCapsule = 5, kView = 6 };

// How arrays are read: the package's own functions, set once.
struct Readers {
  Owned kind_of;    // (type) -> (enum How, what it takes: a capsule of an ExchangeApi, or (array) -> a DLPack capsule)
  Owned dtype_of;   // (a NumPy dtype) -> (DLPack code, bits), or None
  Owned grad_mode;  // () -> PyTorch's is_grad_enabled, asked when one of its tensors has been seen
};

// Reads arrays of one call. Everything refers to Python objects and needs the GIL.
class TensorReader {
 public:
  explicit TensorReader(std::int32_t device_type) : device_type_(device_type) {}

  // False without an exception: the array is not for here.
  bool read(PyObject* array, View& view);

  // Of the framework whose tensors were read, NULL where there were none of such a one.
  [[nodiscard]] const ExchangeApi* exchange() const { return exchange_; }

 private:
  static constexpr int kMaxCapsules = 24;

  bool from_exchange(PyObject* array, const ExchangeApi& api, bool torch, View& view);
  bool from_capsule(PyObject* array, PyObject* exporter, View& view);
  bool from_tensor(PyObject* tensor, View& view);
  bool from_view(PyObject* object, View& view);
  bool loses_gradient(PyObject* array);

  std::int32_t device_type_;
  const ExchangeApi* exchange_ = nullptr;
  int grad_enabled_ = -1;  // not asked yet
  int capsule_count_ = 0;
  std::array<Owned, kMaxCapsules> capsules_;
};

// What a tensor of PyTorch's says through its exchange API. False without an exception where it is none, or of a
// subclass.
bool read_torch(PyObject* array, DLTensor& tensor);

// An array that lies still, NumPy's or PyTorch's; `api` is set where it is the latter. False without an exception where
// it is neither, or is not for here.
bool read_in_place(PyObject* array, View& view, const ExchangeApi** api);

// The extents and so on of NumPy's and PyTorch's arrays and of Views, in `memory` where they lie nowhere else; NULL
// without an exception of others.
const DLTensor* layout_of(PyObject* array, View& memory);

// shape(array): its extents, a tuple; element(array): DLPack's code of its elements times 256, and their bits. None
// where it is not read here.
PyObject* shape(PyObject* module, PyObject* array);
PyObject* element(PyObject* module, PyObject* array);

// alignment(arrays): the bytes, up to 16, that the data of all in a list are aligned to. None where one of them is not
// read here.
PyObject* alignment(PyObject* module, PyObject* arrays);

// The table in a capsule, of the version that is declared here; NULL where it has none, maybe with an exception.
const ExchangeApi* exchange_of(PyObject* capsule);

// Sets how arrays are read. Kinds that were learnt are forgotten.
bool set_readers(PyObject* kind_of, PyObject* dtype_of, PyObject* grad_mode);

}  // namespace quern::python
