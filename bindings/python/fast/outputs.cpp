// torch.empty takes longer than all else that a call does before its launch: most of it is the reading of its
// arguments. libtorch makes the same tensor by the C interface that it keeps for compiled models
// (torch/csrc/inductor/aoti_torch/c/shim.h), and libtorch_python the object around it. They are looked up in the
// process, whose PyTorch has loaded them; its own functions are called where one is not there.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/outputs.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>

#include "bindings/python/fast/tensors.h"

namespace quern::python {
namespace {

using Handle = void*;  // AtenTensorHandle: an at::Tensor *
using MakeEmpty = std::int32_t (*)(std::int64_t dimensions, const std::int64_t* sizes, const std::int64_t* strides,
                                   std::int32_t dtype, std::int32_t device_type, std::int32_t device, Handle* made);
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

// False where it is no shape, without an exception.
bool read_shape(PyObject* shape, std::array<std::int64_t, kMaxDimensions>& sizes, Py_ssize_t& count) {
  if (!PyTuple_Check(shape)) return false;
  count = PyTuple_Size(shape);
  if (count > kMaxDimensions) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* extent = PyTuple_GetItem(shape, i);
    const std::int64_t size = PyLong_Check(extent) ? PyLong_AsLongLong(extent) : -1;
    if (size < 0) return false;
    sizes[static_cast<std::size_t>(i)] = size;
  }
  return true;
}

PyObject* made_of(const Torch& known, const DLTensor& like, std::int32_t dtype, const std::int64_t* sizes,
                  std::size_t count) {
  std::array<std::int64_t, kMaxDimensions> strides;
  std::int64_t step = 1;
  for (std::size_t i = count; i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 1 ? sizes[i] : 1;
  }
  const bool on_cpu = like.device.device_type == kDLCPU;
  Handle handle = nullptr;
  if (known.make_empty(static_cast<std::int64_t>(count), sizes, strides.data(), dtype, on_cpu ? known.cpu : known.cuda,
                       on_cpu ? 0 : like.device.device_id, &handle) != 0) {
    return nullptr;
  }
  PyObject* made = nullptr;
  try {
    made = known.wrap(handle);
  } catch (...) {  // PyTorch's, for want of memory: its own function says so
    made = nullptr;
  }
  known.remove(handle);
  return made;
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
  std::array<std::int64_t, kMaxDimensions> sizes;
  Py_ssize_t dimensions = 0;
  DLTensor like = {};
  if (!read_torch(values[1], like)) Py_RETURN_NONE;
  DLDataType type = like.dtype;
  const bool typed = values[2] == Py_None || type_of(values[2], type);
  const Torch& known = torch();
  const std::int32_t dtype = typed && known.make_empty != nullptr ? known.number_of(type) : -1;
  const int device = like.device.device_type;
  PyObject* made = nullptr;
  // Pinned memory, say, is asked for in PyTorch's own words.
  if (dtype >= 0 && (device == kDLCPU || device == kDLCUDA || device == kDLROCM) &&
      read_shape(values[0], sizes, dimensions)) {
    made = made_of(known, like, dtype, sizes.data(), static_cast<std::size_t>(dimensions));
  }
  if (made != nullptr) return made;
  // What is wrong is said where it is done in Python.
  PyErr_Clear();
  Py_RETURN_NONE;
}

}  // namespace quern::python
