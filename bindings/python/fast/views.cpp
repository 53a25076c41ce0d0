// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/views.h"

#include <cstring>

namespace quern::python {
namespace {

struct ViewObject {
  PyObject head;
  BorrowedView borrowed;
};

// The interpreter's, under the GIL.
PyTypeObject* view_type = nullptr;

BorrowedView& borrowed_of(PyObject* self) { return reinterpret_cast<ViewObject*>(self)->borrowed; }

// What an array or a View says of itself.
struct Whole {
  View read;
  PyObject* array = nullptr;
  const ExchangeApi* api = nullptr;

  // False without an exception where it is not for here.
  bool read_from(PyObject* object) {
    if (const BorrowedView* view = view_of(object)) {
      read.tensor = view->view.tensor;
      array = view->array;
      api = view->api;
      return true;
    }
    array = object;
    return read_in_place(object, read, &api) && read.tensor.ndim <= kMaxDimensions && read.tensor.dtype.bits % 8 == 0;
  }
};

// A View of a whole array; empty with an exception.
Owned view_whole(const Whole& whole) {
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(view_type, Py_tp_alloc));
  Owned made(allocate(view_type, 0));
  if (!made) return made;
  const DLTensor& tensor = whole.read.tensor;
  BorrowedView& borrowed = borrowed_of(made.get());
  borrowed.array = Owned::share(whole.array).release();
  borrowed.api = whole.api;
  borrowed.view.tensor = tensor;
  std::int64_t *const shape = borrowed.view.extents.data(), *const strides = shape + kMaxDimensions;
  std::int64_t compact = 1;
  for (auto i = static_cast<std::size_t>(tensor.ndim); i-- > 0; compact *= shape[i]) {
    shape[i] = tensor.shape[i];
    strides[i] = tensor.strides != nullptr ? tensor.strides[i] : compact;
  }
  borrowed.view.tensor.shape = shape;
  borrowed.view.tensor.strides = strides;
  return made;
}

void move_by(DLTensor& tensor, std::int64_t elements) {
  if (tensor.data == nullptr) return;  // of no elements
  tensor.data = static_cast<std::byte*>(tensor.data) + elements * (tensor.dtype.bits / 8);
}

// False without an exception where it is no integer within the bounds.
bool read_index(PyObject* value, std::int64_t begin, std::int64_t end, std::int64_t& index) {
  if (!PyLong_Check(value)) return false;
  index = PyLong_AsLongLong(value);
  if (index == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return begin <= index && index < end;
}

PyObject* tuple_of(const std::int64_t* numbers, std::int32_t count) {
  Owned made(PyTuple_New(count));
  for (std::int32_t i = 0; made && i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (number == nullptr) return nullptr;
    PyTuple_SetItem(made.get(), i, number);
  }
  return made.release();
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(borrowed_of(self).array);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* get_array(PyObject* self, void*) { return Owned::share(borrowed_of(self).array).release(); }
PyObject* get_shape(PyObject* self, void*) {
  const DLTensor& tensor = borrowed_of(self).view.tensor;
  return tuple_of(tensor.shape, tensor.ndim);
}
PyObject* get_strides(PyObject* self, void*) {
  const DLTensor& tensor = borrowed_of(self).view.tensor;
  return tuple_of(tensor.strides, tensor.ndim);
}
PyObject* get_dtype(PyObject* self, void*) {
  const DLDataType& type = borrowed_of(self).view.tensor.dtype;
  return Py_BuildValue("ii", type.code, type.bits);
}
PyObject* get_address(PyObject* self, void*) {
  const DLTensor& tensor = borrowed_of(self).view.tensor;
  return PyLong_FromVoidPtr(static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
}

PyGetSetDef kMembers[] = {{"array", get_array, nullptr, "whose memory it is", nullptr},
                          {"shape", get_shape, nullptr, "its extents", nullptr},
                          {"strides", get_strides, nullptr, "its strides, in elements", nullptr},
                          {"dtype", get_dtype, nullptr, "DLPack's code of its elements and their bits", nullptr},
                          {"address", get_address, nullptr, "of its first element", nullptr},
                          {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot kSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)}, {Py_tp_getset, kMembers}, {0, nullptr}};
PyType_Spec kSpec = {"quern._fast.View", sizeof(ViewObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                     kSlots};

}  // namespace

const BorrowedView* view_of(PyObject* object) { return Py_TYPE(object) == view_type ? &borrowed_of(object) : nullptr; }

PyObject* permuted(PyObject*, PyObject* const* values, Py_ssize_t count) {
  Whole whole;
  if (count != 2 || !PyTuple_Check(values[1]) || !whole.read_from(values[0])) Py_RETURN_NONE;
  const std::int32_t rank = whole.read.tensor.ndim;
  if (PyTuple_Size(values[1]) != rank) Py_RETURN_NONE;
  Owned made = view_whole(whole);
  if (!made) return nullptr;
  View& view = borrowed_of(made.get()).view;
  const std::array<std::int64_t, 2 * kMaxDimensions> before = view.extents;
  unsigned seen = 0;
  for (std::int32_t i = 0; i < rank; ++i) {
    std::int64_t axis = 0;
    if (!read_index(PyTuple_GetItem(values[1], i), 0, rank, axis) || (seen >> axis & 1) != 0) Py_RETURN_NONE;
    seen |= 1U << axis;
    const auto from = static_cast<std::size_t>(axis), to = static_cast<std::size_t>(i);
    view.extents[to] = before[from];
    view.extents[kMaxDimensions + to] = before[kMaxDimensions + from];
  }
  return made.release();
}

PyObject* sliced(PyObject*, PyObject* const* values, Py_ssize_t count) {
  Whole whole;
  if (count != 2 || !PyTuple_Check(values[1]) || !whole.read_from(values[0])) Py_RETURN_NONE;
  Owned made = view_whole(whole);
  if (!made) return nullptr;
  View& view = borrowed_of(made.get()).view;
  std::int64_t *const shape = view.extents.data(), *const strides = shape + kMaxDimensions;
  const auto rank = static_cast<Py_ssize_t>(view.tensor.ndim), given = PyTuple_Size(values[1]);
  Py_ssize_t axis = 0, kept = 0;
  bool skipped = false;
  const auto keep = [&](std::int64_t extent, std::int64_t step) {
    strides[kept] = extent > 1 ? strides[axis] * step : strides[axis];
    ++axis;
    shape[kept++] = extent;
  };
  for (Py_ssize_t i = 0; i < given; ++i) {
    PyObject* index = PyTuple_GetItem(values[1], i);
    if (index == Py_Ellipsis) {
      if (skipped) Py_RETURN_NONE;
      skipped = true;
      for (Py_ssize_t left = rank - axis - (given - i - 1); left > 0; --left) keep(shape[axis], 1);
      continue;
    }
    if (axis == rank) Py_RETURN_NONE;
    const std::int64_t extent = shape[axis];
    if (PyLong_Check(index) && !PyBool_Check(index)) {
      std::int64_t place = 0;
      if (!read_index(index, -extent, extent, place)) Py_RETURN_NONE;
      move_by(view.tensor, (place < 0 ? place + extent : place) * strides[axis]);
      ++axis;
      continue;
    }
    Py_ssize_t begin = 0, end = 0, step = 0;
    if (!PySlice_Check(index) || PySlice_Unpack(index, &begin, &end, &step) != 0 || step < 0) {
      PyErr_Clear();
      Py_RETURN_NONE;
    }
    const Py_ssize_t length = PySlice_AdjustIndices(static_cast<Py_ssize_t>(extent), &begin, &end, step);
    if (length > 0) move_by(view.tensor, begin * strides[axis]);
    keep(length, step);
  }
  while (axis < rank) keep(shape[axis], 1);
  view.tensor.ndim = static_cast<std::int32_t>(kept);
  return made.release();
}

PyObject* unflattened(PyObject*, PyObject* const* values, Py_ssize_t count) {
  Whole whole;
  std::int64_t axis = 0, inner = 0;
  if (count != 3 || !whole.read_from(values[0])) Py_RETURN_NONE;
  const std::int64_t rank = whole.read.tensor.ndim;
  if (rank == kMaxDimensions || !read_index(values[1], 0, rank, axis) ||
      !read_index(values[2], 1, std::int64_t{1} << 62, inner) || whole.read.tensor.shape[axis] % inner != 0) {
    Py_RETURN_NONE;
  }
  Owned made = view_whole(whole);
  if (!made) return nullptr;
  View& view = borrowed_of(made.get()).view;
  std::int64_t *const shape = view.extents.data(), *const strides = shape + kMaxDimensions;
  for (std::int64_t d = rank; d > axis; --d) {
    shape[d] = shape[d - 1];
    strides[d] = strides[d - 1];
  }
  shape[axis + 1] = inner;
  shape[axis] /= inner;
  strides[axis] *= inner;
  ++view.tensor.ndim;
  return made.release();
}

PyObject* retyped(PyObject*, PyObject* const* values, Py_ssize_t count) {
  Whole whole;
  std::int64_t code = 0, bits = 0;
  if (count != 3 || !whole.read_from(values[0]) || !read_index(values[1], 0, 256, code) ||
      !read_index(values[2], 0, 256, bits) || bits != whole.read.tensor.dtype.bits) {
    Py_RETURN_NONE;
  }
  Owned made = view_whole(whole);
  if (made) borrowed_of(made.get()).view.tensor.dtype.code = static_cast<std::uint8_t>(code);
  return made.release();
}

PyObject* joined(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 2 || !PyList_Check(values[0]) || PyList_Size(values[0]) == 0) Py_RETURN_NONE;
  std::array<std::int64_t, kMaxDimensions> together = {};
  std::int64_t rank = 0, axis = 0;
  const Py_ssize_t number = PyList_Size(values[0]);
  const Owned extents(PyList_New(number));
  if (!extents) return nullptr;
  for (Py_ssize_t i = 0; i < number; ++i) {
    Whole whole;
    if (!whole.read_from(PyList_GetItem(values[0], i))) Py_RETURN_NONE;
    const DLTensor& tensor = whole.read.tensor;
    if (i == 0) {
      rank = tensor.ndim;
      if (!read_index(values[1], -rank, rank, axis)) Py_RETURN_NONE;
      if (axis < 0) axis += rank;
    } else if (tensor.ndim != rank) {
      Py_RETURN_NONE;
    }
    for (std::int64_t d = 0; d < rank; ++d) {
      std::int64_t& known = together[static_cast<std::size_t>(d)];
      if (i == 0 || d == axis) known += tensor.shape[d];
      if (d != axis && known != tensor.shape[d]) Py_RETURN_NONE;
    }
    PyObject* extent = PyLong_FromLongLong(tensor.shape[axis]);
    if (extent == nullptr) return nullptr;
    PyList_SetItem(extents.get(), i, extent);
  }
  const Owned shape(tuple_of(together.data(), static_cast<std::int32_t>(rank)));
  return shape ? Py_BuildValue("LOO", static_cast<long long>(axis), extents.get(), shape.get()) : nullptr;
}

PyObject* parts(PyObject*, PyObject* const* values, Py_ssize_t count) {
  Whole whole;
  std::int64_t axis = 0;
  if (count != 3 || !PyList_Check(values[1]) || !whole.read_from(values[0]) ||
      !read_index(values[2], 0, whole.read.tensor.ndim, axis)) {
    Py_RETURN_NONE;
  }
  const Py_ssize_t number = PyList_Size(values[1]);
  const std::int64_t extent = whole.read.tensor.shape[axis];
  Owned made(PyList_New(number));
  if (!made) return nullptr;
  std::int64_t begin = 0;
  for (Py_ssize_t i = 0; i < number; ++i) {
    std::int64_t size = 0;
    if (!read_index(PyList_GetItem(values[1], i), 0, extent - begin + 1, size)) Py_RETURN_NONE;
    Owned part = view_whole(whole);
    if (!part) return nullptr;
    View& view = borrowed_of(part.get()).view;
    PyList_SetItem(made.get(), i, part.release());
    const auto along = static_cast<std::size_t>(axis);
    move_by(view.tensor, begin * view.extents[kMaxDimensions + along]);
    view.extents[along] = size;
    begin += size;
  }
  if (begin != extent) Py_RETURN_NONE;
  return made.release();
}

bool add_view(PyObject* module) {
  const Owned type(PyType_FromSpec(&kSpec));
  view_type = reinterpret_cast<PyTypeObject*>(type.get());
  if (!type || PyModule_AddObjectRef(module, "View", type.get()) != 0) return false;
  Py_INCREF(type.get());  // for view_type, which stays
  return true;
}

}  // namespace quern::python
