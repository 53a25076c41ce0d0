// torch.empty takes longer than all else that a call does before its launch: most of it is the reading of its
// arguments. libtorch makes the same tensor by the C interface that it keeps for compiled models
// (torch/csrc/inductor/aoti_torch/c/shim.h), and libtorch_python the object around it. They are looked up in the
// process, whose PyTorch has loaded them; its own functions are called where one is not there.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/outputs.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "bindings/python/fast/tensors.h"

namespace quern::python {
namespace {

using Handle = void*;  // AtenTensorHandle: an at::Tensor *
using MakeEmpty = std::int32_t (*)(std::int64_t dimensions, const std::int64_t* sizes, const std::int64_t* strides,
                                   std::int32_t dtype, std::int32_t device_type, std::int32_t device, Handle* made);
using MakeInside = std::int32_t (*)(Handle pool, std::int64_t offset, std::int32_t dtype, std::int64_t dimensions,
                                    const std::int64_t* sizes, const std::int64_t* strides, Handle* made);
using Delete = std::int32_t (*)(Handle handle);
using Wrap = PyObject* (*)(const void* tensor);
using Number = std::int32_t (*)();

struct Element {
  std::uint8_t code, bits;
  const char* function;  // that says PyTorch's number of it
  std::int32_t number;
};

struct Torch {
  MakeEmpty make_empty = nullptr;
  MakeInside make_inside = nullptr;  // a tensor of another's memory; may not be there
  Delete remove = nullptr;
  Wrap wrap = nullptr;
  std::int32_t cpu = 0, cuda = 0;
  std::array<Element, 14> elements{{{kDLFloat, 16, "aoti_torch_dtype_float16", -1},
                                    {kDLBfloat, 16, "aoti_torch_dtype_bfloat16", -1},
                                    {kDLFloat, 32, "aoti_torch_dtype_float32", -1},
                                    {kDLFloat8_e4m3fn, 8, "aoti_torch_dtype_float8_e4m3fn", -1},
                                    {kDLFloat8_e5m2, 8, "aoti_torch_dtype_float8_e5m2", -1},
                                    {kDLInt, 32, "aoti_torch_dtype_int32", -1},
                                    {kDLInt, 64, "aoti_torch_dtype_int64", -1},
                                    {kDLUInt, 8, "aoti_torch_dtype_uint8", -1},
                                    {kDLInt, 8, "aoti_torch_dtype_int8", -1},
                                    {kDLInt, 16, "aoti_torch_dtype_int16", -1},
                                    {kDLBool, 8, "aoti_torch_dtype_bool", -1},
                                    {kDLFloat, 64, "aoti_torch_dtype_float64", -1},
                                    {kDLUInt, 16, "aoti_torch_dtype_uint16", -1},
                                    {kDLUInt, 32, "aoti_torch_dtype_uint32", -1}}};

  [[nodiscard]] std::int32_t number_of(DLDataType type) const {
    for (const Element& element : elements) {
      if (element.code == type.code && element.bits == type.bits) return type.lanes == 1 ? element.number : -1;
    }
    return -1;
  }
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library == nullptr ? nullptr : dlsym(library, name));
  return function != nullptr;
}

// Never closed: they are PyTorch's, which stays.
Torch look_up() {
  Torch found;
  void* core = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  void* python = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
  Number cpu = nullptr, cuda = nullptr;
  // THPVariable_Wrap(const at::TensorBase &): the name is that of its parameter's type, too.
  if (!find(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", found.wrap) ||
      !find(core, "aoti_torch_delete_tensor_object", found.remove) || !find(core, "aoti_torch_device_type_cpu", cpu) ||
      !find(core, "aoti_torch_device_type_cuda", cuda) || !find(core, "aoti_torch_empty_strided", found.make_empty)) {
    return {};
  }
  find(core, "aoti_torch__alloc_from_pool", found.make_inside);
  found.cpu = cpu();
  found.cuda = cuda();
  for (Element& element : found.elements) {
    Number number = nullptr;
    if (find(core, element.function, number)) element.number = number();
  }
  return found;
}

// Asked for when a tensor of PyTorch's has been seen, so that it is there by then.
const Torch& torch() {
  static const Torch kFound = look_up();
  return kFound;
}

// What `code_of` said of dtypes, by the objects; both are the interpreter's, under the GIL.
PyObject* code_of_dtype = nullptr;
PyObject* known_dtypes = nullptr;

// False with an exception.
bool type_of(PyObject* dtype, DLDataType& type) {
  PyObject* packed = PyDict_GetItemWithError(known_dtypes, dtype);
  Owned made;
  if (packed == nullptr) {
    if (PyErr_Occurred() != nullptr) return false;
    const Owned told(PyObject_CallFunctionObjArgs(code_of_dtype, dtype, nullptr));
    long code = 0, bits = 0;
    if (!told || !PyArg_ParseTuple(told.get(), "ll", &code, &bits)) return false;
    made = Owned(PyLong_FromLong(code << 8 | bits));
    if (!made || PyDict_SetItem(known_dtypes, dtype, made.get()) != 0) return false;
    packed = made.get();
  }
  const long number = PyLong_AsLong(packed);
  type = {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff), 1};
  return true;
}

// False where these are not so many extents or strides, without an exception.
bool read_numbers(PyObject* tuple, std::array<std::int64_t, kMaxDimensions>& numbers, Py_ssize_t& count) {
  if (!PyTuple_Check(tuple)) return false;
  count = PyTuple_Size(tuple);
  if (count > kMaxDimensions) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* number = PyTuple_GetItem(tuple, i);
    const std::int64_t read = PyLong_Check(number) ? PyLong_AsLongLong(number) : -1;
    if (read < 0) return false;
    numbers[static_cast<std::size_t>(i)] = read;
  }
  return true;
}

