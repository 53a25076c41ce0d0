// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/tensors.h"

#include <algorithm>
#include <cstring>

#include "bindings/python/fast/views.h"

namespace quern::python {
namespace {

// What is known of a type of arrays.
struct Kind {
  Owned type;
  How how = How::kElsewhere;
  const ExchangeApi* api = nullptr;
  Owned payload;  // the capsule of `api`, or who makes capsules
};

// What is known of a NumPy dtype.
struct Element {
  Owned dtype;
  DLDataType type = {};
  std::intptr_t bytes = 0;  // 0: not for here
};

// As NumPy's headers compile it into every extension, which is why it stays. compiled.py compares it with what NumPy
// says before it calls a type kNumpy.
struct NumpyArray {
  PyObject head;
  char* data;
  int dimensions;
  std::intptr_t* shape;
  std::intptr_t* strides;  // in bytes
  PyObject* base;
  PyObject* dtype;
  int flags;
};
constexpr int kNumpyWriteable = 0x400;

// Types and dtypes beyond these are left to the package: a program has few.
constexpr std::size_t kKinds = 32, kElements = 32;

// The interpreter's, under the GIL.
struct State {
  Readers readers;
  std::array<Kind, kKinds> kinds;
  std::size_t kind_count = 0;
  std::array<Element, kElements> elements;
  std::size_t element_count = 0;
  Owned grad_is_enabled;  // PyTorch's, once one of its tensors has been seen
  PyObject* array = nullptr;
  PyObject* dtype = nullptr;
  PyObject* requires_grad = nullptr;
};

State& state() {
  // Never destroyed: at exit the interpreter is gone before the objects that this holds could be.
  static State* kept = new State;
  return *kept;
}

// How arrays of this type are read; NULL with an exception.
const Kind* kind_of(PyTypeObject* type) {
  State& known = state();
  for (std::size_t i = 0; i < known.kind_count; ++i) {
    if (known.kinds[i].type.get() == reinterpret_cast<PyObject*>(type)) return &known.kinds[i];
  }
  static const Kind kUnknown;
  if (known.kind_count == kKinds || !known.readers.kind_of) return &kUnknown;
  const Owned told(PyObject_CallFunctionObjArgs(known.readers.kind_of.get(), type, nullptr));
  if (!told) return nullptr;
  long how = 0;
  PyObject* payload = nullptr;
  if (!PyArg_ParseTuple(told.get(), "lO", &how, &payload)) return nullptr;
  Kind kind;
  kind.how = static_cast<How>(how);
  if (kind.how == How::kExchange || kind.how == How::kTorch) {
    kind.api = exchange_of(payload);
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (kind.api == nullptr || kind.api->tensor_from_object == nullptr) kind.how = How::kElsewhere;
  }
  kind.type = Owned::share(reinterpret_cast<PyObject*>(type));
  kind.payload = Owned::share(payload);
  known.kinds[known.kind_count] = std::move(kind);
  return &known.kinds[known.kind_count++];
}

// What a NumPy dtype is for DLPack; NULL with an exception.
const Element* element_of(PyObject* dtype) {
  State& known = state();
  for (std::size_t i = 0; i < known.element_count; ++i) {
    if (known.elements[i].dtype.get() == dtype) return &known.elements[i];
  }
  static const Element kUnknown;
  if (known.element_count == kElements) return &kUnknown;
  const Owned told(PyObject_CallFunctionObjArgs(known.readers.dtype_of.get(), dtype, nullptr));
  if (!told) return nullptr;
  Element element;
  if (told.get() != Py_None) {
    unsigned char code = 0, bits = 0;
    if (!PyArg_ParseTuple(told.get(), "bb", &code, &bits)) return nullptr;
    element.type = {code, bits, 1};
    element.bytes = bits / 8;
  }
  element.dtype = Owned::share(dtype);
  known.elements[known.element_count] = std::move(element);
  return &known.elements[known.element_count++];
}

// An error of a framework's means that the package should look at the array itself and say what is wrong.
bool elsewhere() {
  PyErr_Clear();
  return false;
}

bool from_numpy(PyObject* object, View& view) {
  const auto& array = *reinterpret_cast<const NumpyArray*>(object);
  const Element* element = element_of(array.dtype);
  // Read-only memory is refused for outputs, which the package knows.
  if (element == nullptr || element->bytes == 0 || array.dimensions > kMaxDimensions ||
      (array.flags & kNumpyWriteable) == 0) {
    return false;
  }
  std::int64_t* strides = view.extents.data() + kMaxDimensions;
  for (int i = 0; i < array.dimensions; ++i) {
    if (array.strides[i] % element->bytes != 0) return false;
    view.extents[static_cast<std::size_t>(i)] = array.shape[i];
    strides[i] = array.strides[i] / element->bytes;
  }
  view.tensor = {array.data, {kDLCPU, 0}, array.dimensions, element->type, view.extents.data(), strides, 0};
  return true;
}

}  // namespace

const ExchangeApi* exchange_of(PyObject* capsule) {
  const auto* header = static_cast<const ExchangeHeader*>(PyCapsule_GetPointer(capsule, kExchangeCapsule));
  // Older versions are chained behind the newest.
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) header = header->previous;
  return reinterpret_cast<const ExchangeApi*>(header);
}

