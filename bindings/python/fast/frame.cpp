// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/frame.h"

#include <dlfcn.h>

#include <cstring>
#include <limits>

namespace quern::python {
namespace {

// The names that every op takes and no struct has.
PyObject* interned_stream() {
  static PyObject* kept = PyUnicode_InternFromString("stream");
  return kept;
}
PyObject* interned_workspace() {
  static PyObject* kept = PyUnicode_InternFromString("workspace");
  return kept;
}

// Whether a stream is being captured, from the driver itself; false where it is not here or would not say.
bool ask_driver(DLDevice device, void* stream, bool* capturing) {
  using Ask = int (*)(void* stream, int* status);
  // Only where the process has it already, which a context on such a device sees to.
  static const Ask kAsk = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return driver == nullptr ? nullptr : reinterpret_cast<Ask>(dlsym(driver, "cuStreamIsCapturing"));
  }();
  int status = 0;
  if (device.device_type != kDLCUDA || kAsk == nullptr || kAsk(stream, &status) != 0) return false;
  *capturing = status != 0;
  return true;
}

// What `alignment` may be besides a number.
PyObject* interned_alignment() {
  static PyObject* kept = PyUnicode_InternFromString("alignment");
  return kept;
}
PyObject* interned_found() {
  static PyObject* kept = PyUnicode_InternFromString("found");
  return kept;
}

bool is_number(PyObject* value) { return PyFloat_Check(value) || PyLong_Check(value); }

double number(PyObject* value) { return PyFloat_Check(value) ? PyFloat_AsDouble(value) : PyLong_AsDouble(value); }

}  // namespace

Frame::Frame(const Op& op, Launcher& launcher) : op_(op), launcher_(launcher), reader_(launcher.device.device_type) {
  use(0);
}

std::byte* Frame::use(std::size_t part) {
  std::byte* memory = parts_[part].data();
  if (!used_[part]) {
    used_[part] = true;
    const std::uint32_t size = op_.description.parts()[part].size;
    std::memset(memory, 0, size);
    std::memcpy(memory, &size, sizeof size);  // every struct begins so
  }
  return memory;
}

template <typename Value>
void Frame::store(std::size_t part, std::size_t offset, Value value) {
  std::memcpy(use(part) + offset, &value, sizeof value);
}

const DLTensor* Frame::read(PyObject* value) {
  if (tensor_count_ == kMaxTensors) return nullptr;
  View& view = tensors_[tensor_count_];
  if (!reader_.read(value, view)) return nullptr;
  ++tensor_count_;
  return &view.tensor;
}

bool Frame::fill(PyObject* const* values, PyObject* names, PyObject* more) {
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (values[i] != Py_None && !take(PyTuple_GetItem(names, i), values[i])) return false;
  }
  if (more != nullptr) {
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(more, &place, &name, &value) != 0;) {
      if (value != Py_None && !take(name, value)) return false;
    }
  }
  if (found_alignment_ != nullptr) find_alignment(*found_alignment_);
  for (std::size_t part = 1; part < op_.description.parts().size(); ++part) {
    if (used_[part]) store(0, op_.description.parts()[part].pointer, parts_[part].data());
  }
  return true;
}

bool Frame::take(PyObject* name, PyObject* value) {
  if (const Argument* argument = op_.description.find(name)) return put(*argument, value);
  if (name == interned_workspace()) return take_workspace(value);
  if (name != interned_stream() || launcher_.device.device_type == kDLCPU) return false;
  const Owned handle(PyObject_CallFunction(package().stream, "O()O", value, launcher_.device_object));
  if (!handle) return false;
  common().stream = PyLong_AsVoidPtr(handle.get());
  given_stream_ = true;
  return true;
}

// What the data of all tensors are aligned to, up to 16 bytes: known once they have been read.
void Frame::find_alignment(const Argument& argument) {
  std::uintptr_t places = 16;
  for (std::size_t i = 0; i < tensor_count_; ++i) {
    const DLTensor& tensor = tensors_[i].tensor;
    places |= reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  }
  store(argument.part, argument.offset, static_cast<std::uint32_t>(places & -places));
}

bool Frame::put(const Argument& argument, PyObject* value) {
  const std::size_t part = argument.part;
  switch (argument.field) {
    case Field::kFlag:
      if (value == Py_True) raise_flag(argument);
      return PyBool_Check(value);
    case Field::kTensor: {
      const DLTensor* tensor = read(value);
      if (tensor != nullptr) store(part, argument.offset, tensor);
      return tensor != nullptr;
    }
    case Field::kTensors:
      return put_list(argument, value);
    case Field::kFloats:
      return put_floats(argument, value);
    case Field::kExpression:
      return put_expression(argument, value);
    case Field::kFloat:
    case Field::kDouble:
      if (!is_number(value)) return false;
      if (argument.field == Field::kFloat) {
        store(part, argument.offset, static_cast<float>(number(value)));
      } else {
        store(part, argument.offset, number(value));
      }
      break;
    case Field::kInt32:
    case Field::kUint32:
    case Field::kInt64:
    case Field::kUint64:
      if (!put_integer(argument, value)) return false;
      break;
  }
  if (argument.bit != 0) raise_flag(argument);
  return PyErr_Occurred() == nullptr;
}