constexpr std::size_t kMostTogether = 16;
// Where each begins, which is what cudaMalloc gives; and how much lies together: beyond that a kernel takes longer than
// an allocation does, and to keep one result should not keep the memory of others.
constexpr std::int64_t kApart = 256, kSmall = 1 << 20;

// A tensor that is wanted.
struct Wanted {
  std::int32_t dtype = -1;  // PyTorch's number
  std::int64_t dimensions = 0, offset = 0;
  std::int64_t bytes = 0;  // at most kSmall + 1
  std::array<std::int64_t, kMaxDimensions> sizes, strides;

  // False, maybe with an exception, where it is not for here.
  bool read(const Torch& known, const DLTensor& like, PyObject* shape, PyObject* of_type, PyObject* steps) {
    DLDataType type = like.dtype;
    Py_ssize_t count = 0, stride_count = 0;
    if (of_type != Py_None && !type_of(of_type, type)) return false;
    if (!is_of(known, type) || !read_numbers(shape, sizes, count)) return false;
    dimensions = count;
    if (steps == Py_None) {
      lay_compact();
    } else if (!read_numbers(steps, strides, stride_count) || stride_count != count) {
      return false;
    }
    measure(type);
    return true;
  }

  // A compact one of these extents.
  bool take(const Torch& known, const DLTensor& extents, DLDataType type) {
    if (!is_of(known, type) || extents.ndim > kMaxDimensions) return false;
    dimensions = extents.ndim;
    std::copy_n(extents.shape, extents.ndim, sizes.begin());
    lay_compact();
    measure(type);
    return true;
  }

 private:
  bool is_of(const Torch& known, DLDataType type) {
    dtype = known.number_of(type);
    return dtype >= 0;
  }

  void lay_compact() {
    std::int64_t step = 1;
    for (auto i = static_cast<std::size_t>(dimensions); i-- > 0;) {
      strides[i] = step;
      step *= sizes[i] > 1 ? sizes[i] : 1;
    }
  }

  // In floating point, which extents beyond all memory do not overflow.
  void measure(DLDataType type) {
    double elements = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
      if (sizes[i] == 0) return;
      elements += static_cast<double>(sizes[i] - 1) * static_cast<double>(strides[i]);
    }
    const double whole = elements * (type.bits / 8);
    bytes = whole > kSmall ? kSmall + 1 : static_cast<std::int64_t>(whole);
  }
};

// The Python object of a tensor, which is taken; NULL without an exception where there is no memory for it.
PyObject* wrapped(const Torch& known, Handle handle) {
  PyObject* made = nullptr;
  try {
    made = known.wrap(handle);
  } catch (...) {  // PyTorch's, for want of memory: its own function says so
    made = nullptr;
  }
  known.remove(handle);
  return made;
}

// PyTorch's type and number of a device. False where memory of such a one is asked for in PyTorch's own words: pinned
// memory, say.
bool place_of(const Torch& known, const DLTensor& like, std::int32_t& type, std::int32_t& number) {
  const int device = like.device.device_type;
  type = device == kDLCPU ? known.cpu : known.cuda;
  number = device == kDLCPU ? 0 : like.device.device_id;
  return device == kDLCPU || device == kDLCUDA || device == kDLROCM;
}

PyObject* made_of(const Torch& known, const DLTensor& like, const Wanted& wanted) {
  std::int32_t type = 0, number = 0;
  Handle handle = nullptr;
  if (!place_of(known, like, type, number) ||
      known.make_empty(wanted.dimensions, wanted.sizes.data(), wanted.strides.data(), wanted.dtype, type, number,
                       &handle) != 0) {
    return nullptr;
  }
  return wrapped(known, handle);
}

