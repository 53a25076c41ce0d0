// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/fast/launcher.h"

#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#include "bindings/python/fast/bound.h"
#include "bindings/python/fast/frame.h"
#include "bindings/python/fast/outputs.h"

namespace quern::python {
namespace {

// Never destroyed: at exit the interpreter is gone before the objects that this holds could be.
std::vector<Op>& ops() {
  static auto* kept = new std::vector<Op>;
  return *kept;
}

Package& functions() {
  static Package kept;
  return kept;
}

Launcher& self_of(PyObject* self) { return *reinterpret_cast<Launcher*>(self); }

// The same call through ctypes, which takes more and says what is wrong.
PyObject* call_elsewhere(Launcher& self, PyObject* const* values, Py_ssize_t positional, PyObject* names) {
  const Owned context(PyObject_CallNoArgs(self.owner));
  const Owned arguments(context ? PyTuple_New(positional + 1) : nullptr);
  const Owned named(arguments ? PyDict_New() : nullptr);
  if (!named) return nullptr;
  Py_INCREF(context.get());
  PyTuple_SetItem(arguments.get(), 0, context.get());
  for (Py_ssize_t i = 0; i < positional; ++i) {
    Py_INCREF(values[i]);
    PyTuple_SetItem(arguments.get(), i + 1, values[i]);
  }
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyDict_SetItem(named.get(), PyTuple_GetItem(names, i), values[positional + i]) != 0) return nullptr;
  }
  return PyObject_Call(package().call, arguments.get(), named.get());
}

// call(op, more=None, /, **arguments)
PyObject* call(PyObject* object, PyObject* const* values, Py_ssize_t positional, PyObject* names) {
  Launcher& self = self_of(object);
  PyObject* more = positional == 2 && values[1] != Py_None ? values[1] : nullptr;
  const bool plain = (positional == 1 || positional == 2) && (more == nullptr || PyDict_Check(more));
  const Op* op = plain && self.context != nullptr ? find_op(values[0]) : nullptr;
  if (op == nullptr) return call_elsewhere(self, values, positional, names);
  Frame frame(*op, self);
  if (!frame.fill(values + positional, names, more) || !frame.choose_stream()) {
    PyErr_Clear();
    return call_elsewhere(self, values, positional, names);
  }
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_Size(names);
  if (!frame.run(values + positional, count)) return nullptr;
  Py_RETURN_NONE;
}

// close(): no call may be in flight.
PyObject* close(PyObject* object, PyObject*) {
  Launcher& self = self_of(object);
  self.context = nullptr;
  for (Workspace& kept : *self.workspaces) kept = Workspace();
  Py_RETURN_NONE;
}

// forget(): a workspace that this thread used may be half-written.
PyObject* forget(PyObject* object, PyObject*) {
  for (Workspace& kept : *self_of(object).workspaces) {
    if (kept.thread == PyThread_get_thread_ident()) kept = Workspace();
  }
  Py_RETURN_NONE;
}

// Launcher(handle, (device type, ordinal), weak reference to the Context, take, drop)
PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  unsigned long long handle = 0;
  PyObject *device = nullptr, *owner = nullptr, *take = nullptr, *drop = nullptr;
  int device_type = 0, device_id = 0;
  if (!PyArg_ParseTuple(arguments, "KOOOO", &handle, &device, &owner, &take, &drop) ||
      !PyArg_ParseTuple(device, "ii", &device_type, &device_id)) {
    return nullptr;
  }
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* made = allocate(type, 0);
  if (made == nullptr) return nullptr;
  Launcher& self = self_of(made);
  self.context = reinterpret_cast<quern_context*>(handle);
  self.device = {device_type, device_id};
  self.device_object = device;
  self.owner = owner;
  self.take = take;
  self.drop = drop;
  for (PyObject* held : {device, owner, take, drop}) Py_INCREF(held);
  self.expressions = PyDict_New();
  self.workspaces = new (std::nothrow) std::array<Workspace, 8>;
  if (self.workspaces == nullptr || self.expressions == nullptr) {
    Py_DECREF(made);
    return PyErr_NoMemory();
  }
  return made;
}

void destroy(PyObject* object) {
  Launcher& self = self_of(object);
  PyTypeObject* type = Py_TYPE(object);
  delete self.workspaces;
  for (PyObject* held : {self.device_object, self.owner, self.take, self.drop, self.expressions}) Py_XDECREF(held);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL | METH_KEYWORDS,
     "call(op, more=None, /, **arguments): launches the op of this name; more: a dict of further arguments"},
    {"bind", bind, METH_VARARGS,
     "bind(op, args, keep, result, exchange): a call that is ready to be launched again and again"},
    {"forget", forget, METH_NOARGS, "forget(): the workspaces of this thread are given up"},
    {"close", close, METH_NOARGS, "close(): the context is no more"},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                        {Py_tp_methods, kMethods},
                        {0, nullptr}};
PyType_Spec kSpec = {"quern._fast.Launcher", sizeof(Launcher), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

const Package& package() { return functions(); }

const Op* find_op(PyObject* name) {
  for (const Op& op : ops()) {
    if (op.name.get() == name) return &op;
  }
  if (!PyUnicode_Check(name)) return nullptr;
  for (const Op& op : ops()) {
    if (PyUnicode_Compare(op.name.get(), name) == 0) return &op;
  }
  return nullptr;
}

PyObject* raise(std::int32_t status, std::int64_t native, const char* text) {
  Owned said(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
  if (!said) return nullptr;
  const Owned error(PyObject_CallFunction(package().error, "iLO", status, static_cast<long long>(native), said.get()));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return nullptr;
}

quern_error blank() {
  quern_error error;
  error.size = sizeof error;
  error.native = 0;
  error.text[0] = '\0';
  return error;
}

std::int32_t launch(OpCall call, quern_context* context, const void* args, quern_error* error) {
  PyThreadState* const thread = PyEval_SaveThread();
  const std::int32_t status = call(context, args, error);
  PyEval_RestoreThread(thread);
  return status;
}

bool add_launcher(PyObject* module) {
  const Owned type(PyType_FromSpec(&kSpec));
  return type && PyModule_AddObjectRef(module, "Launcher", type.get()) == 0;
}

PyObject* set_up(PyObject*, PyObject* arguments) {
  PyObject* listed = nullptr;
  PyObject *kind_of = nullptr, *dtype_of = nullptr, *grad_mode = nullptr, *code_of = nullptr;
  Package& told = functions();
  if (!PyArg_ParseTuple(arguments, "O!(OOOOO)(OOOO)", &PyList_Type, &listed, &told.error, &told.call, &told.expression,
                        &told.stream, &told.capturing, &kind_of, &dtype_of, &grad_mode, &code_of)) {
    return nullptr;
  }
  for (PyObject* held : {told.error, told.call, told.expression, told.stream, told.capturing}) Py_INCREF(held);
  set_dtypes(code_of);
  if (!set_readers(kind_of, dtype_of, grad_mode)) return nullptr;
  ops().clear();
  for (Py_ssize_t i = 0; i < PyList_Size(listed); ++i) {
    Op op;
    PyObject *name = nullptr, *description = nullptr;
    unsigned long long run = 0, workspace = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(listed, i), "UOKK", &name, &description, &run, &workspace)) return nullptr;
    if (!op.description.read(description)) return nullptr;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    op.name = Owned(name);
    op.call = reinterpret_cast<OpCall>(run);
    op.workspace = reinterpret_cast<OpWorkspace>(workspace);
    ops().push_back(std::move(op));
  }
  Py_RETURN_NONE;
}

}  // namespace quern::python