bool set_readers(PyObject* kind_of, PyObject* dtype_of, PyObject* grad_mode) {
  State& known = state();
  known.readers = {Owned::share(kind_of), Owned::share(dtype_of), Owned::share(grad_mode)};
  known.grad_is_enabled = Owned();
  for (std::size_t i = 0; i < known.kind_count; ++i) known.kinds[i] = Kind();
  known.kind_count = 0;
  known.array = PyUnicode_InternFromString("array");
  known.dtype = PyUnicode_InternFromString("dtype");
  known.requires_grad = PyUnicode_InternFromString("requires_grad");
  return known.array != nullptr && known.dtype != nullptr && known.requires_grad != nullptr;
}

bool read_in_place(PyObject* array, View& view, const ExchangeApi** api) {
  const Kind* kind = kind_of(Py_TYPE(array));
  if (kind == nullptr) return elsewhere();
  if (kind->how == How::kNumpy) return from_numpy(array, view);
  if (kind->how != How::kTorch) return false;
  *api = kind->api;
  return kind->api->tensor_from_object(array, &view.tensor) == 0 || elsewhere();
}

const DLTensor* layout_of(PyObject* array, View& memory) {
  if (const BorrowedView* view = view_of(array)) return &view->view.tensor;
  const ExchangeApi* api = nullptr;
  return read_in_place(array, memory, &api) ? &memory.tensor : nullptr;
}

bool read_torch(PyObject* array, DLTensor& tensor) {
  if (const BorrowedView* view = view_of(array)) {
    tensor = view->view.tensor;
    return view->api != nullptr;
  }
  const Kind* kind = kind_of(Py_TYPE(array));
  if (kind == nullptr) return elsewhere();
  if (kind->how != How::kTorch) return false;
  return kind->api->tensor_from_object(array, &tensor) == 0 || elsewhere();
}

namespace {

// Where an array's elements begin. False without an exception where it is not read here.
bool address_of(PyObject* array, std::uintptr_t& address) {
  const Kind* kind = kind_of(Py_TYPE(array));
  if (kind == nullptr) return elsewhere();
  if (kind->how == How::kNumpy) {
    address = reinterpret_cast<std::uintptr_t>(reinterpret_cast<const NumpyArray*>(array)->data);
    return true;
  }
  DLTensor tensor;
  if (kind->how == How::kView) {
    tensor = view_of(array)->view.tensor;
    address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
    return true;
  }
  if (kind->how != How::kTorch && kind->how != How::kExchange) return false;
  if (kind->api->tensor_from_object(array, &tensor) != 0) return elsewhere();
  address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  return true;
}

}  // namespace

PyObject* shape(PyObject*, PyObject* array) {
  View view;
  const DLTensor* tensor = layout_of(array, view);
  if (tensor == nullptr) Py_RETURN_NONE;
  Owned made(PyTuple_New(tensor->ndim));
  for (std::int32_t i = 0; made && i < tensor->ndim; ++i) {
    PyObject* extent = PyLong_FromLongLong(tensor->shape[i]);
    if (extent == nullptr) return nullptr;
    PyTuple_SetItem(made.get(), i, extent);
  }
  return made.release();
}

PyObject* element(PyObject*, PyObject* array) {
  View view;
  const DLTensor* tensor = layout_of(array, view);
  if (tensor == nullptr || tensor->dtype.lanes != 1) Py_RETURN_NONE;
  return PyLong_FromLong(tensor->dtype.code << 8 | tensor->dtype.bits);
}