// Of memory that holds all of them; empty without an exception where there is none.
Owned made_inside(const Torch& known, const DLTensor& like, const Wanted* wanted, std::size_t count,
                  std::int64_t bytes) {
  std::int32_t type = 0, number = 0;
  const std::int32_t byte = known.number_of({kDLUInt, 8, 1});
  const std::int64_t one = 1;
  Handle pool = nullptr;
  if (byte < 0 || !place_of(known, like, type, number) ||
      known.make_empty(1, &bytes, &one, byte, type, number, &pool) != 0) {
    return {};
  }
  Owned made(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; made && i < count; ++i) {
    Handle handle = nullptr;
    PyObject* tensor = nullptr;
    if (known.make_inside(pool, wanted[i].offset, wanted[i].dtype, wanted[i].dimensions, wanted[i].sizes.data(),
                          wanted[i].strides.data(), &handle) == 0) {
      tensor = wrapped(known, handle);
    }
    if (tensor == nullptr) {
      made = Owned();
    } else {
      PyList_SetItem(made.get(), static_cast<Py_ssize_t>(i), tensor);
    }
  }
  known.remove(pool);
  return made;
}

// A list of all that is wanted, or None.
PyObject* made_all(const Torch& known, const DLTensor& like, Wanted* wanted, std::size_t number) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < number; ++i) {
    wanted[i].offset = bytes;
    bytes = bytes > kSmall ? bytes : (bytes + wanted[i].bytes + kApart - 1) / kApart * kApart;
  }
  Owned made;
  if (number > 1 && bytes <= kSmall && known.make_inside != nullptr) {
    made = made_inside(known, like, wanted, number, bytes);
  } else {
    made = Owned(PyList_New(static_cast<Py_ssize_t>(number)));
    for (std::size_t i = 0; made && i < number; ++i) {
      PyObject* tensor = made_of(known, like, wanted[i]);
      if (tensor == nullptr) {
        made = Owned();
      } else {
        PyList_SetItem(made.get(), static_cast<Py_ssize_t>(i), tensor);
      }
    }
  }
  if (made) return made.release();
  PyErr_Clear();  // what is wrong is said where it is done in Python
  Py_RETURN_NONE;
}

}  // namespace

void set_dtypes(PyObject* code_of) {
  Py_XDECREF(code_of_dtype);
  code_of_dtype = Owned::share(code_of).release();
  if (known_dtypes == nullptr) known_dtypes = PyDict_New();
}

PyObject* empty(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 3 || known_dtypes == nullptr) {
    PyErr_SetString(PyExc_TypeError, "empty takes a shape, a tensor and a dtype, after set_up");
    return nullptr;
  }
  DLTensor like = {};
  if (!read_torch(values[1], like)) Py_RETURN_NONE;
  const Torch& known = torch();
  Wanted wanted;
  PyObject* made = nullptr;
  if (known.make_empty != nullptr && wanted.read(known, like, values[0], values[2], Py_None)) {
    made = made_of(known, like, wanted);
  }
  if (made != nullptr) return made;
  // What is wrong is said where it is done in Python.
  PyErr_Clear();
  Py_RETURN_NONE;
}

PyObject* together(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count < 1 || known_dtypes == nullptr) {
    PyErr_SetString(PyExc_TypeError, "together takes a tensor and what is wanted, after set_up");
    return nullptr;
  }
  const auto number = static_cast<std::size_t>(count - 1);
  DLTensor like = {};
  if (number > kMostTogether || !read_torch(values[0], like)) Py_RETURN_NONE;
  const Torch& known = torch();
  std::array<Wanted, kMostTogether> wanted;
  for (std::size_t i = 0; i < number; ++i) {
    PyObject* told = values[i + 1];
    if (!PyTuple_Check(told) || PyTuple_Size(told) != 3 ||
        !wanted[i].read(known, like, PyTuple_GetItem(told, 0), PyTuple_GetItem(told, 1), PyTuple_GetItem(told, 2))) {
      PyErr_Clear();
      Py_RETURN_NONE;
    }
  }
  return made_all(known, like, wanted.data(), number);
}

PyObject* compact(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 2 || !PyList_Check(values[0]) || known_dtypes == nullptr) {
    PyErr_SetString(PyExc_TypeError, "compact takes a list of arrays and a dtype, after set_up");
    return nullptr;
  }
  const auto number = static_cast<std::size_t>(PyList_Size(values[0]));
  const Torch& known = torch();
  std::array<Wanted, kMostTogether> wanted;
  DLTensor like = {};
  if (number == 0 || number > kMostTogether) Py_RETURN_NONE;
  for (std::size_t i = number; i-- > 0;) {  // the first is the one that others are like
    DLDataType type = {};
    const bool read = read_torch(PyList_GetItem(values[0], static_cast<Py_ssize_t>(i)), like);
    type = like.dtype;
    if (!read || (values[1] != Py_None && !type_of(values[1], type)) || !wanted[i].take(known, like, type)) {
      PyErr_Clear();
      Py_RETURN_NONE;
    }
  }
  return made_all(known, like, wanted.data(), number);
}

}  // namespace quern::python