void Frame::raise_flag(const Argument& argument) {
  std::byte* flags = use(argument.part) + offsetof(Common, flags);  // behind `size` in every struct that has them
  std::uint32_t bits = 0;
  std::memcpy(&bits, flags, sizeof bits);
  bits |= argument.bit;
  std::memcpy(flags, &bits, sizeof bits);
}

// A text is read once: what was made of it stays with the context.
bool Frame::put_expression(const Argument& argument, PyObject* value) {
  const bool text = PyUnicode_Check(value);
  PyObject* known = text ? PyDict_GetItemWithError(launcher_.expressions, value) : nullptr;
  Owned address;
  if (known == nullptr) {
    if (PyErr_Occurred() != nullptr) return false;
    const Owned context(PyObject_CallNoArgs(launcher_.owner));
    if (!context) return false;
    address = Owned(PyObject_CallFunctionObjArgs(package().expression, value, context.get(), nullptr));
    if (!address || (text && PyDict_SetItem(launcher_.expressions, value, address.get()) != 0)) return false;
    known = address.get();
  }
  store(argument.part, argument.offset, PyLong_AsVoidPtr(known));
  return true;
}

bool Frame::put_integer(const Argument& argument, PyObject* value) {
  Owned named;
  if (PyUnicode_Check(value) && argument.enumerators) {
    named = Owned::share(PyDict_GetItemWithError(argument.enumerators.get(), value));
    value = named.get();
  }
  if (value == interned_found() && argument.name.get() == interned_alignment()) {
    found_alignment_ = &argument;
    return true;
  }
  if (value == nullptr || !PyLong_Check(value)) return false;
  if (argument.field == Field::kUint64) {
    const std::uint64_t number = PyLong_AsUnsignedLongLong(value);
    store(argument.part, argument.offset, number);
    return PyErr_Occurred() == nullptr;
  }
  const std::int64_t number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  switch (argument.field) {
    case Field::kInt32:
      store(argument.part, argument.offset, static_cast<std::int32_t>(number));
      return number == static_cast<std::int32_t>(number);
    case Field::kUint32:
      store(argument.part, argument.offset, static_cast<std::uint32_t>(number));
      return number == static_cast<std::uint32_t>(number);
    default:
      store(argument.part, argument.offset, number);
      return true;
  }
}

bool Frame::put_list(const Argument& argument, PyObject* value) {
  if (!PyList_Check(value)) return false;
  const auto count = static_cast<std::size_t>(PyList_Size(value)), first = listed_count_;
  if (count > kMaxListed - first) return false;
  listed_count_ += count;
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(value, static_cast<Py_ssize_t>(i));
    const DLTensor* tensor = item == Py_None ? nullptr : read(item);
    if (tensor == nullptr && item != Py_None) return false;
    listed_[first + i] = tensor;
  }
  store(argument.part, argument.offset, listed_.data() + first);
  store(argument.part, argument.count_offset, static_cast<std::uint32_t>(count));
  return true;
}

bool Frame::put_floats(const Argument& argument, PyObject* value) {
  if (!PyList_Check(value)) return false;
  const auto count = static_cast<std::size_t>(PyList_Size(value)), first = float_count_;
  if (count > kMaxListed - first) return false;
  float_count_ += count;
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(value, static_cast<Py_ssize_t>(i));
    if (!is_number(item)) return false;
    floats_[first + i] = static_cast<float>(number(item));
  }
  store(argument.part, argument.offset, floats_.data() + first);
  store(argument.part, argument.count_offset, static_cast<std::uint32_t>(count));
  return PyErr_Occurred() == nullptr;
}

bool Frame::take_workspace(PyObject* value) {
  const DLTensor* tensor = read(value);
  if (tensor == nullptr || tensor->dtype.bits != 8 || tensor->ndim != 1 ||
      tensor->device.device_type != launcher_.device.device_type ||
      (tensor->device.device_type != kDLCPU && tensor->device.device_id != launcher_.device.device_id)) {
    return false;
  }
  own_workspace_ = true;
  common().workspace = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  common().workspace_size = static_cast<std::uint64_t>(tensor->shape[0]);
  return true;
}