PyObject* alignment(PyObject*, PyObject* arrays) {
  if (!PyList_Check(arrays)) Py_RETURN_NONE;
  std::uintptr_t places = 16;
  for (Py_ssize_t i = 0; i < PyList_Size(arrays); ++i) {
    std::uintptr_t address = 0;
    if (!address_of(PyList_GetItem(arrays, i), address)) Py_RETURN_NONE;
    places |= address;
  }
  return PyLong_FromLong(static_cast<long>(places & -places));
}

bool TensorReader::read(PyObject* array, View& view) {
  const Kind* kind = kind_of(Py_TYPE(array));
  if (kind == nullptr) return false;
  switch (kind->how) {
    case How::kNumpy:
      return from_numpy(array, view);
    case How::kExchange:
    case How::kTorch:
      return from_exchange(array, *kind->api, kind->how == How::kTorch, view);
    case How::kCapsule:
      return from_capsule(array, kind->payload.get(), view);
    case How::kTensor:
      return from_tensor(array, view);
    case How::kView:
      return from_view(array, view);
    case How::kElsewhere:
      break;
  }
  return false;
}

bool TensorReader::loses_gradient(PyObject* array) {
  State& known = state();
  if (grad_enabled_ < 0) {
    // PyTorch has been imported by now.
    if (!known.grad_is_enabled) known.grad_is_enabled = Owned(PyObject_CallNoArgs(known.readers.grad_mode.get()));
    const Owned told(known.grad_is_enabled ? PyObject_CallNoArgs(known.grad_is_enabled.get()) : nullptr);
    grad_enabled_ = told ? PyObject_IsTrue(told.get()) : 1;
  }
  if (grad_enabled_ == 0) return false;
  const Owned required(PyObject_GetAttr(array, known.requires_grad));
  return !required || required.get() != Py_False;
}

bool TensorReader::from_exchange(PyObject* array, const ExchangeApi& api, bool torch, View& view) {
  if (torch && loses_gradient(array)) return elsewhere();
  if (api.tensor_from_object(array, &view.tensor) != 0) return elsewhere();
  if (torch && exchange_ == nullptr) exchange_ = &api;
  // What the framework points to lives as long as its tensor, which the caller holds.
  return true;
}

bool TensorReader::from_capsule(PyObject* array, PyObject* exporter, View& view) {
  // On a GPU the framework is told of the stream, which the package does.
  if (device_type_ != kDLCPU || capsule_count_ == kMaxCapsules) return false;
  Owned capsule(PyObject_CallFunctionObjArgs(exporter, array, nullptr));
  if (!capsule) return elsewhere();
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    const auto* managed =
        static_cast<const DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->version.major != DLPACK_MAJOR_VERSION) return false;
    if ((managed->flags & (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED)) != 0) return false;
    view.tensor = managed->dl_tensor;
  } else if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
    view.tensor = static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"))->dl_tensor;
  } else {
    return false;
  }
  // Not consumed: it frees what it holds when the call is over.
  capsules_[static_cast<std::size_t>(capsule_count_++)] = std::move(capsule);
  return true;
}

bool TensorReader::from_view(PyObject* object, View& view) {
  const BorrowedView& borrowed = *view_of(object);
  if (borrowed.api != nullptr) {
    if (loses_gradient(borrowed.array)) return elsewhere();
    if (exchange_ == nullptr) exchange_ = borrowed.api;
  }
  // Extents and strides lie in the object, which the caller holds.
  view.tensor = borrowed.view.tensor;
  return true;
}

bool TensorReader::from_tensor(PyObject* tensor, View& view) {
  const Owned array(PyObject_GetAttr(tensor, state().array));
  const Owned dtype(array ? PyObject_GetAttr(tensor, state().dtype) : nullptr);
  if (!dtype) return elsewhere();
  const Kind* kind = kind_of(Py_TYPE(array.get()));
  // The quern.Tensor, which the caller holds, holds its array.
  if (kind == nullptr || kind->how == How::kTensor || !read(array.get(), view)) return false;
  if (dtype.get() == Py_None) return true;
  Py_buffer bytes;
  if (PyObject_GetBuffer(dtype.get(), &bytes, PyBUF_SIMPLE) != 0) return elsewhere();
  DLDataType type = {};
  const bool whole = bytes.len == static_cast<Py_ssize_t>(sizeof type);
  if (whole) std::memcpy(&type, bytes.buf, sizeof type);
  PyBuffer_Release(&bytes);
  if (!whole || type.bits != view.tensor.dtype.bits) return false;
  view.tensor.dtype = type;
  return true;
}

}  // namespace quern::python