bool Frame::choose_stream() {
  if (launcher_.device.device_type == kDLCPU) return true;
  void* current = nullptr;
  // Without PyTorch's tensors, or on another stream than theirs, frameworks are told whom to wait for: not here.
  if (reader_.exchange() == nullptr ||
      reader_.exchange()->current_stream(launcher_.device.device_type, launcher_.device.device_id, &current) != 0) {
    return false;
  }
  if (given_stream_ && common().stream != current) return false;
  common().stream = current;
  return true;
}

// What this thread used last on the stream, unless that is being captured: a graph has one of its own.
void Frame::take_kept() {
  const unsigned long thread = PyThread_get_thread_ident();
  for (const Workspace& kept : *launcher_.workspaces) {
    if (kept.thread != thread || kept.stream != common().stream || !kept.owner) continue;
    bool capturing = false;
    if (launcher_.device.device_type != kDLCPU &&
        (!ask_driver(launcher_.device, common().stream, &capturing) || capturing)) {
      return;
    }
    common().workspace = kept.address;
    common().workspace_size = kept.bytes;
    return;
  }
}

// Asks how much a call needs that was refused, and gets that where it is more than it had. False with an exception.
bool Frame::find_workspace(PyObject* const* values, Py_ssize_t count, bool* larger) {
  std::uint64_t bytes = 0;
  quern_error error = blank();
  const std::int32_t status = op_.workspace(launcher_.context, parts_[0].data(), &bytes, &error);
  if (status != QUERN_OK) {
    raise(status, error.native, error.text);
    return false;
  }
  *larger = bytes > common().workspace_size;
  if (!*larger) return true;
  bool capturing = false;
  if (launcher_.device.device_type != kDLCPU && !ask_driver(launcher_.device, common().stream, &capturing)) {
    const Owned told(PyObject_CallFunctionObjArgs(package().capturing, launcher_.device_object, nullptr));
    if (!told) return false;
    capturing = told.get() == Py_True;
  }
  return allocate(values, count, bytes, !capturing);
}

bool Frame::allocate(PyObject* const* values, Py_ssize_t count, std::uint64_t bytes, bool keep) {
  Owned arrays(PyTuple_New(count));
  if (!arrays) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(values[i]);
    PyTuple_SetItem(arrays.get(), i, values[i]);
  }
  const Owned taken(PyObject_CallFunction(launcher_.take, "KNOO", static_cast<unsigned long long>(bytes),
                                          PyLong_FromVoidPtr(common().stream), launcher_.device_object, arrays.get()));
  if (!taken) return false;
  PyObject* owner = nullptr;
  unsigned long long address = 0, size = 0;
  if (!PyArg_ParseTuple(taken.get(), "OKK", &owner, &address, &size)) return false;
  common().workspace = reinterpret_cast<void*>(address);
  common().workspace_size = size;
  if (!keep) {
    fresh_workspace_ = Owned::share(owner);
    return true;
  }
  const unsigned long thread = PyThread_get_thread_ident();
  std::size_t place = launcher_.oldest;
  for (std::size_t i = 0; i < launcher_.workspaces->size(); ++i) {
    const Workspace& kept = (*launcher_.workspaces)[i];
    if (kept.thread == thread && kept.stream == common().stream) place = i;
  }
  if (place == launcher_.oldest) launcher_.oldest = (place + 1) % launcher_.workspaces->size();
  Workspace& kept = (*launcher_.workspaces)[place];
  kept.thread = thread;
  kept.stream = common().stream;
  kept.address = common().workspace;
  kept.bytes = size;
  kept.owner = Owned::share(owner);
  return true;
}

// A call says itself that its workspace is too small, before it does anything: so nobody asks how much each needs,
// which reads all arguments once more.
bool Frame::run(PyObject* const* values, Py_ssize_t count) {
  if (!own_workspace_) take_kept();
  quern_error error = blank();
  std::int32_t status = launch(op_.call, launcher_.context, parts_[0].data(), &error);
  if (status == QUERN_INVALID && !own_workspace_) {
    bool larger = false;
    if (!find_workspace(values, count, &larger)) return false;
    if (larger) {
      error = blank();
      status = launch(op_.call, launcher_.context, parts_[0].data(), &error);
    }
  }
  if (status == QUERN_OK) return true;
  raise(status, error.native, error.text);
  const bool untouched = status == QUERN_MISS || status == QUERN_PENDING || status == QUERN_INVALID;
  if (!own_workspace_ && !untouched) drop_workspace();  // it may be half-written
  return false;
}

void Frame::drop_workspace() {
  PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&kind, &value, &trace);
  for (Workspace& kept : *launcher_.workspaces) {
    if (kept.thread == PyThread_get_thread_ident() && kept.stream == common().stream) kept = Workspace();
  }
  const Owned dropped(PyObject_CallFunction(launcher_.drop, "N", PyLong_FromVoidPtr(common().stream)));
  PyErr_Restore(kind, value, trace);
}

}  // namespace quern::python
